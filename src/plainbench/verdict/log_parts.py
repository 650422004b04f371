"""The parts of a run's log: the places where it may be cut, and the contents of each part as columns of numbers.

A part is read without the others, so each can be read by another process. Names stand in its columns as numbers of its
own; `plainbench.verdict.read_log` joins the parts, and gives all of them the same.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from plainbench.faults.labels import CRASHES
from plainbench.record.events import Event, read_chunks
from plainbench.verdict.log_columns import (
    ACKED,
    DIED,
    FOUND,
    LEFT,
    NEVER,
    RECEIVED,
    REFUSED,
    RETRIED,
    SENDING,
    SENT,
    UNANSWERED,
    UNSENT,
    UNSURE,
    Codes,
    Death,
    Numbers,
)

TABLES: Mapping[str, Sequence[str]] = {
    "sends": ("kind", "first", "last", "at", "due", "took", "whose", "group"),
    "handled": ("kind", "n", "at", "took", "whose", "attempt", "group", "check"),
    "extends": ("n", "at", "took", "whose"),
    "checks": ("topic", "n", "check"),
    "places": ("kind", "n", "topic", "where"),
    "drops": ("topic", "lane", "n", "due"),
}
"""The columns of each table. ``whose`` is topic, lane and worker together: one look-up instead of three."""

_SENDS = {"sending": SENDING, "sent": SENT, "unsent": UNSENT}
_HANDLED = {"received": RECEIVED, "acked": ACKED, "retried": RETRIED, "died": DIED, "refused": REFUSED}
_PLACES = {"found": FOUND, "left": LEFT}
_NOTES = ("worker", "depth", "run")
_UNANSWERED = frozenset({"OutcomeUnknown", "NoAnswer", "RequestTimeout"})
_DISTURBS = frozenset({"clock_jump", "reset", "stall"})
_HINDERS = frozenset({"reset", "stall", "disk_full"})
_SLOWS = "latency"

_READ_TOGETHER = 1 << 20
"""Bytes that are decoded at a time. They should fit into the processor's cache: 16 MiB take a third longer."""


class Part(Struct, frozen=True):
    """The lines of a file that begin between two bytes of it."""

    path: bytes
    start: int
    stop: int


def cut(paths: Iterable[Path], size: int) -> list[Part]:
    """Return all lines of the files as they are now, in their order, in parts of about ``size`` bytes."""
    return [
        Part(os.fsencode(path), start, min(start + size, end))
        for path in paths
        for end in (path.stat().st_size,)
        for start in range(0, end, size)
    ]


class Facts(Struct):
    """The contents of a part besides its columns."""

    events: int = 0
    topics: list[str] = []  # msgspec copies it
    """Names that the numbers in a column stand for: the first is 0."""
    lanes: list[str] = []
    groups: list[str] = []
    wheres: list[str] = []
    whose: list[tuple[str, str, str]] = []
    faults: list[tuple[str, str, str, int]] = []
    """Faults: name, call, target and number of each."""
    crashes: list[Death] = []
    disturbed: list[int] = []
    set_back_us: int = NEVER
    hindered_us: int = -1
    notes: list[Event] = []
    """Events of the run and its workers, and the depths: few, and they count in the order of the log."""


class Found(Struct):
    """The contents of a part: the tables, and the rest."""

    facts: Facts
    tables: dict[str, dict[str, Numbers]]


def find(part: Part) -> Found:
    """Read a part."""
    reading = _Reading()
    for events in read_chunks(Path(os.fsdecode(part.path)), _READ_TOGETHER, start=part.start, stop=part.stop):
        reading.take(events)
    return reading.found()


def joined(columns: Iterable[Numbers]) -> Numbers:
    """Join several columns into one."""
    parts = list(columns)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


class _Reading:
    """A reading of a part, some thousand events at a time."""

    def __init__(self) -> None:
        self._facts = Facts()
        self._topics, self._lanes, self._groups, self._wheres, self._whose = (Codes() for _ in range(5))
        self._faults: Counter[tuple[str, str, str]] = Counter()
        self._tables = {table: {name: list[Numbers]() for name in names} for table, names in TABLES.items()}

    def found(self) -> Found:
        facts = self._facts
        facts.topics, facts.lanes, facts.groups = list(self._topics), list(self._lanes), list(self._groups)
        facts.wheres, facts.whose = list(self._wheres), list(self._whose)
        facts.faults = [(*fault, count) for fault, count in self._faults.items()]
        tables = {
            table: {name: joined(parts) for name, parts in columns.items()} for table, columns in self._tables.items()
        }
        return Found(facts, tables)

    def take(self, events: Sequence[Event]) -> None:
        self._facts.events += len(events)
        found: list[list[Event]] = [[] for _ in _TOGETHER]
        add = {kind: of.append for kinds, of in zip(_TOGETHER, found, strict=True) for kind in kinds}
        for event in events:
            add[event.event](event)
        for take, of in zip(_TOGETHER.values(), found, strict=True):
            take(self, of)

    def _add(self, table: str, **columns: Iterable[int]) -> None:
        for name, values in columns.items():
            self._tables[table][name].append(np.array(values, np.int64))

    def _take_sends(self, events: Sequence[Event]) -> None:
        whose, groups, topics = self._whose, self._groups, self._topics
        self._add(
            "sends",
            kind=[UNSURE if event.unknown else _SENDS[event.event] for event in events],
            first=[event.n for event in events],
            last=[event.to or event.n for event in events],
            at=[event.at for event in events],
            due=[NEVER if event.due is None else event.due for event in events],
            took=[event.took or 0 for event in events],
            whose=[whose[event.topic, event.lane, event.worker] for event in events],
            group=[groups[event.group] for event in events],
        )
        # Numbers that an earlier life of the generator has tried are left out of a call: then nobody can tell which.
        checked = [
            event for event in events if event.check is not None or 0 < len(event.checks) == event.to - event.n + 1
        ]
        self._add(
            "checks",
            topic=[topics[event.topic] for event in checked for _ in event.checks or [0]],
            n=[event.n + place for event in checked for place in range(len(event.checks) or 1)],
            check=[check for event in checked for check in event.checks or [event.check or 0]],
        )

    def _take_handled(self, events: Sequence[Event]) -> None:
        whose, groups = self._whose, self._groups
        self._add(
            "handled",
            kind=[UNANSWERED if event.what in _UNANSWERED else _HANDLED[event.event] for event in events],
            n=[event.n for event in events],
            at=[event.at for event in events],
            took=[event.took or 0 for event in events],
            whose=[whose[event.topic, event.lane, event.worker] for event in events],
            attempt=[event.attempt for event in events],
            group=[groups[event.group] for event in events],
            check=[-1 if event.check is None else event.check for event in events],
        )

    def _take_extends(self, events: Sequence[Event]) -> None:
        self._add(
            "extends",
            n=[event.n for event in events],
            at=[event.at for event in events],
            took=[event.took or 0 for event in events],
            whose=[self._whose[event.topic, event.lane, event.worker] for event in events],
        )

    def _take_places(self, events: Sequence[Event]) -> None:
        self._add(
            "places",
            kind=[_PLACES[event.event] for event in events],
            n=[event.n for event in events],
            topic=[self._topics[event.topic] for event in events],
            where=[self._wheres[event.what] for event in events],
        )

    def _take_drops(self, events: Sequence[Event]) -> None:
        self._add(
            "drops",
            topic=[self._topics[event.topic] for event in events],
            lane=[self._lanes[event.lane] for event in events],
            n=[event.n for event in events],
            due=[NEVER if event.due is None else event.due for event in events],
        )

    def _take_faults(self, events: Sequence[Event]) -> None:
        facts = self._facts
        # Every call may have one, so they are counted before they are looked at.
        counts = Counter([(event.what, event.where, event.stream) for event in events])
        for (what, where, stream), count in counts.items():
            self._faults[what, where, stream.partition("/")[0]] += count
        facts.disturbed += [event.at for event in events if event.what in _DISTURBS]
        set_back = [event.at for event in events if event.what == "clock_jump" and (event.ms or 0) < 0]
        facts.set_back_us = min([facts.set_back_us, *set_back])
        facts.crashes += [_crash(event) for event in events if event.what in CRASHES]
        facts.hindered_us = max([facts.hindered_us, *_hindered(events)])

    def _take_notes(self, events: Sequence[Event]) -> None:
        self._facts.notes += events

    def _pass_over(self, events: Sequence[Event]) -> None:
        """Ignore a generator's reports while it runs: the figures are worked out from its sends."""


_TOGETHER: Mapping[tuple[str, ...], Callable[[_Reading, Sequence[Event]], None]] = {
    tuple(_SENDS): _Reading._take_sends,
    tuple(_HANDLED): _Reading._take_handled,
    tuple(_PLACES): _Reading._take_places,
    ("fault",): _Reading._take_faults,
    ("extended",): _Reading._take_extends,
    ("dropped",): _Reading._take_drops,
    _NOTES: _Reading._take_notes,
    ("generator",): _Reading._pass_over,
}
"""The kinds of events, and the methods that take them."""


def _crash(fault: Event) -> Death:
    is_settling = fault.stream.startswith("queue/") and fault.where in ("ack", "retry")
    return Death(fault.at, fault.worker, is_settling and fault.what != "before_commit")


def _hindered(faults: Sequence[Event]) -> Iterator[int]:
    """Yield the times at which a fault kept a worker from receiving."""
    for fault in faults:
        of_queue = fault.stream.startswith("queue/") and fault.where == "receive"
        if fault.what in _HINDERS or (of_queue and fault.what != _SLOWS):
            yield fault.at
