"""Waiting for messages without polling.

A receiver that finds nothing registers as a waiter and is woken by the commit that makes a message ready. Within a
process that is a call; between processes it is a notification, which the store's `Notifier` carries.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

IDLE_MS = 1_000
"""Milliseconds: a receiver that is about to wait for this long uses the time for upkeep."""

FALLBACK_POLL_MS = 25
"""Milliseconds between the looks of a waiter that no process is sure to wake: if the folder can't hold sockets, say."""

Wake = Callable[[], object]


def pause(now: int, deadline: int, next_due_at: int | None, is_notified: bool) -> int:
    """Return how many milliseconds a waiter sleeps unless it is woken: until a message is due, or its time is up."""
    until = deadline if next_due_at is None else min(deadline, max(next_due_at, now + 1))
    sleep_ms = max(until - now, 0)
    return sleep_ms if is_notified else min(sleep_ms, FALLBACK_POLL_MS)


class Waiters:
    """The waiters by queue, and by lane within it (None: any lane).

    Waking is a chain: a commit wakes the first waiter of each lane of a queue; a waiter that finds a message wakes the
    next, for there may be more; a waiter that finds none ends the chain. So a commit costs a look for each message that
    it made ready, and another for each lane that has waiters, however many are waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By lane as well, for who waits for one lane is no help to those who wait for another.
        self._waiting: dict[str, dict[str | None, deque[Wake]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, queue: str, lane: str | None, wake: Wake) -> None:
        """Have ``wake`` called, once, when a message of the queue (and lane) may have become ready."""
        with self._lock:
            self._waiting.setdefault(queue, {}).setdefault(lane, deque()).append(wake)

    def leave(self, queue: str, lane: str | None, wake: Wake, *, nothing_left: bool) -> None:
        """Stop waiting for good. The next is woken, unless there is ``nothing_left`` to take now or to sleep for.

        A waiter that took a message can't know that nothing is left; nor can one that was woken and has not looked
        since. And a waiter that knows when a message will be due must pass that on: no other will be woken for it.
        """
        if not self.discard(queue, lane, wake) or not nothing_left:
            self.wake((queue,))

    def discard(self, queue: str, lane: str | None, wake: Wake) -> bool:
        """Stop waiting, to look again. Return False if it has been woken already."""
        with self._lock:
            lanes = self._waiting.get(queue, {})
            waiting = lanes.get(lane, ())
            if wake not in waiting:
                return False
            lanes[lane].remove(wake)
            self._drop_empty(queue)
            return True

    def wake(self, queues: Iterable[str], /) -> None:
        """Wake the first waiter of each lane of each queue."""
        if not self._waiting:
            return
        for queue in queues:
            with self._lock:
                firsts = [waiting.popleft() for waiting in self._waiting.get(queue, {}).values()]
                self._drop_empty(queue)
            for first in firsts:
                first()

    def _drop_empty(self, queue: str) -> None:
        lanes = {lane: waiting for lane, waiting in self._waiting.pop(queue, {}).items() if waiting}
        if lanes:
            self._waiting[queue] = lanes

    def wake_all(self) -> None:
        """Wake all waiters: any queue may have changed, or it is time to stop."""
        with self._lock:
            everybody = [wake for lanes in self._waiting.values() for waiting in lanes.values() for wake in waiting]
            self._waiting.clear()
        for wake in everybody:
            wake()


class Notifier(Protocol):
    """Notifications between processes that use one store."""

    @property
    def look_every_ms(self) -> int:
        """The milliseconds between a waiter's own looks, because a notification may be lost on its way."""

    def notify(self, queues: Iterable[str], /) -> None:
        """Notify other processes that messages of these queues may be ready."""

    def listen(self, waiters: Waiters, /) -> bool:
        """Have the waiters woken by notifications from other processes; return True if these are sure to arrive."""

    def close(self) -> None:
        """Stop listening."""
