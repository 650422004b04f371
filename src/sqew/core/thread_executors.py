"""Executor for the operations of a queue that threads share.

For a file it is a group commit: the first thread to get the lock commits for all that wait, and they share its fsync.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw

from sqew.core.engine import Engine, ObservedEngine
from sqew.errors import BadValue, SqewError, StoreClosed, StoreError
from sqew.model import ArchivedMessage, Format, Message
from sqew.operations import Operation
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.upkeep import CheckReport

R = TypeVar("R")

_EXIT_WITHIN_S = 1.0
"""Seconds that the end of a program waits for a thread that still holds the lock."""

_pid = os.getpid()
"""The process's id, kept because asking the system takes 0.3 µs each time."""


def _note_pid() -> None:
    global _pid
    _pid = os.getpid()


os.register_at_fork(after_in_child=_note_pid)


class ThreadExecutor(Protocol):
    """An executor for many threads, on a file or a database."""

    @property
    def engine(self) -> ObservedEngine:
        """The engine, with its clock and its waiters."""

    @property
    def in_transaction(self) -> bool:
        """True if this thread is inside `transaction`."""

    def run(self, operation: Operation[R]) -> R:
        """Execute an operation: return its result, or raise its error."""

    def send_plain(self, queue: str, body: bytes, format: Format) -> int | None:
        """Send a message with only a body: return its id, or None if it was not sent and has to be sent with `run`.

        A fast path for what an embedded queue does most: it takes a tenth less time.
        """

    def run_all(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Execute several operations, one after the other: return their results, or raise the first of their errors."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open one transaction for all that this thread does inside the block."""

    def flush(self) -> None:
        """Store the counters that are still in memory."""

    def idle(self) -> None:
        """Use idle time for a small step of upkeep."""

    def maintain(self) -> None:
        """Do all the upkeep that keeps the store small and quick."""

    def backup(self, to: str | Path, progress: Callable[[int, int], object] | None) -> None:
        """Copy the whole store."""

    def check(self, progress: Callable[[int], object] | None) -> CheckReport:
        """Read the whole store, and look for damage."""

    def export(self, queue: str) -> Iterator[Message]:
        """Yield the messages of a queue."""

    def export_archive(self, queue: str) -> Iterator[ArchivedMessage]:
        """Yield the archived messages of a queue."""

    def close(self) -> None:
        """Close the store, once. In a forked child nothing is touched: it belongs to the parent."""

    def check_open(self) -> None:
        """Raise `StoreClosed` unless this process has the queue open."""

    def check_outside(self, what: str) -> None:
        """Raise `BadValue` if this thread is inside `transaction`: ``what`` can't be done there."""


def check_usable(opened_by: int, closed: bool, where: str) -> None:
    """Raise `StoreClosed` unless this process has opened the queue and not closed it."""
    if opened_by != _pid:
        raise StoreClosed("A queue can't be used across a fork. Open it in the child.")
    if closed:
        raise StoreClosed(f"The queue in {where} was closed. Open it again.")


class GroupCommitExecutor:
    """A group commit for many threads, on a file. Implements `ThreadExecutor`: a batch is one transaction.

    An interrupt (Ctrl-C) may come after any call in the main thread. So the lock is only ever taken by ``with``:
    between `acquire` and a ``try`` there is a moment in which an interrupt would leave it locked for good.
    """

    def __init__(self, engine: Engine, store: SQLiteStore) -> None:
        self.engine = engine
        self.store = store
        self._lock = threading.RLock()
        # Whether somebody has the lock. Only a hint: who is misled by it commits alone, or queues up for nobody.
        self._busy = False
        self._pending: deque[_Waiting] = deque()
        # The thread that is inside transaction(): what it does joins that.
        self._owner: int | None = None
        self._closed = False
        self._pid = _pid
        _open.add(self)

    @property
    def in_transaction(self) -> bool:
        """True if this thread is inside `transaction`."""
        return self._owner == threading.get_ident()

    def run(self, operation: Operation[R]) -> R:
        """Execute one operation: return its result, or raise its error."""
        result: R | SqewError
        if self._busy or self._pid != _pid:
            result = self.run_all((operation,))[0]
        else:
            # Nobody else is at it: no need to queue.
            with self._lock:
                try:
                    self._busy = True
                    if self._closed:
                        self.check_open()
                    result = self.engine.run((operation,))[0]
                finally:
                    self._busy = False
        if isinstance(result, SqewError):
            raise result
        return result

    def send_plain(self, queue: str, body: bytes, format: Format) -> int | None:
        """Send a message with only a body, if no other thread is committing."""
        if self._busy or self._pid != _pid:
            return None
        with self._lock:
            try:
                self._busy = True
                return None if self._closed else self.engine.send_plain(queue, body, format)
            finally:
                self._busy = False

    def run_all(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Execute operations in one transaction: return their results, or raise the first of their errors."""
        if self._pid != _pid:
            self.check_open()
        if self._owner is not None and self.in_transaction:
            results = self._join(operations)
        else:
            results = self._queue_up(operations)
        for result in results:
            if isinstance(result, SqewError):
                raise result
        return results

    def _join(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        _check_not_ended(self.store)
        try:
            return [self.store.attempt(operation) for operation in operations]
        except BaseException:
            # It may be done by halves, and the block may deal with the exception and go on.
            self.store.rollback()
            raise

    def _queue_up(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Wait for the thread that is committing; the first to get the lock commits for all that wait."""
        entry = _Waiting(operations)
        try:
            self._pending.append(entry)
            with self._lock:
                if entry.results is None:
                    self._commit_pending()
        finally:
            # Done; or interrupted, and then it must not be done some day when nobody expects it any more.
            self._take_away(entry)
        results = entry.results
        assert results is not None
        return results

    def _take_away(self, entry: _Waiting) -> None:
        with contextlib.suppress(ValueError):
            self._pending.remove(entry)

    def _commit_pending(self) -> None:
        # An entry stays where it is until it has its results, and then its own thread takes it away. So whenever a
        # thread is interrupted, the next does what is left to do.
        entries: list[_Waiting] = []
        for entry in list(self._pending):
            if entry.results is None:
                entries.append(entry)
            else:
                self._take_away(entry)
        shared = _SharedResults()
        count = 0
        for entry in entries:
            entry.shared, entry.first = shared, count
            count += len(entry.operations)
        # Unless they get others: what happens when this thread is interrupted.
        results: list[Any] = [_interrupted()] * count
        try:
            self._busy = True
            self.check_open()
            results = self.engine.run([operation for entry in entries for operation in entry.operations])
        except SqewError as error:
            results = [error] * count
        finally:
            self._busy = False
            shared.results = results

    def transaction(self) -> Block:
        """Open one transaction for all that this thread does inside the block."""
        return Block(self._transaction())

    def _transaction(self) -> Generator[Transaction]:
        self.check_open()
        self.check_outside("Another transaction can't be begun")
        with self._lock:
            self.check_open()
            now = self.engine.now()
            transaction = Transaction(self.store)
            try:
                self.store.begin(now)
                self._owner, self._busy = threading.get_ident(), True
                yield transaction
                _check_not_ended(self.store)
                transaction.end()
                commit = self.store.commit([])
            except BaseException:
                self.store.rollback()
                raise
            finally:
                self._owner, self._busy = None, False
                transaction.end()
            self.engine.committed(commit.facts, commit.woken, now)

    def flush(self) -> None:
        """Store the counters that are still in memory."""
        self._alone(self.engine.flush)

    def idle(self) -> None:
        """Use idle time to make the next start quick and the files small."""
        self._alone(self.store.idle)

    def maintain(self) -> None:
        """Refresh the planner's statistics, give free pages back, empty the WAL."""
        self._alone(self.store.maintain)

    def _alone(self, work: Callable[[], R]) -> R:
        """Call a function that needs the engine for itself: other threads wait, and it can't join a transaction."""
        self.check_open()
        with self._lock:
            self.check_open()
            return work()

    def backup(self, to: str | Path, progress: Callable[[int, int], object] | None) -> None:
        """Copy the file, on a connection of its own."""
        self.check_open()
        self.store.backup(to, progress)

    def check(self, progress: Callable[[int], object] | None) -> CheckReport:
        """Read the whole file, on a connection of its own."""
        self.check_open()
        return self.store.check(progress)

    def export(self, queue: str) -> Iterator[Message]:
        """Yield the messages of a queue from one snapshot."""
        self.check_open()
        return self.store.export(queue, self.engine.clock.now())

    def export_archive(self, queue: str) -> Iterator[ArchivedMessage]:
        """Yield the archived messages of a queue from one snapshot."""
        self.check_open()
        return self.store.export_archive(queue, self.engine.clock.now())

    def close(self) -> None:
        """Close the engine, once. In a forked child nothing is touched: it belongs to the parent."""
        if self._pid != _pid:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self.engine.close()

    def flush_at_exit(self) -> None:
        """Store the counters of the last second if the program forgot to close the queue."""
        # A thread that has the lock may never let go of it.
        if self._pid == _pid and self._lock.acquire(timeout=_EXIT_WITHIN_S):
            try:
                if not self._closed:
                    self.engine.flush()
            finally:
                self._lock.release()

    def check_open(self) -> None:
        """Raise `StoreClosed` unless this process has the queue open.

        Call it before taking the lock: in a forked child, the thread that holds the lock may not exist.
        """
        check_usable(self._pid, self._closed, self.store.path)

    def check_outside(self, what: str) -> None:
        """Raise `BadValue` if this thread is inside `transaction`: ``what`` can't be done there."""
        if self.in_transaction:
            raise BadValue(f"{what}: this thread is in a transaction already. Leave its block first.")


_open: weakref.WeakSet[GroupCommitExecutor] = weakref.WeakSet()


@atexit.register
def _flush_open_queues() -> None:
    for executor in list(_open):
        with contextlib.suppress(Exception):
            executor.flush_at_exit()


class Block:
    """The ``with`` block of a transaction, which an interrupt can't leave open.

    A contextlib block would stay open if the interrupt came between its own steps and those of the generator.
    """

    def __init__(self, steps: Generator[Transaction]) -> None:
        self.steps = steps

    def __enter__(self) -> Transaction:
        try:
            return next(self.steps)
        except BaseException:
            self.steps.close()
            raise

    class _Exit:
        """The block's ``__exit__``.

        An interrupt may come as the call begins, before it has done anything. So the call only has a weak reference to
        the steps: the traceback would keep them alive, and the transaction open, for as long as the interrupt is
        handled. The ``with`` drops this object, and with it the steps, which rolls the transaction back.
        """

        def __get__(self, block: Block | None, owner: type[Block]) -> Callable[..., None]:
            if block is None:
                # Whoever has no ``with``, as ExitStack.
                return lambda block, *raised: _end(block.steps, *raised)
            call = _Call(_end, weakref.proxy(block.steps))
            call.keeps = block.steps
            return call

    __exit__ = _Exit()


class _Call(partial[None]):
    """A call that keeps alive the objects to which its arguments are only weak references."""

    keeps: object


def _end(steps: Generator[Transaction], _kind: object, error: BaseException | None, _trace: object) -> None:
    """Take the last step if the block succeeded, then close the generator, which rolls back what was not committed."""
    try:
        if error is None:
            next(steps, None)
    finally:
        steps.close()


class Transaction:
    """A transaction as its caller sees it: for SQL statements of the caller's own."""

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store
        self._over = False
        self._cursors: weakref.WeakSet[apsw.Cursor] = weakref.WeakSet()

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> apsw.Cursor:
        """Run a statement of the caller's own; return apsw's cursor, and raise apsw's errors.

        Statements that begin, end or partly undo a transaction are refused: the block begins and ends it, and the
        queue's operations could not follow a savepoint.
        """
        if self._over:
            raise BadValue("This transaction is over. Begin another.")
        _check_not_ended(self._store)
        cursor = self._store.connection.cursor()
        cursor.exec_trace = _refuse_transaction_control
        self._cursors.add(cursor)
        return cursor.execute(sql, parameters)

    def end(self) -> None:
        """Close cursors that were not read to their end: SQLite can't commit with a statement under way."""
        self._over = True
        for cursor in list(self._cursors):
            cursor.close(True)


_FIRST_WORD = re.compile(r"(?:\s|;|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))*([A-Za-z]*)", re.DOTALL)
_TRANSACTION_CONTROL = frozenset({"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"})


def _refuse_transaction_control(_cursor: apsw.Cursor, sql: str, _parameters: object) -> bool:
    """Refuse statements that begin or end a transaction; apsw calls this before each statement."""
    match = _FIRST_WORD.match(sql)
    if match and match[1].upper() in _TRANSACTION_CONTROL:
        raise BadValue(
            f"{match[1].upper()} can't be run inside the block: it is committed at its end, or undone whole."
        )
    return True


def _check_not_ended(store: SQLiteStore) -> None:
    # What came after would be committed by itself, piece by piece.
    if not store.connection.in_transaction:
        raise BadValue(
            "The transaction is over: an operation in its block was cut off, or the block ended it itself. "
            "Leave the block, and begin another."
        )


def _interrupted() -> StoreError:
    return StoreError(
        "The transaction was interrupted: it may or may not have been done. Look before you send it again."
    )


class _SharedResults:
    """The results of one commit. All its operations get them in one step, which no interrupt can cut in two."""

    __slots__ = ("results",)

    def __init__(self) -> None:
        self.results: list[Any] | None = None


class _Waiting:
    """A thread's operations that wait for a commit together with others."""

    __slots__ = ("first", "operations", "shared")

    def __init__(self, operations: Sequence[Operation[Any]]) -> None:
        self.operations = operations
        self.shared = _SharedResults()
        self.first = 0

    @property
    def results(self) -> list[Any] | None:
        """The operations' own part of the commit's results; None while they wait."""
        results = self.shared.results
        return None if results is None else results[self.first : self.first + len(self.operations)]
