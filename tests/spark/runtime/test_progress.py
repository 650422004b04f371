"""The progress of a job, as its watchers get it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sqew.spark.runtime.progress import watched


def test_whoever_watches_is_told_of_the_tasks_while_the_job_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Check that the watcher gets the first tasks while the last ones still wait for that."""
    gate = tmp_path / "open"
    told: list[tuple[int, int]] = []

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while batch.column(0)[0].as_py() >= 2 and not gate.exists():
                threading.Event().wait(0.01)
            yield batch

    def tell(done: int, total: int) -> None:
        told.append((done, total))
        if done >= 2:
            gate.touch()

    with watched(spark, tell):
        spark.range(0, 4, 1, 4).mapInArrow(wait, "id long").collect()

    assert (2, 4) in told
    assert all(done <= total for done, total in told)


def test_what_comes_after_the_block_belongs_to_no_group(spark: SparkSession) -> None:
    with watched(spark, lambda _done, _total: None) as group:
        spark.range(3).count()
        inside = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
    spark.range(3).count()

    assert inside != []
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(group) == inside
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_ctrl_c_cancels_the_job_and_the_session_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    gate = tmp_path / "open"

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while not gate.exists():
            threading.Event().wait(0.01)
        yield from batches

    told: list[int] = []

    def interrupt(_done: int, total: int) -> None:
        if total and not told:
            told.append(total)
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), watched(spark, interrupt):
        spark.range(0, 2, 1, 2).mapInArrow(wait, "id long").collect()
    gate.touch()

    assert signal.getsignal(signal.SIGINT) is before
    assert spark.range(1).count() == 1
