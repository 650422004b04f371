"""The harness under test: each planted bug must be caught, and by the check that is there for it."""

from __future__ import annotations

from pathlib import Path

from tests.faults.contention import contend
from tests.faults.lives import live_and_die
from tests.faults.planted import (
    AcksBeforeCommit,
    AnswersSendsBeforeCommit,
    BreaksFifo,
    DoesNotLease,
    IgnoresTokens,
    NeverSyncs,
    Sound,
)
from tests.faults.test_kills import kill_and_judge

MOST_ROUNDS = 4


def test_a_sound_store_passes_contention(scratch: Path) -> None:
    for seed in range(5):
        verdict = contend(scratch / f"{seed}.db", seed, Sound)

        assert not verdict.violations
        assert verdict.duplicated, "no lease ran out: nothing was contended"


def test_an_ack_answered_before_its_commit_is_caught_as_a_zombie_when_the_power_fails(scratch: Path) -> None:
    story = live_and_die(1, scratch, durability="durable", lives=10, wrap=AcksBeforeCommit)

    assert story.verdict is not None
    assert "zombies" in story.verdict.violations


def test_an_ack_answered_before_its_commit_is_caught_as_a_zombie_when_processes_are_killed(scratch: Path) -> None:
    for seed in range(MOST_ROUNDS):
        (scratch / str(seed)).mkdir()
        _, verdict = kill_and_judge(scratch / str(seed), "durable", 12, seed, store=AcksBeforeCommit.__name__)
        if verdict.violations:
            break  # otherwise each kill fell when nothing was owed to the file

    assert "zombies" in verdict.violations, f"{seed + 1} rounds of 12 kills: {verdict}"


def test_a_send_answered_before_its_commit_is_caught_as_lost(scratch: Path) -> None:
    story = live_and_die(1, scratch, durability="durable", lives=10, wrap=AnswersSendsBeforeCommit)

    assert story.verdict is not None
    assert "lost" in story.verdict.violations


def test_acks_without_a_token_check_are_caught_as_stale_acks(scratch: Path) -> None:
    verdict = contend(scratch / "queue.db", 1, IgnoresTokens)

    assert "stale_acks" in verdict.violations


def test_deliveries_without_a_lease_are_caught_as_double_claims(scratch: Path) -> None:
    verdict = contend(scratch / "queue.db", 1, DoesNotLease)

    assert "double_claims" in verdict.violations


def test_claims_past_the_head_of_a_fifo_group_are_caught_as_crowded(scratch: Path) -> None:
    verdict = contend(scratch / "queue.db", 1, BreaksFifo)

    assert "crowded" in verdict.violations


def test_synchronous_off_is_caught_by_power_cuts(scratch: Path) -> None:
    stories = []
    for seed in range(5):
        (scratch / str(seed)).mkdir()
        stories.append(live_and_die(seed, scratch / str(seed), durability="durable", lives=10, wrap=NeverSyncs))

    problems = [problem for story in stories for problem in story.problems]
    assert any("answered transactions are not in the file" in problem for problem in problems)
    # Losing is what `fast` may do. This must be seen as worse: without syncs a checkpoint tears the file itself.
    assert any("integrity_check" in p or "can't be read" in p or "no transaction left" in p for p in problems)
