"""Generated workloads: the same for the same seed, and shaped as requested."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import Row, SparkSession

from sqew.client import Client
from sqew.errors import BadValue
from sqew.spark.jobs.generate import job_id_of, send, write
from sqew.spark.transforms.generate import Workload, generated
from tests.support.serving import Serving

COUNT = 5_000
WORKLOAD = Workload(
    count=COUNT, seed=7, arrivals="poisson", rate=500.0, smallest=80, largest=400, shape="log", keys=50, skew=1.2,
    lanes={"fast": 3, "slow": 1},
)  # fmt: skip


_made: dict[bytes, list[Row]] = {}


def made(spark: SparkSession, workload: Workload, partitions: int = 2) -> list[Row]:
    """Return the messages of a workload in their order, made once: tests share those that they only read."""
    which = msgspec.json.encode([workload, partitions])
    if which not in _made:
        rows = generated(spark.range(0, workload.count, 1, partitions), workload).collect()
        _made[which] = sorted(rows, key=lambda row: int(row["n"]))
    return _made[which]


def test_the_data_are_the_same_whatever_the_partitioning(spark: SparkSession) -> None:
    in_one, in_seven = made(spark, WORKLOAD, 1), made(spark, WORKLOAD, 7)
    backwards = generated(spark.range(COUNT - 1, -1, -1, 3), WORKLOAD).orderBy("n").collect()

    assert in_one == in_seven == backwards
    assert [row["n"] for row in in_one] == list(range(1, COUNT + 1))


def test_the_first_messages_of_a_longer_workload_are_those_of_a_shorter_one(spark: SparkSession) -> None:
    constant = replace(WORKLOAD, arrivals="constant")

    assert made(spark, replace(constant, count=100)) == made(spark, constant)[:100]


def test_another_seed_gives_other_data(spark: SparkSession) -> None:
    ours, others = made(spark, WORKLOAD), made(spark, replace(WORKLOAD, seed=8))

    for column in ("due_us", "lane", "key", "size", "body"):
        assert [row[column] for row in ours] != [row[column] for row in others]


def test_bodies_are_json_of_the_size_that_was_drawn(spark: SparkSession) -> None:
    rows = made(spark, WORKLOAD)

    for row in rows:
        assert len(row["body"]) == row["size"]
        body = json.loads(row["body"])
        assert (body["n"], body["key"]) == (row["n"], row["key"])
    assert (min(row["size"] for row in rows), max(row["size"] for row in rows)) == (80, 400)
    assert len({json.loads(row["body"])["text"][:20] for row in rows}) > COUNT * 0.99


def test_sizes_are_spread_as_asked_for(spark: SparkSession) -> None:
    log, even = (made(spark, replace(WORKLOAD, shape=shape)) for shape in ("log", "uniform"))

    # Half of the logarithm's way from 80 to 400, and half of the way itself.
    assert sum(row["size"] < 179 for row in log) / COUNT == pytest.approx(0.5, abs=0.03)
    assert sum(row["size"] < 240.5 for row in even) / COUNT == pytest.approx(0.5, abs=0.03)


def test_lanes_get_their_shares(spark: SparkSession) -> None:
    lanes = Counter(row["lane"] for row in made(spark, WORKLOAD))

    assert set(lanes) == {"fast", "slow"}
    assert lanes["fast"] / COUNT == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("skew", [0.5, 1.2])
def test_with_skew_the_small_keys_are_the_frequent_ones(spark: SparkSession, skew: float) -> None:
    keys = Counter(row["key"] for row in made(spark, replace(WORKLOAD, skew=skew)))

    assert min(keys) == 1
    assert max(keys) <= 50
    # The k-th about as often as k ** -skew: in groups, because few are drawn of the last.
    first, last = sum(keys[key] for key in range(1, 11)), sum(keys[key] for key in range(41, 51))
    expected = sum(key**-skew for key in range(1, 11)) / sum(key**-skew for key in range(41, 51))
    assert first / last == pytest.approx(expected, rel=0.25)


def test_without_skew_all_keys_are_as_frequent(spark: SparkSession) -> None:
    keys = Counter(row["key"] for row in made(spark, replace(WORKLOAD, skew=0.0)))

    assert set(keys) == set(range(1, 51))
    assert max(keys.values()) < 2 * min(keys.values())


def test_messages_are_due_as_the_arrivals_say(spark: SparkSession) -> None:
    def due(**changes: Any) -> list[int]:
        return sorted(row["due_us"] for row in made(spark, replace(WORKLOAD, **changes)))

    assert due(arrivals="at-once") == [0] * COUNT
    assert due(arrivals="constant")[:4] == [0, 2_000, 4_000, 6_000]
    assert Counter(due(arrivals="bursts", burst=1_000)) == {number * 2_000_000: 1_000 for number in range(5)}
    gaps = [after - before for before, after in zip(due(), due()[1:], strict=False)]
    # Gaps of a Poisson process: as wide on average as the rate says, and two thirds of them narrower than that.
    assert sum(gaps) / len(gaps) == pytest.approx(2_000, rel=0.02)
    assert sum(gap < 2_000 for gap in gaps) / len(gaps) == pytest.approx(0.632, abs=0.03)


def test_a_queue_gets_a_workload_once(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(sqlite_server, lanes={"fast": 1, "slow": 1})
    options = {"url": sqlite_server.url, "queue": queue}
    workload = replace(WORKLOAD, count=300)

    send(spark, workload, options)
    send(spark, workload, options)

    with Client(sqlite_server.url) as client:
        sent = [json.loads(line) for line in client.export(queue)]
    wanted = {row["body"]: row["lane"] for row in made(spark, workload)}
    assert {json.dumps(line["body"], separators=(",", ":")): line["lane"] for line in sent} == wanted
    assert len(sent) == 300


def test_the_same_workload_is_the_same_job() -> None:
    assert job_id_of(WORKLOAD) == job_id_of(replace(WORKLOAD)) != job_id_of(replace(WORKLOAD, seed=8))


def test_files_have_bodies_or_all_there_is(spark: SparkSession, tmp_path: Path) -> None:
    workload = replace(WORKLOAD, count=100)

    write(spark, workload, str(tmp_path / "lines"), "jsonl", partitions=3)
    write(spark, workload, str(tmp_path / "table"), "parquet", partitions=2)

    rows = made(spark, workload)
    lines = [line for file in (tmp_path / "lines").glob("part-*") for line in file.read_text().splitlines()]
    assert sorted(lines) == sorted(row["body"] for row in rows)
    tables = [pq.ParquetFile(file).read() for file in sorted((tmp_path / "table").glob("*.parquet"))]
    assert pa.concat_tables(tables).sort_by("n").to_pylist() == [row.asDict() for row in rows]
    with pytest.raises(BadValue, match=r"lines exists already\. Name a folder that does not"):
        write(spark, workload, str(tmp_path / "lines"), "jsonl")
