"""Room for more messages. SQLite can't even delete on a full disk, so sends stop while there is still some left.

Pages of the file that are free are room as well: what was acked makes room for what is sent, whether they were given
back to the disk or not. But a transaction is written to the WAL first, which grows on the disk until a checkpoint has
copied it. So sends into free pages may use one half of the reserve for that, and the other half is kept for acks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sqew.errors import StoreFull
from sqew.stores.sqlite.connection import MEMORY

_LOOK_EVERY_MS = 50


class Room:
    """Whether the disk and the file have more than the reserve left."""

    def __init__(self, path: str, reserve_bytes: int, free_in_file: Callable[[], int] = int) -> None:
        """``free_in_file``: how many bytes of the file are free pages."""
        self._path = path
        self._folder = str(Path(path).absolute().parent)
        self._reserve_bytes = 0 if path == MEMORY else reserve_bytes
        self._free_in_file = free_in_file
        self.next_look_at = 0

    def check(self, now: int) -> None:
        """Raise `StoreFull` when only the reserve is left: it is for receiving and acknowledging."""
        if now < self.next_look_at or not self._reserve_bytes:
            return
        if not has_room(self._folder, self._reserve_bytes, self._free_in_file):
            raise StoreFull(
                f"The disk that holds {self._path} has less than {self._reserve_bytes >> 10} KiB free, which is kept "
                "for acknowledging. Nothing was stored: free some space, or lower disk_reserve_bytes."
            )
        self.next_look_at = now + _LOOK_EVERY_MS


def has_room(folder: str, reserve_bytes: int, free_in_file: Callable[[], int]) -> bool:
    """Return True if more messages may be stored."""
    disk = os.statvfs(folder)
    on_disk = disk.f_bavail * disk.f_frsize
    return on_disk >= reserve_bytes or (on_disk >= reserve_bytes // 2 and on_disk + free_in_file() >= reserve_bytes)
