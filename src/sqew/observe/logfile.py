"""Files of an event log: appending whole lines, rotation, and the lock that processes share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from sqew.errors import StoreUnusable

_START = b'{"t":'


class LogFile:
    """The current file, and its rotation. Every method but `close` is called with the log's file lock held."""

    def __init__(self, path: str, max_bytes: int, keep: int) -> None:
        self._path, self._max_bytes, self._keep = path, max_bytes, keep
        self._fd: int | None = None

    def append(self, lines: bytearray, start: int) -> int:
        """Write lines from ``start`` on, as many as fit into the file; return the position of the first one left."""
        fd, size = self.seek_end()
        end = self._fitting(lines, start, size)
        if end == start:
            self._rotate()
            return start
        try:
            _write_all(fd, memoryview(lines)[start:end])
        except OSError:
            os.ftruncate(fd, size)  # the disk took a part of it: half a line must not stay
            raise
        return end

    def seek_end(self) -> tuple[int, int]:
        """Open the file that now has the log's name, cut off half a line at its end, and return it and its size."""
        fd = self._opened()
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            size = _end_of_last_line(fd, size)
            os.ftruncate(fd, size)
        return fd, size

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        if self._fd is not None:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._fd), Path(self._path).stat()):
                    return self._fd
        self.close()
        self._fd = _open_for_appending(self._path)
        return self._fd

    def _fitting(self, lines: bytearray, start: int, size: int) -> int:
        room = max(self._max_bytes - size, 0)
        if len(lines) - start <= room:
            return len(lines)
        end = lines.rfind(b"\n", start, start + room) + 1
        if end:
            return end
        # A line that is larger than a whole file gets a file of its own.
        return start if size else lines.index(b"\n", start) + 1

    def _rotate(self) -> None:
        """Rename every file to the next number, as far as there is no gap, and drop those that are too many."""
        self.close()
        for file in rotated(self._path):
            if file.number >= max(self._keep, 1):
                file.path.unlink()
        if self._keep == 0:
            Path(self._path).unlink()
            return
        free = 1
        while (Path(f"{self._path}.{free}")).exists():
            free += 1
        for number in range(free, 1, -1):
            Path(f"{self._path}.{number - 1}").replace(f"{self._path}.{number}")
        Path(self._path).replace(f"{self._path}.1")


class Rotated(Struct, frozen=True):
    """A full file of a log."""

    number: int
    path: Path


def rotated(path: str) -> list[Rotated]:
    """Return the full files of a log, the oldest first."""
    log = Path(path)
    name = re.compile(re.escape(log.name) + r"\.([1-9][0-9]*)")
    found = ((name.fullmatch(file.name), file) for file in log.parent.iterdir())
    return sorted((Rotated(int(match[1]), file) for match, file in found if match), key=lambda file: -file.number)


def _open_for_appending(path: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise StoreUnusable(f"The event log {path} is not a regular file. Name a new file for it.")
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not _START.startswith(os.pread(fd, len(_START), 0)):
        os.close(fd)
        raise StoreUnusable(f"{path} holds something else than an event log. Name a new file for it.")
    return fd


def _write_all(fd: int, lines: memoryview) -> None:
    while lines:
        lines = lines[os.write(fd, lines) :]


def _end_of_last_line(fd: int, size: int) -> int:
    while size:
        start = max(size - 65_536, 0)
        newline = os.pread(fd, size - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0


@contextlib.contextmanager
def locked(path: str, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a log, which is on an empty file beside it.

    The file is opened anew each time (10 µs, ten times a second), so that deleting it does no harm, and unlocked before
    it is closed, since a forked child would otherwise keep the lock.
    """
    flags = os.O_RDONLY if shared else os.O_RDONLY | os.O_CREAT
    fd = os.open(f"{path}.lock", flags | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)
