"""Wake-ups between the servers of one database: commits NOTIFY, and servers with waiters LISTEN."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import asyncpg

from sqew.errors import StoreError
from sqew.stores.contract import Wakeable
from sqew.stores.postgres.errors import OF_DATABASE, reason_of
from sqew.stores.postgres.pool_counters import PoolCounters

_log = logging.getLogger("sqew.postgres")

CHANNEL = "sqew"
_EVERY_S = 0.01
"""Seconds between notifications, at least: a NOTIFY takes a lock that all of the database's commits wait for."""
_MOST_BYTES = 7_000
"""Most bytes of one notification: PostgreSQL takes 8,000."""
_TRY_AGAIN_S = 1.0
_HEARD_WITHIN_S = 2.0
_STILL_THERE_S = 5.0
"""Seconds without a notification after which a connection is checked for still being able to hear one."""
_LOOK_AGAIN_MS = 5_000
"""Milliseconds after which waiters look anyway: a server killed between a commit and its NOTIFY wakes nobody."""
_LOOK_UNTOLD_MS = 500
"""Milliseconds after which waiters look while no connection hears the other servers."""
_BETWEEN = "\x1f"

Connect = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]
Notify = Callable[[str], Awaitable[None]]
"""Function that sends an empty notification to a channel, over another connection."""


class ListenNotifier:
    """Implementation of `sqew.core.waiting.Notifier` on a connection of its own, in the event loop's thread."""

    def __init__(self, connect: Connect, notify: Notify, counters: PoolCounters) -> None:
        self._connect, self._notify, self._counters = connect, notify, counters
        self._waiters: list[Wakeable] = []
        self._woken: set[str] = set()
        self._waiting_news, self._heard = asyncio.Event(), asyncio.Event()
        self._listens, self._warned = False, False
        self._task = asyncio.ensure_future(self._run())

    def notify(self, queues: Iterable[str], /) -> None:
        """Notify other servers, soon and together with what else there is to notify of."""
        self._woken.update(queues)
        self._waiting_news.set()

    def listen(self, waiters: Wakeable, /) -> bool:
        """Wake the waiters when other servers notify, as far as there is a connection to hear them by."""
        if waiters not in self._waiters:
            self._waiters.append(waiters)
        return True

    @property
    def look_every_ms(self) -> int:
        """Milliseconds after which waiters look by themselves."""
        return _LOOK_AGAIN_MS if self._listens else _LOOK_UNTOLD_MS

    def close(self) -> None:
        """Stop."""
        self._task.cancel()

    async def _run(self) -> None:
        has_warned = False
        while True:
            try:
                connection = await self._connect()
                if has_warned:
                    _log.info("servers wake each other again")
                has_warned = False
                await self._serve(connection)
            except Exception as error:  # noqa: BLE001 (without this task nobody would be woken ever again)
                if not has_warned:
                    _warn(error)
                has_warned = True
            finally:
                self._listens = False
            # Who waits must not wait to be woken.
            self._wake_all()
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _serve(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        try:
            await connection.add_listener(CHANNEL, self._hear)
            connection.add_termination_listener(lambda _: self._waiting_news.set())
            self._listens = await self._hears_others()
            self._wake_all()
            while not connection.is_closed():
                if await self._has_news():
                    self._waiting_news.clear()
                    await self._notify_soon(connection)
                    await asyncio.sleep(_EVERY_S)
                else:
                    await connection.execute("SELECT 1", timeout=_STILL_THERE_S)
        finally:
            connection.terminate()

    async def _hears_others(self) -> bool:
        """Return True if a notification arrives that another connection sends while this one is idle.

        In transaction mode PgBouncer accepts the LISTEN, but delivers notifications only together with the answer to a
        statement: a connection that tested itself with a NOTIFY of its own would believe that it hears all of them.
        """
        self._heard.clear()
        await self._notify(CHANNEL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEARD_WITHIN_S):
                await self._heard.wait()
                return True
        if not self._warned:
            _log.warning("a pooler loses the wake-ups of other servers: set database_listen_url to the database itself")
        self._warned = True
        return False

    async def _has_news(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STILL_THERE_S):
                await self._waiting_news.wait()
        return self._waiting_news.is_set()

    async def _notify_soon(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        woken, self._woken = self._woken, set()
        try:
            for notice in _notices(woken):
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, notice)
                self._counters.notices_sent += 1
        except BaseException:
            # The next connection tells of them: to be told twice does no harm.
            self._woken |= woken
            self._waiting_news.set()
            raise

    def _hear(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self._heard.set()
        if not payload:
            return
        self._counters.notices_heard += 1
        queues = str(payload).split(_BETWEEN)
        for waiters in self._waiters:
            waiters.wake(queues)

    def _wake_all(self) -> None:
        for waiters in self._waiters:
            waiters.wake_all()


def _warn(error: Exception) -> None:
    # What is none of the database's errors is a mistake in the code: where it was made tells most of it.
    unexpected = None if isinstance(error, (*OF_DATABASE, StoreError)) else error
    fields = {"error": reason_of(error)}
    _log.warning("servers can't wake each other for now", extra={"fields": fields}, exc_info=unexpected)


def _notices(queues: Iterable[str]) -> list[str]:
    """Return the names, packed into as few notices as fit. One with a NUL concerns this process alone: skip it."""
    notices: list[str] = []
    space = 0
    for queue in queues:
        if "\0" in queue:
            continue
        size = len(queue.encode()) + len(_BETWEEN)
        if size <= space:
            notices[-1] += _BETWEEN + queue
        else:
            notices.append(queue)
            space = _MOST_BYTES
        space -= size
    return notices
