"""The PostgreSQL store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import Any, Self

import asyncpg

from sqew import operations as ops
from sqew.errors import SqewError
from sqew.model import Commit
from sqew.stores.postgres.bridge import carried
from sqew.stores.postgres.connection import SQL, Link
from sqew.stores.postgres.migrate import migrate
from sqew.stores.sql import sending
from sqew.stores.sql.bindings import Bindings
from sqew.stores.sql.catalog import Catalog
from sqew.stores.sql.handlers import HANDLERS
from sqew.stores.sql.work import NewRows, Work

_SHARED = "SELECT pg_advisory_xact_lock_shared(1399940471, 0)"
_ALONE = "SELECT pg_advisory_xact_lock(1399940471, 0)"
"""Who changes what others keep in memory (queues, subscriptions) does so alone."""

_CHANGING = frozenset(
    {
        ops.CreateQueue,
        ops.UpdateQueue,
        ops.DeleteQueue,
    }
)


class NoRoom:
    """PostgreSQL's disk is not ours to look at. Implements `sqew.stores.sql.work.Room`."""

    next_look_at = 1 << 62

    def check(self, now: int) -> None:
        pass


class Session:
    """A connection and what it remembers between transactions."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], random: Random, delivery_keep_ms: int) -> None:
        self.connection = connection
        link = Link(connection)
        self.catalog = Catalog(link.execute, SQL)
        self.bindings = Bindings()
        self.work = Work(link, SQL, self.catalog, self.bindings, NoRoom(), random, delivery_keep_ms)

    async def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        """Execute operations in one transaction."""
        work = self.work
        alone = any(type(operation) in _CHANGING for operation in operations)
        await self.connection.execute(f"BEGIN; {_ALONE if alone else _SHARED}")
        try:
            work.now = now
            results = await carried(self._attempt_all, operations)
            await self.connection.execute("COMMIT")
        except BaseException:
            await self._rollback()
            raise
        commit = Commit(results, work.facts, work.stirred)
        work.facts, work.stirred = [], set()
        self.bindings.committed()
        return commit

    def _attempt_all(self, operations: Sequence[ops.Operation[Any]]) -> list[Any]:
        self.catalog.refresh()
        self.bindings.is_current = False
        results = [self._attempt(operation) for operation in operations]
        sending.write_deferred(self.work)
        return results

    def _attempt(self, operation: ops.Operation[Any]) -> Any:
        try:
            return HANDLERS[type(operation)](self.work, operation)
        except SqewError as error:
            return error

    async def _rollback(self) -> None:
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await self.connection.execute("ROLLBACK")
        self.catalog.forget()
        self.bindings.undone()
        self.work.facts, self.work.stirred, self.work.deferred = [], set(), NewRows()


class PostgresStore:
    """Queues in a PostgreSQL database. Any number of processes may use it."""

    def __init__(self, url: str, random: Random, connections: int, delivery_keep_ms: int) -> None:
        self._url = url
        self._random, self._delivery_keep_ms = random, delivery_keep_ms
        # asyncpg's own pool makes a connection forget its prepared statements whenever it is given back.
        self._free: list[Session] = []
        self._places = asyncio.Semaphore(connections)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        now: int,
        random: Random | None = None,
        connections: int = 8,
        delivery_keep_ms: int = 14 * 86_400_000,
    ) -> Self:
        """Connect, and bring the schema up to date."""
        store = cls(url, random or Random(), connections, delivery_keep_ms)
        async with store._session() as session:
            await migrate(session.connection, url, now)
        return store

    async def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        """Execute operations in one transaction; see `sqew.stores.base.Store`."""
        async with self._session() as session:
            return await session.run(operations, now)

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        async with self._places:
            session = self._free.pop() if self._free else await self._connect()
            try:
                yield session
            finally:
                if not session.connection.is_closed():
                    self._free.append(session)

    async def _connect(self) -> Session:
        connection = await asyncpg.connect(self._url, statement_cache_size=0)
        return Session(connection, self._random, self._delivery_keep_ms)

    async def close(self) -> None:
        """Close the connections."""
        for session in self._free:
            await session.connection.close()
