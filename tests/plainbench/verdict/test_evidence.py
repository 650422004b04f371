"""Evidence for or against a queue, in logs that are written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from plainbench.config.model import AtOnce, Closed, Poisson, TopicConfig, Workload
from plainbench.verdict.summary import Summary, summarize
from plainbench.verdict.verdict import Verdict, judge
from tests.plainbench.made_up import LEASE_MS, SECOND, MadeUpRun, config_of, with_manifest

LEASE = LEASE_MS * 1000


@pytest.fixture
def run(tmp_path: Path) -> MadeUpRun:
    return MadeUpRun(tmp_path / "run")


def kinds_of(verdict: Verdict) -> list[str]:
    return [problem.kind for problem in verdict.problems]


def ready(run: MadeUpRun, count: int) -> None:
    run.add(8 * SECOND, "depth", figures={"ready": float(count)})
    for n in range(1, count + 1):
        run.sent(100 * n, n)
        run.left(n)


# Messages that nobody gets


def test_messages_that_were_ready_to_the_end_are_stuck(run: MadeUpRun) -> None:
    ready(run, 3)

    verdict = judge(run.finish("idle"), config_of())

    assert [(problem.kind, problem.count) for problem in verdict.problems] == [("stuck", 3)]


def test_without_workers_it_is_unclear_whether_messages_are_stuck(run: MadeUpRun) -> None:
    ready(run, 3)

    verdict = judge(run.finish("idle"), config_of(workers=[]))

    assert verdict.outcome == "unclear"
    assert "3 messages of orders were ready to the end, and no worker receives from there." in verdict.warnings


def test_messages_are_not_stuck_while_all_workers_are_busy(run: MadeUpRun) -> None:
    ready(run, 3)
    run.sent(1_000, 4)
    run.received(2_000, 4)
    run.left(4, "leased")

    verdict = judge(run.finish("idle"), config_of())

    assert (verdict.outcome, kinds_of(verdict)) == ("unclear", [])


def test_messages_are_not_stuck_while_faults_keep_workers_from_receiving(run: MadeUpRun) -> None:
    ready(run, 3)
    run.add(8 * SECOND, "fault", worker="w/0", what="transient", where="receive", stream="queue/w/0/0/error", index=1)

    verdict = judge(run.finish("idle"), config_of())

    assert (verdict.outcome, kinds_of(verdict)) == ("unclear", [])


# Messages that are not what was sent


@pytest.mark.parametrize(("check", "kinds"), [(7, []), (8, ["changed"]), (None, [])])
def test_a_message_with_another_checksum_was_changed(run: MadeUpRun, check: int | None, kinds: list[str]) -> None:
    run.sent(100, 1, check=7)
    run.received(200, 1, check=check)
    run.ended(300, 1)

    assert kinds_of(judge(run.finish(), config_of())) == kinds


def test_each_message_of_a_batch_has_its_checksum(run: MadeUpRun) -> None:
    run.sent(100, 1, to=3, checks=[7, 8, 9])
    for n, check in ((1, 7), (2, 9), (3, 9)):
        run.received(200, n, check=check)
        run.ended(300, n)

    (problem,) = judge(run.finish(), config_of()).problems
    assert (problem.kind, problem.examples) == ("changed", [2])


# Leases


def again(run: MadeUpRun, at: int, extended: list[int]) -> list[str]:
    """Judge a run whose message is received at 1,000, extended at these times, and comes again."""
    run.sent(100, 1)
    run.received(1_000, 1)
    for time in extended:
        run.add(time, "extended", 1, worker="w/0", took=10)
    run.received(at, 1, worker="w/1", attempt=2)
    run.ended(at + 100, 1, worker="w/1")
    return kinds_of(judge(run.finish(), config_of()))


def test_an_extended_lease_ends_later(run: MadeUpRun) -> None:
    assert again(run, LEASE + 300_000, [400_000, 800_000]) == ["delivered twice"]


def test_an_extended_lease_ends_too(run: MadeUpRun) -> None:
    assert again(run, LEASE + 801_000, [400_000, 800_000]) == []


def test_an_extension_that_was_answered_after_the_lease_is_no_evidence(run: MadeUpRun) -> None:
    assert again(run, LEASE + 300_000, [LEASE + 200_000]) == []


@pytest.mark.parametrize(
    ("mode", "figures", "kinds"),
    [
        ("real", {}, []),
        ("real", {"leases_outlive": 1.0}, ["delivered twice"]),
        ("virtual", {}, ["delivered twice"]),
    ],
)
def test_a_death_that_comes_later_explains_only_leases_that_end_with_a_connection(
    run: MadeUpRun, mode: str, figures: dict[str, float], kinds: list[str]
) -> None:
    run.sent(100, 1)
    run.received(1_000, 1)
    run.received(500_000, 1, worker="v/0", attempt=2)
    run.add(600_000, "worker", worker="w", what="died", topic="")
    run.ended(700_000, 1, worker="v/0")

    assert kinds_of(judge(run.finish(figures=figures), config_of(mode=mode))) == kinds


# Acks that nobody heard of, and deaths


def test_an_ack_that_may_have_been_made_before_the_last_delivery_excuses_no_loss(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(1_000, 1)
    run.add(2_000, "worker", worker="w", what="died", topic="")
    run.received(2 * SECOND, 1, worker="w/1", attempt=2)
    run.crashed(2 * SECOND + 100, "w/1", "before_commit")
    run.add(2 * SECOND + 200, "worker", worker="w", what="died", topic="")

    verdict = judge(run.finish(), config_of())

    assert kinds_of(verdict) == ["lost"]


def test_an_ack_that_may_have_been_made_during_the_last_delivery_does(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(1_000, 1)
    run.received(2 * SECOND, 1, worker="v/0", attempt=2)
    run.crashed(2 * SECOND + 100, "v/0", "before_commit")
    run.add(3 * SECOND, "worker", worker="w", what="died", topic="")

    verdict = judge(run.finish(), config_of())

    assert (kinds_of(verdict), verdict.topics["orders"].done_unheard) == ([], 1)


@pytest.mark.parametrize(("is_left", "shows", "kinds"), [(True, 1.0, []), (False, 1.0, ["lost"]), (False, 0.0, [])])
def test_the_dead_are_among_the_dead_letters_where_they_can_be_seen(
    run: MadeUpRun, is_left: bool, shows: float, kinds: list[str]
) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    run.ended(300, 1, how="died")
    run.sent(100, 2)
    run.received(200, 2, attempt=3)
    run.ended(300, 2, how="retried")
    if is_left:
        run.left(1, "dead")
        run.left(2, "dead")

    verdict = judge(run.finish(figures={"shows_dead": shows}), config_of())

    assert kinds_of(verdict) == kinds
    assert verdict.topics["orders"].dead == (0 if kinds else 2)


# Latencies


def figures(run: MadeUpRun, **changes: Any) -> Summary:
    config = config_of(**changes)
    return summarize(with_manifest(run.finish(), config))


def test_what_was_not_stored_took_for_ever(run: MadeUpRun) -> None:
    run.sent(2_000, 1, due=1_000)
    run.received(3_000, 1)
    run.ended(4_000, 1)
    run.add(2_000, "sending", 2, worker="generator-0/0", due=1_000)
    run.add(3_000, "unsent", 2, worker="generator-0/0", what="StoreBusy")
    run.add(2_000, "sending", 3, worker="generator-0/0", due=1_500)
    run.add(3_000, "unsent", 3, worker="generator-0/0", what="OutcomeUnknown", unknown=True)
    run.received(3_500, 3)
    run.ended(4_500, 3)
    run.add(5_000, "dropped", 4, worker="generator-0/0", due=2_000)

    (topic,) = figures(run).topics

    assert topic.messages == 1
    assert (topic.to_stored.count, topic.to_stored.missing) == (4, 3)
    assert (topic.to_claim.count, topic.to_claim.missing, topic.to_claim.p50) == (3, 1, 2.0)
    assert (topic.to_ack.count, topic.to_ack.missing) == (3, 1)


@pytest.mark.parametrize(("arrivals", "count"), [(Closed(), 0), (AtOnce(), 0), (Poisson(rate=1), 1)])
def test_a_generator_without_times_of_its_own_is_never_late(run: MadeUpRun, arrivals: Any, count: int) -> None:
    run.done(1)

    (generator,) = figures(run, workload=[Workload("orders", arrivals)]).generators

    assert generator.lag.count == count


# Lanes


def test_a_lane_had_a_choice_by_what_no_call_under_way_might_take(run: MadeUpRun) -> None:
    """Check that the first call had a choice, though it was answered last: the other may have found one lane alone."""
    lanes = [{"name": "priority", "weight": 3}, {"name": "normal"}]
    run.sent(100, 1, lane="priority")
    run.sent(100, 2, lane="normal")
    run.received(2_500, 1, took=1_500, lane="priority")
    run.received(2_000, 2, worker="w/1", took=900, lane="normal")
    for n, worker in ((1, "w/0"), (2, "w/1")):
        run.ended(3_000, n, worker=worker)

    verdict = judge(run.finish(), config_of(topics=[msgspec.convert({"name": "orders", "lanes": lanes}, TopicConfig)]))

    assert [(lane.share, lane.contended) for lane in verdict.lanes] == [(1.0, 1), (0.0, 1)]
