"""Equality of `plainbench report --spark` and the lab itself: the same figures, number by number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from pyspark.sql import SparkSession

from plainbench.cli.main import plainbench
from plainbench.record import manifest
from plainbench.report import by_spark, series
from plainbench.report.page import MOST_LINES
from plainbench.report.series import Curve, Line, Plotted
from plainbench.verdict import summary as summaries
from plainbench.verdict.summary import Summary, evidence_of, summarize
from sqew.spark.tables import Tables
from tests.plainbench.made_up import with_manifest
from tests.plainbench.runs import config, run_real, run_virtual

TROUBLE: dict[str, Any] = {
    "topics": [
        {"name": "orders", "base_backoff_ms": 50, "lanes": [{"name": "fast", "weight": 3}, {"name": "slow"}]},
        {"name": "mail", "max_attempts": 2},
    ],
    "workload": [
        {
            "topic": "orders", "messages": 300, "arrivals": {"type": "poisson", "rate": 400}, "late_ms": 400,
            "lanes": {"fast": 2, "slow": 1},
        },
        {"topic": "mail", "messages": 90, "arrivals": {"type": "at_once", "batch": 20}},
    ],
    "workers": [
        {"name": "w", "concurrency": 2, "lease_ms": 1_000, "prefetch": 3},
        {"name": "v", "topics": ["orders"], "lease_ms": 700},
    ],
    "faults": {"queue": {"latency": {"type": "fixed", "ms": 4}, "error_rate": 0.04, "crash": {"rate": 0.02}}},
}  # fmt: skip


class Both:
    """A run as the lab sees it, and as Spark does."""

    def __init__(self, spark: SparkSession, run: Path) -> None:
        recorded = manifest.read(run)
        known = evidence_of(run, recorded)
        self.lab: tuple[Summary, Plotted] = summarize(run), series.plotted(run, known, MOST_LINES)
        summaries.write(self.lab[0], run)
        self.pages = _page(run), _page(run, "--spark")
        self.tables = Tables(spark, str(run / by_spark.FOLDER))
        # What Spark does not work out must not seem to be right.
        bare = replace(self.lab[0], topics=[], lanes=[], workers=[], generators=[])
        self.spark = by_spark.summary_of(self.tables, recorded, bare), by_spark.plotted(self.tables, self.lab[1].axis)


# A real run takes its seconds: it is left to the soak.
@pytest.fixture(scope="module", params=["virtual", pytest.param("real", marks=pytest.mark.soak)])
def both(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("runs")
    run = (run_virtual if request.param == "virtual" else run_real)(folder, **TROUBLE).folder
    mode = {"mode": "virtual"} if request.param == "virtual" else {}
    return Both(spark, with_manifest(run, config(**mode, **TROUBLE)))


def _page(run: Path, *words: str) -> str:
    """Return the page that the command makes."""
    done = CliRunner().invoke(plainbench, ["report", str(run), *words])
    assert done.exit_code == 0, done.stderr
    return (run / "report.html").read_text()


def test_the_page_is_the_same(both: Both) -> None:
    by_lab, by_spark = both.pages

    assert by_spark == by_lab


def test_the_run_has_what_makes_it_hard(both: Both) -> None:
    lab, _ = both.lab

    assert {one.topic for one in lab.topics} == {"orders", "mail"}
    assert {one.lane for one in lab.lanes} >= {"fast", "slow"}
    assert {one.worker for one in lab.workers} == {"v", "w"}
    assert any(one.held.missing for one in lab.topics)
    assert sum(one.deliveries for one in lab.topics) > sum(one.messages for one in lab.topics)


def test_figures_of_queues_lanes_and_workers_are_the_same(both: Both) -> None:
    (lab, _), (by_spark, _) = both.lab, both.spark

    assert by_spark.topics == lab.topics
    assert by_spark.lanes == lab.lanes
    assert by_spark.workers == lab.workers


def test_generators_were_as_late(both: Both) -> None:
    (lab, _), (by_spark, _) = both.lab, both.spark

    assert by_spark.generators == lab.generators


def test_lines_over_time_are_the_same(both: Both) -> None:
    (_, lab), (_, by_spark) = both.lab, both.spark

    for mine, theirs in (
        (by_spark.latency, lab.latency),
        (by_spark.rates, lab.rates),
        (by_spark.annotations.depths, lab.annotations.depths),
        (by_spark.annotations.states, lab.annotations.states),
    ):
        assert_same_lines(mine, theirs)
    np.testing.assert_array_equal(by_spark.annotations.wal_bytes, lab.annotations.wal_bytes)
    np.testing.assert_array_equal(by_spark.annotations.lag_ms, lab.annotations.lag_ms)


def test_faults_are_the_same(both: Both) -> None:
    (_, lab), (_, by_spark) = both.lab, both.spark

    mine = {row.name: (row.counts.tolist(), sorted(row.times_s)) for row in by_spark.annotations.faults}
    assert mine == {row.name: (row.counts.tolist(), sorted(row.times_s)) for row in lab.annotations.faults}


def test_distributions_are_the_same(both: Both) -> None:
    (_, lab), (_, by_spark) = both.lab, both.spark

    assert by_spark.curves.keys() == lab.curves.keys()
    for title, curves in lab.curves.items():
        assert [curve.name for curve in curves] == [curve.name for curve in by_spark.curves[title]]
        for mine, theirs in zip(by_spark.curves[title], curves, strict=True):
            assert_same_curve(mine, theirs)


def assert_same_lines(mine: list[Line], theirs: list[Line]) -> None:
    assert [line.name for line in mine] == [line.name for line in theirs]
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one.values, other.values, one.name)


def assert_same_curve(mine: Curve, theirs: Curve) -> None:
    np.testing.assert_array_equal(mine.ms, theirs.ms)
    np.testing.assert_array_equal(mine.part, theirs.part)
