"""Workers: threads that claim messages, hand them to a function and settle them as its result says."""

from __future__ import annotations

import inspect
import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol, Self

from msgspec import structs

from sqew.errors import BadValue, Forbidden, Invalid, NotFound, SqewError, StaleLease, StoreClosed, Unauthorized
from sqew.model import Message, Received
from sqew.operations import Receive
from sqew.rules.names import check_new_queue_name, check_queue_name
from sqew.rules.values import check_int, check_text, reason_of, seconds_as_ms, shown
from sqew.worker.heartbeat import LEASE_OF_NONE_MS, Heart, said
from sqew.worker.verdicts import Ack, Dead, Retry, decided

log = logging.getLogger("sqew.worker")

PAUSE_AFTER_ERROR_SECONDS = 1.0
MOST_THREADS = 1_000
_FOREVER_MS = 86_400_000


class Interrupted(KeyboardInterrupt, SystemExit):
    """The second Ctrl-C of a worker. If not caught, it ends the program as any Ctrl-C, but without a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.code = 130


Handler = Callable[[Message], Any]


class Queues(Protocol):
    """The part of a `sqew.Queue` or a `sqew.Client` that a worker needs."""

    def receive(self, operation: Receive, wait_ms: int = 0, stopping: Callable[[], bool] | None = None) -> Received: ...

    def ack(self, message: Message, /) -> None: ...

    def nack(self, message: Message, /, *, delay_seconds: float | None = None, reason: str = "") -> None: ...

    def dead_letter(self, message: Message, /, *, reason: str = "") -> None: ...

    def extend_many(self, messages: Sequence[Message], seconds: float, /) -> list[SqewError | None]: ...

    def wake_waiters(self) -> None: ...


def is_lasting(error: Exception) -> bool:
    """Return True if repeating the claim can't succeed either: the worker was made with wrong arguments."""
    return isinstance(error, Invalid | NotFound | Unauthorized | Forbidden | StoreClosed)


def claim_of(
    queue: str,
    handler: object,
    *,
    lane: str | None,
    concurrency: int,
    most: int,
    lease_seconds: float | None,
    name: str,
) -> Receive:
    """Return the operation by which a worker claims; raise `BadValue` if its arguments are wrong."""
    # (No worker is meant for the queue that has no name: something that was to name one is empty.)
    (check_queue_name if queue else check_new_queue_name)(queue)
    check_int("concurrency", concurrency, 1, most)
    check_text("name", name)
    if lane is not None:
        check_text("lane", lane)
    if not callable(handler):
        raise BadValue(f"{shown(handler)} can't work off a queue: give a function that takes a message.")
    # Without any lease the heartbeat would beat without a pause.
    lease_ms = None if lease_seconds is None else seconds_as_ms("lease_seconds", lease_seconds, at_least=1)
    return Receive(queue, 1, lane, lease_ms, name)


def lasting(claim: Receive, received: Received) -> tuple[Receive, int]:
    """Return the next claim, and the milliseconds for which the messages are leased: a lease that can be held."""
    if received.lease_ms or not received.messages:
        return claim, received.lease_ms
    log.warning(
        "Queue '%s' has a visibility of 0, so nothing could be held: worker %s leases its messages for %d s",
        claim.queue,
        claim.by,
        LEASE_OF_NONE_MS // 1000,
    )
    return structs.replace(claim, lease_ms=LEASE_OF_NONE_MS), LEASE_OF_NONE_MS


class Worker:
    """A function that works off a queue.

    The function gets a `sqew.Message`. It returns `Ack` (or None), `Retry` or `Dead`; if it raises, the message is
    retried with the queue's backoff. While it runs, a heartbeat extends the lease, however long it takes.
    """

    error: Exception | None = None
    """The error that ended the worker, if any: its queue does not exist, or has no such lane."""

    def __init__(
        self,
        queue: Queues,
        name_of_queue: str,
        handler: Handler,
        *,
        lane: str | None,
        concurrency: int,
        lease_seconds: float | None,
        name: str,
    ) -> None:
        self._claim = claim_of(
            name_of_queue,
            handler,
            lane=lane,
            concurrency=concurrency,
            most=MOST_THREADS,
            lease_seconds=lease_seconds,
            name=name,
        )
        if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
            raise BadValue(
                f"{shown(handler)} can't work in a thread: it is a coroutine function, which only the worker of an "
                "AsyncClient awaits. Give a function that is no coroutine, such as one that calls asyncio.run."
            )
        self._queue, self._name_of_queue, self._handler = queue, name_of_queue, handler
        self._concurrency, self._name = concurrency, name
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._hearts: list[Heart] = []

    def __call__(self, message: Message) -> Any:
        """Call the function itself, so that it can be used (and tested) without the worker."""
        return self._handler(message)

    def run(self, *, until_empty: bool = False) -> None:
        """Work in this process until SIGINT or SIGTERM (or, with ``until_empty``, until no message is ready).

        Messages in hand when the signal comes are finished first; the log names them. A second signal interrupts that:
        on Ctrl-C `Interrupted` is raised, which ends a program without a traceback.

        Raises errors of the worker itself, such as `sqew.QueueNotFound`: on its first claim, or, with ``until_empty``,
        at any time.
        """
        with _stop_on_signals(self) as signals:
            try:
                self._set_out(until_empty, patient=False)
                if signals.came:
                    # Perhaps before there was anything to stop.
                    self._stopping.set()
                for thread in self._threads:
                    while thread.is_alive():
                        # With a timeout: a signal that another thread got does not interrupt a wait without one.
                        thread.join(0.5)
            except BaseException as error:
                # The second signal: whoever sent it won't wait for the work, neither here nor when the queue is closed.
                self._stopping.set()
                self._threads = []
                if isinstance(error, KeyboardInterrupt):
                    raise Interrupted from None
                raise
        if self.error is not None:
            raise self.error

    def start(self, *, until_empty: bool = False) -> None:
        """Work in threads of their own; return at once. Does nothing if the worker is running already.

        A queue that does not exist yet is waited for, and the log says so; with ``until_empty`` it ends the worker, and
        ``error`` says why.
        """
        self._set_out(until_empty, patient=True)

    def _set_out(self, until_empty: bool, *, patient: bool) -> None:
        with self._lock:
            finishing = [thread for thread in self._threads if thread.is_alive()]
            if finishing and not self._stopping.is_set():
                return
            # A new event: who is still finishing after a stop that ran out of time must not go on to claim.
            self._stopping, self.error = threading.Event(), None
            heart = Heart(self._queue, self._name, self._concurrency)
            threads = [
                threading.Thread(
                    target=self._live,
                    args=(until_empty, patient, self._stopping, heart),
                    name=f"sqew-worker-{n}",
                    daemon=True,
                )
                for n in range(self._concurrency)
            ]
            # Before they start: a signal may ask at once what they have in hand.
            self._hearts = [*(self._hearts if finishing else []), heart]
            for thread in threads:
                thread.start()
            self._threads = finishing + threads
        threading.Thread(target=heart.beat, name="sqew-heartbeat", daemon=True).start()

    def stop(self, timeout: float | None = None) -> None:
        """Claim no more, and wait for the messages in hand to be finished, ``timeout`` seconds at most.

        Messages not finished by then are worked on all the same, and keep their leases. The worker's own function may
        call this too: then it does not wait.
        """
        self._stopping.set()
        self._queue.wake_waiters()
        # Two functions that stop their worker would wait for each other for ever.
        if threading.current_thread() not in self._threads:
            self._join(timeout)

    def _join(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if deadline is None else max(deadline - time.monotonic(), 0))

    def in_hand(self) -> list[Message]:
        """Return the messages that are being worked on."""
        return [message for heart in self._hearts for message in heart.in_hand()]

    def _live(self, until_empty: bool, patient: bool, stopping: threading.Event, heart: Heart) -> None:
        try:
            self._loop(until_empty, patient, stopping, heart)
        finally:
            heart.leave()

    def _loop(self, until_empty: bool, patient: bool, stopping: threading.Event, heart: Heart) -> None:
        # The first claim does not wait: a queue that is deleted after it has not been wrong from the beginning.
        may_end = until_empty or not patient
        while not stopping.is_set():
            try:
                received = self._queue.receive(self._claim, 0 if may_end else _FOREVER_MS, stopping.is_set)
            except Exception as error:  # noqa: BLE001 (whatever it is, the next claim may succeed)
                if stopping.is_set():
                    return
                log.error("Worker %s can't receive from '%s': %s", self._name, self._name_of_queue, said(error))
                if may_end and is_lasting(error):
                    self.error = error
                    stopping.set()
                    self._queue.wake_waiters()
                    return
                stopping.wait(PAUSE_AFTER_ERROR_SECONDS)
                continue
            if not received.messages and until_empty:
                return
            may_end = until_empty
            self._claim, lease_ms = lasting(self._claim, received)
            for message in received.messages:
                self._handle(message, heart, lease_ms)

    def _handle(self, message: Message, heart: Heart, lease_ms: int) -> None:
        heart.take(message, lease_ms)
        try:
            self._settle(message, self._verdict(message))
        except StaleLease:
            log.warning("Message %d of '%s' was finished after its lease was lost", message.id, message.queue)
        except Exception as error:  # noqa: BLE001 (whatever it is, the other messages are to be worked on)
            log.error("Message %d of '%s' could not be settled: %s", message.id, message.queue, said(error))
        finally:
            heart.let_go(message)

    def _verdict(self, message: Message) -> Any:
        try:
            return self._handler(message)
        except BaseException as error:
            # Not only an Exception: sys.exit() too would end the thread, and the worker with it.
            log.exception("Message %d of '%s' failed (attempt %d)", message.id, message.queue, message.attempts)
            return Retry(reason=reason_of(error))

    def _settle(self, message: Message, verdict: Any) -> None:
        try:
            self._carry_out(message, verdict)
        except BadValue as error:
            log.error("Message %d of '%s' failed: %s", message.id, message.queue, error)
            self._queue.nack(message, reason=reason_of(str(error)))

    def _carry_out(self, message: Message, verdict: Any) -> None:
        match decided(verdict):
            case Ack():
                self._queue.ack(message)
            case Retry(after=after, reason=reason):
                self._queue.nack(message, delay_seconds=after, reason=reason_of(reason))
            case Dead(reason=reason):
                self._queue.dead_letter(message, reason=reason_of(reason))


def report_what_is_waited_for(name: str, messages: Sequence[Message]) -> None:
    """Log which messages a worker that was told to stop still has to finish."""
    if messages:
        first, more = messages[0], len(messages) - 1
        log.warning(
            "Worker %s stops when it has finished message %d of '%s'%s. A second signal (Ctrl-C) leaves that undone",
            name,
            first.id,
            first.queue,
            f" and {more} more" if more else "",
        )


class _stop_on_signals:  # noqa: N801 (reads as what it does)
    """A block in which SIGINT and SIGTERM stop the worker gracefully; a second one acts as it would have before."""

    came = False
    """True once a signal has come."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._stop)
        return self

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._restore()
        self.came = True
        self._worker._stopping.set()
        # Not from the handler itself: it may have interrupted the thread that holds the waiters' lock, or the log's.
        threading.Thread(target=self._report_and_wake, daemon=True).start()

    def _report_and_wake(self) -> None:
        report_what_is_waited_for(self._worker._name, self._worker.in_hand())
        self._worker._queue.wake_waiters()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __exit__(self, *_: object) -> None:
        self._restore()
