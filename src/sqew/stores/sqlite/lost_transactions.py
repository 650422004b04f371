"""Detection of committed transactions that SQLite dropped when it recovered a write-ahead log.

When a process was killed, the next to open the file reads its WAL up to the first frame whose checksum fails, and
drops the rest without a word: it can't tell a flipped bit from a transaction that was not written to its end. But the
shared memory beside the WAL is a file as well, which outlives the process, and says how many frames were committed. So
it is looked at before SQLite makes it anew, and compared with what SQLite has found afterwards. That costs a sender
nothing.

After a power cut it proves nothing where transactions don't wait for the disk: the shared memory may be newer than the
WAL. So nothing is said of files that are older than the boot. A clock that was wrong at the boot may hide that; with
`durable` the shared memory is never newer, and what is missing is missing.
"""

from __future__ import annotations

import logging
import os
import struct
import time
from pathlib import Path

from msgspec import Struct

from sqew.clock import timestamp

_log = logging.getLogger("sqew.store")

_HEADER = struct.Struct("=I 4x I B x H I I 8x 8s 8x")
"""Header of the shared memory: version, changes, whether it was made, page size, frames, pages of the file, salts."""
_COPIED = struct.Struct("=I")
"""Number behind its two headers: the frames that are in the file already, and on its disk."""
_VERSION = 3_007_000
_WAL_HEADER_BYTES = 32
_kept: dict[tuple[int, int], int] = {}
"""Descriptors by the device and the inode. To close one would release the locks that SQLite has in this process."""


class _Committed(Struct, frozen=True):
    frames: int
    copied: int
    salts: bytes


class WalWatch:
    """Comparison of a WAL before SQLite recovers it with what SQLite has recovered."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._shared: int | None = None
        self._before: _Committed | None = None
        self._salts: set[bytes] = set()
        try:
            self._look()
        except (OSError, ValueError):
            # There is none, or it is somebody else's, or no file can have that name: opening it will say so.
            return

    def _look(self) -> None:
        wal = Path(f"{self._path}-wal")
        if wal.stat().st_size <= _WAL_HEADER_BYTES:
            return
        status = Path(f"{self._path}-shm").stat()
        if status.st_mtime < _booted_at():
            return
        self._shared = _descriptor(f"{self._path}-shm", status)
        before = self._committed()
        with wal.open("rb") as file:
            header = file.read(_WAL_HEADER_BYTES)
        if len(header) < _WAL_HEADER_BYTES:
            # Somebody who has it open has just cut it off.
            return
        # Where a whole header has other salts, they don't belong together: one of them was copied from elsewhere.
        if before is not None and (before.salts == header[16:24] or not _is_whole(header)):
            self._before = before
            # SQLite takes over what stands there, damaged or not, or nothing.
            self._salts = {before.salts, header[16:24], bytes(8)}

    def _committed(self) -> _Committed | None:
        assert self._shared is not None
        end = 2 * _HEADER.size
        found = os.pread(self._shared, end + _COPIED.size, 0)
        if len(found) < end + _COPIED.size or found[: _HEADER.size] != found[_HEADER.size : end]:
            return None
        version, _, is_made, _, frames, _, salts = _HEADER.unpack_from(found)
        (copied,) = _COPIED.unpack_from(found, end)
        return _Committed(frames, copied, salts) if version == _VERSION and is_made else None

    def report_loss(self) -> None:
        """Record a loss, in the log and beside the file, if SQLite has found fewer frames than were committed."""
        before = self._before
        if before is None or (after := self._committed()) is None:
            return
        if not after.frames and before.copied >= before.frames:
            # All of the log was dropped, and all of it is in the file. Dropped in part it would do harm: of what was
            # changed twice the older would hide the newer, which is in the file.
            return
        # Otherwise somebody has begun the log anew since, and what was in it is in the file.
        if after.salts in self._salts and after.frames < before.frames:
            lost = f"{before.frames - after.frames} of {before.frames} frames of the write-ahead log were lost"
            _log.error(
                "committed transactions are missing: the log was damaged, or its disk lost what was not synced",
                extra={"fields": {"file": self._path, "found": lost}},
            )
            record_loss(self._path, lost)


def _is_whole(header: bytes) -> bool:
    """Return True if the header of a WAL agrees with its checksum, which is that of SQLite's file format."""
    order = ">" if header[3] & 1 else "<"
    first = second = 0
    words = struct.unpack(f"{order}6I", header[:24])
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFF_FFFF
        second = (second + other + first) & 0xFFFF_FFFF
    return header[24:] == struct.pack(">2I", first, second)


def _descriptor(path: str, status: os.stat_result) -> int:
    which = (status.st_dev, status.st_ino)
    if which not in _kept:
        for other, descriptor in list(_kept.items()):
            if not os.fstat(descriptor).st_nlink:
                os.close(_kept.pop(other))
        _kept[which] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return _kept[which]


def _booted_at() -> float:
    """Return when the system was started, by its clock; if it does not tell, later than anything."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, StopIteration):
        return float("inf")


def record_loss(path: str, lost: str) -> None:
    """Write down what was lost, for `sqew check`: outside the file, which may be restored."""
    try:
        with Path(f"{path}-lost").open("a", encoding="utf-8") as file:
            file.write(f"{timestamp(time.time_ns() // 1_000_000)} {lost}\n")
    except OSError:
        # It is in the log.
        return


def recorded_losses(path: str) -> list[str]:
    """Return what was written down, in a sentence each."""
    try:
        lines = Path(f"{path}-lost").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [f"{line}, and with them the transactions in them (delete {path}-lost when you know)" for line in lines]
