"""The figures of `stats`: counts of events, and how long messages waited and how long the work took.

The meter counts in memory; from time to time the engine stores its counts (`RecordActivity`), in rows of one minute,
and `summarize` makes the figures from the stored rows (`ReadActivity`). So the figures survive a restart, and all
processes on a file have the same.

Durations are counted in logarithmic steps, four to each doubling, and exact below 8 ms. A quantile is then known to
within 1/9 = 11.1 % of its value: the widest step holds values from ``low`` to ``1.25 * low``, and their harmonic mean
is equally far, relatively, from both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import get_args

from sqew.model import Activity, Depths, Fact, FactKind, Latency, QueueStats

REDELIVERED = "redelivered"
AGAIN = "again"
"""Waits for a second delivery or a later one: they are counted among all waits too."""
NAMES: tuple[str, ...] = (*get_args(FactKind), REDELIVERED)
"""Names of the counters."""

_MINUTE_MS = 60_000
_COUNTED_TOGETHER = 256
"""Facts that are kept to be counted together: 0.3 µs each with warm caches, 1.9 µs one by one between commits."""
_HISTOGRAMS = {"received": "wait", "acked": "work"}

_Counted = tuple[str, str, str, int, bool]
"""Queue, lane, kind, step of its duration, True if it was a redelivery."""

_Row = tuple[str, str, int, str]
"""Queue, lane, minute, name."""


class Meter:
    """Counter of the events of messages, until it is drained.

    It has no lock of its own: it is called under the lock of the store.
    """

    def __init__(self) -> None:
        self._uncounted: list[Fact] = []
        self._counts: defaultdict[_Counted, int] = defaultdict(int)
        self._minute = 0
        self._minute_ends_at = 0
        self._earlier: Counter[_Row] = Counter()

    def record(self, facts: Sequence[Fact], now_ms: int) -> None:
        """Count the facts of a transaction."""
        if now_ms >= self._minute_ends_at:
            self._begin_minute(now_ms)
        self._uncounted += facts
        if len(self._uncounted) >= _COUNTED_TOGETHER:
            self._count()

    @property
    def is_empty(self) -> bool:
        """True if nothing has been counted since the last drain."""
        return not (self._uncounted or self._counts or self._earlier)

    def drain(self, now_ms: int) -> list[Activity]:
        """Return the counts since the last drain, each in the minute in which it was recorded, and clear them."""
        self._begin_minute(now_ms)
        rows = [Activity(*row, count) for row, count in self._earlier.items()]
        self._earlier.clear()
        return rows

    def restore(self, rows: Iterable[Activity]) -> None:
        """Take back counts that were drained and could not be stored."""
        for row in rows:
            self._earlier[row.queue, row.lane, row.minute, row.name] += row.count

    def _begin_minute(self, now_ms: int) -> None:
        self._count()
        if self._counts:
            self._earlier.update(_rows(self._counts, self._minute))
            self._counts.clear()
        self._minute = now_ms // _MINUTE_MS
        self._minute_ends_at = (self._minute + 1) * _MINUTE_MS

    def _count(self) -> None:
        counts = self._counts
        # A batch is of one queue and mostly of one lane: what has no duration is counted as it runs.
        run, queue, lane, running = 0, "", "", ""
        for fact in self._uncounted:
            kind = fact.kind
            if kind is running and fact.queue is queue and fact.lane is lane:
                run += 1
            elif kind == "received" or kind == "acked":
                # step_of, spelled out: the call would cost as much as all the rest.
                age = fact.age_ms
                if age < 0:  # another process's clock was ahead
                    step = 0
                elif age < 8:
                    step = age
                else:
                    shift = age.bit_length() - 3
                    step = (shift << 2) + (age >> shift)
                counts[fact.queue, fact.lane, kind, step, fact.attempts > 1] += 1
            else:
                if run:
                    counts[queue, lane, running, 0, False] += run
                run, queue, lane, running = 1, fact.queue, fact.lane, kind
        if run:
            counts[queue, lane, running, 0, False] += run
        self._uncounted.clear()


def _rows(counts: dict[_Counted, int], minute: int) -> Counter[_Row]:
    rows: Counter[_Row] = Counter()
    for (queue, lane, kind, step, again), count in counts.items():
        rows[queue, lane, minute, kind] += count
        if kind in _HISTOGRAMS:
            rows[queue, lane, minute, f"{_HISTOGRAMS[kind]}:{step}"] += count
        if again and kind == "received":
            rows[queue, lane, minute, REDELIVERED] += count
            rows[queue, lane, minute, f"{AGAIN}:{step}"] += count
    return rows


def step_of(age_ms: int) -> int:
    """Return the step that a duration is counted in: itself below 8, then four steps to each doubling.

    >>> [step_of(age) for age in (0, 7, 8, 9, 10, 15, 16, 1000)]
    [0, 7, 8, 8, 9, 11, 12, 35]
    """
    if age_ms < 8:
        return max(age_ms, 0)
    shift = age_ms.bit_length() - 3
    return (shift << 2) + (age_ms >> shift)


def value_of(step: int) -> float:
    """Return the duration that stands for a step: at most 11.1 % from any that is counted in it.

    >>> [value_of(step) for step in (0, 7)], round(value_of(35), 1)
    ([0.0, 7.0], 955.3)
    """
    if step < 8:
        return float(step)
    shift = (step >> 2) - 1
    low = (4 + (step & 3)) << shift
    high = low + (1 << shift) - 1
    return 2 * low * high / (low + high)


def summarize(queue: str, depths: Depths, activity: Iterable[Activity], now_ms: int) -> QueueStats:
    """Compute the figures of a queue from its stored activity.

    A rate is over the last 60 seconds: the current minute counts whole, and the minute before it by the part of it that
    is less than 60 seconds ago, as if its events were spread evenly. The current minute alone would jump at each full
    minute, and the last full one would be up to a minute late.
    """
    this_minute, into_minute_ms = divmod(now_ms, _MINUTE_MS)
    still_counts = 1 - into_minute_ms / _MINUTE_MS
    totals = dict.fromkeys(NAMES, 0)
    recent = dict.fromkeys(NAMES, 0.0)
    steps: dict[str, dict[str, Counter[int]]] = {name: defaultdict(Counter) for name in _HISTOGRAMS.values()}
    for row in activity:
        histogram, _, step = row.name.partition(":")
        if step:
            if histogram in steps and row.minute > this_minute - 60:
                steps[histogram][row.lane][int(step)] += row.count
            continue
        totals[row.name] = totals.get(row.name, 0) + row.count
        # A process whose clock is ahead may have stored a minute that has not begun here.
        weight = 1.0 if row.minute >= this_minute else still_counts if row.minute == this_minute - 1 else 0.0
        recent[row.name] = recent.get(row.name, 0.0) + row.count * weight
    return QueueStats(
        queue,
        depths,
        totals,
        {name: count / 60 for name, count in recent.items()},
        {lane: _latency(counts) for lane, counts in steps["wait"].items()},
        {lane: _latency(counts) for lane, counts in steps["work"].items()},
    )


def _latency(counts: Counter[int]) -> Latency:
    total = counts.total()
    return Latency(total, _quantile(counts, 50, total), _quantile(counts, 95, total), _quantile(counts, 99, total))


def _quantile(counts: Counter[int], percent: int, total: int) -> float:
    """Return the value at or below which that many percent of the counted values lie (nearest rank)."""
    rank = -(-percent * total // 100)
    for step in sorted(counts):
        rank -= counts[step]
        if rank <= 0:
            return round(value_of(step), 3)
    return 0.0
