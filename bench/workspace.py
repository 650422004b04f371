"""The folder for a benchmark's files, and their removal."""

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
    """Make a folder on a real disk that is gone afterwards, also when the benchmark is interrupted or terminated."""
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
    """Return the folder for temporary files, or another if it is in memory, where an fsync costs and proves nothing."""
    usual = Path(tempfile.gettempdir())
    return Path("/var/tmp") if file_system(usual) in ("tmpfs", "ramfs") and Path("/var/tmp").is_dir() else usual


def remove(database: Path) -> None:
    """Remove a database, its WAL, and all other files that begin with its name."""
    for path in database.parent.glob(f"{database.name}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def evict(database: Path) -> None:
    """Drop a file from the system's cache, so that the next reader goes to the disk."""
    with database.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def say(sentence: str) -> None:
    """Print progress to stderr."""
    print(f"bench: {sentence}", file=sys.stderr, flush=True)
