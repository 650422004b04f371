"""One connection to the database, and what it remembers between transactions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from random import Random
from typing import Any

import asyncpg

from sqew import operations as ops
from sqew.errors import SqewError
from sqew.model import Commit
from sqew.stores.postgres import hot
from sqew.stores.postgres.bridge import carried
from sqew.stores.postgres.connection import SQL, SYNC_COMMIT, Link
from sqew.stores.postgres.flight import Flight
from sqew.stores.postgres.watermarks import Watermarks
from sqew.stores.sql import sending
from sqew.stores.sql.bindings import Bindings
from sqew.stores.sql.catalog import Catalog, QueueState
from sqew.stores.sql.handlers import HANDLERS
from sqew.stores.sql.work import NewRows, Work

_SHARED = "BEGIN; SELECT pg_advisory_xact_lock_shared(1399940471, 0)"
_ALONE = "BEGIN; SELECT pg_advisory_xact_lock(1399940471, 0)"
"""Who changes what all servers keep in memory does so while nobody uses it."""
_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

CHANGING = frozenset(
    {
        ops.CreateQueue,
        ops.UpdateQueue,
        ops.DeleteQueue,
        ops.CreateKey,
        ops.DeleteKey,
        ops.Subscribe,
        ops.Unsubscribe,
        ops.UpdateSubscription,
        ops.CreateTopic,
        ops.UpdateTopic,
        ops.DeleteTopic,
        ops.AddSigningKey,
        ops.SaveSchedule,
        ops.StartMove,
        ops.CancelMove,
    }
)
"""What looks before it writes, at more than the rows that it locks."""


class DatabaseCatalog(Catalog):
    """The queues as a server knows them. Ids come from a sequence: all servers draw from it at once."""

    def take_ids(self, count: int) -> Sequence[int]:
        """Ids that were never given out before, in order."""
        return [row[0] for row in self._execute(self._sql.draw_ids, (count,))]

    def ensure_bucket(self, state: QueueState, lane: int, priority: int) -> None:
        """Before a message is put there: a (lane, priority) that receivers know to look into."""
        before = self.version
        super().ensure_bucket(state, lane, priority)
        if self.version > before + 1:
            # Others have changed something since the transaction began: the next one must look what.
            self.version = -1


def _brings_back(operation: ops.Operation[Any]) -> bool:
    """Whether messages stand where they stood long before."""
    return isinstance(operation, ops.Nack) and any(release.undelivered for release in operation.releases)


class NoRoom:
    """The database's disk is not ours to look at. Implements `sqew.stores.sql.work.Room`."""

    next_look_at = 1 << 62

    def check(self, now: int) -> None:
        pass


class Session:
    """A connection and what it remembers. It does one thing at a time."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], random: Random, delivery_keep_ms: int) -> None:
        self.connection = connection
        self._link = Link(connection)
        self._catalog = DatabaseCatalog(self._link.execute, SQL)
        self._bindings = Bindings()
        self._work = Work(self._link, SQL, self._catalog, self._bindings, NoRoom(), random, delivery_keep_ms)

    async def fly(self, flight: Flight, marks: Watermarks, only: int | None = None) -> None:
        """Carry out what is pending: what can be by the short ways, and the rest in one transaction.

        ``only``: what is in that place, and in a transaction of its own.
        """
        if only is None:
            await hot.fly(self._link, self._catalog, marks, flight)
        pending = [entry for entry in flight.pending if only in (None, entry[0])]
        if not pending:
            return
        places, operations = zip(*pending, strict=True)
        alone = any(type(operation) in CHANGING for operation in operations)
        begin = _ALONE if alone else _SHARED
        if flight.sync_commit is not None:
            begin += f"; SET LOCAL synchronous_commit TO {SYNC_COMMIT[flight.sync_commit]}"
        commit = await self._transaction(begin, operations, flight.now)
        flight.join(commit, places)
        if any(map(_brings_back, operations)):
            for queue in commit.stirred:
                marks.forget(queue)

    async def look(self, operations: Sequence[ops.Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read, as of one moment: their results, or the first error raised."""
        results = (await self._transaction(_READING, operations, now)).results
        for result in results:
            if isinstance(result, SqewError):
                raise result
        return results

    async def _transaction(self, begin: str, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        work = self._work
        try:
            await self.connection.execute(begin)
            self._link.begun()
            work.now, work.defers = now, len(operations) > 1
            results = await carried(self._attempt_all, operations)
            await self.connection.execute("COMMIT")
        except BaseException:
            await self._rollback()
            raise
        commit = Commit(results, work.facts, work.stirred)
        work.facts, work.stirred = [], set()
        self._bindings.committed()
        return commit

    def _attempt_all(self, operations: Sequence[ops.Operation[Any]]) -> list[Any]:
        self._catalog.refresh()
        self._bindings.is_current = False
        results = []
        for operation in operations:
            if type(operation) not in sending.DEFERRING:
                sending.write_deferred(self._work)
            results.append(self._attempt(operation))
        sending.write_deferred(self._work)
        return results

    def _attempt(self, operation: ops.Operation[Any]) -> Any:
        try:
            return HANDLERS[type(operation)](self._work, operation)
        except SqewError as error:
            return error

    async def _rollback(self) -> None:
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await self.connection.execute("ROLLBACK")
        self._catalog.forget()
        self._bindings.undone()
        self._work.facts, self._work.stirred, self._work.deferred = [], set(), NewRows()

    async def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            await self.connection.close(timeout=2)
