"""The database's time: servers on several machines must agree when a lease ends."""

from __future__ import annotations

import time

import asyncpg

from sqew.clock import Clock

_ASKED = 3


class DatabaseClock(Clock):
    """A clock that goes as this machine's, and shows what the database's does."""

    def __init__(self) -> None:
        self._ahead_ns = 0
        super().__init__(wall_ns=lambda: time.time_ns() + self._ahead_ns)

    async def compare(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Look at the database's clock. Of a few looks the quickest is believed."""
        looks = [await self._look(connection) for _ in range(_ASKED)]
        _, self._ahead_ns = min(looks)

    async def _look(self, connection: asyncpg.Connection[asyncpg.Record]) -> tuple[int, int]:
        began = time.time_ns()
        theirs_us = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        took = time.time_ns() - began
        return took, theirs_us * 1000 - (began + took // 2)
