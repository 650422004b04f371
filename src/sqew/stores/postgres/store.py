"""The PostgreSQL store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import Any, Self, TypeVar

import asyncpg

from sqew import operations as ops
from sqew.errors import BadValue, StoreUnavailable
from sqew.model import Commit
from sqew.stores.postgres.clock import DatabaseClock
from sqew.stores.postgres.errors import CONTESTED, shown, translate
from sqew.stores.postgres.migrate import migrate
from sqew.stores.postgres.session import Session

R = TypeVar("R")

_TRIES = 10
"""How often a transaction is made again that others were in the way of."""
_CONNECT_WITHIN_S = 5


class PostgresStore:
    """Queues in a PostgreSQL database, for one event loop. Any number of processes may use it."""

    def __init__(
        self,
        url: str,
        *,
        connections: int = 8,
        timeout_ms: int = 30_000,
        synchronous: bool = True,
        delivery_keep_ms: int = 14 * 86_400_000,
        random: Random | None = None,
    ) -> None:
        self.connections = connections
        self._url, self._random, self._delivery_keep_ms = url, random or Random(), delivery_keep_ms
        self._timeout_ms, self._synchronous = timeout_ms, synchronous
        # asyncpg's own pool makes a connection forget its prepared statements whenever it is given back.
        self._free: list[Session] = []
        # One more than operations have: for those that only look.
        self._places = asyncio.Semaphore(connections + 1)
        self._closed = False

    @classmethod
    async def open(cls, url: str, *, now: int | None = None, **options: Any) -> Self:
        """Connect, and bring the schema up to date."""
        store = cls(url, **options)
        try:
            async with store._session() as session:
                clock = DatabaseClock()
                await clock.compare(session.connection)
                await migrate(session.connection, shown(url), clock.now() if now is None else now)
        except BaseException as error:
            await store.close()
            if isinstance(error, Exception):
                raise translate(error, url) from error
            raise
        return store

    async def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        """Execute operations; see `sqew.stores.base.RemoteStore`."""
        try:
            return await self._again(lambda session: session.run(operations, now))
        except BadValue:
            if len(operations) == 1:
                raise
        # One of them can't be stored, and all were undone.
        commits = [await self._alone(operation, now) for operation in operations]
        return Commit(
            [result for commit in commits for result in commit.results],
            [fact for commit in commits for fact in commit.facts],
            set[str]().union(*(commit.stirred for commit in commits)),
        )

    async def _alone(self, operation: ops.Operation[Any], now: int) -> Commit:
        try:
            return await self._again(lambda session: session.run([operation], now))
        except BadValue as error:
            return Commit([error], [], set())

    async def look(self, operations: Sequence[ops.Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read, as of one moment: their results, or the first error raised."""
        return await self._again(lambda session: session.look(operations, now))

    async def compare(self, clock: DatabaseClock) -> None:
        """Set a clock by the database's."""
        await self._again(lambda session: clock.compare(session.connection))

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection of its own."""
        return await asyncpg.connect(
            self._url,
            statement_cache_size=0,
            timeout=_CONNECT_WITHIN_S,
            server_settings={
                "application_name": "sqew",
                "statement_timeout": str(self._timeout_ms),
                "synchronous_commit": "on" if self._synchronous else "off",
                "idle_in_transaction_session_timeout": "60000",
            },
        )

    async def _again(self, work: Callable[[Session], Awaitable[R]]) -> R:
        """Do something in a transaction, and again where others were in its way."""
        for attempt in range(1, _TRIES + 1):
            try:
                async with self._session() as session:
                    return await work(session)
            except CONTESTED as error:
                if attempt == _TRIES:
                    raise translate(error, self._url) from error
                await asyncio.sleep(self._random.random() * 0.005 * attempt)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
                raise translate(error, self._url) from error
        raise AssertionError("the last attempt raises")

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await self._places.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(
                f"All {self.connections} connections to {shown(self._url)} are busy. "
                "Try again, or raise database_connections."
            ) from error
        try:
            session = self._free.pop() if self._free else await self._new_session()
            try:
                yield session
            finally:
                if self._closed or session.connection.is_closed():
                    await session.close()
                else:
                    self._free.append(session)
        finally:
            self._places.release()

    async def _new_session(self) -> Session:
        return Session(await self.connect(), self._random, self._delivery_keep_ms)

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        free, self._free = self._free, []
        for session in free:
            await session.close()
