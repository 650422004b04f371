"""How far a job is, as somebody who watches it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from sqew.spark.progress import watched


def test_whoever_watches_is_told_of_the_tasks_while_the_job_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The last tasks wait until the watcher has been told of the first."""
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
