"""The progress of a job: the tasks of its stages, polled. A listener in Python triples a job's time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

BETWEEN_LOOKS_S = 0.25
ReportTasks = Callable[[int, int], object]
"""A callback that is called with the number of tasks done, and the number of tasks known so far."""

_groups = count()
JAVA_IS_GONE = (ConnectionError, Py4JError)
"""Errors that are raised when Java has ended."""


@contextmanager
def watched(spark: SparkSession, report: ReportTasks, doing: str = "") -> Iterator[str]:
    """Report the tasks of all that this thread asks of Spark in the block, to which the name of their job group is
    passed.

    Ctrl-C cancels them, and ends the block with KeyboardInterrupt.
    """
    context = spark.sparkContext
    group = f"sqew-{next(_groups)}"
    context.setJobGroup(group, doing, interruptOnCancel=True)
    ended, interrupted = threading.Event(), threading.Event()

    def watch() -> None:
        tasks = Watch(context.statusTracker(), group)
        # Whoever waits for the job tells of it when Java is gone.
        with suppress(*JAVA_IS_GONE):
            while not ended.wait(BETWEEN_LOOKS_S):
                report(*tasks.look())
                if interrupted.is_set():
                    context.cancelJobGroup(group)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        with _on_interrupt(interrupted):
            yield group
    finally:
        ended.set()
        watcher.join()
        with suppress(*JAVA_IS_GONE):
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type] # how it is taken away


@contextmanager
def _on_interrupt(interrupted: threading.Event) -> Iterator[None]:
    """Have Ctrl-C wait until Java has answered a pending call, and then raise KeyboardInterrupt.

    Spark's own handler asks Java to cancel everything over the connection on which an answer is awaited: that fails,
    prints a hundred lines, and now and then waits for ever. The watcher has a connection of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, frame: FrameType | None) -> None:
        is_first = not interrupted.is_set()
        interrupted.set()
        if not (is_first and _is_asking_java(frame)):
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception as error:
        if interrupted.is_set():
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted.is_set():
        raise KeyboardInterrupt


def _is_asking_java(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("py4j."):
            return True
        frame = frame.f_back
    return False


class Watch:
    """The tasks of a job group. A finished job is asked about once."""

    def __init__(self, tracker: StatusTracker, group: str) -> None:
        self._tracker, self._group = tracker, group
        self._over: dict[int, int] = {}
        """The number of tasks that each finished job had."""

    def look(self) -> tuple[int, int]:
        """Return the number of tasks done, and of tasks in all."""
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
