"""The database's time: servers on several machines must agree when a lease ends."""

from __future__ import annotations

import time
from collections.abc import Callable

import asyncpg

from sqew.clock import Clock

_ASKED = 3
_MOST_BACK_NS = 30_000_000
"""How far time is set back by one look at most: 30 ms a minute is more than any two clocks drift apart."""


class DatabaseClock(Clock):
    """Shows the database's time, and never runs backwards.

    Between two looks it goes at the pace of this machine's steady clock, whatever happens to this machine's date. Where
    it turns out to be behind, it follows at once; where it is ahead, it stands still for a few milliseconds and comes
    closer with every look. So it does when the database's clock jumps back: leases still run out meanwhile.
    """

    def __init__(self, steady_ns: Callable[[], int] = time.monotonic_ns) -> None:
        super().__init__(steady_ns=steady_ns)
        self._is_set = False
        self._shown_ns = 0

    def now_us(self) -> int:
        """Epoch microseconds."""
        return self._now_ns() // 1_000

    def now(self) -> int:
        """Epoch milliseconds."""
        return self._now_ns() // 1_000_000

    def _now_ns(self) -> int:
        shown = self._steady_ns() + self._offset_ns
        if shown < self._shown_ns:
            return self._shown_ns
        self._shown_ns = shown
        return shown

    async def compare(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Look at the database's clock. Of a few looks the quickest is believed."""
        looks = [await self._look(connection) for _ in range(_ASKED)]
        _, offset_ns = min(looks)
        self.follow(offset_ns)

    def follow(self, offset_ns: int) -> None:
        """The database's clock was that far ahead of the steady one."""
        self._offset_ns = max(offset_ns, self._offset_ns - _MOST_BACK_NS) if self._is_set else offset_ns
        self._is_set = True

    async def _look(self, connection: asyncpg.Connection[asyncpg.Record]) -> tuple[int, int]:
        began = self._steady_ns()
        theirs_us = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        took = self._steady_ns() - began
        return took, theirs_us * 1000 - (began + took // 2)
