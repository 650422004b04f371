"""Where the benchmark puts its files, and how it sees to it that none stays."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqew.stores.sqlite.connection import file_system


@contextlib.contextmanager
def workspace(parent: Path | None, needed_bytes: int) -> Iterator[Path]:
    """A folder on a real disk that is gone afterwards, also when the benchmark is interrupted or terminated."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = parent or _on_a_disk()
    free = shutil.disk_usage(chosen).free
    if free < needed_bytes:
        sys.exit(
            f"bench: {chosen} has {free >> 20} MiB free and this needs {needed_bytes >> 20}. "
            "Name another folder with --folder, or run with --quick."
        )
    with tempfile.TemporaryDirectory(prefix="sqew-bench-", dir=chosen, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _on_a_disk() -> Path:
    """The folder for temporary files, unless it is in memory, where an fsync costs nothing and proves nothing."""
    usual = Path(tempfile.gettempdir())
    return Path("/var/tmp") if file_system(usual) in ("tmpfs", "ramfs") and Path("/var/tmp").is_dir() else usual


def remove(database: Path) -> None:
    """A database, its WAL, and whatever else stands beside it under its name."""
    for path in database.parent.glob(f"{database.name}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def evict(database: Path) -> None:
    """Have the system forget what it holds of a file in memory, so that the next reader goes to the disk."""
    with database.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def say(sentence: str) -> None:
    """Progress, on stderr."""
    print(f"bench: {sentence}", file=sys.stderr, flush=True)
