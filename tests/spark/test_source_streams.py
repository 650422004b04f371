"""Streams from queue to queue on Spark: nothing lost and nothing twice, whatever fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from sources import depth, read, refusal

from serving import Serving
from sqew.client import Client
from sqew.errors import BadSetting, QueueNotFound

KILLED = Path(__file__).with_name("killed_driver.py")


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

    for count in (2_500, 10):
        _send(server, source, count)
        _start(_stream(spark, server, source, maxMessagesPerTrigger="1000"), server, sink, tmp_path).awaitTermination()

    assert _numbers(spark, server, sink) == sorted([*range(2_500), *range(10)])
    assert depth(server, source) == 0


def test_a_task_of_a_stream_that_is_tried_again_sends_its_rows_once(
    spark: SparkSession, server: Serving, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = new_queue(server), new_queue(server)
    _send(server, source, 12_000)

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() < 2:
            raise RuntimeError("on purpose")

    table = _stream(spark, server, source).select("body")

    _start(table.mapInArrow(fail, table.schema), server, sink, tmp_path).awaitTermination()

    assert _numbers(spark, server, sink) == list(range(12_000))
    assert depth(server, source) == 0


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


def test_a_driver_that_is_killed_again_and_again_loses_nothing_and_sends_nothing_twice(
    spark: SparkSession,
    sqlite_server: Serving,
    postgres_server: Serving,
    new_queue: Callable[..., str],
    tmp_path: Path,
) -> None:
    source, sink = new_queue(sqlite_server), new_queue(postgres_server)
    _send(sqlite_server, source, 3_000)

    def live(kill_at: str) -> int:
        life = {
            "kill_at": kill_at,
            "pids": str(tmp_path / "pids"),
            "checkpoint": str(tmp_path / "checkpoint"),
            "source": {
                "url": sqlite_server.url,
                "queue": source,
                "consumer": "copy",
                "maxMessagesPerTrigger": "1000",
                "holdSeconds": "2",
            },
            "sink": {"url": postgres_server.url, "queue": sink},
        }
        driver = subprocess.run([sys.executable, str(KILLED), json.dumps(life)], stderr=subprocess.PIPE, timeout=240)
        return driver.returncode

    ends = [live("claimed"), live("planned"), live("promoted"), live("never")]

    assert ends == [-9, -9, -9, 0]
    assert _numbers(spark, postgres_server, sink) == list(range(3_000))
    assert depth(sqlite_server, source) == 0
