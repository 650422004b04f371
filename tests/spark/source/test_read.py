"""Reading queues as tables: from servers on both stores, and from a file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sqew import NewMessage, Queue
from sqew.client import Client
from sqew.errors import BadValue, QueueNotFound, StoreUnusable, Unreachable
from sqew.spark.source.batch_read import QueueReader
from sqew.spark.source.options import options_of
from sqew.spark.source.schema import schema_of
from tests.spark.source.sources import cutting, read, refusal
from tests.support.serving import Serving


def _fill(server: Serving, queue: str, count: int) -> None:
    with Client(server.url) as client:
        for start in range(0, count, 1_000):
            client.enqueue_many(queue, [{"n": number} for number in range(start, min(start + 1_000, count))])


def test_every_column_of_a_message_is_read(spark: SparkSession, server: Serving, new_queue: Callable[..., str]) -> None:
    queue = new_queue(server, lanes={"normal": 1, "fast": 4})
    with Client(server.url) as client:
        client.enqueue_many(
            queue,
            [
                NewMessage(b'{"a": 1}', headers={"source": "web", "size": 3}, priority=7, lane="fast", key="k-1"),
                NewMessage("größer".encode(), "text", delay_ms=3_600_000, ttl_ms=7_200_000),
            ],
        )

    first, second = read(spark, server, queue).orderBy("id").collect()

    assert (first.queue, first.lane, first.priority, first.body, first.format) == (queue, "fast", 7, '{"a": 1}', "json")
    assert (first.key, first.group, first.attempts, first.state) == ("k-1", None, 0, "ready")
    assert first.headers == {"source": "web", "size": "3"}
    assert first.expires_at is None
    assert (second.body, second.format, second.state, second.headers) == ("größer", "text", "delayed", {})
    assert (second.available_at - second.created_at).total_seconds() == 3_600
    assert (second.expires_at - second.created_at).total_seconds() == 7_200
    assert isinstance(first.created_at, datetime)


def test_partitions_hold_every_message_once(
    spark: SparkSession, server: Serving, new_queue: Callable[..., str]
) -> None:
    queue, other = new_queue(server), new_queue(server)
    _fill(server, queue, 1_500)
    _fill(server, other, 10)
    _fill(server, queue, 1_500)

    table = read(spark, server, queue, "id long", numPartitions="7")

    ids = [row.id for row in table.collect()]
    assert table.rdd.getNumPartitions() == 7
    assert len(ids) == len(set(ids)) == 3_000


def test_an_empty_queue_is_an_empty_table(spark: SparkSession, server: Serving, new_queue: Callable[..., str]) -> None:
    assert read(spark, server, new_queue(server)).collect() == []


def test_a_body_is_read_as_bytes_where_the_schema_says_so(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(sqlite_server)
    _fill(sqlite_server, queue, 1)

    (row,) = read(spark, sqlite_server, queue, "body binary, queue string").collect()

    assert tuple(row) == (b'{"n":0}', queue)


def test_the_archive_tells_how_messages_ended(
    spark: SparkSession, server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server, keep="archive")
    _fill(server, queue, 2)
    with Client(server.url) as client:
        done, dead = client.claim_many(queue, 2)
        client.ack(done)
        client.dead_letter(dead, reason="no such customer")

    rows = read(spark, server, queue, archive="true").orderBy("id").collect()

    assert [(row.id, row.outcome, row.reason, row.attempts) for row in rows] == [
        (done.id, "done", "", 1),
        (dead.id, "dead", "no such customer", 1),
    ]
    assert all(row.finished_at >= row.created_at for row in rows)


@pytest.mark.parametrize(("store", "handed_down"), [("sqlite", "true"), ("postgres", "true"), ("sqlite", "false")])
def test_filters_give_the_same_whether_the_server_or_spark_applies_them(
    spark: SparkSession,
    servers: Callable[[str], Serving],
    new_queue: Callable[..., str],
    store: str,
    handed_down: str,
) -> None:
    server = servers(store)
    queue = new_queue(server, lanes={"normal": 1, "fast": 4})
    with Client(server.url) as client:
        ids = client.enqueue_many(
            queue, [NewMessage(b"%d" % number, lane="fast" if number % 2 else None) for number in range(10)]
        )
        client.claim_many(queue, 1, lane="fast")
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)

    spark.conf.set(setting, handed_down)
    try:
        table = read(spark, server, queue)
        found = table.where(f"id > {ids[1]} AND id <= {ids[7]} AND lane = 'fast' AND state = 'ready'")
        bodies = sorted(row.body for row in found.collect())
        leased = table.where("state = 'leased'").count()
        none = table.where("lane = 'nowhere'").count()
        plan = found._jdf.queryExecution().optimizedPlan().toString()
    finally:
        spark.conf.set(setting, before)

    assert (bodies, leased, none) == (["3", "5", "7"], 1, 0)
    assert ("> " in plan) is (handed_down == "false")


def test_a_file_is_read_without_a_server_and_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "queue.db"
    with Queue.open(file) as queue:
        queue.create("orders")
        for start in range(0, 5_000, 1_000):
            queue.enqueue_many("orders", [{"n": number} for number in range(start, start + 1_000)])
    before = file.read_bytes()

    table = spark.read.format("sqew").option("queue", "orders").option("numPartitions", "3").load(str(file))
    bodies = {row.body for row in table.select("body").collect()}

    assert bodies == {f'{{"n":{number}}}' for number in range(5_000)}
    assert file.read_bytes() == before


def test_a_file_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()

    def count(file: str) -> int:
        return spark.read.format("sqew").option("queue", "orders").load(str(tmp_path / file)).count()

    missing, empty = refusal(lambda: count("none.db")), refusal(lambda: count("empty.db"))

    assert isinstance(missing, StoreUnusable)
    assert "is no file" in str(missing)
    assert "holds no queues" in str(empty)


def test_a_read_goes_on_where_the_network_broke_off(sqlite_server: Serving, new_queue: Callable[..., str]) -> None:
    queue = new_queue(sqlite_server)
    _fill(sqlite_server, queue, 12_000)

    with cutting(sqlite_server, after_bytes=1_200_000, connections=3) as url:
        reader = QueueReader(options_of({"url": url, "queue": queue, "numpartitions": "1"}), schema_of(archive=False))
        (part,) = reader.partitions()
        bodies = [body for batch in reader.read(part) for body in batch.column("body").to_pylist()]

    assert bodies == [f'{{"n":{number}}}' for number in range(12_000)]


def test_the_next_server_is_asked_where_one_is_down(
    spark: SparkSession, postgres_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(postgres_server)
    _fill(postgres_server, queue, 10)

    table = read(spark, postgres_server, queue, url=f"http://127.0.0.1:9,{postgres_server.url}", numPartitions="2")

    assert table.count() == 10


def test_what_is_wrong_is_said_in_a_sentence(spark: SparkSession, sqlite_server: Serving) -> None:
    unknown = refusal(lambda: read(spark, sqlite_server, "no-such-queue").count())
    column = refusal(lambda: read(spark, sqlite_server, "no-such-queue", "boddy string").count())
    unreachable = refusal(lambda: read(spark, sqlite_server, "orders", url="http://127.0.0.1:9").count())

    assert isinstance(unknown, QueueNotFound)
    assert isinstance(column, BadValue)
    assert "did you mean 'body'?" in str(column)
    assert isinstance(unreachable, Unreachable)
    assert "There is no server at http://127.0.0.1:9" in str(unreachable)
