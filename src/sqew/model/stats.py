"""Statistics of queues and of databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from sqew.model.messages import State
from sqew.model.operation import Operation


class LaneDepth(Struct, frozen=True):
    """The messages of one lane, counted by state."""

    ready: int = 0
    delayed: int = 0
    leased: int = 0
    blocked: int = 0

    @property
    def total(self) -> int:
        return self.ready + self.delayed + self.leased + self.blocked


class Depths(Struct, frozen=True):
    """A queue's contents at one moment."""

    lanes: dict[str, LaneDepth]
    dead: int
    archived: int
    oldest_ready_at: int | None
    """The time since which the longest-waiting ready message has been ready."""

    def total(self, state: State | None = None) -> int:
        return sum(d.total if state is None else getattr(d, state) for d in self.lanes.values())


class Latency(Struct, frozen=True):
    """Quantiles in milliseconds, to within 12 % (counted in logarithmic steps)."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


class QueueStats(Struct, frozen=True):
    """The statistics of a queue."""

    queue: str
    depths: Depths
    totals: dict[str, int]
    """The number of events of each kind since the queue was made (see FactKind; and ``redelivered``)."""
    rates: dict[str, float]
    """The events of each kind per second, over the last minute."""
    wait: dict[str, Latency]
    """The latency by lane, over the last hour: from ready to received."""
    work: dict[str, Latency]
    """The latency by lane, over the last hour: from received to acked."""


class QueueTotals(Struct, frozen=True):
    """A queue's depths and totals, in a survey of all queues."""

    queue: str
    depths: Depths
    totals: dict[str, int]
    """The sums of the stored counters by name, over all lanes and minutes: see `sqew.observe.meter`."""


class Activity(Struct, frozen=True):
    """A counter: the events of one kind in one lane and minute, or a step of a histogram."""

    queue: str
    lane: str
    minute: int
    name: str
    count: int


class DatabaseStats(Struct, frozen=True, kw_only=True):
    """The metrics of a server's database connections since its start; connections and the snapshot are as of now."""

    is_there: bool
    connections: int
    in_use: int
    idle: int
    waiting: int
    acquire_timeouts: int
    exhausted: int
    refused: int
    reconnects: int
    retries: int
    timeouts: int
    contested: int
    unknown: int
    full: int
    notices_sent: int
    notices_heard: int
    oldest_snapshot_s: float


class Measure(Operation[Depths], frozen=True):
    """Count a queue's messages by lane and state. Grows with the backlog: keep it off the hot path."""

    writes: ClassVar[bool] = False
    queue: str


class Ages(Operation[tuple[int, int] | None], frozen=True):
    """Return the creation times of a queue's oldest and newest message; None if it is empty. Grows as `Measure`."""

    writes: ClassVar[bool] = False
    queue: str


class RecordActivity(Operation[None], frozen=True):
    """Add counts to the stored counters."""

    counts: Sequence[Activity]


class ReadActivity(Operation[list[Activity]], frozen=True):
    """Return the stored counters of a queue. Minute 0 holds those older than the kept minutes."""

    writes: ClassVar[bool] = False
    queue: str


class Survey(Operation[list[QueueTotals]], frozen=True):
    """Return depths and totals of all queues by name, counted in one pass over the store. Grows with the backlog."""

    writes: ClassVar[bool] = False
