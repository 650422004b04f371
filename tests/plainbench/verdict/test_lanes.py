"""Shares of lanes, compared with the promises of their weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from plainbench.config.model import Lane, TopicConfig
from plainbench.verdict.fairness import LaneShare
from plainbench.verdict.verdict import Verdict, judge
from tests.plainbench.made_up import MadeUpRun, config_of

CONFIG = config_of(topics=[TopicConfig("orders", [Lane("fast", 3), Lane("slow", 1)])])


@pytest.fixture
def run(tmp_path: Path) -> MadeUpRun:
    return MadeUpRun(tmp_path / "run")


def serve(run: MadeUpRun, lanes: list[str]) -> Verdict:
    """Send all messages at the beginning, serve them in this order, one a millisecond, and judge the run."""
    for n, lane in enumerate(lanes, 1):
        run.sent(n, n, took=1, lane=lane)
    for n, lane in enumerate(lanes, 1):
        run.received(1_000_000 + n * 1_000, n, lane=lane)
        run.ended(1_000_500 + n * 1_000, n, lane=lane)
    return judge(run.finish(), CONFIG)


def lanes_of(verdict: Verdict) -> dict[str, LaneShare]:
    return {share.lane: share for share in verdict.lanes}


def test_lanes_that_take_turns_by_weight_get_their_shares(run: MadeUpRun) -> None:
    verdict = serve(run, ["fast", "fast", "slow", "fast"] * 100)

    shares = lanes_of(verdict)

    assert verdict.passed
    assert shares["fast"].share == pytest.approx(0.75, abs=0.01)
    assert shares["slow"].weight_share == 0.25
    assert shares["slow"].starved_ms < 1_010  # the first message waits for the first second


def test_a_lane_that_waits_until_all_others_are_served_has_starved(run: MadeUpRun) -> None:
    verdict = serve(run, ["fast"] * 500 + ["slow"] * 10)

    slow = lanes_of(verdict)["slow"]

    assert [problem.kind for problem in verdict.problems] == ["starved"]
    assert slow.passed_over == 500
    assert slow.starved_ms == pytest.approx(1_500, abs=5)
    assert slow.share == 0


def test_a_lane_that_nobody_serves_to_the_end_has_starved(run: MadeUpRun) -> None:
    for n in range(1, 501):
        run.sent(n, n, took=1, lane="fast")
        run.received(1_000_000 + n * 1_000, n, lane="fast")
        run.ended(1_000_500 + n * 1_000, n, lane="fast")
    run.sent(600, 501, lane="slow")
    run.left(501)

    verdict = judge(run.finish("idle"), CONFIG)

    assert [problem.kind for problem in verdict.problems] == ["starved"]


def test_a_lane_without_messages_does_not_starve(run: MadeUpRun) -> None:
    verdict = serve(run, ["fast"] * 500)

    assert verdict.passed
    assert lanes_of(verdict)["slow"].starved_ms == 0
