"""The total-queue check, on logs that are written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plainbench.config.model import CallFaults, Crash, Faults
from plainbench.verdict.verdict import Tally, Verdict, judge
from tests.plainbench.made_up import LEASE_MS, SECOND, MadeUpRun, config_of

LEASE = LEASE_MS * 1000


@pytest.fixture
def run(tmp_path: Path) -> MadeUpRun:
    return MadeUpRun(tmp_path / "run")


def verdict_of(run: MadeUpRun, why: str = "settled") -> Verdict:
    return judge(run.finish(why), config_of())


def tally_of(run: MadeUpRun, why: str = "settled") -> Tally:
    return verdict_of(run, why).topics["orders"]


def kinds_of(verdict: Verdict) -> list[tuple[str, int, list[int]]]:
    return [(problem.kind, problem.count, problem.examples) for problem in verdict.problems]


def test_a_run_in_which_everything_was_acked_passes(run: MadeUpRun) -> None:
    for n in (1, 2, 3):
        run.done(n)

    verdict = verdict_of(run)

    assert verdict.passed
    assert verdict.topics["orders"] == Tally(sent=3, deliveries=3, done=3)


def test_what_was_stored_and_is_gone_without_having_come_out_is_lost(run: MadeUpRun) -> None:
    run.done(1)
    run.sent(100, 2)

    verdict = verdict_of(run)

    assert verdict.outcome == "failed"
    assert kinds_of(verdict) == [("lost", 1, [2])]


def test_each_message_of_a_batch_is_looked_for(run: MadeUpRun) -> None:
    run.sent(100, 1, to=4)
    for n in (1, 2, 4):
        run.received(200, n)
        run.ended(300, n)

    assert kinds_of(verdict_of(run)) == [("lost", 1, [3])]


def test_what_is_still_in_the_queue_is_neither_lost_nor_done(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.left(1)
    run.done(2)

    verdict = verdict_of(run, "time")

    assert verdict.passed
    assert verdict.topics["orders"] == Tally(sent=2, deliveries=1, done=1, left=1, left_in={"ready": 1})
    assert "1 messages were still in the queue at the end: neither done nor lost." in verdict.warnings


def test_what_nobody_has_sent_is_unexpected(run: MadeUpRun) -> None:
    run.received(200, 7)
    run.ended(300, 7)

    assert kinds_of(verdict_of(run)) == [("unexpected", 1, [7])]


def test_what_was_in_the_queue_before_is_expected(run: MadeUpRun) -> None:
    run.add(0, "found", -5, what="ready")
    run.received(200, -5)
    run.ended(300, -5)

    assert verdict_of(run).topics["orders"] == Tally(found=1, deliveries=1, done=1)


def test_what_was_in_the_queue_before_may_be_lost_too(run: MadeUpRun) -> None:
    run.add(0, "found", -5, what="ready")

    assert kinds_of(verdict_of(run)) == [("lost", 1, [-5])]


def test_dead_letters_from_before_are_not_expected(run: MadeUpRun) -> None:
    run.add(0, "found", 5, what="dead")
    run.left(5, "dead")
    run.done(6)

    assert verdict_of(run).passed


def test_a_send_without_an_answer_that_comes_out_is_recovered(run: MadeUpRun) -> None:
    run.add(100, "sending", 1)
    run.add(110, "unsent", 1, what="OutcomeUnknown", unknown=True)
    run.received(200, 1)
    run.ended(300, 1)

    tally = tally_of(run)

    assert (tally.sent, tally.unsure, tally.recovered, tally.unexpected) == (0, 1, 1, 0)


def test_a_send_without_an_answer_that_never_comes_out_is_not_lost(run: MadeUpRun) -> None:
    run.add(100, "sending", 1)

    tally = tally_of(run)

    assert (tally.unsure, tally.recovered, tally.lost) == (1, 0, 0)


def test_a_send_that_was_refused_and_comes_out_is_counted_as_unsent_not_as_lost(run: MadeUpRun) -> None:
    run.add(100, "sending", 1, worker="generator-0/0")
    run.add(110, "unsent", 1, worker="generator-0/0", what="Injected")

    tally = tally_of(run, "time")

    assert (tally.unsent, tally.unsure, tally.lost) == (1, 0, 0)


def test_a_sender_that_died_while_it_tried_again_leaves_a_doubt(run: MadeUpRun) -> None:
    run.add(100, "sending", 1, worker="generator-0/0")
    run.add(110, "unsent", 1, worker="generator-0/0", what="Injected")
    run.crashed(200, "generator-0/0", call="send")
    run.received(300, 1)
    run.ended(400, 1)

    tally = tally_of(run)

    assert (tally.unsent, tally.unsure, tally.recovered) == (0, 1, 1)


def _retried(run: MadeUpRun) -> None:
    run.ended(300, 1, how="retried")


def _refused(run: MadeUpRun) -> None:
    run.ended(300, 1, how="refused", what="Injected")


def _crashed(run: MadeUpRun) -> None:
    run.crashed(300)


def _process_died(run: MadeUpRun) -> None:
    run.add(300, "worker", topic="", worker="w", what="died")


def _clock_jumped(run: MadeUpRun) -> None:
    run.add(300, "fault", topic="", what="clock_jump", stream="clock_jump/0", index=0)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (_retried, "retried"),
        (_refused, "ack failed"),
        (_crashed, "worker died"),
        (_process_died, "worker died"),
        (_clock_jumped, "clock or connection"),
    ],
)
def test_a_second_delivery_with_a_reason_is_no_problem(
    run: MadeUpRun, what: Callable[[MadeUpRun], None], reason: str
) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    what(run)
    run.received(500, 1, worker="w/1", attempt=2)
    run.ended(600, 1, worker="w/1")

    verdict = verdict_of(run)

    assert verdict.passed
    assert verdict.topics["orders"].redelivered == {reason: 1}


def test_a_second_delivery_after_the_lease_ran_out_is_no_problem(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    run.received(200 + LEASE, 1, worker="w/1", attempt=2)
    run.ended(300 + LEASE, 1, worker="w/1")
    run.ended(400 + LEASE, 1, worker="w/0", how="refused", what="LeaseLost")

    assert tally_of(run).redelivered == {"lease ran out": 1}


def test_a_second_delivery_while_the_first_worker_holds_the_message_is_a_problem(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    run.received(LEASE // 2, 1, worker="w/1", attempt=2)
    run.ended(LEASE // 2 + 100, 1, worker="w/1")
    run.ended(LEASE // 2 + 200, 1)

    assert kinds_of(verdict_of(run)) == [("delivered twice", 1, [1])]


@pytest.mark.parametrize("again_at", [LEASE // 2, 3 * LEASE], ids=["within the lease", "after the lease"])
def test_a_delivery_after_a_confirmed_ack_is_a_problem(run: MadeUpRun, again_at: int) -> None:
    run.done(1)
    run.received(again_at, 1, worker="w/1", attempt=2)
    run.ended(again_at + 100, 1, worker="w/1")

    assert kinds_of(verdict_of(run)) == [("delivered after ack", 1, [1])]


def test_a_receive_that_waited_while_the_message_was_acked_is_a_problem_too(run: MadeUpRun) -> None:
    run.done(1)
    run.received(LEASE // 2, 1, worker="w/1", took=LEASE // 2, attempt=2)
    run.ended(LEASE, 1, worker="w/1")

    assert kinds_of(verdict_of(run)) == [("delivered after ack", 1, [1])]


def test_an_ack_of_an_expired_lease_beside_another_delivery_is_judged_in_favour_of_the_queue(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    run.ended(250 + LEASE, 1)
    run.received(300 + LEASE, 1, worker="w/1", took=100, attempt=2)
    run.ended(400 + LEASE, 1, worker="w/1")

    assert verdict_of(run).passed


def test_an_ack_that_a_dead_worker_may_have_made_is_no_loss(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    run.crashed(300, point="after_commit")

    verdict = verdict_of(run)

    assert verdict.passed
    assert verdict.topics["orders"].done_unheard == 1


def test_an_ack_without_an_answer_is_no_loss(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    run.ended(300, 1, how="refused", what="OutcomeUnknown")

    verdict = verdict_of(run)

    assert verdict.passed
    assert verdict.topics["orders"].done_unheard == 1


def test_what_a_worker_held_that_died_before_its_ack_was_committed_must_not_be_gone(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    run.crashed(300, point="before_commit")

    assert kinds_of(verdict_of(run)) == [("lost", 1, [1])]


def test_what_was_given_back_must_not_be_gone(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    run.ended(300, 1, how="retried")

    assert kinds_of(verdict_of(run)) == [("lost", 1, [1])]


def test_what_was_given_back_for_the_last_time_is_dead(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(200, 1, attempt=3)
    run.ended(300, 1, how="retried")

    assert tally_of(run).dead == 1


def test_what_is_among_the_dead_letters_is_dead(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.received(200, 1)
    run.ended(300, 1, how="died")
    run.left(1, "dead")

    tally = tally_of(run)

    assert (tally.dead, tally.left, tally.lost) == (1, 0, 0)


def test_what_was_acked_must_not_be_in_the_queue_any_more(run: MadeUpRun) -> None:
    run.done(1)
    run.left(1)

    assert kinds_of(verdict_of(run)) == [("acked but kept", 1, [1])]


def test_a_log_without_an_end_is_unclear(run: MadeUpRun) -> None:
    run.done(1)
    run.sent(100, 2)

    verdict = judge(run.unfinished(), config_of())

    assert verdict.outcome == "unclear"
    assert verdict.topics["orders"].unaccounted == 1


def test_a_run_after_which_nobody_could_look_accuses_nobody_and_says_why(run: MadeUpRun) -> None:
    run.done(1)
    run.sent(100, 2)

    verdict = judge(run.finish("idle", unknown=True, reason="It shows nothing."), config_of())

    assert (verdict.outcome, verdict.ended, verdict.problems) == ("unclear", "idle", [])
    assert verdict.topics["orders"].unaccounted == 1
    assert "Nobody could look what was left in the queue: It shows nothing." in verdict.warnings


def test_nobody_need_look_after_a_run_of_which_everything_is_known(run: MadeUpRun) -> None:
    run.done(1)

    assert judge(run.finish("settled", unknown=True, reason="It shows nothing."), config_of()).passed


@pytest.mark.parametrize("why", ["idle", "time", "interrupted"])
def test_a_run_that_was_cut_short_says_so(run: MadeUpRun, why: str) -> None:
    run.done(1)

    verdict = verdict_of(run, why)

    assert verdict.ended == why
    assert "The run was" in verdict.warnings[0]


def test_a_fault_that_never_happened_is_a_warning(run: MadeUpRun) -> None:
    run.done(1)
    config = config_of(faults=Faults(queue=CallFaults(crash=Crash(rate=0.001))))

    verdict = judge(run.finish(), config)

    assert any("never happened" in warning for warning in verdict.warnings)


def test_dropped_work_is_told(run: MadeUpRun) -> None:
    run.done(1)
    run.add(5 * SECOND, "dropped", 2, due=SECOND)

    verdict = verdict_of(run)

    assert verdict.topics["orders"].dropped == 1
    assert any("dropped 1 messages of orders" in warning for warning in verdict.warnings)


def test_messages_of_an_earlier_run_with_the_same_numbers_make_it_unclear(run: MadeUpRun) -> None:
    run.add(0, "found", 1, what="ready")
    run.done(1)

    assert verdict_of(run).outcome == "unclear"


def test_a_run_in_which_nothing_was_to_be_done_is_unclear(run: MadeUpRun) -> None:
    verdict = verdict_of(run)

    assert verdict.outcome == "unclear"
    assert "Nothing was stored, and nothing was in the queue before: there is nothing to judge." in verdict.warnings
