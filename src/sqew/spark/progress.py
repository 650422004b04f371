"""How far a job is: the tasks of its stages, asked for again and again. A listener of Python's triples a job's time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

BETWEEN_LOOKS_S = 0.25
Tell = Callable[[int, int], object]
"""Told how many tasks are done, and of how many that are known so far."""

_groups = count()


@contextmanager
def watched(spark: SparkSession, tell: Tell, doing: str = "") -> Iterator[str]:
    """Tell of the tasks of all that this thread asks of Spark in the block; it gets the name of their job group."""
    context = spark.sparkContext
    group = f"sqew-{next(_groups)}"
    context.setJobGroup(group, doing, interruptOnCancel=True)
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(Watch(context.statusTracker(), group), tell, ended), daemon=True)
    watcher.start()
    try:
        yield group
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    finally:
        ended.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type] # that is how it is taken away


def _watch(watch: Watch, tell: Tell, ended: threading.Event) -> None:
    while not ended.wait(BETWEEN_LOOKS_S):
        tell(*watch.look())


class Watch:
    """The tasks of a job group. What is over is asked about once."""

    def __init__(self, tracker: StatusTracker, group: str) -> None:
        self._tracker, self._group = tracker, group
        self._over: dict[int, int] = {}
        """How many tasks a job had that is over."""

    def look(self) -> tuple[int, int]:
        """How many tasks are done, and of how many."""
        done = total = 0
        for job in self._tracker.getJobIdsForGroup(self._group):
            job_done, job_total = self._tasks_of(job)
            done, total = done + job_done, total + job_total
        return done, total

    def _tasks_of(self, job: int) -> tuple[int, int]:
        if job in self._over:
            return self._over[job], self._over[job]
        info = self._tracker.getJobInfo(job)
        if info is None:
            return 0, 0
        stages = [stage for number in info.stageIds if (stage := self._tracker.getStageInfo(number)) is not None]
        done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
        if info.status != "RUNNING":
            # Stages whose results were there already are passed over, and never begin.
            self._over[job] = done
            return done, done
        return done, total
