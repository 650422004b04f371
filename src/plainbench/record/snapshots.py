"""Snapshots of a run, moment by moment: few enough of them to keep, and to show any of them again.

A snapshot is a stretch of the run: counts, latencies, depths and faults. A run that gets longer gets longer stretches,
not more of them, so that an hour takes no more memory than a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hdrh.histogram import HdrHistogram
from msgspec import Struct

Measure = Literal["to_claim", "held", "to_ack"]
MEASURES: tuple[Measure, ...] = ("to_claim", "held", "to_ack")
COUNTED = ("sent", "received", "acked", "retried", "died")
Depths = Mapping[str, int]

_LONGEST_US = 7 * 86_400 * 1_000_000
_DIGITS = 2
_EXACT_BITS = 8
"""Leading bits of a latency that are kept: less than a hundredth is lost, as in a histogram of two digits."""
_FIRST_WIDTH_US = 100_000
_MOST = 2_000


class Quantiles(Struct, frozen=True):
    """Quantiles in microseconds."""

    count: int
    p50: int
    p95: int
    p99: int


def rounded(us: int) -> int:
    """Round a latency to the precision that is kept of it.

    >>> rounded(200), rounded(1_000_001)
    (200, 999424)
    """
    spare = us.bit_length() - _EXACT_BITS
    return us if spare <= 0 else us >> spare << spare


def quantiles(latencies: Mapping[int, int]) -> Quantiles | None:
    """Return the quantiles of latencies in microseconds, given the count of each; None if there are none."""
    if not latencies:
        return None
    histogram = HdrHistogram(1, _LONGEST_US, _DIGITS)
    for us, count in latencies.items():
        histogram.record_value(min(us, _LONGEST_US), count)
    found = histogram.get_percentile_to_value_dict([50, 95, 99])
    return Quantiles(histogram.get_total_count(), found[50], found[95], found[99])


def quantile(latencies: Mapping[int, int], part: float) -> int | None:
    """Return one quantile, for many small collections: a latency that at least that part of all does not exceed."""
    wanted, seen = part * sum(latencies.values()), 0
    for us in sorted(latencies):
        seen += latencies[us]
        if seen >= wanted:
            return us
    return None


class Served:
    """The work done for a lane."""

    __slots__ = ("counts", "latencies")

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COUNTED, 0)
        self.latencies: dict[Measure, Counter[int]] = {measure: Counter() for measure in MEASURES}

    def add(self, other: Served) -> None:
        for kind, count in other.counts.items():
            self.counts[kind] += count
        for measure, latencies in other.latencies.items():
            self.latencies[measure].update(latencies)


@dataclass(slots=True)
class Happening:
    """A mishap or an injected fault; repetitions of it within a moment are counted in it."""

    what: str
    where: str
    at: int
    """Time at which it happened last."""
    who: str = ""
    """The actor; empty: several."""
    count: int = 1
    ms: float = 0.0
    """The longest delay, the farthest jump …"""
    reason: str = ""
    is_fault: bool = True

    def add(self, other: Happening) -> None:
        self.count += other.count
        self.ms = max(self.ms, other.ms, key=abs)
        if self.who != other.who:
            self.who = ""
        if other.at >= self.at:
            self.at, self.reason = other.at, other.reason


@dataclass(slots=True)
class Snapshot:
    """A stretch of the run."""

    lanes: dict[tuple[str, str], Served] = field(default_factory=dict)
    """Work done, by topic and lane."""
    happenings: dict[tuple[str, str, bool], Happening] = field(default_factory=dict)
    depths: dict[tuple[str, str], Depths] = field(default_factory=dict)
    """The last depths that were seen, by topic and lane; empty: there was no look."""
    looked_at: int = -1
    wal_bytes: int = -1
    """Size of the write-ahead log; -1: there was no look."""
    lag_us: int = 0
    """Greatest lag of a generator."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Number of messages that each generator had dropped by then."""

    def served(self, topic: str, lane: str) -> Served:
        found = self.lanes.get((topic, lane))
        if found is None:
            found = self.lanes[topic, lane] = Served()
        return found

    def note(self, happening: Happening) -> None:
        key = (happening.what, happening.where, happening.is_fault)
        if (known := self.happenings.get(key)) is None:
            self.happenings[key] = happening
        else:
            known.add(happening)

    def add(self, later: Snapshot) -> None:
        """Merge the next moment into this one."""
        for (topic, lane), served in later.lanes.items():
            self.served(topic, lane).add(served)
        for happening in later.happenings.values():
            self.note(happening)
        if later.depths:
            self.depths, self.looked_at = later.depths, later.looked_at
        self.wal_bytes = max(self.wal_bytes, later.wal_bytes)
        self.lag_us = max(self.lag_us, later.lag_us)
        self.dropped |= later.dropped


class Snapshots(Sequence[Snapshot]):
    """All moments of a run, each ``width_us`` long."""

    def __init__(self) -> None:
        self.width_us = _FIRST_WIDTH_US
        self._snapshots: list[Snapshot] = []

    def __len__(self) -> int:
        return len(self._snapshots)

    def __getitem__(self, index: int) -> Snapshot:  # type: ignore[override] # nobody takes slices
        return self._snapshots[index]

    def index(self, at_us: int) -> int:  # type: ignore[override] # of a time, not of a moment
        """Return the index of the moment that a time is in."""
        return max(0, at_us) // self.width_us

    def at(self, at_us: int) -> Snapshot:
        """Return the moment of that time, to add to."""
        while (index := self.index(at_us)) >= _MOST:
            self._halve()
        while index >= len(self._snapshots):
            self._snapshots.append(Snapshot())
        return self._snapshots[index]

    def _halve(self) -> None:
        self.width_us *= 2
        for earlier, later in zip(self._snapshots[::2], self._snapshots[1::2], strict=False):
            earlier.add(later)
        self._snapshots = self._snapshots[::2]

    def span(self, at_us: int, window_us: int | None) -> range:
        """Return the indices of the moments in a window up to that time; without a window, of all up to it."""
        end = self.index(at_us) + 1
        first = 0 if window_us is None else max(0, end - max(1, window_us // self.width_us))
        return range(first, max(first, min(end, len(self._snapshots))))

    def before(self, at_us: int, window_us: int | None = None) -> Iterator[Snapshot]:
        """Return the moments of a window, the last one first."""
        return (self._snapshots[index] for index in reversed(self.span(at_us, window_us)))
