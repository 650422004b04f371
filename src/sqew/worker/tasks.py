"""Workers on an event loop: tasks that claim messages, hand them to a coroutine function and settle them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, Self

from sqew.errors import BadValue, SqewError, StaleLease
from sqew.model import Message, Received
from sqew.operations import Receive
from sqew.rules.values import reason_of
from sqew.worker.heartbeat import ATTENTIVE_WAIT_MS, pause_of, said
from sqew.worker.threads import (
    PAUSE_AFTER_ERROR_SECONDS,
    Interrupted,
    claim_of,
    is_lasting,
    lasting,
    report_what_is_waited_for,
)
from sqew.worker.verdicts import Ack, Dead, Retry, decided

log = logging.getLogger("sqew.worker")

MOST_TASKS = 10_000

AsyncHandler = Callable[[Message], Awaitable[Any]]


class AsyncQueues(Protocol):
    """The part of a `sqew.AsyncClient` that a worker needs."""

    async def receive(self, operation: Receive, wait_ms: int = 0) -> Received: ...

    async def ack(self, message: Message, /) -> None: ...

    async def nack(self, message: Message, /, *, delay_seconds: float | None = None, reason: str = "") -> None: ...

    async def dead_letter(self, message: Message, /, *, reason: str = "") -> None: ...

    async def extend_many(self, messages: Sequence[Message], seconds: float, /) -> list[SqewError | None]: ...


class AsyncWorker:
    """A coroutine function that works off a queue, ``concurrency`` messages at a time.

    It returns `sqew.Ack` (or None), `sqew.Retry` or `sqew.Dead`; if it raises, the message is retried with the
    queue's backoff. While it runs, a heartbeat extends the lease, however long it takes.
    """

    error: Exception | None = None
    """The error that ended the worker, if any: its queue does not exist, or has no such lane."""

    def __init__(
        self,
        queues: AsyncQueues,
        queue: str,
        handler: AsyncHandler,
        *,
        lane: str | None,
        concurrency: int,
        lease_seconds: float | None,
        name: str,
    ) -> None:
        self._claim = claim_of(
            queue,
            handler,
            lane=lane,
            concurrency=concurrency,
            most=MOST_TASKS,
            lease_seconds=lease_seconds,
            name=name,
        )
        self._queues, self._handler = queues, handler
        self._concurrency, self._name = concurrency, name
        self._in_hand: dict[int, Message] = {}
        self._stopping = asyncio.Event()
        # One task waits for all of them: a thousand would ask the server a thousand times a second for nothing.
        self._waiting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, message: Message) -> Awaitable[Any]:
        """Call the function itself, so that it can be used (and tested) without the worker."""
        return self._handler(message)

    async def run(self, *, until_empty: bool = False) -> None:
        """Work until SIGINT or SIGTERM, or `stop` (or, with ``until_empty``, until no message is ready).

        Messages in hand when the signal comes are finished first; the log names them. A second signal interrupts that:
        on Ctrl-C `sqew.worker.threads.Interrupted` is raised, which ends a program without a traceback.

        Raises errors of the worker itself, such as `sqew.QueueNotFound`: on its first claim, or, with ``until_empty``,
        at any time.
        """
        with _stop_on_signals(self._stop_on_signal) as signals:
            self._set_out(until_empty, patient=False)
            try:
                await asyncio.gather(*self._tasks)
            except BaseException:
                tasks = list(self._tasks)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                if signals.interrupted:
                    raise Interrupted from None
                raise
        if self.error is not None:
            raise self.error

    def start(self, *, until_empty: bool = False) -> None:
        """Work in tasks of their own; return at once. Does nothing if the worker is running already.

        A queue that does not exist yet is waited for, and the log says so; with ``until_empty`` it ends the worker, and
        ``error`` says why.
        """
        self._set_out(until_empty, patient=True)

    def _set_out(self, until_empty: bool, *, patient: bool) -> None:
        if self._tasks and not self._stopping.is_set():
            return
        self._stopping, self.error = asyncio.Event(), None
        for _ in range(self._concurrency):
            task = asyncio.create_task(self._loop(until_empty, patient, self._stopping))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Claim no more, and wait for the messages in hand to be finished. The worker's own function may call this too.

        A pending claim is waited for, a second at most: messages that it returns are in hand, too.
        """
        self._claim_no_more()
        others = self._tasks - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)

    def _stop_on_signal(self) -> None:
        self._claim_no_more()
        report_what_is_waited_for(self._name, list(self._in_hand.values()))

    def _claim_no_more(self) -> None:
        # The event of the tasks that are at work now: every start has one of its own.
        self._stopping.set()

    async def _loop(self, until_empty: bool, patient: bool, stopping: asyncio.Event) -> None:
        may_end = until_empty or not patient
        while not stopping.is_set():
            try:
                received = await self._queues.receive(self._claim)
                may_end = until_empty
                if not received.messages and not until_empty:
                    received = await self._next(stopping)
            except Exception as error:  # noqa: BLE001 (whatever it is, the next claim may succeed)
                if stopping.is_set():
                    return
                log.error("Worker %s can't receive from '%s': %s", self._name, self._claim.queue, said(error))
                if may_end and is_lasting(error):
                    self.error = error
                    stopping.set()
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), PAUSE_AFTER_ERROR_SECONDS)
                continue
            if not received.messages and until_empty:
                return
            self._claim, lease_ms = lasting(self._claim, received)
            for message in received.messages:
                await self._handle(message, lease_ms)

    async def _next(self, stopping: asyncio.Event) -> Received:
        """Receive the next message, or none if there was none for a while."""
        async with self._waiting:
            if stopping.is_set():
                return Received([])
            # Never cancelled in order to stop: the answer may be on its way, and what it brings would be lost until
            # its lease ends, an attempt the poorer.
            return await self._queues.receive(self._claim, ATTENTIVE_WAIT_MS)

    async def _handle(self, message: Message, lease_ms: int) -> None:
        heartbeat = asyncio.create_task(self._extend_lease(message, lease_ms))
        self._in_hand[message.id] = message
        try:
            await self._settle(message, await self._verdict(message))
        except StaleLease:
            log.warning("Message %d of '%s' was finished after its lease was lost", message.id, message.queue)
        except Exception as error:  # noqa: BLE001 (whatever it is, the other messages are to be worked on)
            log.error("Message %d of '%s' could not be settled: %s", message.id, message.queue, said(error))
        finally:
            heartbeat.cancel()
            # Once its lease was lost another task may hold it, by a delivery of its own.
            if self._in_hand.get(message.id) is message:
                del self._in_hand[message.id]

    async def _verdict(self, message: Message) -> Any:
        try:
            return await self._handler(message)
        except asyncio.CancelledError as error:
            if not _is_being_cancelled():
                # Something that the function waited for was cancelled, not the worker.
                return self._failure(message, error)
            # Whoever cancels the worker does not want it finished; another worker may have it at once.
            with contextlib.suppress(SqewError):
                await self._queues.nack(message, delay_seconds=0, reason="its worker was cancelled")
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever it is, it is logged and tried again)
            return self._failure(message, error)

    def _failure(self, message: Message, error: BaseException) -> Retry:
        log.error("Message %d of '%s' failed (attempt %d)", message.id, message.queue, message.attempts, exc_info=error)
        return Retry(reason=reason_of(error))

    async def _settle(self, message: Message, verdict: Any) -> None:
        try:
            decision = decided(verdict)
        except BadValue as error:
            log.error("Message %d of '%s' failed: %s", message.id, message.queue, error)
            decision = Retry(reason=str(error))
        match decision:
            case Ack():
                await self._queues.ack(message)
            case Retry(after=after, reason=reason):
                await self._queues.nack(message, delay_seconds=after, reason=reason_of(reason))
            case Dead(reason=reason):
                await self._queues.dead_letter(message, reason=reason_of(reason))

    async def _extend_lease(self, message: Message, lease_ms: int) -> None:
        while True:
            await asyncio.sleep(pause_of(lease_ms))
            try:
                await self._queues.extend_many([message], lease_ms / 1000)
            except Exception as error:  # noqa: BLE001 (whatever it is, the next heartbeat may succeed)
                log.warning("The lease of message %d could not be extended: %s", message.id, said(error))


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class _stop_on_signals:  # noqa: N801 (reads as what it does)
    """A block in which SIGINT and SIGTERM stop gracefully. A second SIGINT cancels the task; SIGTERM then acts as
    before."""

    interrupted = False

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Only the main thread may say what signals do.
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            for number in (signal.SIGINT, signal.SIGTERM):
                earlier = signal.getsignal(number)
                self._loop.add_signal_handler(number, self._stop)
                self._before[number] = earlier
        return self

    def _stop(self) -> None:
        self._restore(signal.SIGTERM)
        if signal.SIGINT in self._before:
            self._loop.add_signal_handler(signal.SIGINT, self._interrupt)
        self._act()

    def _interrupt(self) -> None:
        self.interrupted = True
        if self._task is not None:
            self._task.cancel()

    def _restore(self, number: int) -> None:
        if number in self._before:
            self._loop.remove_signal_handler(number)
            signal.signal(number, self._before.pop(number))

    def __exit__(self, *_: object) -> None:
        self._restore(signal.SIGINT)
        self._restore(signal.SIGTERM)
