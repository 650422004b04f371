"""Sentences that replace Spark's stack traces: one each, in an error of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sqew.errors import QueueNotFound, SparkError, SparkUnusable
from sqew.spark.runtime.failures import cause_of, in_a_sentence


def test_an_error_of_ours_in_a_task_is_raised_as_it_was(spark: SparkSession) -> None:
    def fail(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise QueueNotFound("ordres", ["orders"])
        yield

    said = r"^Queue 'ordres' does not exist \(did you mean 'orders'\?\)"
    with pytest.raises(QueueNotFound, match=said) as caught, in_a_sentence():
        spark.range(3).mapInArrow(fail, "id long").collect()

    assert "\n" not in str(caught.value)


def test_another_error_in_a_task_is_said_in_its_own_words(spark: SparkSession) -> None:
    def fail(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("the moon is not full")
        yield

    with pytest.raises(SparkError, match=r"^Spark failed: the moon is not full\.$"), in_a_sentence():
        spark.range(3).mapInArrow(fail, "id long").collect()


def test_a_column_that_is_not_there_is_said_without_the_plan(spark: SparkSession) -> None:
    with (
        pytest.raises(SparkError, match=r"^Spark failed: A column.* `nope` cannot be resolved\. Did you .*\[`id`\]\.$"),
        in_a_sentence(),
    ):
        spark.sql("SELECT nope FROM range(3)")


def test_a_file_that_is_damaged_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"this is no Parquet file at all")

    with pytest.raises(SparkError, match=rf"^{tmp_path}/a\.parquet can't be read: it is damaged"), in_a_sentence():
        spark.read.parquet(str(tmp_path / "a.parquet")).count()


def test_a_file_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SparkError, match=r"^Spark failed: Path does not exist: file:/.*/nothing\.$"), in_a_sentence():
        spark.read.json(str(tmp_path / "nothing"))


def test_what_is_not_sparks_fault_stays_what_it_is() -> None:
    with pytest.raises(KeyError), in_a_sentence():
        raise KeyError("mine")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("x\n\tat a.b(C.java)\nCaused by: java.io.IOException: No space left on device\n\tat d", "A disk that Spark"),
        (": java.lang.OutOfMemoryError: Java heap space\n\tat a.b", "Spark ran out of memory"),
        ("SparkException: All masters are unresponsive! Giving up.", "The cluster that the master names"),
        ("Answer from Java side is empty", "Java, on which Spark runs, ended"),
    ],
)
def test_what_java_says_of_the_machine_becomes_what_to_do(said: str, sentence: str) -> None:
    assert str(cause_of(RuntimeError(said))).startswith(sentence)


def test_a_java_that_ends_at_once_sends_to_the_doctor() -> None:
    error = cause_of(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."))

    assert isinstance(error, SparkUnusable)
    assert "sqew spark doctor" in str(error)
