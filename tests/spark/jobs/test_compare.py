"""`sqew spark compare`: two runs, message by message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

from sqew.cli.main import sqew
from sqew.errors import BadValue
from sqew.spark.jobs.compare import Compared, Paired, compare_messages
from tests.plainbench.made_up import MadeUpRun, config_of, with_manifest

Took = Callable[[int], int | None]


def messages(queue: str, took: Took, numbers: range = range(1, 501)) -> list[dict[str, Any]]:
    """Return messages that took so many microseconds from due to ack, and half of that to be claimed."""
    return [
        {
            "queue": queue,
            "n": n,
            "due": n * 100,
            "is_found": False,
            "to_stored": 10,
            "to_claim": None if (us := took(n)) is None else us // 2,
            "to_ack": us,
        }
        for n in numbers
    ]


def table(spark: SparkSession, *queues: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist([row for rows in queues for row in rows]))


@pytest.fixture(scope="module")
def compared(spark: SparkSession) -> Compared:
    """Compare two runs, with a queue for each thing that may be found."""
    base = table(
        spark,
        messages("faster", lambda n: 1_000 + n),
        messages("stalled", lambda _: 1_000),
        messages("never", lambda _: 1_000),
        messages("moved", lambda _: 10, range(1, 11)),
    )
    other = table(
        spark,
        messages("faster", lambda n: 900 + n),
        # Drawn one by one, 260 slower of 500 with the rest equal would seem to be sure.
        messages("stalled", lambda n: 5_000 if n <= 260 else 999),
        messages("never", lambda _: None),
        messages("moved", lambda _: 20, range(6, 16)),
    )
    return compare_messages(base, other)


def to_ack(found: Compared, queue: str) -> Paired:
    (figure,) = (one for one in found.figures if (one.queue, one.measure) == (queue, "to_ack"))
    return figure


def test_a_run_whose_messages_are_faster_one_by_one_is_faster(compared: Compared) -> None:
    figure = to_ack(compared, "faster")

    assert (figure.faster, figure.slower, figure.finding) == (500, 0, "faster")
    assert figure.longer["p50"] == -0.1
    assert (figure.base["p50"], figure.other["p50"]) == (1.25, 1.15)


def test_one_stall_that_makes_many_neighbours_slow_proves_nothing(compared: Compared) -> None:
    figure = to_ack(compared, "stalled")

    assert (figure.faster, figure.slower, figure.finding) == (240, 260, "no difference shown")


def test_what_was_never_acked_is_slower_than_anything(compared: Compared) -> None:
    figure = to_ack(compared, "never")

    assert (figure.faster, figure.slower, figure.finding) == (0, 500, "slower")


def test_messages_of_one_run_only_are_counted_and_not_compared(compared: Compared) -> None:
    figure = to_ack(compared, "moved")

    assert (figure.faster, figure.slower) == (0, 5)
    assert compared.unpaired == {"moved": 10}


def test_runs_without_a_message_in_common_are_one_error(spark: SparkSession) -> None:
    base, other = (table(spark, messages("orders", lambda _: 10, numbers)) for numbers in (range(1, 3), range(5, 7)))

    with pytest.raises(BadValue, match="no message in common"):
        compare_messages(base, other)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a run whose messages took so many microseconds each: ``run("slow", 300)``."""

    def make(name: str, held_us: int, **facts: object) -> Path:
        made = MadeUpRun(tmp_path / name)
        for n in range(1, 41):
            made.sent(n * 1_000, n)
            made.received(n * 1_000 + 50, n)
            made.ended(n * 1_000 + 50 + held_us, n)
        return with_manifest(made.finish(), config_of(), **facts)

    return make


def test_two_runs_are_compared_from_their_logs(spark: SparkSession, run: Callable[..., Path]) -> None:
    slow, fast = run("slow", 300), run("fast", 200)

    done = CliRunner().invoke(sqew, ["spark", "compare", str(slow), str(fast), "--json"])

    figures = {one["measure"]: one for one in json.loads(done.stdout)["figures"]}
    assert done.exit_code == 0
    assert (figures["to_ack"]["finding"], figures["to_ack"]["longer"]["p50"]) == ("faster", -0.1)
    assert figures["to_claim"]["finding"] == "no difference shown"


def test_runs_of_other_machines_are_refused_before_spark_starts(run: Callable[..., Path]) -> None:
    here, there = run("here", 300), run("there", 300, machine={"cpu": "another"})

    done = CliRunner().invoke(sqew, ["spark", "compare", str(here), str(there)])

    assert done.exit_code != 0
    assert "other machines (cpu: one and another)" in done.stderr
    assert not (here / "analysis").exists()
