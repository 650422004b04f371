"""Backpressure: senders must wait while more is to be written than can be; clients that finish work may go on."""

from __future__ import annotations

import os

from sqew.core.broker import Broker
from sqew.errors import Overloaded
from sqew.settings import Settings

RETRY_AFTER_MS = 1_000


class Backpressure:
    """The work that waits to be written, and the limit above which sends are refused."""

    def __init__(self, broker: Broker, settings: Settings) -> None:
        self._broker = broker
        self._max_pending = settings.max_pending
        # A database looks after its log itself.
        self._wal = "" if settings.database_url else settings.db + "-wal"
        self._max_wal_bytes = settings.max_wal_bytes
        self._wal_is_full = False

    def check(self, count: int = 1) -> None:
        """Raise `Overloaded` if so many more messages should not be sent at the moment."""
        if self._wal_is_full:
            raise Overloaded("its write-ahead log is larger than max_wal_bytes", RETRY_AFTER_MS)
        if self._broker.backlog + count - 1 > self._max_pending:
            raise Overloaded("more operations wait than max_pending allows", RETRY_AFTER_MS)

    @property
    def is_high(self) -> bool:
        """True if `check` would raise."""
        return self._wal_is_full or self._broker.backlog > self._max_pending

    async def measure(self) -> None:
        """Measure the write-ahead log, and shrink it if it is too large: with sends refused, nothing else may."""
        if not self._wal:
            return
        self._wal_is_full = _size(self._wal) > self._max_wal_bytes
        if self._wal_is_full:
            await self._broker.shrink_log()
            self._wal_is_full = _size(self._wal) > self._max_wal_bytes


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 (a Path made once a second for nothing)
    except OSError:
        return 0
