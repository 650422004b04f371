"""A second writer, which holds the write lock of a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw


@contextmanager
def contention(path: str) -> Iterator[None]:
    """Hold the write lock of the file: other writers wait for `busy_timeout`, and then get SQLITE_BUSY.

    If another connection holds it, wait for it: its holder may let go of it in time for the caller.
    """
    with_lock = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with_lock.set_busy_handler(_wait)
        with_lock.execute("BEGIN IMMEDIATE")
        yield
    finally:
        with_lock.close(True)


def _wait(_times: int) -> bool:
    # Oftener than SQLite would look: among busy writers, who looks seldom never gets it.
    time.sleep(0.001)
    return True
