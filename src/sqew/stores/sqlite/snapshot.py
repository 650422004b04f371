"""A copy of a file to look at, where the file itself can't be written or must not be."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from urllib.parse import quote

import apsw

from sqew.errors import StoreBusy, StoreUnusable
from sqew.stores.sqlite.connection import make_private, translated

_ATTEMPTS = 5


def snapshot(path: str, to: str) -> None:
    """Copy a file as it is at one moment, with what its write-ahead log holds, and write nothing beside it.

    A process that has the file open keeps a ``-shm`` beside it, which is needed to read what it commits at the same
    moment. If there is none, the file and its log are at rest, and their bytes can be copied.
    """
    if not Path(path).is_file():
        raise StoreUnusable(f"{path} does not exist. Check the name, or create a queue in it first.")
    _check_room(path, to)
    make_private(to)
    with translated(path):
        for _ in range(_ATTEMPTS):
            if Path(path + "-shm").exists() and _copy_in_use(path, to):
                return
            if _copy_at_rest(path, to):
                return
    raise StoreBusy(f"{path} was changed while it was copied, time and again. Try again when it is less busy.")


def _check_room(path: str, to: str) -> None:
    folder = Path(to).parent
    size = sum(found[0] for found in _state(path) if found is not None)
    free = shutil.disk_usage(folder).free
    if size > free:
        raise StoreUnusable(
            f"A copy of {path} to look at takes {_mib(size)}, and {folder.parent} has {_mib(free)} free. "
            "Name a folder with more room: TMPDIR=/path/to/folder."
        )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _copy_in_use(path: str, to: str) -> bool:
    """Copy by SQLite's online backup; return False if the file is not open, and its index can't be made here."""
    try:
        # Without readonly_shm SQLite makes the -shm anew after a kill: it says what the log held, and whoever opens the
        # file next looks there for transactions that are missing (see lost_transactions.py).
        uri = f"file:{quote(str(Path(path).absolute()))}?mode=ro&readonly_shm=1"
        source = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        return False
    target = apsw.Connection(to)
    try:
        source.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(-1)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        return False
    finally:
        target.close(True)
        source.close(True)
    return True


def _copy_at_rest(path: str, to: str) -> bool:
    """Copy byte for byte; return False if the file was opened or changed meanwhile."""
    before = _state(path)
    for suffix in ("", "-wal"):
        Path(to + suffix).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(path + suffix, to + suffix)
    return _state(path) == before


def _state(path: str) -> list[tuple[int, int] | None]:
    """Return what a write changes: size and time of the file, of its log, and of the ``-shm`` that shows it in use."""
    return [_stamp(Path(path + suffix)) for suffix in ("", "-wal", "-shm")]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns
