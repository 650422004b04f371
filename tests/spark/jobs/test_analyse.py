"""`sqew spark analyse`: logs written by hand, of which every figure is known."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sqew.errors import BadValue, Conflict, NotFound, SqewError
from sqew.spark.jobs.analyse import MESSAGES, TABLES, Analysed, add_report, analyse, log_files
from sqew.spark.runtime.failures import in_a_sentence
from sqew.spark.tables import Tables
from sqew.spark.transforms.percentiles import quantiles
from tests.plainbench.made_up import SECOND, MadeUpRun

TIMES = ("due", "sent_at", "received_at", "acked_at", "died_at", "done_at")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run: 1 is done, 2 retried; 3 dies; 4 is not received; 5's worker dies; of 6–8, one call, 6 is done."""
    # A name that Hadoop would take for a pattern.
    run = MadeUpRun(tmp_path_factory.mktemp("runs") / "run[1]")
    run.done(1, at=100)
    run.sent(200, 2, due=150, lane="fast")
    run.received(1_000, 2, "w/0", lane="fast")
    run.ended(1_100, 2, "w/0", "retried", lane="fast", attempt=1)
    run.received(2_000, 2, "v/0", lane="fast", attempt=2)
    run.ended(2_500, 2, "v/0", lane="fast", attempt=2)
    run.sent(300, 3)
    run.received(3_000, 3)
    run.ended(3_400, 3, how="died")
    run.sent(400, 4)
    run.sent(500, 5)
    run.received(5_000, 5, "w/1")
    run.crashed(5_600, "w/1")
    run.sent(600, 6, to=8)
    run.received(6_000, 6)
    run.ended(6_100, 6)
    folder = run.finish(at=SECOND)
    with (folder / "run.events.jsonl").open("ab") as log:
        log.write(b'{"at":7000,"event":"teleported","topic":"orders","n":1}\n{"at":8000,"event":"ack')
    return folder


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Analysed, Tables]:
    found = analyse(spark, [str(run)], str(tmp_path_factory.mktemp("to") / "tables{1}"), step_us=1_000)
    return found, Tables(spark, found.to)


@pytest.fixture(scope="module")
def report(spark: SparkSession, analysed: tuple[Analysed, Tables]) -> str:
    return Path(add_report(spark, analysed[0])).read_text()


def rows_of(tables: Tables, name: str, order: str) -> list[dict[str, Any]]:
    return list(tables.fetch(name).sort_by(order).to_pylist())


def test_each_message_has_its_timeline(analysed: tuple[Analysed, Tables]) -> None:
    _, tables = analysed

    found = {row["n"]: [row[name] for name in TIMES] for row in rows_of(tables, "messages", "n")}

    assert found == {
        1: [90, 100, 200, 300, None, 300],
        2: [150, 200, 1_000, 2_500, None, 2_500],
        3: [290, 300, 3_000, None, 3_400, None],
        4: [390, 400, None, None, None, None],
        5: [490, 500, 5_000, None, None, 5_600],
        6: [590, 600, 6_000, 6_100, None, 6_100],
        7: [590, 600, None, None, None, None],
        8: [590, 600, None, None, None, None],
    }


def test_deliveries_are_paired_with_their_ends(analysed: tuple[Analysed, Tables]) -> None:
    _, tables = analysed

    found = [
        (row["n"], row["worker"], row["at"], row["end"], row["end_at"]) for row in rows_of(tables, "deliveries", "at")
    ]

    assert found == [
        (1, "w/0", 200, "acked", 300),
        (2, "w/0", 1_000, "retried", 1_100),
        (2, "v/0", 2_000, "acked", 2_500),
        (3, "w/0", 3_000, "died", 3_400),
        (5, "w/1", 5_000, None, None),
        (6, "w/0", 6_000, "acked", 6_100),
    ]


def test_retries_and_deaths_count_for_queue_lane_and_worker(analysed: tuple[Analysed, Tables]) -> None:
    _, tables = analysed

    found = {
        (row["queue"], row["lane"], row["worker"]): (row["messages"], row["deliveries"], row["retries"], row["deaths"])
        for row in tables.fetch("throughput").to_pylist()
    }

    assert found == {
        ("orders", "", ""): (8, 6, 1, 1),
        ("orders", "fast", ""): (1, 2, 1, 0),
        ("", "", "w"): (5, 5, 1, 1),
        ("", "", "v"): (0, 1, 0, 0),
    }


def test_what_was_never_done_counts_as_for_ever(analysed: tuple[Analysed, Tables]) -> None:
    _, tables = analysed

    found = [
        (row["count"], row["missing"], row["p50"], row["p95"])
        for row in tables.fetch("latencies").to_pylist()
        if (row["queue"], row["lane"], row["measure"]) == ("orders", "", "to_ack")
    ]

    assert found == [(8, 4, 5.51, None)]


def test_depths_rise_with_sends_and_fall_with_acks(analysed: tuple[Analysed, Tables]) -> None:
    _, tables = analysed

    found = {
        row["at"]: (row["waiting"], row["unfinished"]) for row in rows_of(tables, "depths", "at") if not row["lane"]
    }

    assert found[0] == (6, 6)
    assert found[3_000] == (5, 5)
    assert found[5_000] == (4, 4)
    assert found[6_000] == (3, 3)


def test_the_slowest_are_those_that_were_never_done(analysed: tuple[Analysed, Tables]) -> None:
    _, tables = analysed

    never = [row["n"] for row in tables.fetch("slowest").to_pylist() if row["to_ack"] is None]

    assert sorted(never) == [3, 4, 7, 8]


def test_half_a_line_and_unknown_kinds_are_counted_and_said(analysed: tuple[Analysed, Tables], report: str) -> None:
    found, _ = analysed

    assert found.unknown == {"teleported": 1}
    assert {Path(file).name: lines for file, lines in found.broken.items()} == {"run.events.jsonl": 1}
    assert "run.events.jsonl: 1 line is no event, and was passed over." in report
    assert "1 event of the kind &#x27;teleported&#x27;" in report


def test_the_report_is_one_file_with_plots(report: str) -> None:
    assert report.count("<svg") == 4
    assert "orders/fast" in report
    assert 'href="http' not in report.replace("http://www.w3.org", "")
    assert "<script" not in report


def test_all_tables_are_there_and_nothing_unfinished(analysed: tuple[Analysed, Tables]) -> None:
    found, _ = analysed

    assert {path.name for path in Path(found.to).iterdir()} - {"report"} == set(TABLES)


def test_a_servers_log_is_read_with_what_was_rotated_and_its_tables_take_the_place_of_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    began = 1_700_000_000_000_000
    common: dict[str, Any] = {"queue": "mail", "lane": "normal", "id": 7}
    write_lines(tmp_path / "events.jsonl.1", [{"t": began, "event": "sent", "attempts": 0, **common}])
    write_lines(
        tmp_path / "events.jsonl",
        [
            {"t": began + 2_000, "event": "received", "attempts": 1, "worker": "a", **common},
            {"t": began + 3_000, "event": "nacked", "attempts": 1, "worker": "a", **common},
            {"t": began + 9_000, "event": "received", "attempts": 2, "worker": "b", **common},
            {"t": began + 9_500, "event": "dead", "attempts": 2, "worker": "b", **common},
        ],
    )

    # What an earlier analysis has left, of another log.
    (tmp_path / "to" / "latencies").mkdir(parents=True)

    found = analyse(spark, [str(tmp_path / "events.jsonl")], str(tmp_path / "to"), wanted=MESSAGES)

    (message,) = Tables(spark, found.to).fetch("messages").to_pylist()
    assert {path.name for path in (tmp_path / "to").iterdir()} == set(MESSAGES)
    assert found.began_at == began
    assert [message[name] for name in ("to_claim", "retries", "deliveries", "claimed_by")] == [2_000, 1, 2, "a"]
    assert message["died_at"] == began + 9_500


def test_lines_that_are_no_events_are_one_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_bytes(b'\x00\xff\x13 no\n{"order": 1}\n[1, 2]\n')

    with pytest.raises(BadValue, match=r"No line of .*other\.jsonl is an event"):
        analyse(spark, [str(tmp_path / "other.jsonl")], str(tmp_path / "to"))

    assert not (tmp_path / "to" / ".unfinished").exists()


def test_a_damaged_gzip_file_is_one_error_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    whole = gzip.compress(b'{"at":1,"event":"sent","topic":"orders","n":1}\n' * 10_000)
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(SqewError, match=r"cut\.jsonl\.gz"), in_a_sentence():
        analyse(spark, [str(tmp_path / "cut.jsonl.gz")], str(tmp_path / "to"))


def test_a_folder_with_something_else_is_left_alone(spark: SparkSession, run: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")

    with pytest.raises(BadValue, match=r"holds something else \(thesis\.txt\)"):
        analyse(spark, [str(run)], str(tmp_path))

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_another_analysis_writes_to_is_left_to_it(spark: SparkSession, run: Path, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)

    with pytest.raises(Conflict, match="Another analysis is writing to"):
        analyse(spark, [str(run)], str(tmp_path))

    os.close(folder)


def test_a_folder_without_a_log_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no event log in"):
        log_files([str(tmp_path)])


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"There is no file .*missing\.jsonl"):
        log_files([str(tmp_path / "missing.jsonl")])


def test_quantiles_equal_numpys(spark: SparkSession) -> None:
    generator = np.random.default_rng(3)
    groups = {
        f"q{size}": generator.integers(0, 3 * size, size).astype(float) for size in (*range(1, 60), 999, 1_000, 1_001)
    }
    rows = [(queue, float(us)) for queue, values in groups.items() for us in values]

    found = quantiles(spark.createDataFrame(rows, "queue string, us double"), ["queue"], ["us"]).collect()

    assert len(found) == len(groups)
    for row in found:
        values = np.quantile(groups[row["queue"]], (0.5, 0.95, 0.99, 0.999), method="inverted_cdf") / 1000
        assert [row[name] for name in ("p50", "p95", "p99", "p999")] == values.tolist()


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
