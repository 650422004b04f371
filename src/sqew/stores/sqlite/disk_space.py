"""Room for more messages. SQLite can't even delete on a full disk, so sends stop while there is still some left.

Pages of the file that are free are room as well: what was acked makes room for what is sent, whether they were given
back to the disk or not. But a transaction is written to the WAL first, which grows on the disk until a checkpoint has
copied it and no reader needs it any more; then it is written anew from its start. So half of the reserve must be free
for the WAL, on the disk or inside of it. Sends never use that half: it is there for acks.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import apsw

from sqew.errors import StoreFull
from sqew.stores.sqlite.connection import MEMORY

_LOOK_EVERY_MS = 50
_WAL_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24


class DiskSpace:
    """The room that the disk, the file and its WAL have left, compared with the reserve."""

    def __init__(self, path: str, reserve_bytes: int, connection: apsw.Connection | None = None) -> None:
        """Check the file of ``connection``, the one that writes. Without it nothing is checked or reserved."""
        self._path = path
        file = Path(path).absolute()
        self._folder, self._wal = str(file.parent), f"{file}-wal"
        self._reserve_bytes = 0 if path == MEMORY or connection is None else reserve_bytes
        self._connection = connection
        self._free_in_wal = 0
        self.next_look_at = 0
        # Until the first look, too: the first message of a process must not be refused for what was not looked at.
        self.is_short = self._reserve_bytes > 0

    def check(self, now: int) -> None:
        """Raise `StoreFull` when only the reserve is left: it is for receiving and acknowledging."""
        if now < self.next_look_at or not self._reserve_bytes:
            return
        if not self.has_room():
            raise StoreFull(
                f"The disk that holds {self._path} has less than {self._reserve_bytes >> 10} KiB free, which is kept "
                "for acknowledging. Nothing was stored: free some space, or lower disk_reserve_bytes."
            )
        self.next_look_at = now + _LOOK_EVERY_MS

    def has_room(self) -> bool:
        """Look, and return True if more messages may be stored."""
        on_disk = self._free_on_disk()
        self.is_short = on_disk < self._reserve_bytes
        return not self.is_short or self._has_room_inside(on_disk)

    def look_ahead(self, now: int) -> None:
        """Look at the WAL before a transaction begins, if it is going to matter: within one SQLite does not tell."""
        if now >= self.next_look_at and self._free_on_disk() < self._reserve_bytes:
            self._look_at_wal()

    def _free_on_disk(self) -> int:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize

    def _has_room_inside(self, on_disk: int) -> bool:
        assert self._connection is not None
        if not self._connection.in_transaction:
            self._look_at_wal()
        free_pages = self._connection.pragma("freelist_count") * self._connection.pragma("page_size")
        return on_disk + free_pages >= self._reserve_bytes and on_disk + self._free_in_wal >= self._reserve_bytes // 2

    def _look_at_wal(self) -> None:
        """Restart the WAL from its beginning, if no reader needs it, and measure how much of it is not in use."""
        assert self._connection is not None
        connection = self._connection
        self._free_in_wal = 0
        with contextlib.suppress(apsw.Error, OSError):
            frames, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if frames == copied and frames > 0 and _restart(connection):
                frames = 0
            used = _WAL_HEADER_BYTES + frames * (connection.pragma("page_size") + _FRAME_HEADER_BYTES)
            self._free_in_wal = max(0, os.stat(self._wal).st_size - used)  # noqa: PTH116  shorter than a Path


def _restart(connection: apsw.Connection) -> bool:
    """Restart the WAL, without waiting for readers; return True if its next frame is its first."""
    timeout_ms = connection.pragma("busy_timeout")
    connection.set_busy_timeout(0)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    except apsw.BusyError:
        return False
    finally:
        connection.set_busy_timeout(timeout_ms)
    return True
