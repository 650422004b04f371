"""Clock of the database: servers on several machines must agree when a lease ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import asyncpg

from sqew.clock import SMALLEST_CORRECTION_MS, Clock, Correction

_log = logging.getLogger("sqew.postgres")

_LOOKS = range(3, 20)
"""Number of looks at the database's clock: more than a few only if no answer comes quickly."""
_QUICK_NS = 1_000_000
_MOST_BACK_NS = 200_000_000
"""Nanoseconds that one look sets the time back, at most: a look is wrong by up to half the time it took."""
_JUMP_NS = 1_000_000_000
"""Nanoseconds beyond which the database's clock is followed at once when it has gone back."""


def _steady_ns() -> int:
    """Return nanoseconds that pass while the machine sleeps as well: the database's clock goes on meanwhile."""
    return time.clock_gettime_ns(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class DatabaseClock(Clock):
    """A clock that shows the database's time.

    Between two looks it runs at the pace of this machine's steady clock, whatever happens to this machine's date. If it
    turns out to be behind, it follows at once; if it is a little ahead, it stands still for a moment and comes closer
    with every look. It never runs backwards, except when the database's clock has: servers that started since then go
    by that, and a server that did not follow would take their leases away.
    """

    def __init__(self, steady_ns: Callable[[], int] = _steady_ns) -> None:
        super().__init__(steady_ns=steady_ns)
        self._is_set = False
        self._shown_ns = 0

    def now_us(self) -> int:
        """Return the time in epoch microseconds."""
        return self._now_ns() // 1_000

    def now(self) -> int:
        """Return the time in epoch milliseconds."""
        return self._now_ns() // 1_000_000

    def _now_ns(self) -> int:
        shown = self._steady_ns() + self._offset_ns
        if shown < self._shown_ns:
            return self._shown_ns
        self._shown_ns = shown
        return shown

    async def compare(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Compare with the database's clock. The quickest of a few looks counts: its error is half its time at most."""
        looks: list[tuple[int, int]] = []
        while len(looks) < _LOOKS.start or (len(looks) < _LOOKS.stop and min(looks)[0] > _QUICK_NS):
            looks.append(await self._look(connection))
        took_ns, offset_ns = min(looks)
        if took_ns <= _QUICK_NS or not self._agrees(offset_ns, took_ns // 2 + _QUICK_NS):
            self.follow(offset_ns)

    def _agrees(self, offset_ns: int, within_ns: int) -> bool:
        """Return True if the known offset is as good as that of a look that took long."""
        return self._is_set and abs(self._offset_ns - offset_ns) <= within_ns

    def follow(self, offset_ns: int) -> None:
        """Follow the database's clock, which was that far ahead of the steady one."""
        back_ns = self._offset_ns - offset_ns
        if not self._is_set or back_ns <= _MOST_BACK_NS:
            self._offset_ns = offset_ns
        elif back_ns <= _JUMP_NS:
            self._offset_ns -= _MOST_BACK_NS
        else:
            _log.warning("the database's clock went back", extra={"fields": {"seconds": round(back_ns / 1e9, 1)}})
            self._offset_ns, self._shown_ns = offset_ns, 0
            if back_ns > SMALLEST_CORRECTION_MS * 1_000_000:
                self.postpone(Correction(back_ns // 1_000_000, None))
        self._is_set = True

    async def _look(self, connection: asyncpg.Connection[asyncpg.Record]) -> tuple[int, int]:
        began = self._steady_ns()
        theirs_us = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        took = self._steady_ns() - began
        return took, theirs_us * 1000 - (began + took // 2)
