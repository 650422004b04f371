"""A second writer, that holds the lock of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw


@contextmanager
def contention(path: str) -> Iterator[None]:
    """Hold the write lock of the file: who wants to write waits for `busy_timeout`, and then gets SQLITE_BUSY.

    If somebody else holds it already, that serves as well.
    """
    with_lock = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with_lock.set_busy_timeout(50)
        with suppress(apsw.BusyError):
            with_lock.execute("BEGIN IMMEDIATE")
        yield
    finally:
        with_lock.close(True)
