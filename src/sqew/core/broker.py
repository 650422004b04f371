"""The broker: operations on queues for an event loop.

Operations that arrive in one tick of the loop run in one transaction at its end, so that they share one commit (and, if
durable, one fsync). If there are several, those that arrive in the next ticks join them, for as long as more keep
coming. Each gets its own result.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, Protocol, Self, TypeVar

from sqew.core.checks import check_operation
from sqew.core.engine import Engine, ObservedEngine, RemoteEngine, limits_of, open_file
from sqew.core.flows import Flow, IfWanted, InThread, InTurn, Read, StoreCounts, Unchecked, run_in_loop
from sqew.core.flows import messages as flows
from sqew.core.flows.steps import Stepwise, in_steps
from sqew.core.loop_executors import Awaited, BatchObserver, Done, Unwanted, loop_executor_of
from sqew.core.waiting import IDLE_MS, pause
from sqew.errors import BadValue, OutcomeUnknown, SqewError, StoreClosed, StoreError, StoreUnavailable
from sqew.model import (
    DatabaseStats,
    Extension,
    Message,
    NewMessage,
    QueueStats,
    QueueTotals,
    Received,
    Ref,
    Release,
    Sent,
    Settled,
)
from sqew.operations import (
    Ack,
    DeleteQueue,
    Extend,
    LastId,
    Nack,
    NextDue,
    Operation,
    Receive,
    Scan,
    Send,
    Sweep,
    SweepDue,
)
from sqew.rules.limits import Limits, check_batch
from sqew.rules.values import check_ms, shown
from sqew.settings import resolve

_log = logging.getLogger("sqew.broker")

R = TypeVar("R")
Wanted = Callable[[], bool]
"""A predicate: True if the caller still wants the result."""
_ENOUGH = 500
"""Number of pending operations at which the broker commits without looking for more: a larger batch gains nothing."""
_LOOK_S = 0.005
"""Seconds for which the broker looks for more operations: in a slow tick, looking costs more than a transaction."""
_SCAN_STEP = 50
"""Messages that a scan reads between the operations of others: half a millisecond's worth."""
_FIRST_STEP, _STEP_BYTES = 1, 1_048_576
_LOOK_AGAIN_MS = 1_000
"""Milliseconds between a watcher's looks at a queue with a ready message: no notification says when that is taken."""
_NEWS_EVERY_S = 0.05
"""Least number of seconds between two pieces of news for a watcher: thousands of sends a second are one."""
_UPKEEP_S = 0.25
"""Seconds that a round of upkeep sweeps, at most: the next round does the rest."""


class Coalesced(Protocol):
    """A batch of requests that is collected until the next transaction begins, and then submitted as operations."""

    def __len__(self) -> int:
        """Return the number of requests collected so far."""

    def flush(self) -> None:
        """Submit them."""


class StepSize:
    """The size of a long read's next step: limited to a number of messages, and to about 1 MiB.

    Each step is held in memory until its reader, which may be slow, has taken it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = min(most, _FIRST_STEP)

    def took(self, size: int) -> None:
        """Set the limit by the total size in bytes of the last step's bodies."""
        if size > _STEP_BYTES:
            self.limit = max(1, self.limit * _STEP_BYTES // size)
        else:
            self.limit = min(self._most, self.limit * 2)


class Broker:
    """Queues in a store, for one event loop. Create and use it in that loop's thread."""

    def __init__(self, engine: Engine | RemoteEngine, limits: Limits | None = None) -> None:
        self._engine: ObservedEngine = engine
        self._executor = loop_executor_of(engine)
        self._limits = limits or Limits()
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[Operation[Any], Done]] = []
        self._coalesced: list[Coalesced] = []
        self._commit_is_due = False
        self._seen = 0
        self._look_until = 0.0
        self._closed = False
        self._dismissed = False
        self._deletion_observers: list[Callable[[str], None]] = []
        self._turn = asyncio.Lock()
        self._watchers = 0
        self._count = 0
        self._count_at_upkeep = 0

    @classmethod
    def open(cls, path: str | Path | None = None, **changes: Any) -> Self:
        """Open a broker on a file, creating it if need be. ``changes`` are settings by name: ``durability="fast"``."""
        settings = resolve({**changes, "db": path}, {}, None)
        engine, _ = open_file(settings)
        return cls(engine, limits_of(settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def limits(self) -> Limits:
        """The limits on the sizes of messages and batches."""
        return self._limits

    @property
    def backlog(self) -> int:
        """The number of operations that wait for the end of this tick, or for the database to take them."""
        return self._waiting + self._executor.backlog

    @property
    def _waiting(self) -> int:
        return len(self._pending) + sum(map(len, self._coalesced))

    def database(self) -> DatabaseStats | None:
        """Return the metrics of this process's connections to its database, or None if the queues are in a file."""
        return self._executor.database()

    @property
    def is_closed(self) -> bool:
        """True if it accepts no more operations."""
        return self._closed

    async def check(self) -> None:
        """Raise unless messages can be stored, as far as that can be known without storing one."""
        await self._executor.check()

    async def measure_database(self) -> None:
        """Update those metrics that have to be queried from the database."""
        await self._executor.measure()

    def now(self) -> int:
        """Return the time of the store's clock."""
        return self._engine.clock.now()

    @property
    def ran_at(self) -> int:
        """The time of the transaction whose results are being handed out: messages sent in it were created then."""
        return self._engine.ran_at

    def submit(self, operation: Operation[Any], done: Done, *, is_checked: bool = False) -> None:
        """Execute an operation together with all others that arrive in this tick, and call ``done`` with its result.

        Does what `run` does, but without a future, for callers with thousands of operations a second. ``is_checked``:
        the operation was executed before, and its fields need not be checked again.
        """
        if not is_checked:
            check_operation(operation, self._limits)
        self._enter(operation, done)

    async def run(self, operation: Operation[R], is_wanted: Wanted | None = None) -> R:
        """Execute an operation together with all others that arrive in this tick.

        ``is_wanted`` is called right before. If it returns False, nothing is done, and `Unwanted` is raised.
        """
        check_operation(operation, self._limits)
        return await self._run(operation, is_wanted)

    async def run_flow(self, flow: Flow[R], is_wanted: Wanted | None = None) -> R:
        """Run a flow, with others' operations in between. ``is_wanted``: as for `run`, before an `IfWanted`."""

        async def execute(effect: Any) -> Any:
            match effect:
                case Operation():
                    return await self.run(effect)
                case Unchecked():
                    return await self._run(effect.operation)
                case IfWanted():
                    return await self.run(effect.operation, is_wanted)
                case Read():
                    return await self.read(*effect.operations)
                case InThread():
                    return await asyncio.to_thread(effect.function)
                case InTurn():
                    async with self._turn:
                        return await run_in_loop(effect.begin(), execute)
                case StoreCounts():
                    with contextlib.suppress(StoreError):
                        await self._executor.flush()
                    return None
            raise TypeError(f"a flow can't await {effect!r}")

        return await run_in_loop(flow, execute)

    async def _run(self, operation: Operation[R], is_wanted: Wanted | None = None) -> R:
        promise = _Promise[R](self._loop.create_future(), is_wanted)
        self._enter(operation, promise)
        return await promise.future

    def _enter(self, operation: Operation[Any], done: Done) -> None:
        if self._closed:
            raise StoreClosed("The broker was closed. Start it again.")
        if not self._commit_is_due:
            self._expect_commit()
        self._pending.append((operation, done))

    def at_flush(self, coalesced: Coalesced) -> None:
        """Have a batch submitted before the next transaction begins: its operations are a part of that."""
        if not self._commit_is_due:
            self._expect_commit()
        self._coalesced.append(coalesced)

    def _expect_commit(self) -> None:
        self._commit_is_due = True
        self._seen = 0
        self._look_until = perf_counter() + _LOOK_S
        self._loop.call_soon(self._look_round)

    def _look_round(self) -> None:
        """Commit, unless there are several operations and more keep coming: then look for more first, which costs far
        less than a transaction of their own would."""
        waiting = self._waiting
        if 1 < waiting < _ENOUGH and waiting > self._seen and perf_counter() < self._look_until:
            self._seen = waiting
            self._loop.call_soon(self._look_round)
        else:
            self._commit()

    def _commit(self) -> None:
        lanes, self._coalesced = self._coalesced, []
        for coalesced in lanes:
            try:
                coalesced.flush()
            except Exception:  # noqa: BLE001 (the others must be committed all the same)
                _log.exception("what had come together could not be submitted")
        pending, self._pending = self._pending, []
        self._commit_is_due = False
        self._count += sum(not operation.polls for operation, _ in pending)
        self._executor.run(pending)

    @property
    def observe_batch(self) -> BatchObserver | None:
        """The observer of transactions: it gets their operations, results and durations."""
        return self._executor.observe_batch

    @observe_batch.setter
    def observe_batch(self, observer: BatchObserver | None) -> None:
        self._executor.observe_batch = observer

    async def send(self, queue: str, messages: Sequence[NewMessage]) -> list[Sent]:
        """Send messages; each is on disk when this returns."""
        return await self.run(Send(queue, messages))

    async def receive(self, operation: Receive, wait_ms: int = 0) -> Received:
        """Receive messages; if none is ready, wait for up to ``wait_ms``."""
        if type(operation) is not Receive:
            raise BadValue(f"receive takes a Receive, and not {shown(operation)}.")
        check_operation(operation, self._limits)
        check_batch(operation.limit, self._limits)
        check_ms("wait_ms", wait_ms)
        received = await self._take(operation)
        if received.messages or not wait_ms:
            return received
        return await self.wait(operation, wait_ms)

    async def wait(self, operation: Receive, wait_ms: int, is_wanted: Wanted | None = None) -> Received:
        """Receive as soon as a message is ready, or nothing after ``wait_ms``: for callers that have just found none.

        ``is_wanted``: as for `run`, called before each attempt.
        """
        if self._dismissed:
            return Received([])
        return await self._wait(operation, wait_ms, is_wanted)

    async def _take(self, operation: Receive, is_wanted: Wanted | None = None) -> Received:
        """Receive messages, and give them back if the caller was cancelled meanwhile and can't get them."""
        promise = _ReceivePromise(self._loop.create_future(), is_wanted, self, operation)
        self._enter(operation, promise)
        future = promise.future
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.give_back(operation, future.result())
            raise

    def give_back(self, operation: Receive, received: Received) -> None:
        """Undo a receive whose answer reached no one. What the receive itself finished stays finished: at most once."""
        refs = [Ref(m.id, m.lease.token) for m in received.messages if m.lease is not None]
        if refs and not operation.finish and not self._closed:
            self._enter(Nack(operation.queue, [Release(ref, undelivered=True) for ref in refs]), lambda _: None)

    async def _wait(self, operation: Receive, wait_ms: int, is_wanted: Wanted | None = None) -> Received:
        waiters, clock, queue, lane = self._engine.waiters, self._engine.clock, operation.queue, operation.lane
        # By two clocks: this machine's may be set back by a day, and a database's as well.
        deadline, over_at = clock.now() + wait_ms, self._loop.time() + wait_ms / 1000
        while True:
            woken = asyncio.Event()
            wake = _Waiter(self._loop, woken)
            waiters.add(queue, lane, wake)
            is_notified = self._engine.notifier.listen(waiters)
            try:
                # Again, now that nothing can be missed.
                received = await self._take_if_there(operation, is_wanted)
                over = received.messages or self._dismissed
                left_ms = max(over_at - self._loop.time(), 0) * 1000
                pause_ms = 0 if over else min(self._pause(deadline, received.next_due_at, is_notified), left_ms)
                if pause_ms:
                    self._engine.sweep_if_overdue(received.next_due_at)
                    if pause_ms >= IDLE_MS:
                        self._executor.idle()
                    # Not wait_for: before Python 3.12 it forgets a cancellation that comes together with the event.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause_ms / 1000):
                            await woken.wait()
            except BaseException:
                waiters.leave(queue, lane, wake, nothing_left=False)
                raise
            if received.messages or self._dismissed or clock.now() >= deadline or self._loop.time() >= over_at:
                nothing_left = not received.messages and received.next_due_at is None and not woken.is_set()
                waiters.leave(queue, lane, wake, nothing_left=nothing_left)
                return received
            waiters.discard(queue, lane, wake)

    async def _take_if_there(self, operation: Receive, is_wanted: Wanted | None) -> Received:
        """Receive messages; return none if the database is away, as a waiting caller has time until it is back."""
        try:
            return await self._take(operation, is_wanted)
        except StoreUnavailable:
            return Received([])
        except OutcomeUnknown:
            # What may have been taken comes back when its lease ends, unless it was taken for good.
            if operation.finish:
                raise
            return Received([])

    def _pause(self, deadline: int, next_due_at: int | None, is_notified: bool) -> int:
        pause_ms = pause(self._engine.clock.now(), deadline, next_due_at, is_notified)
        return min(pause_ms, self._engine.notifier.look_every_ms)

    async def watch(self, queue: str, quiet_ms: int) -> AsyncIterator[bool]:
        """Yield True whenever a message of a queue becomes ready, taking none; False after ``quiet_ms`` without news.

        A message that is ready at the start is news too. The iteration ends with `dismiss`.
        """
        waiters, clock = self._engine.waiters, self._engine.clock
        # A place of its own, as if it were a lane: it must not use up the wake-up of a receiver.
        self._watchers += 1
        place = f"\0{self._watchers}"
        # By the loop's time: the clock may be set back.
        has_news, head, quiet_until = True, None, self._loop.time() + quiet_ms / 1000
        while not self._dismissed:
            woken = asyncio.Event()
            wake = _Waiter(self._loop, woken)
            waiters.add(queue, place, wake)
            is_notified = self._engine.notifier.listen(waiters)
            try:
                due_at, now = await self._next_due(queue), clock.now()
                ready = due_at is not None and due_at <= now
                if ready and (has_news or due_at != head):
                    yield True
                    quiet_until = self._loop.time() + quiet_ms / 1000
                    await asyncio.sleep(_NEWS_EVERY_S)
                head = due_at if ready else None
                left_ms = max(round((quiet_until - self._loop.time()) * 1000), 0)
                until = now + (min(left_ms, _LOOK_AGAIN_MS) if ready else left_ms)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause(until, None if ready else due_at, is_notified) / 1000):
                        await woken.wait()
                has_news = woken.is_set()
            finally:
                waiters.discard(queue, place, wake)
            if self._loop.time() >= quiet_until:
                yield False
                quiet_until = self._loop.time() + quiet_ms / 1000

    async def _next_due(self, queue: str) -> int | None:
        try:
            return await self.run(NextDue(queue))
        except StoreUnavailable:
            return None

    def wake_on(self, place: str, event: asyncio.Event) -> None:
        """Set an event, from now on, whenever a commit of this process wakes a place: see `sqew.model.Commit`."""
        self._engine.listeners.setdefault(place, []).append(event.set)

    async def ack(self, queue: str | None, refs: Sequence[Ref]) -> list[Settled | SqewError]:
        """Finish messages: return, for each, that it is settled, or why not."""
        return await self.run(Ack(queue, refs))

    async def nack(self, queue: str | None, releases: Sequence[Release]) -> list[Settled | SqewError]:
        """Give messages back, to be retried or to be dead: return, for each, that it is settled, or why not."""
        return await self.run(Nack(queue, releases))

    async def extend(self, queue: str | None, extensions: Sequence[Extension]) -> list[Settled | SqewError]:
        """Set the end of leases: return, for each, that it is settled, or why not."""
        return await self.run(Extend(queue, extensions))

    async def in_steps(self, operation: Stepwise) -> int:
        """Execute a stepwise operation to its end, with others in between; return how many messages it changed."""
        return await self.run_flow(in_steps(operation, self._limits))

    async def purge(self, queue: str) -> int:
        """Delete every message that is in the queue now; return how many there were."""
        return await self.run_flow(flows.purge(queue, self._limits))

    async def compact(self) -> tuple[int, int]:
        """Sweep all that is due and give free space back to the disk, in small steps with others' operations between.

        Returns the size of the file in bytes before and after.
        """
        while (await self._run(Sweep())).count:
            pass
        return await self._executor.compact(lambda: self._run(Sweep()))

    async def stats(self, queue: str) -> QueueStats:
        """Return depths by lane and state, totals, rates and latencies. Counting is done outside the loop."""
        return await self.run_flow(flows.stats(queue, self.now, self._limits))

    async def inspect(self, operation: Operation[R]) -> R:
        """Run an operation that shows messages, after a sweep: what has expired must not be shown as ready."""
        return await self.run_flow(flows.inspect(operation, self.now, self._limits))

    async def survey(self) -> list[QueueTotals]:
        """Return depths and totals of all queues. Counting is done outside the loop."""
        return await self.run_flow(flows.survey(self.now))

    async def read(self, *operations: Operation[Any]) -> list[Any]:
        """Execute operations that only read and may take long, outside the loop: in a thread, or in the database."""
        for operation in operations:
            check_operation(operation, self._limits)
        return await self._executor.read(operations, self.now())

    async def scan(self, queue: str, after: int = 0, up_to: int | None = None) -> AsyncIterator[list[Message]]:
        """Yield every message of a queue in the order of their ids, in batches, with others' operations in between.

        ``after`` and ``up_to``: only messages with ids between these. Messages sent meanwhile are left out unless
        ``up_to`` includes them. Messages settled meanwhile may be missing.
        """
        if up_to is None:
            up_to = await self.run(LastId())
        step = StepSize(_SCAN_STEP)
        while True:
            page = await self.run(Scan(queue, after, up_to, step.limit))
            step.took(sum(len(message.body) for message in page.messages))
            yield page.messages
            if page.after is None:
                return
            after = page.after

    def when_deleted(self, observer: Callable[[str], None]) -> None:
        """Have ``observer`` called with a queue's name whenever `delete` has deleted it."""
        self._deletion_observers.append(observer)

    async def delete(self, queue: str) -> None:
        """Delete a queue and its messages."""
        if not self._closed:
            # Figures are stored by the queue's name: what is kept back now would be those of the next one of the name.
            await self._executor.flush()
        await self.run(DeleteQueue(queue))
        for observer in self._deletion_observers:
            observer(queue)

    async def shrink_log(self) -> None:
        """Move the store's log (the WAL) into the file, outside the loop, as far as its readers allow."""
        await self._executor.shrink_log()

    async def keep_up(self) -> None:
        """Run a round of upkeep, about once a second: sweep what has expired or come due, in steps.

        If no operations arrived since the last round, the store also uses the idle time for upkeep of its own.
        """
        idle = self._count == self._count_at_upkeep
        enough = perf_counter() + _UPKEEP_S
        # To look holds up no writer: only where there is something to do is it begun.
        is_due = await self._run(SweepDue()) or self._engine.has_counts
        while is_due and perf_counter() < enough:
            swept = await self._run(Sweep())
            if swept.next_at is None or swept.next_at > self.now():
                break
        if isinstance(self._engine, RemoteEngine):
            # Its transactions don't store the figures on their way.
            await self._executor.flush()
        self._count_at_upkeep = self._count
        if idle:
            self._executor.idle()

    def dismiss(self) -> None:
        """Stop all waiting: pending receives return what is ready, which may be nothing."""
        self._dismissed = True
        self._engine.waiters.wake_all()

    async def close(self) -> None:
        """Finish the operations that were begun, then close the store."""
        if not self._closed:
            # What is answered now may bring something in: a receive that nobody waits for any more is given back.
            while self._waiting:
                self._commit()
                await self._executor.settle()
            await self._executor.settle()
            self._closed = True
            await self._executor.close()


class _Promise(Awaited, Generic[R]):
    """A future's callback: it resolves the future with an operation's result."""

    __slots__ = ("_is_wanted", "future")

    def __init__(self, future: asyncio.Future[R], is_wanted: Wanted | None) -> None:
        self.future, self._is_wanted = future, is_wanted

    def __call__(self, result: Any) -> None:
        if not self.future.cancelled():
            _settle(self.future, result)

    def is_wanted(self) -> bool:
        return not self.future.cancelled() and (self._is_wanted is None or self._is_wanted())

    def drop(self) -> None:
        if not self.future.cancelled():
            self.future.set_exception(Unwanted())


class _ReceivePromise(_Promise[Received]):
    """A future's callback for a receive: it gives the messages back if the future was cancelled."""

    __slots__ = ("_broker", "_operation")

    def __init__(
        self, future: asyncio.Future[Received], is_wanted: Wanted | None, broker: Broker, operation: Receive
    ) -> None:
        super().__init__(future, is_wanted)
        self._broker, self._operation = broker, operation

    def __call__(self, result: Any) -> None:
        if self.future.cancelled() and isinstance(result, Received):
            self._broker.give_back(self._operation, result)
        else:
            super().__call__(result)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


class _Waiter:
    """A waiter's callback: it sets an event of the loop, from any thread."""

    __slots__ = ("_loop", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
        self._loop, self._woken = loop, woken

    def __call__(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)
