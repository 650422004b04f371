"""Writing tables to queues: all or nothing, once per job, whatever happens to its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from sqew.client import Client
from sqew.errors import BadBody, BadSetting, BadValue, UnknownLane
from tests.spark.source.sources import depth, read, refusal, values, write
from tests.support.serving import Serving

ROWS_OF_A_TASK = 1_200
"""Rows of a task: more than Spark gives it at a time, so that some are uploaded before the task has seen the rest."""


def _numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("CAST(id AS STRING) AS body")


def _failing(table: DataFrame, first_attempts: int) -> DataFrame:
    """Return the same table, with a task that fails when it has given most of its rows, so many times."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1 and context.attemptNumber() < first_attempts:
            raise RuntimeError("on purpose")

    return table.mapInArrow(fail, table.schema)


def _writers(server: Serving, queue: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call("GET", f"/v1/queues/{queue}/writers").json
    return found


def test_messages_are_sent_as_the_columns_say(
    spark: SparkSession, server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server, lanes={"normal": 1, "fast": 4})
    table = spark.createDataFrame(
        [
            ('{"a":1}', None, "fast", 7, 3_600_000, 7_200_000, "k-1", None, {"source": "web"}),
            ("größer", "text", None, None, None, None, None, None, None),
        ],
        "body string, format string, lane string, priority int, delay_ms long, ttl_ms long, key string, "
        "`group` string, headers map<string,string>",
    )

    write(table.coalesce(1), server, queue)

    with Client(server.url) as client:
        text, first = client.peek(queue, 10)
    assert (first.value, first.lane, first.priority, first.key) == ({"a": 1}, "fast", 7, "k-1")
    assert (first.headers, first.state) == ({"source": "web"}, "delayed")
    assert first.expires_at is not None
    assert first.expires_at - first.created_at == 7_200_000
    assert (text.value, text.format, text.lane, text.state) == ("größer", "text", "normal", "ready")


def test_a_job_that_is_run_again_adds_nothing(
    spark: SparkSession, server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server)
    table = _numbers(spark, 2 * ROWS_OF_A_TASK)

    for _ in range(2):
        write(table, server, queue, jobId="nightly")
    write(_numbers(spark, 100), server, queue, jobId="another")

    assert depth(server, queue) == 2 * ROWS_OF_A_TASK + 100
    assert {writer["name"]: writer["promoted"] for writer in _writers(server, queue)} == {
        "nightly": 2 * ROWS_OF_A_TASK,
        "another": 100,
    }


def test_a_job_of_an_empty_table_is_done_too(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(sqlite_server)
    empty = spark.createDataFrame(spark.sparkContext.emptyRDD(), "body string")

    write(empty, sqlite_server, queue, jobId="nightly")
    write(_numbers(spark, 10), sqlite_server, queue, jobId="nightly")

    assert empty.rdd.getNumPartitions() == depth(sqlite_server, queue) == 0


def test_a_task_that_is_tried_again_sends_its_rows_once(
    spark: SparkSession, postgres_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(postgres_server)

    write(_failing(_numbers(spark, 2 * ROWS_OF_A_TASK), first_attempts=1), postgres_server, queue, jobId="shaky")

    bodies = [int(row.body) for row in read(spark, postgres_server, queue, "body string").collect()]
    assert sorted(bodies) == list(range(2 * ROWS_OF_A_TASK))


def test_nothing_is_seen_of_a_job_that_failed_and_it_can_be_run_again(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(sqlite_server)
    table = _numbers(spark, 2 * ROWS_OF_A_TASK)

    refused = refusal(lambda: write(_failing(table, first_attempts=3), sqlite_server, queue, jobId="failing"))

    assert "on purpose" in str(refused)
    assert depth(sqlite_server, queue) == 0
    write(table, sqlite_server, queue, jobId="failing")
    assert depth(sqlite_server, queue) == 2 * ROWS_OF_A_TASK
    assert [writer["staged"] for writer in _writers(sqlite_server, queue)] == [[]]


def test_bytes_and_text_are_bodies_too(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(sqlite_server)

    write(spark.sql("SELECT CAST('[1]' AS BINARY) AS body"), sqlite_server, queue)
    write(spark.sql("SELECT 'hello' AS body"), sqlite_server, queue, format="text")

    assert values(sqlite_server, queue) == [[1], "hello"]


def test_messages_are_spread_over_servers_of_which_one_is_down(
    spark: SparkSession, postgres_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(postgres_server)

    write(_numbers(spark, 100), postgres_server, queue, url=f"{postgres_server.url},http://127.0.0.1:9")

    assert depth(postgres_server, queue) == 100


def test_what_can_not_be_sent_is_refused_and_nothing_is_sent(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(sqlite_server)

    def refused(select: str) -> Exception:
        return refusal(lambda: write(spark.sql(f"SELECT {select}").coalesce(1), sqlite_server, queue))

    not_json = refused("explode(array('1', 'hello')) AS body")
    lane = refused("'1' AS body, 'nowhere' AS lane")
    column = refused("'1' AS body, 'fast' AS lanes")

    assert isinstance(not_json, BadBody)
    assert "Make it by to_json" in str(not_json)
    assert isinstance(lane, UnknownLane)
    assert isinstance(column, BadValue)
    assert "did you mean 'lane'?" in str(column)
    assert depth(sqlite_server, queue) == 0


def test_a_queue_is_not_overwritten(spark: SparkSession, sqlite_server: Serving) -> None:
    writer = _numbers(spark, 1).write.format("sqew").options(url=sqlite_server.url, queue="orders")

    refused = refusal(lambda: writer.mode("overwrite").save())

    assert isinstance(refused, BadSetting)
    assert "mode('append')" in str(refused)


TOKEN = "open-sesame-7e1f"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Yield a server that requires its token, with a queue."""
    from tests.support.serving import serving

    with serving(tmp_path_factory.mktemp("guarded"), "--durability", "fast", env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        made = server.call("POST", "/v1/queues", {"name": "orders"}, {"Authorization": f"Bearer {TOKEN}"})
        assert made.status == 201
        yield server


def test_the_token_opens_the_queue_and_is_shown_nowhere(
    spark: SparkSession, guarded: Serving, capfd: pytest.CaptureFixture[str]
) -> None:
    write(_numbers(spark, 3), guarded, "orders", token=TOKEN)
    table = read(spark, guarded, "orders", token=TOKEN)
    table.explain("formatted")
    table.explain(True)

    count = table.count()

    printed = capfd.readouterr()
    assert count == 3
    assert "sqew" in printed.out
    assert TOKEN not in printed.out + printed.err + repr(table) + table._jdf.queryExecution().toString()


def test_a_wrong_token_is_refused_without_being_repeated(
    spark: SparkSession, guarded: Serving, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = "wrong-sesame-1234"

    reading = refusal(lambda: read(spark, guarded, "orders", token=wrong).count())
    writing = refusal(lambda: write(_numbers(spark, 1), guarded, "orders", token=wrong))

    assert reading.code == writing.code == "unauthorized"
    printed = capfd.readouterr()
    assert wrong not in printed.out + printed.err + str(reading) + str(writing)
