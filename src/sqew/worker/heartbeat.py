"""The heartbeat of a worker: it extends the leases of messages in hand, however long the work takes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from sqew.errors import SqewError, TooLarge
from sqew.model import Message
from sqew.rules.values import reason_of

log = logging.getLogger("sqew.worker")

HEARTBEATS_PER_LEASE = 3
"""Heartbeats per lease: it is extended when a third of it is over, so that two may fail before it is lost."""
LEASE_OF_NONE_MS = 30_000
"""Milliseconds that a worker leases messages of a queue whose visibility is 0: it could hold none of them."""
ATTENTIVE_WAIT_MS = 1_000
"""Milliseconds that a worker waits for a message before it checks whether to stop."""
_SHORTEST_PAUSE_S = 0.01
_NOTHING_KNOWN_MS = 86_400_000


class Extending(Protocol):
    """The part of a `sqew.Queue` or a `sqew.Client` that a heartbeat needs."""

    def extend_many(self, messages: Sequence[Message], seconds: float, /) -> list[SqewError | None]: ...


def pause_of(lease_ms: int) -> float:
    """Return the seconds between two heartbeats for leases of that length."""
    return max(lease_ms / 1000 / HEARTBEATS_PER_LEASE, _SHORTEST_PAUSE_S)


def said(error: Exception) -> str:
    """Format an error for a line of the log: Sqew's own are sentences, others need their class's name as well."""
    return str(error) if isinstance(error, SqewError) else reason_of(error)


class Heart:
    """The heartbeat for a worker's threads: it extends each lease by the time it was claimed for."""

    def __init__(self, queue: Extending, name: str, threads: int) -> None:
        self._queue, self._name = queue, name
        self._lock = threading.Lock()
        self._in_hand: dict[int, tuple[Message, int]] = {}
        self._threads = self._together = threads
        self._shortest_ms = _NOTHING_KNOWN_MS
        self._look_up = threading.Event()

    def take(self, message: Message, lease_ms: int) -> None:
        """Extend the message's lease from now on."""
        with self._lock:
            self._in_hand[message.id] = message, lease_ms
            is_shorter = lease_ms < self._shortest_ms
            if is_shorter:
                self._shortest_ms = lease_ms
        if is_shorter:
            # Only then: waking a thread for every message would cost more than most messages.
            self._look_up.set()

    def let_go(self, message: Message) -> None:
        """Stop extending the lease of a message that is settled."""
        with self._lock:
            held, _ = self._in_hand.get(message.id, (None, 0))
            # Once its lease was lost another thread may hold it, by a delivery of its own.
            if held is message:
                del self._in_hand[message.id]

    def in_hand(self) -> list[Message]:
        """Return the messages that are being worked on."""
        with self._lock:
            return [message for message, _ in self._in_hand.values()]

    def leave(self) -> None:
        """Note that a thread has ended. After the last one there is nothing to extend."""
        with self._lock:
            self._threads -= 1
        self._look_up.set()

    def beat(self) -> None:
        """Extend the leases until the last of the threads has ended, however long after a stop."""
        while self._threads:
            if self._look_up.wait(pause_of(self._shortest_ms)):
                self._look_up.clear()
            else:
                self._extend()

    def _extend(self) -> None:
        with self._lock:
            held = list(self._in_hand.values())
            if held:
                self._shortest_ms = min(lease_ms for _, lease_ms in held)
        for length in {lease_ms for _, lease_ms in held}:
            self._extend_all([message for message, lease_ms in held if lease_ms == length], length / 1000)

    def _extend_all(self, messages: list[Message], seconds: float) -> None:
        while messages:
            together = messages[: self._together]
            try:
                self._queue.extend_many(together, seconds)
            except TooLarge as error:
                if len(together) > 1:
                    # The settings, here or on the server, allow smaller batches than there are functions at work.
                    self._together = len(together) // 2
                    continue
                self._report(error)
            except Exception as error:  # noqa: BLE001 (whatever it is, the next heartbeat may succeed)
                self._report(error)
            messages = messages[len(together) :]

    def _report(self, error: Exception) -> None:
        log.warning("The leases of worker %s could not be extended: %s", self._name, said(error))
