"""The figures of a run, from raw samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from plainbench.verdict import summary as summaries
from plainbench.verdict.latencies import quantiles
from plainbench.verdict.log_columns import NEVER
from plainbench.verdict.summary import Figures, Summary, summarize
from sqew.errors import StoreUnusable
from tests.plainbench.made_up import BROKEN, SECOND, MadeUpRun, config_of, with_manifest
from tests.plainbench.runs import config, run_virtual


@pytest.fixture
def run(tmp_path: Path) -> MadeUpRun:
    return MadeUpRun(tmp_path / "run")


def summary_of(run: MadeUpRun, why: str = "settled") -> Summary:
    return summarize(with_manifest(run.finish(why), config_of()))


def orders(summary: Summary) -> Figures:
    (figures,) = [one for one in summary.topics if one.topic == "orders"]
    return figures


def test_quantiles_are_samples() -> None:
    found = quantiles(np.arange(1, 1001) * 1000)

    assert (found.p50, found.p95, found.p99, found.p999, found.max) == (500, 950, 990, 999, 1000)


def test_what_never_happened_took_for_ever() -> None:
    samples = np.full(100, 1000)
    samples[:2] = NEVER

    found = quantiles(samples)

    assert (found.count, found.missing) == (100, 2)
    assert (found.p95, found.p99, found.max) == (1, None, None)


def test_latencies_count_from_when_a_message_was_due(run: MadeUpRun) -> None:
    run.sent(5_000, 1, due=1_000)
    run.received(6_000, 1)
    run.ended(8_000, 1)

    figures = orders(summary_of(run))

    assert (figures.to_stored.max, figures.to_claim.max, figures.held.max, figures.to_ack.max) == (4, 5, 2, 7)


def test_a_message_that_was_never_received_is_in_the_quantiles(run: MadeUpRun) -> None:
    run.done(1)
    run.sent(100, 2)
    run.left(2)

    figures = orders(summary_of(run, "time"))

    assert (figures.to_claim.count, figures.to_claim.missing, figures.to_claim.max) == (2, 1, None)
    assert figures.to_ack.missing == 1


def test_of_an_ack_that_nobody_heard_of_the_death_of_the_worker_is_the_latest_time(run: MadeUpRun) -> None:
    run.sent(1_010, 1)
    run.received(2_000, 1)
    run.crashed(9_000)

    assert orders(summary_of(run)).to_ack.max == 8


def test_figures_are_cut_by_lane_and_by_worker(run: MadeUpRun) -> None:
    for n, lane, worker in ((1, "fast", "w/0"), (2, "slow", "w/1"), (3, "slow", "v/0")):
        run.sent(100, n, lane=lane)
        run.received(200, n, worker=worker, lane=lane)
        run.ended(300, n, worker=worker, lane=lane)

    summary = summary_of(run)

    assert {(one.lane, one.messages) for one in summary.lanes} == {("fast", 1), ("slow", 2)}
    assert {(one.worker, one.messages) for one in summary.workers} == {("w", 2), ("v", 1)}


def test_a_batch_with_several_lanes_is_cut_by_what_came_out(run: MadeUpRun) -> None:
    run.sent(100, 1, to=2)
    run.received(200, 1, lane="fast")
    run.received(200, 2, lane="slow")

    assert {(one.lane, one.messages) for one in summary_of(run).lanes} == {("fast", 1), ("slow", 1)}


def test_throughput_stands_beside_its_durability(run: MadeUpRun) -> None:
    for n in range(1, 101):
        run.sent(n * 10_000, n)
        run.received(n * 10_000 + 100, n)
        run.ended(n * 10_000 + 200, n)

    throughput = orders(summary_of(run)).throughput

    assert throughput.acked_per_s == pytest.approx(101, abs=1)
    assert throughput.durability == "durable"


def test_the_generators_lag_and_what_it_dropped_are_told(run: MadeUpRun) -> None:
    run.sent(5_000, 1, due=1_000, took=1_000)
    run.add(SECOND, "dropped", 2)

    (generator,) = summary_of(run).generators

    assert (generator.lag.max, generator.dropped) == (3, 1)


def test_a_summary_that_is_half_written_is_made_anew(run: MadeUpRun) -> None:
    run.done(1)
    summary = summary_of(run)
    (run.folder / summaries.SUMMARY).write_text('{"id": "ru')

    assert summaries.read(run.folder) == summary
    assert (run.folder / summaries.SUMMARY).read_bytes().endswith(b"}\n")


def test_a_summary_that_can_not_be_written_leaves_the_one_before(run: MadeUpRun) -> None:
    run.done(1)
    summary = summary_of(run)
    summaries.write(summary, run.folder)
    (run.folder / f"{summaries.SUMMARY}.new").mkdir()

    with pytest.raises(StoreUnusable, match=r"summary\.json can't be written: Is a directory"):
        summaries.write(replace(summary, driver="another"), run.folder)

    assert summaries.read(run.folder) == summary


def test_a_summary_is_the_same_when_it_is_read_again(run: MadeUpRun) -> None:
    run.done(1)
    run.sent(100, 2)
    summary = summary_of(run)

    summaries.write(summary, run.folder)

    assert summaries.read(run.folder) == summary


STEADY = {"workload": [{"topic": "orders", "messages": 1000, "arrivals": {"type": "constant", "rate": 100}}]}


@pytest.fixture
def stalled(tmp_path: Path) -> Path:
    (tmp_path / "broken.py").write_text(BROKEN)
    return tmp_path


def measured(folder: Path, driver: str) -> Figures:
    changes = {"target": {"driver": driver}, "mode": "virtual", **STEADY}
    ran = run_virtual(folder, **{key: value for key, value in changes.items() if key != "mode"})
    return orders(summarize(with_manifest(ran.folder, config(**changes))))


def test_a_consumer_that_stalls_shows_in_the_quantiles_of_all_that_came_meanwhile(stalled: Path) -> None:
    figures = measured(stalled, "broken.py:Stalls")

    # For three of ten seconds nothing came out: who was due then waited, the first for three seconds.
    assert figures.to_claim.p99 is not None
    assert figures.to_claim.p99 > 2_500
    assert figures.to_claim.max == pytest.approx(3_000, abs=50)
    assert figures.held.p99 is not None
    assert figures.held.p99 < 100


def test_a_send_that_stalls_shows_in_all_messages_that_were_due_meanwhile(stalled: Path) -> None:
    figures = measured(stalled, "broken.py:StallsSends")

    # One call of a thousand was slow: whoever counts calls would find it at p99.9 alone.
    assert figures.to_stored.p95 is not None
    assert figures.to_stored.p95 > 2_000
    assert figures.to_ack.p95 is not None
    assert figures.to_ack.p95 > 2_000
