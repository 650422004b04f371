"""Group commit between threads: who comes first commits for all who wait, and they share its fsync."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from sqew.engine import Engine
from sqew.errors import BadValue, SqewError, StoreClosed, StoreError
from sqew.operations import Operation
from sqew.stores.sqlite import SQLiteStore


class GroupCommit:
    """An engine for many threads."""

    def __init__(self, engine: Engine, store: SQLiteStore) -> None:
        self._engine = engine
        self._store = store
        self._lock = threading.RLock()
        self._pending: deque[_Ticket] = deque()
        # The thread that is inside transaction(): what it does joins that.
        self._owner: int | None = None
        self._closed = False
        self._pid = os.getpid()

    @property
    def in_transaction(self) -> bool:
        """Whether this thread is inside `transaction`."""
        return self._owner == threading.get_ident()

    def run(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Operations in one transaction: their results, or the first of their errors raised."""
        if self._owner == threading.get_ident():
            results = [self._store.attempt(operation) for operation in operations]
        elif self._lock.acquire(blocking=False):
            # Nobody else is at it: no need to queue.
            try:
                self._check_open()
                results = self._engine.run(operations)
            finally:
                self._lock.release()
        else:
            results = self._queue_up(operations)
        for result in results:
            if isinstance(result, SqewError):
                raise result
        return results

    def _queue_up(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Wait for the thread that is committing; the first to get its place commits for all who wait."""
        ticket = _Ticket(operations)
        self._pending.append(ticket)
        with self._lock:
            if ticket.results is None:
                self._commit_pending()
        assert ticket.results is not None
        return ticket.results

    def _commit_pending(self) -> None:
        tickets: list[_Ticket] = []
        while self._pending:
            tickets.append(self._pending.popleft())
        # Unless they get others: what happens when this thread is interrupted (Ctrl-C).
        count = sum(len(ticket.operations) for ticket in tickets)
        results: list[Any] = [StoreError("The transaction was interrupted and undone. Try again.")] * count
        try:
            self._check_open()
            results = self._engine.run([operation for ticket in tickets for operation in ticket.operations])
        except SqewError as error:
            results = [error] * count
        finally:
            position = 0
            for ticket in tickets:
                end = position + len(ticket.operations)
                ticket.results = results[position:end]
                position = end

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction for all that this thread does inside the block."""
        with self.alone():
            if self._owner is not None:
                raise BadValue("This thread is in a transaction already. Use that one.")
            now = self._engine.clock.now()
            self._store.begin(now)
            self._owner = threading.get_ident()
            try:
                yield
                if not self._store.connection.in_transaction:
                    raise BadValue(
                        "The block ended the transaction itself (COMMIT or ROLLBACK). Leave that to its end."
                    )
                commit = self._store.commit([])
            except BaseException:
                self._store.rollback()
                raise
            finally:
                self._owner = None
            self._engine.publish(commit, now)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the other threads out for the length of the block."""
        with self._lock:
            self._check_open()
            yield

    def close(self) -> None:
        """Close the engine, once. In a forked child nothing is touched: it is the parent's."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._engine.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"The queue in {self._store.path} was closed. Open it again.")
        if os.getpid() != self._pid:
            raise StoreClosed("A queue can't be used across a fork. Open it in the child.")


class _Ticket:
    """Operations that wait to be committed, and then their results."""

    __slots__ = ("operations", "results")

    def __init__(self, operations: Sequence[Operation[Any]]) -> None:
        self.operations = operations
        self.results: list[Any] | None = None
