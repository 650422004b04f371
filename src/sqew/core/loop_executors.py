"""Executors for a broker's operations: at once, in a store of this process, or later, in a database."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Protocol

from sqew.core.engine import Engine, ObservedEngine, RemoteEngine
from sqew.errors import NotOfDatabase, is_about_all
from sqew.model import DatabaseStats
from sqew.operations import Ack, Operation, Receive, Send
from sqew.stores.contract import Unfinished

_log = logging.getLogger("sqew.broker")

Done = Callable[[Any], None]
"""A callback that gets the result of an operation, or its error."""
Entry = tuple[Operation[Any], Done]
BatchObserver = Callable[[Sequence[Operation[Any]], Sequence[Any], float], None]
"""An observer that gets the operations of a transaction, their results, and its duration in seconds."""

_KINDS = frozenset({Receive, Ack})
"""Kinds of operations that a database executes in batches as quickly as one by one."""

_QUARTER = 4
"""Divisor for the connections: operations of one kind that wait for locks use a quarter of them, at most."""

_LARGEST_BATCH = 1_000
"""Operations in one commit, at most: all others wait for as long as a transaction takes."""

_MOST_MESSAGES = {Send: 200, Receive: 400, Ack: 400}
"""Messages in one statement, at most, unless a single operation has more. All that clients ask for at the same moment
would otherwise be one long statement: this process idles while the database executes it, and the database while the
next is prepared. Concurrent receives skip the rows that others have locked: for them smaller batches are better."""


class Unwanted(Exception):
    """An error for a caller that has gone before its operation's turn came; the operation was not executed."""


class Awaited:
    """A `Done` whose result may no longer be wanted when the operation's turn comes."""

    __slots__ = ()

    def __call__(self, result: Any, /) -> None:
        """Take the result."""
        raise NotImplementedError

    def is_wanted(self) -> bool:
        """Return True if the caller still wants the result."""
        raise NotImplementedError

    def drop(self) -> None:
        """Note that the operation was not executed."""
        raise NotImplementedError


class LoopExecutor(Protocol):
    """An executor for the operations of a broker."""

    observe_batch: BatchObserver | None

    @property
    def engine(self) -> ObservedEngine: ...

    def run(self, entries: Sequence[Entry]) -> None:
        """Execute operations, and call each one's callback with its result."""

    async def settle(self) -> None:
        """Return when every operation that was begun is done."""

    async def flush(self) -> None:
        """Store the counters that are still in memory."""

    async def read(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read and may take long."""

    async def check(self) -> None:
        """Raise unless messages can be stored, as far as that can be known without storing one."""

    def idle(self) -> None:
        """Use idle time for upkeep."""

    async def compact(self, between: Callable[[], Any]) -> tuple[int, int]:
        """Give free space back to the disk in small steps; return the size in bytes before and after."""

    async def shrink_log(self) -> None:
        """Move the store's log (the WAL) into the file."""

    @property
    def backlog(self) -> int:
        """The number of operations that wait to be begun."""

    def database(self) -> DatabaseStats | None:
        """Return the metrics of the database's connections, or None if the store is in this process."""

    async def measure(self) -> None:
        """Update those metrics that have to be queried from the database."""

    async def close(self) -> None:
        """Close the store."""


def _still_wanted(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries whose results are still wanted, and drop the others. Call it right before executing them."""
    return [entry for entry in entries if not isinstance(entry[1], Awaited) or _is_wanted(entry[1])]


def _is_wanted(done: Awaited) -> bool:
    if done.is_wanted():
        return True
    done.drop()
    return False


def _resolve(entries: Sequence[Entry], results: Sequence[Any]) -> None:
    for (_, done), result in zip(entries, results, strict=True):
        try:
            done(result)
        except Exception:  # noqa: BLE001 (the others must get their answers all the same)
            _log.exception("an answer could not be handed over")


class LocalLoopExecutor:
    """An executor for a file: operations that arrive in one tick of the loop run in one transaction at its end."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.observe_batch: BatchObserver | None = None

    def run(self, entries: Sequence[Entry]) -> None:
        for start in range(0, len(entries), _LARGEST_BATCH):
            part = _still_wanted(entries[start : start + _LARGEST_BATCH])
            operations = [operation for operation, _ in part]
            began = perf_counter()
            results = self._execute(operations)
            if self.observe_batch is not None:
                self.observe_batch(operations, results, perf_counter() - began)
            _resolve(part, results)

    def _execute(self, operations: list[Operation[Any]]) -> list[Any]:
        try:
            return self.engine.run(operations)
        except Exception as error:  # noqa: BLE001 (whatever it is, nobody may be left waiting for an answer)
            if is_about_all(error) or len(operations) == 1:
                return [error] * len(operations)
        # One of them met a mistake in the code, or damage, and all were undone: the others must not suffer for it.
        return [result for operation in operations for result in self._execute([operation])]

    async def settle(self) -> None:
        pass

    async def flush(self) -> None:
        self.engine.flush()

    async def read(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        store = self.engine.store
        if not store.reads_aside:
            return store.read(operations, now)
        return await asyncio.to_thread(store.read, operations, now)

    async def check(self) -> None:
        """Return at once: a store in this process reports with every operation if it can't store messages."""

    def idle(self) -> None:
        self.engine.store.idle()

    async def compact(self, between: Callable[[], Any]) -> tuple[int, int]:
        store = self.engine.store
        before = store.file_bytes()
        while store.compact():
            await between()
        return before, store.file_bytes()

    async def shrink_log(self) -> None:
        await asyncio.to_thread(self.engine.store.shrink_log)

    backlog = 0

    def database(self) -> None:
        return None

    async def measure(self) -> None:
        pass

    async def close(self) -> None:
        self.engine.close()


class _Batch:
    """A batch of operations that are executed together."""

    def __init__(self, entries: Sequence[Entry], observe_batch: BatchObserver | None) -> None:
        self._entries: dict[int, Entry] = dict(enumerate(entries))
        self._observe_batch = observe_batch
        self._began = perf_counter()
        self.is_held_up = False
        """True once some of them have begun to wait for locks."""

    def resolve(self, results: Sequence[Any]) -> None:
        """Hand over the results that are done and were not handed over before."""
        places = [place for place in self._entries if not isinstance(results[place], Unfinished)]
        if not places:
            return
        entries, done = [self._entries.pop(place) for place in places], [results[place] for place in places]
        if self._observe_batch is not None:
            self._observe_batch([operation for operation, _ in entries], done, perf_counter() - self._began)
        _resolve(entries, done)

    def left(self, results: Sequence[Any]) -> list[Entry]:
        """Return the entries that are still to be executed."""
        return [_entry_of(results[place], done) for place, (_, done) in self._entries.items()]


def _entry_of(unfinished: Unfinished, done: Done) -> Entry:
    return unfinished.operation, lambda result: done(unfinished.joined(result))


class DatabaseLoopExecutor:
    """An executor for a database: a batch per free connection; operations that arrive meanwhile form the next batch.

    Some operations have to wait for locks of other servers, which may take seconds if one of those has stopped. They
    leave connections free for others: senders to plain queues never wait for a FIFO queue's lock.

    ``linger_ms``: milliseconds that an operation waits for others to share its batch. 0: none waits.
    """

    def __init__(self, engine: RemoteEngine, linger_ms: int = 0) -> None:
        self.engine = engine
        self.observe_batch: BatchObserver | None = None
        self._linger_s = linger_ms / 1000
        self._lingers: asyncio.TimerHandle | None = None
        self._waiting: list[Entry] = []
        # What was begun and turned out to have to wait, while enough did already.
        self._left: list[Entry] = []
        self._batches: set[asyncio.Task[None]] = set()
        # How many batches of each kind wait for others, or may have to.
        self._held_up: Counter[object] = Counter()

    def run(self, entries: Sequence[Entry]) -> None:
        self._waiting += entries
        if not self._linger_s or len(self._waiting) >= _LARGEST_BATCH:
            self._start_batches()
        elif self._lingers is None:
            self._lingers = asyncio.get_running_loop().call_later(self._linger_s, self._start_batches)

    def _start_batches(self) -> None:
        if self._lingers is not None:
            self._lingers.cancel()
            self._lingers = None
        while len(self._batches) < self.engine.store.connections:
            left = next((entry for entry in self._left if self._may_be_held_up(_kind(entry))), None)
            if left is not None:
                kind = _kind(left)
                self._held_up[kind] += 1
                # All of it: most wait for the same queues.
                running = self._run_left(_take(self._left, kind, sys.maxsize), kind)
            elif self._waiting:
                first = self._waiting[0]
                kind, most = _kind(first), _MOST_MESSAGES.get(type(first[0]), sys.maxsize)
                running = self._run_batch(_take(self._waiting, kind, most), kind)
            else:
                return
            task = asyncio.ensure_future(running)
            self._batches.add(task)
            task.add_done_callback(self._batch_done)

    def _may_be_held_up(self, kind: object) -> bool:
        # Those of one kind mostly wait for the same queues: it is better that more of them go together.
        connections = self.engine.store.connections
        most = connections if kind is None else connections // _QUARTER
        return self._held_up[kind] < max(1, most) and self._held_up.total() < max(1, connections - 1)

    def _batch_done(self, task: asyncio.Task[None]) -> None:
        self._batches.discard(task)
        self._start_batches()

    async def _run_batch(self, entries: Sequence[Entry], kind: object) -> None:
        if not (entries := _still_wanted(entries)):
            return
        batch = _Batch(entries, self.observe_batch)

        def may_wait(results: list[Any]) -> bool:
            batch.resolve(results)
            batch.is_held_up = self._may_be_held_up(kind)
            self._held_up[kind] += batch.is_held_up
            return batch.is_held_up

        try:
            results = await self._execute([operation for operation, _ in entries], may_wait)
        finally:
            self._held_up[kind] -= batch.is_held_up
        batch.resolve(results)
        self._left += batch.left(results)

    async def _run_left(self, entries: Sequence[Entry], kind: object) -> None:
        batch = _Batch(entries, self.observe_batch)
        try:
            results = await self._execute([operation for operation, _ in entries])
        finally:
            self._held_up[kind] -= 1
        batch.resolve(results)

    async def _execute(
        self, operations: list[Operation[Any]], may_wait: Callable[[list[Any]], bool] | None = None
    ) -> list[Any]:
        try:
            return await self.engine.run(operations, may_wait)
        except Exception as error:  # noqa: BLE001 (whatever it is, nobody may be left waiting for an answer)
            if is_about_all(error) or len(operations) == 1:
                return [error] * len(operations)
        return [result for operation in operations for result in await self._execute([operation])]

    async def settle(self) -> None:
        while self._batches:
            await asyncio.wait(self._batches)

    async def flush(self) -> None:
        await self.engine.flush()

    async def read(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        return await self.engine.store.read(operations, now)

    async def check(self) -> None:
        await self.engine.store.check()

    def idle(self) -> None:
        """Do nothing: the database does its own upkeep."""

    @property
    def backlog(self) -> int:
        return len(self._waiting) + len(self._left)

    def database(self) -> DatabaseStats:
        return self.engine.store.database_stats()

    async def measure(self) -> None:
        await self.engine.store.measure()

    async def compact(self, between: Callable[[], Any]) -> tuple[int, int]:
        await between()
        raise NotOfDatabase(
            "To give space back to the disk is PostgreSQL's business: autovacuum makes room for new messages, "
            "and VACUUM FULL gives back the rest, but locks a table against everybody for as long as it takes."
        )

    async def shrink_log(self) -> None:
        """Do nothing: the database does its own checkpoints."""

    async def close(self) -> None:
        await self.engine.close()


def _take(waiting: list[Entry], kind: object, most_messages: int) -> list[Entry]:
    """Take operations of one kind from the waiting entries, so that none waits for slower work of another kind."""
    batch: list[Entry] = []
    others: list[Entry] = []
    messages = 0
    for entry in waiting:
        if _kind(entry) != kind or len(batch) == _LARGEST_BATCH or messages >= most_messages:
            others.append(entry)
            continue
        batch.append(entry)
        messages += _messages(entry)
    waiting[:] = others
    return batch


def _messages(entry: Entry) -> int:
    """Return the number of messages that an operation is about."""
    operation = entry[0]
    if isinstance(operation, Send):
        return len(operation.messages)
    if isinstance(operation, Receive):
        return operation.limit
    return len(operation.refs) if isinstance(operation, Ack) else 0


def _kind(entry: Entry) -> object:
    """Return the kind by which operations are batched: sends that wait for the disk are a kind of their own."""
    operation = entry[0]
    kind = type(operation)
    if isinstance(operation, Send):
        return kind, operation.sync_commit
    return kind if kind in _KINDS else None


def loop_executor_of(engine: Engine | RemoteEngine) -> LoopExecutor:
    return LocalLoopExecutor(engine) if isinstance(engine, Engine) else DatabaseLoopExecutor(engine, engine.linger_ms)
