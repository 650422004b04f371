"""Time in the lab: as it passes, or virtual, in which a whole run is deterministic.

Generators and workers are written once, as plain code that sleeps. In real time they are threads and processes. In
virtual time each is a greenlet: a sleeper is put on a heap, and the clock moves to the next one to wake. Only one runs
at a time and nothing else moves the clock, so the same seed gives the same run, event for event.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

from sqew.clock import Clock

EPOCH_MS = 4_102_444_800_000
"""Start of virtual runs: in 2100, so that every message that was put into a queue before is due by then."""


class Time(Protocol):
    """Time as the lab's actors see it. Microseconds count from the beginning of the run."""

    is_virtual: bool
    jumping: dict[str, Clock]
    """The clocks of processes whose time of day jumps: see `plainbench.faults.clock`."""

    def now_us(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...

    def sleep_until_us(self, at_us: int) -> None:
        """Sleep until then; return at once if that is past."""

    def doze(self, seconds: float, topics: Sequence[str]) -> None:
        """Sleep, and in virtual time no longer than until there is a message in one of the topics."""

    def rouse(self, topic: str, most: int) -> None:
        """Wake up to ``most`` of those that doze until there is a message in this topic."""

    def clock(self) -> Clock:
        """Return a clock for an engine, which shows this time as the time of day."""


class RealTime:
    """Time as it passes. Until the run has begun, it stands a little before the beginning."""

    is_virtual = False

    def __init__(self) -> None:
        self.jumping: dict[str, Clock] = {}
        self.began_ns: int | None = None
        """Start of the run by the monotonic clock, which all processes share."""

    def now_us(self) -> int:
        return -1 if self.began_ns is None else (time.monotonic_ns() - self.began_ns) // 1000

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    def sleep_until_us(self, at_us: int) -> None:
        self.sleep((at_us - self.now_us()) / 1e6)

    def doze(self, seconds: float, topics: Sequence[str]) -> None:
        self.sleep(seconds)

    def rouse(self, topic: str, most: int) -> None:
        """Do nothing: a queue wakes its waiters itself."""

    def clock(self) -> Clock:
        return Clock()


class VirtualTime:
    """Time that passes only when all actors sleep. Until the run has begun, it stands a little before the beginning."""

    is_virtual = True

    def __init__(self) -> None:
        self.jumping: dict[str, Clock] = {}
        self._now_us = -1
        # Who wakes when; of those that wake together, who went to sleep first.
        self._asleep: list[tuple[int, int, greenlet]] = []
        # Who may be woken earlier: by which turn they sleep, and for which topics they look.
        self._dozing: dict[greenlet, tuple[int, Sequence[str]]] = {}
        self._void_turns: set[int] = set()
        self._turns = itertools.count()
        self._hub = getcurrent()

    def now_us(self) -> int:
        return self._now_us

    def begin(self) -> None:
        """Begin the run."""
        self._now_us = 0

    def start(self, actor: Callable[[], Any]) -> None:
        """Start an actor, now."""
        self._wake_at(self._now_us, greenlet(actor, self._hub))

    def _wake_at(self, at_us: int, sleeper: greenlet) -> int:
        turn = next(self._turns)
        heapq.heappush(self._asleep, (at_us, turn, sleeper))
        return turn

    def sleep(self, seconds: float) -> None:
        self.sleep_until_us(self._now_us + max(0, round(seconds * 1e6)))

    def sleep_until_us(self, at_us: int) -> None:
        # Even who need not sleep lets the others have their turn.
        self._wake_at(max(at_us, self._now_us), getcurrent())
        self._hub.switch()

    def doze(self, seconds: float, topics: Sequence[str]) -> None:
        me = getcurrent()
        self._dozing[me] = self._wake_at(self._now_us + round(seconds * 1e6), me), topics
        self._hub.switch()

    def rouse(self, topic: str, most: int) -> None:
        waiting = (sleeper for sleeper, (_, topics) in self._dozing.items() if topic in topics)
        for sleeper in list(itertools.islice(waiting, most)):
            self._void_turns.add(self._dozing.pop(sleeper)[0])
            self._wake_at(self._now_us, sleeper)

    def run(self) -> None:
        """Let time pass until no actor is asleep. An exception of an actor is raised here."""
        while self._asleep:
            at_us, turn, sleeper = heapq.heappop(self._asleep)
            if turn in self._void_turns:
                self._void_turns.remove(turn)
                continue
            self._dozing.pop(sleeper, None)
            self._now_us = at_us
            sleeper.switch()

    def clock(self) -> Clock:
        return Clock(wall_ns=lambda: EPOCH_MS * 1_000_000 + self._now_us * 1000, steady_ns=lambda: 0)
