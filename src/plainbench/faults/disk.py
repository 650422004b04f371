"""A disk that is full for a while: an apsw VFS whose files can't grow meanwhile."""

from __future__ import annotations

import itertools

import apsw

from plainbench.drivers.base import Place

_disks: dict[str, FullDisk] = {}
_numbers = itertools.count()


class FullDisk(apsw.VFS):
    """Real files that have no room to grow at certain times."""

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, "")
        self._place, self._windows = place, place.config.faults.disk_full
        self._recorded: set[int] = set()
        self.has_refused = False
        """True if the last write to the log did not fit."""

    def refuse_if_full(self) -> None:
        """Raise SQLite's error for a full disk, if it is full now."""
        now_s = self._place.time.now_us() / 1e6
        for index, window in enumerate(self._windows):
            is_now = window.at_s <= now_s < window.at_s + window.for_s
            if is_now and self._place.allows("disk_full", index):
                if index not in self._recorded:
                    self._recorded.add(index)
                    self._place.note("disk_full", "disk", "disk_full", index, window.for_s * 1000)
                self.has_refused = True
                raise apsw.FullError("no space left on device, as faults.disk_full says")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # noqa: N802 (SQLite's name)
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: FullDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._is_wal = bool(flags[0] & apsw.SQLITE_OPEN_WAL)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        # The file itself grows when the log is copied into it. Right after a commit SQLite forgives that to fail, but
        # apsw raises what a VFS raises, and what is stored would seem not to be. So the file is full when the log is.
        grows = offset + len(data) > self.xFileSize()
        if grows and (self._is_wal or self._disk.has_refused):
            self._disk.refuse_if_full()
        super().xWrite(data, offset)
        if self._is_wal:
            self._disk.has_refused = False


def disk_of(place: Place) -> str | None:
    """Return the name of the VFS for the queue's file, or None for the disk as it is."""
    if not place.config.faults.disk_full:
        return None
    name = f"plainbench-full-{next(_numbers)}"
    # SQLite knows it by its name, and Python must not let go of it.
    _disks[name] = FullDisk(name, place)
    return name
