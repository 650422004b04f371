"""Workers: threads that claim messages, hand them to a function and settle them by what it returns."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sqew.errors import SqewError, StaleLease
from sqew.model import Message
from sqew.operations import Receive
from sqew.rules import LONGEST_NAME, check_int

if TYPE_CHECKING:
    from sqew.embedded import Queue

log = logging.getLogger("sqew.worker")

HEARTBEATS_PER_LEASE = 3
"""A lease is extended when a third of it is over, so that two heartbeats may fail before it is lost."""
PAUSE_AFTER_ERROR_SECONDS = 1.0
_FOREVER_MS = 86_400_000


class Ack(Struct, frozen=True):
    """The work is done. Returning None says the same."""


class Retry(Struct, frozen=True):
    """The work failed: try again after so many seconds (None: the queue's backoff)."""

    after: float | None = None
    reason: str = ""


class Dead(Struct, frozen=True):
    """The work can never succeed: no more attempts."""

    reason: str


Handler = Callable[[Message], Any]


class Worker:
    """A function that works off a queue.

    The function gets a `sqew.Message`. It returns `Ack` (or None), `Retry` or `Dead`; when it raises, the message is
    tried again with the queue's backoff. While it runs, a heartbeat extends the lease, however long it takes.
    """

    def __init__(
        self,
        queue: Queue,
        name_of_queue: str,
        handler: Handler,
        *,
        lane: str | None,
        concurrency: int,
        lease_seconds: float,
        name: str,
    ) -> None:
        check_int("concurrency", concurrency, 1, 1_000)
        self._queue, self._name_of_queue, self._handler = queue, name_of_queue, handler
        self._concurrency, self._name = concurrency, name
        self._lease_seconds = lease_seconds
        self._claim = Receive(name_of_queue, 1, lane, round(lease_seconds * 1000), name)
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._in_hand: dict[int, Message] = {}

    def __call__(self, message: Message) -> Any:
        """The function itself, to be called (and tested) as what it is."""
        return self._handler(message)

    def run(self, *, until_empty: bool = False) -> None:
        """Work in this process until SIGINT or SIGTERM (or, ``until_empty``, until there is nothing ready).

        What is being worked on when the signal comes is finished first. A second signal interrupts it.
        """
        with _stop_on_signals(self):
            self.start(until_empty=until_empty)
            try:
                for thread in self._threads:
                    while thread.is_alive():
                        # With a timeout, so that signals get through.
                        thread.join(0.5)
            finally:
                self.stop()

    def start(self, *, until_empty: bool = False) -> None:
        """Work in threads of their own; returns at once."""
        if self._threads:
            return
        self._stopping.clear()
        self._threads = [
            threading.Thread(target=self._loop, args=(until_empty,), name=f"sqew-worker-{n}", daemon=True)
            for n in range(self._concurrency)
        ]
        for thread in self._threads:
            thread.start()
        threading.Thread(target=self._heartbeat, name="sqew-heartbeat", daemon=True).start()

    def stop(self, timeout: float | None = None) -> None:
        """Finish what is in hand, and claim no more."""
        self._stopping.set()
        self._queue.wake_waiters()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout)
        self._threads = []

    def _loop(self, until_empty: bool) -> None:
        wait_ms = 0 if until_empty else _FOREVER_MS
        while not self._stopping.is_set():
            try:
                received = self._queue.receive(self._claim, wait_ms, self._stopping.is_set)
            except SqewError as error:
                if self._stopping.is_set():
                    return
                log.error("Worker %s can't receive from '%s': %s", self._name, self._name_of_queue, error)
                self._stopping.wait(PAUSE_AFTER_ERROR_SECONDS)
                continue
            if not received.messages and until_empty:
                return
            for message in received.messages:
                self._handle(message)

    def _handle(self, message: Message) -> None:
        with self._lock:
            self._in_hand[message.id] = message
        try:
            try:
                result = self._handler(message)
            except Exception as error:
                log.exception("Message %d of '%s' failed (attempt %d)", message.id, message.queue, message.attempts)
                result = Retry(reason=f"{type(error).__name__}: {error}")
            self._settle(message, result)
        except StaleLease:
            log.warning("Message %d of '%s' was finished after its lease was lost", message.id, message.queue)
        except SqewError as error:
            log.error("Message %d of '%s' could not be settled: %s", message.id, message.queue, error)
        finally:
            with self._lock:
                self._in_hand.pop(message.id, None)

    def _settle(self, message: Message, result: Any) -> None:
        match result:
            case None | Ack():
                self._queue.ack(message)
            case Retry(after=after, reason=reason):
                self._queue.nack(message, delay_seconds=after, reason=reason[:LONGEST_NAME])
            case Dead(reason=reason):
                self._queue.dead_letter(message, reason=reason[:LONGEST_NAME])
            case _:
                log.error(
                    "The worker of '%s' returned %r. Return None, Ack(), Retry(after=…) or Dead(reason).",
                    message.queue,
                    result,
                )
                self._queue.nack(message, reason="the worker returned something else than a verdict")

    def _heartbeat(self) -> None:
        """Extend the leases of what is in hand until the last thread is done."""
        while any(thread.is_alive() for thread in self._threads):
            if self._stopping.wait(self._lease_seconds / HEARTBEATS_PER_LEASE):
                # Stopping: go on beating for what is being finished, without spinning.
                threading.Event().wait(min(self._lease_seconds / HEARTBEATS_PER_LEASE, 0.2))
            with self._lock:
                messages = list(self._in_hand.values())
            if messages:
                try:
                    self._queue.extend_many(messages, self._lease_seconds)
                except SqewError as error:
                    log.warning("The leases of worker %s could not be extended: %s", self._name, error)


class _stop_on_signals:  # noqa: N801 (reads as what it does)
    """SIGINT and SIGTERM stop the worker gracefully; a second one acts as it would have before."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._stop)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._restore()
        self._worker._stopping.set()
        # Not from the handler itself: it may have interrupted the thread that holds the waiters' lock.
        threading.Thread(target=self._worker._queue.wake_waiters, daemon=True).start()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __exit__(self, *_: object) -> None:
        self._restore()
