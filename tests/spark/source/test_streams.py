"""Streams from queue to queue on Spark: nothing lost and nothing twice, whatever fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sqew.client import Client
from sqew.errors import BadSetting, QueueNotFound
from sqew.spark.runtime.java import find, home_for_spark
from tests.spark.source.sources import depth, read, refusal
from tests.support.serving import Serving

KILLED = "tests.spark.source.killed_driver"
ROOT = Path(__file__).parents[3]


def _send(server: Serving, queue: str, count: int) -> None:
    with Client(server.url) as client:
        for start in range(0, count, 1_000):
            client.enqueue_many(queue, list(range(start, min(start + 1_000, count))))


def _stream(spark: SparkSession, server: Serving, queue: str, **options: str) -> DataFrame:
    given = {"url": server.url, "queue": queue, "consumer": "copy", **options}
    return spark.readStream.format("sqew").options(**given).load()


def _start(table: DataFrame, server: Serving, queue: str, checkpoint: Path) -> StreamingQuery:
    writer = table.select("body").writeStream.format("sqew").options(url=server.url, queue=queue)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def _numbers(spark: SparkSession, server: Serving, queue: str) -> list[int]:
    return sorted(int(row.body) for row in read(spark, server, queue, "body string").collect())


def test_a_stream_moves_every_message_once_and_goes_on_where_it_was(
    spark: SparkSession, server: Serving, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = new_queue(server), new_queue(server)

    for count in (150, 10):
        _send(server, source, count)
        _start(_stream(spark, server, source, maxMessagesPerTrigger="100"), server, sink, tmp_path).awaitTermination()

    assert _numbers(spark, server, sink) == sorted([*range(150), *range(10)])
    assert depth(server, source) == 0


def test_a_task_of_a_stream_that_is_tried_again_sends_its_rows_once(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = new_queue(sqlite_server), new_queue(sqlite_server)
    _send(sqlite_server, source, 1_500)

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() < 1:
            raise RuntimeError("on purpose")

    table = _stream(spark, sqlite_server, source).select("body")

    _start(table.mapInArrow(fail, table.schema), sqlite_server, sink, tmp_path).awaitTermination()

    assert _numbers(spark, sqlite_server, sink) == list(range(1_500))
    assert depth(sqlite_server, source) == 0


def test_what_is_wrong_with_a_stream_is_said_in_a_sentence(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    sink = new_queue(sqlite_server)
    unnamed = spark.readStream.format("sqew").options(url=sqlite_server.url, queue=sink).load()

    nobody = refusal(lambda: _start(unnamed, sqlite_server, sink, tmp_path / "a").awaitTermination())
    nowhere = refusal(
        lambda: _start(
            _stream(spark, sqlite_server, "no-such-queue"), sqlite_server, sink, tmp_path / "b"
        ).awaitTermination()
    )

    assert isinstance(nobody, BadSetting)
    assert "needs the option 'consumer'" in str(nobody)
    assert isinstance(nowhere, QueueNotFound)


@dataclass
class Life:
    """A driver's queues, from which and to which it moves messages, and the folder of its checkpoint."""

    source: dict[str, str]
    sink: dict[str, str]
    folder: Path

    def end_at(self, moment: str) -> int:
        """Start it in a process of its own that is killed, with its Java, at a moment; return its exit code.

        Its Java is that of pip, so that this one too is seen to run Spark.
        """
        told = {
            "kill_at": moment,
            "pids": str(self.folder / "pids"),
            "checkpoint": str(self.folder / "checkpoint"),
            "source": self.source,
            "sink": self.sink,
        }
        java = {"JAVA_HOME": str(home_for_spark(find({"PATH": ""})))}
        command = [sys.executable, "-m", KILLED, json.dumps(told)]
        return subprocess.run(
            command, cwd=ROOT, stderr=subprocess.PIPE, timeout=240, env={**os.environ, **java}
        ).returncode

    def go_on(self, spark: SparkSession) -> None:
        """Run it here, to the end."""
        table = spark.readStream.format("sqew").options(**self.source).load().select("body")
        writer = table.writeStream.format("sqew").options(**self.sink)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()


@pytest.fixture(scope="module")
def new_life(
    sqlite_server: Serving,
    postgres_server: Serving,
    new_queue: Callable[..., str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[], Life]:
    """Return a function that makes a life of 500 numbers, moved from one store to the other, in three batches."""

    def make() -> Life:
        source, sink = new_queue(sqlite_server), new_queue(postgres_server)
        _send(sqlite_server, source, 500)
        folder = tmp_path_factory.mktemp("life")
        reading = {"consumer": "copy", "maxMessagesPerTrigger": "200", "holdSeconds": "1"}
        return Life(
            {"url": sqlite_server.url, "queue": source, **reading}, {"url": postgres_server.url, "queue": sink}, folder
        )

    return make


@pytest.fixture(scope="module", autouse=True)
def ending(spark: SparkSession, new_life: Callable[[], Life]) -> Iterator[list[tuple[Life, Future[int]]]]:
    """Kill drivers while the other tests go on: one after a claim, one after a promotion."""
    with ThreadPoolExecutor() as at_once:
        lives = [(new_life(), moment) for moment in ("claimed", "promoted")]
        yield [(life, at_once.submit(life.end_at, moment)) for life, moment in lives]


def _check(life: Life, spark: SparkSession, sqlite_server: Serving, postgres_server: Serving) -> None:
    """Check that every number is where it should be, once, and none where it was."""
    assert _numbers(spark, postgres_server, life.sink["queue"]) == list(range(500))
    assert depth(sqlite_server, life.source["queue"]) == 0


def test_a_driver_killed_after_a_claim_and_one_killed_after_a_promotion_lose_nothing_and_send_nothing_twice(
    ending: list[tuple[Life, Future[int]]], spark: SparkSession, sqlite_server: Serving, postgres_server: Serving
) -> None:
    ends = [end.result() for _, end in ending]
    for life, _ in ending:
        life.go_on(spark)

    assert ends == [-9, -9]
    for life, _ in ending:
        _check(life, spark, sqlite_server, postgres_server)


@pytest.mark.soak
def test_a_driver_that_is_killed_again_and_again_loses_nothing_and_sends_nothing_twice(
    new_life: Callable[[], Life], spark: SparkSession, sqlite_server: Serving, postgres_server: Serving
) -> None:
    life = new_life()

    ends = [life.end_at(moment) for moment in ("planned", "claimed", "promoted", "planned", "promoted", "claimed")]
    life.go_on(spark)

    assert ends == [-9] * 6
    _check(life, spark, sqlite_server, postgres_server)
