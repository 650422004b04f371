"""Wake-ups between the servers of one database: NOTIFY by those who commit, LISTEN by those who wait."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import asyncpg

from sqew.waiting import Waiters

_log = logging.getLogger("sqew.postgres")

CHANNEL = "sqew"
_EVERY_S = 0.01
"""How often others are told, at most: a NOTIFY takes a lock that all of the database's commits wait for."""
_MOST_BYTES = 7_000
"""PostgreSQL takes 8,000 in one notice."""
_TRY_AGAIN_S = 1.0
_BETWEEN = "\x1f"

Connect = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]


class NoticeBell:
    """Implements `sqew.waiting.Bell` on a connection of its own, in the event loop's thread."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._waiters: list[Waiters] = []
        self._stirred: set[str] = set()
        self._rung = asyncio.Event()
        self._listens = False
        self._task = asyncio.ensure_future(self._run())

    def ring(self, queues: Iterable[str], /) -> None:
        """Tell the others, soon and together with what else there is to tell."""
        self._stirred.update(queues)
        self._rung.set()

    def listen(self, waiters: Waiters, /) -> bool:
        """Have the waiters woken when others ring; False while there is no connection to hear them by."""
        if waiters not in self._waiters:
            self._waiters.append(waiters)
        return self._listens

    def close(self) -> None:
        """Stop."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._serve(await self._connect())
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                _log.warning("servers can't wake each other for now: %s", error)
            finally:
                self._listens = False
            # Who waits must not wait to be woken.
            self._wake_all()
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _serve(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        try:
            await connection.add_listener(CHANNEL, self._hear)
            connection.add_termination_listener(lambda _: self._rung.set())
            self._listens = True
            self._wake_all()
            while not connection.is_closed():
                await self._rung.wait()
                self._rung.clear()
                stirred, self._stirred = self._stirred, set()
                for notice in _notices(stirred):
                    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, notice)
                await asyncio.sleep(_EVERY_S)
        finally:
            with contextlib.suppress(Exception):
                await connection.close(timeout=1)

    def _hear(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        queues = str(payload).split(_BETWEEN)
        for waiters in self._waiters:
            waiters.wake(queues)

    def _wake_all(self) -> None:
        for waiters in self._waiters:
            waiters.wake_all()


def _notices(queues: Iterable[str]) -> list[str]:
    """The names, as many together as there is room for. What stirs in a process alone has a NUL and is not told."""
    notices: list[str] = []
    for queue in queues:
        if "\0" in queue:
            continue
        if notices and len(notices[-1]) + len(queue) < _MOST_BYTES:
            notices[-1] += _BETWEEN + queue
        else:
            notices.append(queue)
    return notices
