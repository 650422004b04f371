"""A disk that is full for a while: an apsw VFS on whose files the write-ahead log can't grow meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import apsw

from sqew.lab.config.model import Window
from sqew.lab.drivers.base import Place
from sqew.lab.timing import Time

_disks: dict[str, FullDisk] = {}
_numbers = itertools.count()


class FullDisk(apsw.VFS):
    """Real files, with no room for more at certain times."""

    def __init__(self, name: str, time: Time, windows: Sequence[Window]) -> None:
        super().__init__(name, "")
        self._time, self._windows = time, windows

    def is_full(self) -> bool:
        now_s = self._time.now_us() / 1e6
        return any(window.at_s <= now_s < window.at_s + window.for_s for window in self._windows)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # noqa: N802 (SQLite's name)
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: FullDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._is_wal = bool(flags[0] & apsw.SQLITE_OPEN_WAL)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        # Only the log: a checkpoint that fails is forgiven by SQLite, but apsw raises what a VFS raises.
        if self._is_wal and self._disk.is_full() and offset + len(data) > self.xFileSize():
            raise apsw.FullError("no space left on device, as faults.disk_full says")
        super().xWrite(data, offset)


def disk_of(place: Place) -> str | None:
    """The VFS for the queue's file; None: the disk as it is."""
    windows = place.config.faults.disk_full
    if not windows:
        return None
    name = f"plainbench-full-{next(_numbers)}"
    # SQLite knows it by its name, and Python must not let go of it.
    _disks[name] = FullDisk(name, place.time, windows)
    return name
