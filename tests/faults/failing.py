"""A failing disk: an apsw VFS whose syncs fail on demand, or that takes no more than so many bytes."""

from __future__ import annotations

import apsw


class FailingDisk(apsw.VFS):
    """Real files, except for what the test makes fail."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.syncs_fail = False
        self.room: int | None = None
        """Bytes that the WAL may still grow by; None: no limit.

        Only the WAL: SQLite forgives a checkpoint that fails and answers the commit before it, but apsw raises what a
        VFS raises. test_full_disk has a real file system for that.
        """

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # noqa: N802
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._is_wal = bool(flags[0] & apsw.SQLITE_OPEN_WAL)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.syncs_fail:
            raise apsw.IOError("Input/output error")
        super().xSync(flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if self._is_wal and self._disk.room is not None:
            growth = max(0, offset + len(data) - self.xFileSize())
            if growth > self._disk.room:
                raise apsw.FullError("No space left on device")
            self._disk.room -= growth
        super().xWrite(data, offset)
