"""The commands `sqew spark analyse` and `plainbench report --spark` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from plainbench.cli.main import plainbench
from sqew.cli.main import sqew
from tests.plainbench.made_up import MadeUpRun, config_of, with_manifest


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = MadeUpRun(tmp_path / "run")
    for n in range(1, 4):
        made.done(n, at=n * 1_000)
    return with_manifest(made.finish(), config_of())


def test_analyse_answers_with_counts_and_latencies(spark: SparkSession, run: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(sqew, ["spark", "analyse", str(run), "--to", str(tmp_path / "to"), "--json"])

    answer = json.loads(done.stdout)
    of_queue = [row for row in answer["latencies"] if row["queue"] and row["measure"] == "to_ack"]
    assert done.exit_code == 0
    assert (answer["messages"], answer["kinds"]["acked"], answer["broken"]) == (3, 3, {})
    assert [row["p50"] for row in of_queue] == [0.21]
    assert Path(answer["report"]).read_text().startswith("<!doctype html>")


def test_analyse_of_something_else_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "orders.jsonl").write_text('{"order": 1}\n')

    done = CliRunner().invoke(sqew, ["spark", "analyse", str(tmp_path / "orders.jsonl"), "--to", str(tmp_path / "to")])

    assert done.exit_code != 0
    assert "is an event. Give event logs" in done.stderr
    assert "Traceback" not in done.stderr


def test_where_spark_runs_is_asked_for_only_with_spark(run: Path) -> None:
    done = CliRunner().invoke(plainbench, ["report", str(run), "--master", "local[2]"])

    assert done.exit_code != 0
    assert "give --spark too" in done.stderr
    assert not (run / "report.html").exists()
