"""The reader of a run's log: in parts, a long one by several processes; however it is cut, the result is the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from plainbench.record.events import Event, log_files
from plainbench.verdict.log_columns import Codes, Death, Log, Numbers
from plainbench.verdict.log_parts import TABLES, Facts, Found, cut, joined
from plainbench.verdict.reader_pool import Readers

_PART_BYTES = 16 << 20
_FEW_BYTES = 4 * _PART_BYTES
"""Bytes below which one process reads the log: it is through when others have hardly started."""
_MOST_READERS = 8
"""Number of readers at most. With more, the work of one process on the columns takes longer than reading."""


def read(
    run: Path,
    *,
    progress: Callable[[int], None] = lambda _events: None,
    part_bytes: int = _PART_BYTES,
    readers: int | None = None,
) -> Log:
    """Read all of a run's log. ``progress`` is called with the number of events read.

    ``readers``: number of processes that read side by side, instead of one for each core if the log is long.
    """
    parts = cut(log_files(run), part_bytes)
    if readers is None:
        readers = _cores() if sum(part.stop - part.start for part in parts) >= _FEW_BYTES else 1
    found, events = [], 0
    with Readers(readers) as reading:
        for one in reading.find(parts):
            found.append(one)
            events += one.facts.events
            progress(events)
    return _Joining(found).log()


def _cores() -> int:
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        # It is Linux alone that tells which of them a process may use.
        cores = os.cpu_count() or 1
    return min(cores, _MOST_READERS)


class _Joining:
    """A builder of one log from its parts."""

    def __init__(self, found: Sequence[Found]) -> None:
        self._found, self._log = found, Log()
        self._facts = [one.facts for one in found]

    def log(self) -> Log:
        log = self._log
        self._number_all()
        log.sends, log.handled, log.extends = self._table("sends"), self._table("handled"), self._table("extends")
        log.checks, log.places, log.drops = self._table("checks"), self._table("places"), self._table("drops")
        names = list(log.topics)
        for code, count in enumerate(np.bincount(log.drops["topic"]).tolist()):
            log.dropped[names[code]] += count
        for facts in self._facts:
            self._take(facts)
        for facts in self._facts:
            for event in facts.notes:
                self._note(event)
        return log

    def _number_all(self) -> None:
        """Number all names in their order: which part has which of them first must not matter."""
        log, all_facts = self._log, self._facts
        whose = {one for facts in all_facts for one in facts.whose}
        log.topics = _numbered([{topic for topic, _, _ in whose}, *(facts.topics for facts in all_facts)])
        log.lanes = _numbered([{lane for _, lane, _ in whose}, *(facts.lanes for facts in all_facts)])
        log.workers = _numbered([{worker for _, _, worker in whose}])
        log.groups = _numbered(facts.groups for facts in all_facts)
        log.wheres = _numbered(facts.wheres for facts in all_facts)

    def _table(self, table: str) -> dict[str, Numbers]:
        """Join a table of all parts. Its columns are let go one by one: no two copies of it are in memory."""
        log = self._log
        numbers: dict[str, Callable[[Facts], list[int]]] = {
            "topic": lambda facts: [log.topics[name] for name in facts.topics],
            "lane": lambda facts: [log.lanes[name] for name in facts.lanes],
            "group": lambda facts: [log.groups[name] for name in facts.groups],
            "where": lambda facts: [log.wheres[name] for name in facts.wheres],
        }
        whose: dict[str, Callable[[Facts], list[int]]] = {
            "topic": lambda facts: [log.topics[topic] for topic, _, _ in facts.whose],
            "lane": lambda facts: [log.lanes[lane] for _, lane, _ in facts.whose],
            "worker": lambda facts: [log.workers[worker] for _, _, worker in facts.whose],
        }
        found: dict[str, Numbers] = {}
        for name in TABLES[table]:
            parts = [one.tables[table].pop(name) for one in self._found]
            if name == "whose":
                found |= {part: self._renumbered(parts, of) for part, of in whose.items()}
            elif name in numbers:
                found[name] = self._renumbered(parts, numbers[name])
            else:
                found[name] = joined(parts)
        return found

    def _renumbered(self, columns: Sequence[Numbers], numbers: Callable[[Facts], list[int]]) -> Numbers:
        """Join columns, with the numbers of their parts replaced by those of the log."""
        return joined(
            np.array(numbers(facts) or [0], np.int64)[column]
            for facts, column in zip(self._facts, columns, strict=True)
        )

    def _take(self, facts: Facts) -> None:
        log = self._log
        log.events += facts.events
        for what, where, of, count in facts.faults:
            log.faults[what, where] += count
            log.fired.add((what, of))
        log.deaths += facts.crashes
        log.disturbed += facts.disturbed
        log.set_back_us = min(log.set_back_us, facts.set_back_us)
        log.hindered_us = max(log.hindered_us, facts.hindered_us)

    def _note(self, event: Event) -> None:
        log = self._log
        if event.event == "worker":
            if event.what == "died":
                log.deaths.append(Death(event.at, event.worker))
            log.worker_reports.append(event)
        elif event.event == "depth":
            log.wal_bytes = max(log.wal_bytes, int(event.figures.get("wal_bytes", 0)))
            log.ready[event.topic, event.lane] = int(event.figures.get("ready", 0))
        elif event.what != "began":
            log.ended, log.reason, log.ended_us = event.what, event.reason, event.at
            log.left_unknown = event.unknown
            log.shows_dead = bool(event.figures.get("shows_dead"))
            log.leases_outlive = bool(event.figures.get("leases_outlive"))


def _numbered(names: Iterable[Iterable[str]]) -> Codes:
    return Codes({name: number for number, name in enumerate(sorted(set().union(*names)))})
