"""The smallest schedule of faults with which a failing run still fails, found by taking faults away."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import TypeVar

from plainbench.config.model import Config
from plainbench.faults.schedule import Firing, Schedule
from plainbench.record import database_copy, manifest
from plainbench.record.events import Event, LogFailed, read
from plainbench.record.replay import check_inputs
from plainbench.run.virtual_time import VirtualRun
from plainbench.verdict.verdict import judge
from sqew.errors import BadValue, Conflict, SqewError, StoreUnusable

T = TypeVar("T")
ShrinkProgress = Callable[[int, int, int], None]
"""Callback for the number of tries, the number of faults with which it still fails, and the number that it had."""


def smallest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a subset that fails and of which nothing can be left out, given that all of them together fail.

    It leaves out ever smaller pieces (delta debugging), so few culprits among many are found in a few tries.

    >>> smallest(range(100), lambda some: {17, 64} <= set(some))
    [17, 64]
    """
    if fails([]):
        return []
    left, pieces = list(parts), 2
    while len(left) >= 2:
        for without in _without_each(left, pieces):
            if fails(without):
                left, pieces = without, max(pieces - 1, 2)
                break
        else:
            if pieces >= len(left):
                break
            pieces = min(pieces * 2, len(left))
    return left


def _without_each(parts: list[T], pieces: int) -> Iterator[list[T]]:
    """Yield the parts without the first piece, without the second, …"""
    bounds = [round(place * len(parts) / pieces) for place in range(pieces + 1)]
    for start, end in pairwise(bounds):
        yield parts[:start] + parts[end:]


class Shrinking:
    """A recorded run that failed, which is repeated under ever fewer of its faults. It must be in virtual time."""

    def __init__(self, source: Path, progress: ShrinkProgress = lambda _tries, _left, _all: None) -> None:
        self.source, self.recorded = source, manifest.read(source)
        if self.recorded.config.mode != "virtual":
            raise BadValue(
                f"Run {self.recorded.id} was in real time, in which the same faults need not end the same way twice. "
                f"Run it with --mode virtual --seed {self.recorded.seed}; if that fails too, shrink that run."
            )
        check_inputs(self.recorded, source)
        self.problems = _problems(source, self.recorded.config)
        if not self.problems:
            raise Conflict(f"Run {self.recorded.id} broke no promise, so there is nothing to shrink.")
        self.faults = faults_of(source)
        self.left: list[Firing] = list(self.faults)
        """The smallest subset of the faults with which it failed so far."""
        self.tries = 0
        self._progress = progress
        self._known: dict[frozenset[Firing], bool] = {}

    def shrink(self) -> list[Firing]:
        """Return the smallest subset: first whole kinds of faults are left out, then single actors, then faults."""
        if not self._fails(self.left):
            raise Conflict(
                f"Run {self.recorded.id} does not fail again under the same faults, so what it does is not decided by "
                "the seed alone: a worker, a driver or the software has changed, or depends on something else."
            )
        for part_of in (_kind, _stream, _itself):
            parts: dict[str, list[Firing]] = {}
            for firing in self.left:
                parts.setdefault(part_of(firing), []).append(firing)
            found = smallest(list(parts.values()), lambda some: self._fails(list(chain.from_iterable(some))))
            self.left = list(chain.from_iterable(found))
        return self.left

    @property
    def schedule(self) -> Schedule:
        """The faults that are left so far, as a schedule."""
        return Schedule(frozenset(self.left), self.recorded.seed)

    def _fails(self, firings: Sequence[Firing]) -> bool:
        key = frozenset(firings)
        if key not in self._known:
            self.tries += 1
            self._progress(self.tries, len(self.left), len(self.faults))
            self._known[key] = self._fails_again(Schedule(key))
        if self._known[key] and len(firings) < len(self.left):
            self.left = list(firings)
        return self._known[key]

    def _fails_again(self, schedule: Schedule) -> bool:
        """Return True if it breaks one of the promises that the run itself broke."""
        run = Path(tempfile.mkdtemp(prefix="plainbench-shrink-"))
        recorded = self.recorded
        try:
            config = database_copy.restored(recorded.config, recorded.before, self.source, run)
            ended = VirtualRun(config, Path(recorded.folder), run, schedule, lambda _supervisor: None).go()
            if ended == "interrupted":
                raise KeyboardInterrupt
            return bool(self.problems & _problems(run, config))
        except LogFailed as error:
            raise StoreUnusable(str(error)) from error
        except SqewError:
            return False
        finally:
            shutil.rmtree(run, ignore_errors=True)


def _problems(run: Path, config: Config) -> set[tuple[str, str]]:
    return {(problem.kind, problem.topic) for problem in judge(run, config).problems}


def faults_of(run: Path) -> dict[Firing, Event]:
    """Return the faults that happened in a run, each once, by time."""
    return {Firing(event.stream, event.index or 0): event for event in read(run) if event.event == "fault"}


def _kind(firing: Firing) -> str:
    """Return the kind of a fault: queue/w/0/0/error → queue error."""
    place, _, rest = firing.stream.partition("/")
    return f"{place} {rest.rpartition('/')[2]}"


def _stream(firing: Firing) -> str:
    return firing.stream


def _itself(firing: Firing) -> str:
    return f"{firing.stream} {firing.index}"
