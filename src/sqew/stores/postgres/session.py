"""A connection to the database, and what it remembers between transactions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import asyncpg

from sqew import operations as ops
from sqew.errors import OutcomeUnknown, SqewError, StoreUnavailable
from sqew.model import Commit
from sqew.rules.throttle import Throttle
from sqew.stores.postgres import set_based
from sqew.stores.postgres.batch import Batch
from sqew.stores.postgres.catalog import DatabaseCatalog
from sqew.stores.postgres.connection import SQL, SYNC_COMMIT, HeldElsewhere, PostgresConnection
from sqew.stores.postgres.greenlets import carried
from sqew.stores.postgres.pool_counters import PoolCounters
from sqew.stores.postgres.ready_rows import MarkedReadyRows
from sqew.stores.postgres.watermarks import Watermarks
from sqew.stores.sql import send
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.handlers import HANDLERS
from sqew.stores.sql.subscription_cache import Bindings
from sqew.stores.sql.transaction import NewRows, Work

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_SHARED = f"{_BEGIN}; SELECT pg_advisory_xact_lock_shared(1399940471, 0)"
_ALONE = f"{_BEGIN}; SET LOCAL lock_timeout = '1s'; SELECT pg_advisory_xact_lock(1399940471, 0)"
"""SQL that begins a transaction that changes what all servers keep in memory: it runs while no other does.

All others queue up behind the one that waits for that. So it waits for a second, lets them by, and tries again: a
server that stopped in the midst of a transaction must not stop all of them.
"""
_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_TIDY_EVERY_MS = 60_000
_MANY_BUCKETS = 16
_MOST_DROPPED = 500

Entry = tuple[int, ops.Operation[Any]]
"""An operation of a batch, after its place there."""
Time = Callable[[], int]
"""Function that returns the time of the call."""

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
"""Operations that look, before they write, at more than the rows that they lock."""


def _queue_of(operation: ops.Operation[Any]) -> str | None:
    return getattr(operation, "queue", None)


def _is_held(operation: ops.Operation[Any], state: QueueState) -> bool:
    """Return True if this operation locks the queue."""
    return state.takes_one_at_a_time if type(operation) is ops.Send else state.policy.fifo


def _may_go_fast(entry: Entry) -> bool:
    return type(entry[1]) in set_based.TURNS and _queue_of(entry[1]) is not None


def _brings_back(operation: ops.Operation[Any]) -> bool:
    """Return True if the operation may put messages back to where they stood long before."""
    return isinstance(operation, ops.Nack) and any(release.undelivered for release in operation.releases)


def _doubted(unknown: OutcomeUnknown, operation: ops.Operation[Any], result: Any) -> SqewError:
    """Return the result of an operation whose transaction may have been committed, or not."""
    if isinstance(result, SqewError):
        return result
    # What only looks may have seen what was not committed then. To look again does no harm.
    return unknown if operation.writes else StoreUnavailable(str(unknown))


class UnknownSpace:
    """The free space on the database's disk, which a client can't see. Implements `FreeSpace`."""

    next_look_at = 1 << 62

    def check(self, now: int) -> None:
        pass


class Session:
    """A connection and what it remembers. It does one thing at a time."""

    def __init__(
        self,
        connection: asyncpg.Connection[asyncpg.Record],
        marks: Watermarks,
        throttles: dict[int, Throttle],
        random: Random,
        delivery_keep_ms: int,
        url: str,
        counters: PoolCounters,
    ) -> None:
        """Share ``marks``, ``throttles`` and ``counters`` with all connections of the process."""
        self.connection = connection
        self._marks = marks
        self._tidied_at = 0
        self._connection = PostgresConnection(connection, url, counters)
        self._catalog = DatabaseCatalog(self._connection.execute, SQL, throttles)
        self._bindings = Bindings()
        self._ready_rows = MarkedReadyRows(marks)
        self._work = Work(
            self._connection,
            SQL,
            self._catalog,
            self._bindings,
            self._ready_rows,
            UnknownSpace(),
            random,
            delivery_keep_ms,
        )

    async def run(self, batch: Batch, only: int | None = None) -> None:
        """Run what is pending: by fast paths what can be, and the rest in one transaction.

        ``only``: run just the operation in that place, in a transaction of its own.
        """
        if only is None:
            batch.read_clock()
            await self._run_statements(batch)
            if not batch.goes_on():
                if any(map(_may_go_fast, batch.pending)):
                    await self._learn(batch)
                    await self._run_statements(batch)
                return
        await self._run_in_transactions(batch, [entry for entry in batch.pending if only in (None, entry[0])])

    async def _run_in_transactions(self, batch: Batch, entries: Sequence[Entry]) -> None:
        """Run some operations of a batch in one transaction."""
        places, operations = zip(*entries, strict=True)
        alone = any(type(operation) in CHANGING for operation in operations)
        begin = _ALONE if alone else _SHARED
        if batch.sync_commit is not None:
            begin += f"; SET LOCAL synchronous_commit TO {SYNC_COMMIT[batch.sync_commit]}"
        commit = await self._hold_and_do(begin, operations, batch.read_clock)
        batch.join(commit, places)
        if any(map(_brings_back, operations)):
            for queue in commit.woken:
                self._marks.forget(queue)
        self._marks.sent(commit.woken, batch.took_ms())
        if any(type(operation) is ops.Sweep for operation in operations):
            await self._tidy(batch.now)

    async def _run_statements(self, batch: Batch) -> None:
        """Run what waits for no queue that another server has locked, so that it does not wait with the rest."""
        await set_based.run(self._connection, self._catalog, self._marks, batch)
        pending, known = batch.pending, self._catalog.by_name
        if len(pending) > 1 and any(_may_go_fast(entry) and _queue_of(entry[1]) not in known for entry in pending):
            await self._learn(batch)
            await set_based.run(self._connection, self._catalog, self._marks, batch)
            pending = batch.pending
        # Only where all are of a kind: otherwise one could overtake another that was asked for before.
        if len({type(operation) for _, operation in pending}) == 1:
            free = [entry for entry in pending if _may_go_fast(entry) and self._is_free(entry[1])]
            if free:
                await self._run_in_transactions(batch, free)

    def _is_free(self, operation: ops.Operation[Any]) -> bool:
        state = self._catalog.by_name.get(_queue_of(operation) or "")
        return state is not None and not _is_held(operation, state)

    async def _learn(self, batch: Batch) -> None:
        """Read anew the queues that the batch names."""

        def find_all() -> None:
            self._catalog.refresh()
            for _, operation in batch.pending:
                self._catalog.find(_queue_of(operation))

        try:
            await self.connection.execute(_SHARED)
            await carried(find_all)
            await self.connection.execute("COMMIT")
        except BaseException:
            await self._rollback()
            raise

    async def _tidy(self, now: int) -> None:
        """Drop empty (lane, priority) from queues that have many: every receive looks into each."""
        if now < self._tidied_at + _TIDY_EVERY_MS:
            return
        self._tidied_at = now
        if not (await self._connection.fetch(SQL.find_spare_buckets, _MANY_BUCKETS, 1)).fetchall():
            return
        try:
            await self.connection.execute(_ALONE)
            await self._connection.fetch(SQL.drop_spare_buckets, _MANY_BUCKETS, _MOST_DROPPED)
            await self._connection.fetch(SQL.bump_catalog)
            await self._connection.commit()
        except BaseException:
            await self._rollback()
            raise

    async def _hold_and_do(self, begin: str, operations: Sequence[ops.Operation[Any]], clock: Time) -> Commit:
        """Run operations in a transaction. If one needs a queue locked elsewhere, begin again and lock that first."""
        queues: set[int] = set()
        while True:
            try:
                return await self._transaction(begin, operations, clock, queues)
            except HeldElsewhere as held:
                queues |= held.queues

    async def read(self, operations: Sequence[ops.Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read, as of one moment. Return their results, or raise the first error."""
        results = (await self._transaction(_READING, operations, lambda: now)).results
        for result in results:
            if isinstance(result, SqewError):
                raise result
        return results

    async def _transaction(
        self, begin: str, operations: Sequence[ops.Operation[Any]], clock: Time, queues: set[int] | None = None
    ) -> Commit:
        work, results = self._work, list[Any]()
        try:
            await self.connection.execute(begin)
            work.defers = len(operations) > 1
            results = await carried(self._attempt_all, operations, clock, queues)
            if any(operation.writes for operation in operations):
                await self._connection.commit()
            else:
                await self.connection.execute("COMMIT")
        except OutcomeUnknown as unknown:
            # Receivers are to look: it may be there.
            commit = Commit(list(map(partial(_doubted, unknown), operations, results)), [], work.woken)
            await self._rollback()
            return commit
        except BaseException as error:
            if isinstance(error, TimeoutError):
                # Nor would there be an answer to the ROLLBACK.
                self.connection.terminate()
            await self._rollback()
            raise
        commit = Commit(results, work.facts, work.woken)
        work.facts, work.woken = [], set()
        self._bindings.committed()
        self._ready_rows.committed()
        return commit

    def _attempt_all(self, operations: Sequence[ops.Operation[Any]], clock: Time, queues: set[int] | None) -> list[Any]:
        self._work.now = clock()
        self._catalog.refresh()
        self._bindings.is_current = False
        if queues is not None:
            self._connection.begin_with(queues.union(*map(self._queues_to_hold, operations)))
            self._work.now = clock()
        results = []
        for operation in operations:
            if type(operation) not in send.DEFERRING:
                send.write_deferred(self._work)
            results.append(self._attempt(operation))
        send.write_deferred(self._work)
        self._catalog.write_added()
        return results

    def _queues_to_hold(self, operation: ops.Operation[Any]) -> set[int]:
        """Return the queues that an operation is going to lock, as far as that can be known before."""
        if type(operation) is ops.Sweep:
            found = self._connection.execute(SQL.queues_to_sweep, (self._work.now, operation.limit))
            states = [self._catalog.queue_by_id(row[0]) for row in found.fetchall()]
        else:
            states = [self._catalog.find(_queue_of(operation))] if operation.writes else []
        return {state.id for state in states if state is not None and _is_held(operation, state)}

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
        self._ready_rows.undone()
        self._work.facts, self._work.woken, self._work.deferred = [], set(), NewRows()

    async def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            await self.connection.close(timeout=2)
