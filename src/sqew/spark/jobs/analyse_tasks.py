"""The tasks of an analysis, in Python: they read logs, follow messages and find quantiles.

Their output is small, or bytes for the next task (`OUTPUT`): they write the tables of events, messages and deliveries
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from sqew.spark.files import FilePart
from sqew.spark.tables import TaskTable, report, to_bytes
from sqew.spark.transforms import histograms, rates, timelines
from sqew.spark.transforms.events import TALLY, as_events, tallied, tallied_together
from sqew.spark.transforms.log_lines import read_part

TALLIES, STEPS, COUNTS, HOW_MANY = "tally", "steps", "counts", "messages followed"
"""Kinds of output besides tables: counts of events, events of messages, counts of durations, counts of messages."""
SPEEDS, DONE, SLOWEST = "speeds", "done", "slowest"
"""Kinds of output counted from messages: `rates.SPEEDS`, `rates.TALLIES`, and the slowest messages."""
MOST = 100
"""The number of slowest messages that are kept."""
_TOGETHER = 500_000
"""The number of steps in a batch of output: a compressed file may have any number of them."""

Batches = Iterable[pa.RecordBatch]
Task = Callable[[Batches], Iterator[pa.RecordBatch]]


class ReadLogs(Struct, frozen=True):
    """A task that reads parts of logs: it counts and keeps the events, and outputs what happened to messages."""

    events: TaskTable
    parts: int
    """The number of parts that the messages are spread over."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        tallies, steps = [TALLY.empty_table()], list[np.ndarray[Any, Any]]()
        with self.events.writing() as events:
            for block in (as_events(lines) for part in _parts_in(batches) for lines in read_part(part)):
                yield from events.add(block)
                tallies.append(tallied(block))
                steps.append(timelines.steps_of(block))
                if sum(map(len, steps)) >= _TOGETHER:
                    yield self._hand_on(steps)
                    tallies, steps = [tallied_together(tallies)], []
            yield self._hand_on(steps)
        yield from events.done()
        yield report(TALLIES, {0: to_bytes(tallied_together(tallies))})

    def _hand_on(self, steps: Sequence[np.ndarray[Any, Any]]) -> pa.RecordBatch:
        together = np.concatenate([np.empty(0, timelines.STEPS), *steps])
        return report(STEPS, timelines.spread(together, together["n"], self.parts))


def _parts_in(batches: Batches) -> Iterator[FilePart]:
    for batch in batches:
        for row in batch.to_pylist():
            yield FilePart(**row)


class Over(Struct, frozen=True):
    """The steps of time: their width and where they begin."""

    step_us: int
    began_at: int


class Follow(Struct, frozen=True):
    """A task that follows the messages of a part: it keeps them and their deliveries, and outputs their durations."""

    names: pa.Table
    deaths: pa.Table
    messages: TaskTable
    deliveries: TaskTable
    parts: int
    over: Over | None
    """None if no table of rates or durations is wanted."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        names, steps = timelines.EventNames(self.names), _all_of(batches, timelines.STEPS)
        found = timelines.followed(steps, names, timelines.Deaths(self.deaths))
        messages, deliveries = timelines.messages_of(found, names), timelines.deliveries_of(found, names)
        yield from _kept(self.messages, messages)
        yield from _kept(self.deliveries, deliveries)
        yield report(HOW_MANY, {0: str(messages.num_rows).encode()})
        if self.over is None:
            return
        over = self.over.step_us, self.over.began_at
        yield report(SPEEDS, {0: to_bytes(rates.speeds(steps, *over))})
        yield report(DONE, {0: to_bytes(rates.tallies(messages, deliveries, *over))})
        yield report(SLOWEST, {0: to_bytes(rates.slowest(found, messages, MOST))})
        yield hand_on_counts(histograms.counts_of(found, names, *over), self.parts)


def _kept(table: TaskTable, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    with table.writing() as writing:
        yield from writing.add(rows)
    yield from writing.done()


def hand_on_counts(counts: np.ndarray[Any, Any], parts: int) -> pa.RecordBatch:
    """Return counts of durations as output, all of a group for the same part."""
    return report(COUNTS, timelines.spread(counts, counts["group"] + counts["at"], parts))


class FindQuantiles(Struct, frozen=True):
    """A task that finds the quantiles of groups (`histograms.LATENCIES`). It must get all counts of a group."""

    names: pa.Table

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        found = histograms.latencies(_all_of(batches, histograms.COUNTS), timelines.EventNames(self.names))
        yield from found.to_batches()


def _all_of(batches: Batches, kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    contents = [content.as_py() for batch in batches for content in batch["content"]]
    return np.concatenate([np.empty(0, kind), *(np.frombuffer(content, kind) for content in contents)])
