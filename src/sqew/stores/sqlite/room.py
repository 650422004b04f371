"""Room on the disk. SQLite can't even delete on a full disk, so sends stop while there is still some left."""

from __future__ import annotations

import os
from pathlib import Path

from sqew.errors import StoreFull
from sqew.stores.sqlite.connection import MEMORY

_LOOK_EVERY_MS = 50


class Room:
    """Whether the disk has more than its reserve left."""

    def __init__(self, path: str, reserve_bytes: int) -> None:
        self._path = path
        self._folder = str(Path(path).absolute().parent)
        self._reserve_bytes = 0 if path == MEMORY else reserve_bytes
        self.next_look_at = 0

    def check(self, now: int) -> None:
        """Raise `StoreFull` when only the reserve is left: it is for receiving and acknowledging."""
        if now < self.next_look_at or not self._reserve_bytes:
            return
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize < self._reserve_bytes:
            raise StoreFull(
                f"The disk that holds {self._path} has less than {self._reserve_bytes >> 10} KiB free, which is kept "
                "for acknowledging. Nothing was stored: free some space, or lower disk_reserve_bytes."
            )
        self.next_look_at = now + _LOOK_EVERY_MS
