"""A run's event log as columns of numbers, so that millions of events fit into memory and are counted in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from sqew.lab.events import Event, log_files, read_chunks
from sqew.lab.faults.naming import CRASHES

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

NEVER = np.iinfo(np.int64).max
"""The time of what has not happened."""

SENDING, SENT, UNSENT, UNSURE = range(4)
RECEIVED, ACKED, RETRIED, DIED, REFUSED, UNANSWERED = range(6)
"""What happened to a delivery. UNANSWERED: nobody knows whether what was asked was done."""
FOUND, LEFT = range(2)

_SENDS = {"sending": SENDING, "sent": SENT, "unsent": UNSENT}
_HANDLED = {"received": RECEIVED, "acked": ACKED, "retried": RETRIED, "died": DIED, "refused": REFUSED}
_PLACES = {"found": FOUND, "left": LEFT}
_UNANSWERED = frozenset({"OutcomeUnknown", "NoAnswer", "RequestTimeout"})
_DISTURBS = frozenset({"clock_jump", "reset", "stall"})
_HINDERS = frozenset({"reset", "stall", "disk_full"})
_SLOWS = "latency"

_READ_TOGETHER = 1 << 20
"""Bytes. What is decoded at a time should fit into the processor's cache: 16 MiB take a third longer."""
_TOPIC_BITS = 48
_HALF = 1 << 47


def keys_of(topic: Numbers, number: Numbers) -> Numbers:
    """One number for a message: of which topic, and the how-many-th. They sort by topic, then by number."""
    return (topic << _TOPIC_BITS) + number + _HALF


def topics_of(keys: Numbers) -> Numbers:
    return keys >> _TOPIC_BITS


def numbers_of(keys: Numbers) -> Numbers:
    return (keys & ((1 << _TOPIC_BITS) - 1)) - _HALF


class Codes(dict[Any, int]):
    """Numbers for values, in the order in which they come."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code


class Death(Struct, frozen=True):
    """A slot or the process of a worker or generator died. ``settling``: what it had asked for may have been done."""

    at: int
    who: str
    settling: bool = True


def _death(fault: Event) -> Death:
    is_settling = fault.stream.startswith("queue/") and fault.where in ("ack", "retry")
    return Death(fault.at, fault.worker, is_settling and fault.what != "before_commit")


def _hinders(fault: Event) -> bool:
    """Whether it kept a worker from receiving."""
    of_queue = fault.stream.startswith("queue/") and fault.where == "receive"
    return fault.what in _HINDERS or (of_queue and fault.what != _SLOWS)


class Log:
    """What a run's log holds. The columns of each table are in the order of the log, a file after another."""

    def __init__(self) -> None:
        self.topics, self.lanes, self.workers, self.groups, self.wheres = Codes(), Codes(), Codes(), Codes(), Codes()
        self.sends: dict[str, Numbers] = {}
        self.handled: dict[str, Numbers] = {}
        self.places: dict[str, Numbers] = {}
        self.checks: dict[str, Numbers] = {}
        """The checksums of what was sent, a row for each message."""
        self.extends: dict[str, Numbers] = {}
        """Leases that were made longer."""
        self.drops: dict[str, Numbers] = {}
        """What was never sent, because the generator was too late for it."""
        self.deaths: list[Death] = []
        self.disturbed: list[int] = []
        """When the clock jumped or a connection was cut: a lease may have ended early."""
        self.set_back_us = NEVER
        """When a clock jumped back for the first time: from then on processes disagree about the time of day."""
        self.faults: Counter[tuple[str, str]] = Counter()
        """By what happened and in which call."""
        self.fired: set[tuple[str, str]] = set()
        """What happened, and to what: the queue, the db, the network …"""
        self.dropped: Counter[str] = Counter()
        self.ready: dict[tuple[str, str], int] = {}
        """By topic and lane: how many were ready when somebody looked last."""
        self.hindered_us = -1
        """When a fault kept a worker from receiving, the last time."""
        self.worker_reports: list[Event] = []
        self.wal_bytes = 0
        self.ended, self.reason = "", ""
        self.left_unknown = False
        """Nobody could look what was left in the queue; why is in ``reason``."""
        self.shows_dead = self.leases_outlive = False
        """Of the driver: see `sqew.lab.drivers.base.Driver`."""
        self.ended_us = 0
        self.events = 0


def read(run: Path, *, progress: Callable[[int], None] = lambda _events: None) -> Log:
    """Read all of it. ``progress`` is told how many events were read."""
    return _Reading().read(log_files(run), progress)


class _Columns:
    """The columns of a table, some thousand rows at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._parts: dict[str, list[Numbers]] = {name: [] for name in names}

    def add(self, **columns: Iterable[int]) -> None:
        for name, values in columns.items():
            self._parts[name].append(np.array(values, np.int64))

    def joined(self) -> dict[str, Numbers]:
        """Them all. What was read is let go column by column, so that no two copies of a table are in memory."""
        joined = {}
        for name in list(self._parts):
            parts = self._parts.pop(name)
            joined[name] = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return joined


class _Reading:
    """One reading of a log."""

    def __init__(self) -> None:
        self._log = Log()
        self._whose = Codes()
        """Topic, lane and worker together: one look-up instead of three."""
        self._sends = _Columns(["kind", "first", "last", "at", "due", "took", "whose", "group"])
        self._extends = _Columns(["n", "at", "took", "whose"])
        self._checks = _Columns(["topic", "n", "check"])
        self._drops = _Columns(["topic", "lane", "n", "due"])
        self._handled = _Columns(["kind", "n", "at", "took", "whose", "attempt", "group", "check"])
        self._places = _Columns(["kind", "n", "topic", "where"])

    def read(self, paths: Sequence[Path], progress: Callable[[int], None]) -> Log:
        log = self._log
        for path in paths:
            for chunk in read_chunks(path, _READ_TOGETHER):
                self._take(chunk)
                log.events += len(chunk)
                progress(log.events)
        log.sends, log.handled = self._who(self._sends.joined()), self._who(self._handled.joined())
        log.extends = self._who(self._extends.joined())
        log.places, log.checks, log.drops = self._places.joined(), self._checks.joined(), self._drops.joined()
        return log

    def _who(self, table: dict[str, Numbers]) -> dict[str, Numbers]:
        """The same with topic, lane and worker in columns of their own."""
        log, whose = self._log, table.pop("whose")
        for name, codes, part in (("topic", log.topics, 0), ("lane", log.lanes, 1), ("worker", log.workers, 2)):
            of_whose = np.array([codes[one[part]] for one in self._whose] or [0], np.int64)
            table[name] = of_whose[whose]
        return table

    def _take(self, events: Sequence[Event]) -> None:
        sends: list[Event] = []
        handled: list[Event] = []
        places: list[Event] = []
        faults: list[Event] = []
        extends: list[Event] = []
        drops: list[Event] = []
        rest: list[Event] = []
        add = {
            **dict.fromkeys(_SENDS, sends.append),
            **dict.fromkeys(_HANDLED, handled.append),
            **dict.fromkeys(_PLACES, places.append),
            **dict.fromkeys(_NOTES, rest.append),
            "fault": faults.append,
            "extended": extends.append,
            "dropped": drops.append,
        }
        for event in events:
            add[event.event](event)
        self._take_sends(sends)
        self._take_handled(handled)
        self._take_places(places)
        self._take_faults(faults)
        self._take_extends(extends)
        self._take_drops(drops)
        for event in rest:
            _NOTES[event.event](self, event)

    def _take_sends(self, events: Sequence[Event]) -> None:
        whose, groups, topics = self._whose, self._log.groups, self._log.topics
        self._sends.add(
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
        self._checks.add(
            topic=[topics[event.topic] for event in checked for _ in event.checks or [0]],
            n=[event.n + place for event in checked for place in range(len(event.checks) or 1)],
            check=[check for event in checked for check in event.checks or [event.check or 0]],
        )

    def _take_extends(self, events: Sequence[Event]) -> None:
        self._extends.add(
            n=[event.n for event in events],
            at=[event.at for event in events],
            took=[event.took or 0 for event in events],
            whose=[self._whose[event.topic, event.lane, event.worker] for event in events],
        )

    def _take_drops(self, events: Sequence[Event]) -> None:
        log = self._log
        self._drops.add(
            topic=[log.topics[event.topic] for event in events],
            lane=[log.lanes[event.lane] for event in events],
            n=[event.n for event in events],
            due=[NEVER if event.due is None else event.due for event in events],
        )
        log.dropped.update(event.topic for event in events)

    def _take_handled(self, events: Sequence[Event]) -> None:
        whose, groups = self._whose, self._log.groups
        self._handled.add(
            kind=[UNANSWERED if event.what in _UNANSWERED else _HANDLED[event.event] for event in events],
            n=[event.n for event in events],
            at=[event.at for event in events],
            took=[event.took or 0 for event in events],
            whose=[whose[event.topic, event.lane, event.worker] for event in events],
            attempt=[event.attempt for event in events],
            group=[groups[event.group] for event in events],
            check=[-1 if event.check is None else event.check for event in events],
        )

    def _take_places(self, events: Sequence[Event]) -> None:
        log = self._log
        self._places.add(
            kind=[_PLACES[event.event] for event in events],
            n=[event.n for event in events],
            topic=[log.topics[event.topic] for event in events],
            where=[log.wheres[event.what] for event in events],
        )

    def _take_faults(self, events: Sequence[Event]) -> None:
        log = self._log
        # Every call may have one, so they are counted before they are looked at.
        for (what, where, stream), count in Counter(
            [(event.what, event.where, event.stream) for event in events]
        ).items():
            log.faults[what, where] += count
            log.fired.add((what, stream.partition("/")[0]))
        log.disturbed += [event.at for event in events if event.what in _DISTURBS]
        set_back = [event.at for event in events if event.what == "clock_jump" and (event.ms or 0) < 0]
        log.set_back_us = min([log.set_back_us, *set_back])
        log.deaths += [_death(event) for event in events if event.what in CRASHES]
        hindered = [event.at for event in events if _hinders(event)]
        log.hindered_us = max([log.hindered_us, *hindered])

    def _note_worker(self, event: Event) -> None:
        if event.what == "died":
            self._log.deaths.append(Death(event.at, event.worker))
        self._log.worker_reports.append(event)

    def _pass_over(self, event: Event) -> None:
        """What a generator says of itself while it runs: the figures are worked out from its sends."""

    def _note_depth(self, event: Event) -> None:
        self._log.wal_bytes = max(self._log.wal_bytes, int(event.figures.get("wal_bytes", 0)))
        self._log.ready[event.topic, event.lane] = int(event.figures.get("ready", 0))

    def _note_run(self, event: Event) -> None:
        log = self._log
        if event.what != "began":
            log.ended, log.reason, log.ended_us = event.what, event.reason, event.at
            log.left_unknown = event.unknown
            log.shows_dead = bool(event.figures.get("shows_dead"))
            log.leases_outlive = bool(event.figures.get("leases_outlive"))


_NOTES: dict[str, Callable[[_Reading, Event], None]] = {
    "worker": _Reading._note_worker,
    "generator": _Reading._pass_over,
    "depth": _Reading._note_depth,
    "run": _Reading._note_run,
}
