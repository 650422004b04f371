"""Backlogs of any size in the states that slow queues down.

They are built through the queue itself, on a clock that is hours behind, so that a file can't be told from one that
grew in use. Counts are given for a million messages and shrink with the backlog.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.bodies import Bodies, encode
from sqew import Message, NewMessage, Queue
from sqew.clock import ManualClock

BATCH = 1_000
HOUR_MS = 3_600_000
LONG_SECONDS = 30 * 24 * 3600
"""A lease or a delay that outlasts the benchmark."""
ONE_GROUP = "one"


class State(Struct, frozen=True):
    """A state of a backlog, with functions to build it and to restore it after a claim."""

    name: str
    title: str
    build: Callable[[Building, int], None]
    settle: Callable[[Queue, Message, int], None]
    depths: Callable[[int], dict[str, int]]
    """The depths that the queue's own figures must show, the rest being ready."""
    queue: str = "bench"


class Building:
    """A queue that is being filled, some hours ago."""

    def __init__(self, path: Path, state: State, seed: int) -> None:
        self.clock = ManualClock(time.time_ns() // 1_000_000 - 3 * HOUR_MS)
        self.name = state.queue
        self.queue = Queue.open(path, clock=self.clock, durability="fast")
        # Claimed and given back thousands of times, no message may die of it.
        self.queue.create(self.name, exist_ok=True, max_attempts=1_000_000)
        self._bodies = Bodies(seed)

    def send(self, count: int, **fields: Any) -> None:
        """Send that many messages with the same fields."""
        self.send_each(count, lambda _: fields)

    def send_each(self, count: int, fields: Callable[[int], dict[str, Any]]) -> None:
        for size in _steps(count):
            batch = [NewMessage(encode(body), **fields(body["n"])) for body in self._bodies.take(size)]
            self.queue.enqueue_many(self.name, batch)
            self.clock.advance(1)

    def lease(self, count: int, seconds: float) -> None:
        """Claim that many messages from the head."""
        for size in _steps(count):
            assert len(self.queue.claim_many(self.name, size, lease_seconds=seconds, consumer="gone")) == size


def _steps(count: int) -> Iterator[int]:
    for first in range(0, count, BATCH):
        yield min(BATCH, count - first)


def _all_ready(building: Building, size: int) -> None:
    building.send(size)


def _leased_at_the_head(building: Building, size: int) -> None:
    if not building.queue.stats(building.name).depths.total():
        building.send(size)
    building.lease(size // 10, LONG_SECONDS)


def _delayed_at_top_priority(building: Building, size: int) -> None:
    building.send(size // 2, priority=1_000, delay_ms=LONG_SECONDS * 1000)
    building.send(size - size // 2)


def _expired_leases(building: Building, size: int) -> None:
    """Let the leases of the oldest messages expire, so that claims meet these first."""
    expired = size // 100
    building.send(expired)
    building.lease(expired, 1)
    building.clock.advance(HOUR_MS)
    building.send(size - expired)


def _behind_one_head(building: Building, size: int) -> None:
    """Put a fifth of all behind a head that is leased, and the rest into groups of eight."""
    behind = size // 5
    building.send(behind, group=ONE_GROUP)
    building.lease(1, LONG_SECONDS)
    building.send_each(size - behind, lambda number: {"group": f"group-{number // 8}"})


def _followers(size: int) -> int:
    """Count the messages of the rest that stand behind the head of their group of eight."""
    rest = range(size // 5, size)
    return len(rest) - len({number // 8 for number in rest})


def _one_group(building: Building, size: int) -> None:
    building.send(size, group=ONE_GROUP)


def _give_back(queue: Queue, message: Message, size: int) -> None:
    queue.nack(message, delay_seconds=0)


def _let_expire_again(queue: Queue, message: Message, size: int) -> None:
    if message.id <= size // 100:
        queue.extend_lease(message, 0)
    else:
        queue.nack(message, delay_seconds=0)


def _replace(queue: Queue, message: Message, size: int) -> None:
    queue.ack(message)
    queue.enqueue_many(message.queue, [NewMessage(message.body, group=message.group)])


READY = State("ready", "all ready", _all_ready, _give_back, lambda size: {})
STATES = (
    READY,
    State(
        "leased",
        "100k leased at the head",
        _leased_at_the_head,
        _give_back,
        lambda size: {"leased": size // 10},
    ),
    State(
        "delayed",
        "500k delayed at top priority",
        _delayed_at_top_priority,
        _give_back,
        lambda size: {"delayed": size // 2},
    ),
    State("expired", "1 % leases expired, at the head", _expired_leases, _let_expire_again, lambda size: {}),
    State(
        "fifo-behind",
        "200k behind one FIFO head",
        _behind_one_head,
        _replace,
        lambda size: {"leased": 1, "blocked": size // 5 - 1 + _followers(size)},
        "bench.fifo",
    ),
    State(
        "fifo-one-group",
        "all in one FIFO group",
        _one_group,
        _replace,
        lambda size: {"blocked": size - 1},
        "bench.fifo",
    ),
)


def check(queue: Queue, state: State, size: int) -> None:
    """Assert that the backlog is in its state."""
    depths = queue.stats(state.queue).depths
    expected = state.depths(size)
    found = {name: depths.total(name) for name in ("delayed", "leased", "blocked")}
    assert found == {"delayed": 0, "leased": 0, "blocked": 0, **expected}, f"{state.name}, {size}: {found}"
    assert depths.total() == size, f"{state.name}: {depths.total()} messages, not {size}"


def build(path: Path, state: State, size: int, seed: int, ready: Path | None = None) -> None:
    """Build a backlog, from a copy of one that is all ready if there is one and it helps."""
    if ready is not None and state.name in ("ready", "leased"):
        shutil.copyfile(ready, path)
        if state is READY:
            return
    building = Building(path, state, seed)
    with building.queue:
        state.build(building, size)
        # As a queue in use that had a moment's rest.
        building.queue.maintain()
