"""The plan of a workload: each message and its due time, made up from the seed while the run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from plainbench.config.model import Config, Workload
from plainbench.drivers.base import Item
from plainbench.record.events import SUFFIX, Event, read_chunks
from plainbench.run.context import RunContext
from plainbench.workload import NUMBERS_APART, Planned
from plainbench.workload.arrivals import due_times
from plainbench.workload.bodies import Synthetic, keys, shared_out, sizes
from sqew.errors import BadValue
from sqew.formats.files import Quarantine, Reject, Row, files_of, format_of, group_in, rows


def plan(context: RunContext, number: int) -> Iterator[Planned]:
    """Return the messages of workload ``number``, in order, without those that earlier lives of its generator tried."""
    planned = _planned(context, number)
    # What can be wrong with the plan is known before the run begins, and files are open by then.
    first = next(planned, None)
    return iter(()) if first is None else chain([first], planned)


def _planned(context: RunContext, number: int) -> Iterator[Planned]:
    workload = context.config.workload[number]
    streams, name = context.streams, ("plan", number)
    dues = due_times(workload.arrivals, streams.generator(*name, "arrivals"), context.folder, workload.topic)
    lanes = shared_out(shares_of_lanes(context.config, workload), streams.generator(*name, "lanes"), None)
    priorities = shared_out(workload.priorities, streams.generator(*name, "priorities"), 0)
    about = keys(workload.keys, streams.generator(*name, "keys"))
    bodies = _bodies(context, number)
    fifo = any(topic.fifo for topic in context.config.topics if topic.name == workload.topic)
    field = workload.keys.field
    first = _first_number(context.run, number)
    tried = _Tried(context.run, number)
    most = NUMBERS_APART - 1 if workload.messages is None else workload.messages
    end_us = None if workload.for_s is None else workload.for_s * 1e6

    for n, due, lane, priority, key in zip(range(first, first + most), dues, lanes, priorities, about, strict=False):
        if end_us is not None and (context.time.now_us() if due is None else due) >= end_us:
            break
        # Also those that are left out are drawn and read: the others must be the same as without them.
        body = bodies.take(n, key)
        if body is None:
            break
        if tried and tried.includes(n):
            continue
        group = None if not fifo else str(key) if field is None else group_in(body, field)
        yield Planned(Item(n, body, lane, priority, group), due)
    bodies.end()


def shares_of_lanes(config: Config, workload: Workload) -> dict[str, float]:
    """Return the share of a workload for each lane: as it says, or by the weights of the topic's lanes."""
    if workload.lanes:
        return workload.lanes
    return {lane.name: lane.weight for topic in config.topics if topic.name == workload.topic for lane in topic.lanes}


class _Made:
    """Synthetic bodies."""

    def __init__(self, context: RunContext, number: int) -> None:
        model, streams = context.config.workload[number].size, context.streams
        self._sizes = sizes(model, streams.generator("plan", number, "sizes"))
        self._synthetic = Synthetic(model, streams.generator("plan", number, "text"))

    def take(self, number: int, key: int) -> bytes | None:
        return self._synthetic.body(number, key, next(self._sizes))

    def end(self) -> None:
        """Do nothing: there is nothing to report."""


class _Read:
    """Bodies from files. Rows that are no body go to the run's folder ``rejects``, and are counted in the log."""

    def __init__(self, context: RunContext, number: int) -> None:
        self._context, self._number = context, number
        self._workload = context.config.workload[number]
        assert self._workload.input is not None
        self._files = files_of(self._workload.input, context.folder)
        self._quarantine = Quarantine(context.run / "rejects" / f"workload-{number}.jsonl")
        self._bodies = self._read()

    def take(self, _number: int, _key: int) -> bytes | None:
        return next(self._bodies, None)

    def end(self) -> None:
        """Report the rejects, as no more bodies are asked for."""
        self._report()

    def _read(self) -> Iterator[bytes]:
        yield from self._pass(first=True)
        while self._workload.messages is not None:
            # Fewer than asked for: from the top again.
            yield from self._pass(first=False)

    def _pass(self, *, first: bool) -> Iterator[bytes]:
        found = False
        for path in self._files:
            for row in rows(path, format_of(path)):
                if isinstance(row, Row):
                    found = True
                    yield row.body
                elif first:
                    self._set_aside(row)
        if not found:
            where = f": see {self._quarantine.path}" if self._quarantine.count else ""
            raise BadValue(f"There is no message in {', '.join(map(str, self._files))}{where}.")

    def _set_aside(self, reject: Reject) -> None:
        self._quarantine.add(reject)
        if self._quarantine.count == 1:
            self._report()

    def _report(self) -> None:
        if self._quarantine.count:
            figures = {"lag_us": 0.0, "dropped": 0.0, "rejected": float(self._quarantine.count)}
            name, now = f"generator-{self._number}/input", max(0, self._context.time.now_us())
            self._context.recorder.record(Event(now, "generator", self._workload.topic, worker=name, figures=figures))


def _bodies(context: RunContext, number: int) -> _Made | _Read:
    return _Made(context, number) if context.config.workload[number].input is None else _Read(context, number)


def _first_number(run: Path, number: int) -> int:
    """Return the number to begin with: above those of messages that an earlier run has left in the queue."""
    base = number * NUMBERS_APART
    highest = base
    for name in ("lab", "run"):
        path = run / f"{name}{SUFFIX}"
        for event in chain.from_iterable(read_chunks(path, 1 << 20)) if path.exists() else ():
            if event.event == "run":
                break
            if event.event == "found" and highest < event.n < base + NUMBERS_APART:
                highest = event.n
    return highest + 1


class _Tried:
    """The numbers that earlier lives of a generator have tried to send, or dropped. They must be asked for in order."""

    def __init__(self, run: Path, number: int) -> None:
        ranges = [
            (event.n, event.to or event.n)
            for path in sorted(run.glob(f"generator-{number}-*{SUFFIX}"))
            for event in chain.from_iterable(read_chunks(path))
            if event.event in ("sending", "dropped")
        ]
        self._ranges = sorted(ranges, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def includes(self, number: int) -> bool:
        while self._ranges and self._ranges[-1][1] < number:
            self._ranges.pop()
        return bool(self._ranges) and self._ranges[-1][0] <= number
