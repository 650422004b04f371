"""Queues that are broken on purpose: the verdict must find out."""

from __future__ import annotations

from pathlib import Path

import pytest

from plainbench.verdict.verdict import Verdict, judge
from tests.plainbench.made_up import BROKEN
from tests.plainbench.runs import config, run_real, run_virtual

SLOW = [{"name": "w", "concurrency": 4, "lease_ms": 2_000, "work": {"type": "uniform", "min_ms": 100, "max_ms": 400}}]


def verdict_on(folder: Path, driver: str, **changes: object) -> Verdict:
    (folder / "broken.py").write_text(BROKEN)
    changes = {"target": {"driver": driver}, **changes}
    ran = run_virtual(folder, **changes)
    return judge(ran.folder, config(**changes))


def test_the_queue_as_it_is_passes(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, "sqew", workers=SLOW)

    assert verdict.passed
    assert verdict.topics["orders"].done == 200


@pytest.mark.parametrize(
    ("driver", "kind", "count"),
    [
        ("LosesSome", "lost", 4),
        ("ForgetsAcks", "delivered after ack", 8),
        ("Invents", "unexpected", 4),
        ("Garbles", "changed", 4),
        ("DeliversNothing", "stuck", 200),
    ],
)
def test_a_broken_queue_is_caught(tmp_path: Path, driver: str, kind: str, count: int) -> None:
    verdict = verdict_on(tmp_path, f"broken.py:{driver}")

    assert verdict.outcome == "failed"
    assert (kind, count) in [(problem.kind, problem.count) for problem in verdict.problems]


@pytest.mark.parametrize("arrivals", [{"type": "poisson", "rate": 400}, {"type": "at_once", "batch": 60}])
def test_a_message_that_changes_lanes_is_caught(tmp_path: Path, arrivals: dict[str, object]) -> None:
    lanes = {
        "topics": [{"name": "orders", "lanes": [{"name": "priority", "weight": 3}, {"name": "normal"}]}],
        "workload": [{"topic": "orders", "messages": 200, "lanes": {"priority": 1}, "arrivals": arrivals}],
    }

    broken, sound = (verdict_on(tmp_path, driver, **lanes) for driver in ("broken.py:MixesLanes", "sqew"))

    assert ("changed", [50, 100, 150, 200]) in [(problem.kind, problem.examples) for problem in broken.problems]
    assert sound.problems == []


def test_a_body_that_changes_in_a_batch_is_caught(tmp_path: Path) -> None:
    workload = [{"topic": "orders", "messages": 200, "arrivals": {"type": "at_once", "batch": 60}}]

    verdict = verdict_on(tmp_path, "broken.py:Garbles", workload=workload)

    assert [(problem.kind, problem.examples) for problem in verdict.problems] == [("changed", [50, 100, 150, 200])]


def test_a_queue_that_loses_dead_letters_is_caught(tmp_path: Path) -> None:
    (tmp_path / "gives_up.py").write_text(
        "from plainbench.workers import Dead\ndef work(job):\n    return Dead('no')\n"
    )
    workers = [{"name": "w", "call": "gives_up.py:work"}]

    broken, sound = (verdict_on(tmp_path, driver, workers=workers) for driver in ("broken.py:LosesDeadLetters", "sqew"))

    assert [(problem.kind, problem.count) for problem in broken.problems] == [("lost", 200)]
    assert (sound.problems, sound.topics["orders"].dead) == ([], 200)


def test_a_lease_that_was_extended_holds(tmp_path: Path) -> None:
    """Check a driver that claims to extend leases and does not: at 2 s the message comes again."""
    work = {"type": "uniform", "min_ms": 500, "max_ms": 6_000}
    workers = [{"name": "w", "concurrency": 8, "lease_ms": 2_000, "work": work}]

    broken, sound = (
        verdict_on(tmp_path, driver, workers=workers, workload=[{"topic": "orders", "messages": 20}])
        for driver in ("broken.py:ExtendsNothing", "sqew")
    )

    assert "delivered twice" in [problem.kind for problem in broken.problems]
    assert sound.problems == []


def test_a_queue_that_breaks_the_order_of_a_group_is_caught(tmp_path: Path) -> None:
    fifo = {
        "topics": [{"name": "orders.fifo", "fifo": True}],
        "workload": [{"topic": "orders.fifo", "messages": 400, "keys": {"count": 3}}],
        "workers": [{"name": "w", "concurrency": 8, "work": {"type": "fixed", "ms": 5}}],
    }

    broken, sound = (verdict_on(tmp_path, driver, **fifo) for driver in ("broken.py:BreaksOrder", "sqew"))

    assert "order" in [problem.kind for problem in broken.problems]
    assert sound.problems == []


def test_a_queue_that_starves_a_lane_is_caught(tmp_path: Path) -> None:
    lanes = {
        "topics": [{"name": "orders", "lanes": [{"name": "priority", "weight": 3}, {"name": "normal"}]}],
        "workload": [{"topic": "orders", "messages": 1200, "lanes": {"priority": 1, "normal": 1}}],
    }

    broken, sound = (verdict_on(tmp_path, driver, **lanes) for driver in ("broken.py:Starves", "sqew"))

    assert [problem.kind for problem in broken.problems] == ["starved"]
    assert "Lane normal of topic orders" in broken.problems[0].sentence
    assert sound.problems == []


def test_leases_that_end_early_are_caught(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, "broken.py:LeasesForNoTime", workers=SLOW)

    assert "delivered twice" in [problem.kind for problem in verdict.problems]


def test_a_broken_queue_is_caught_in_real_time_too(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)

    ran = run_real(tmp_path, target={"driver": "broken.py:ForgetsAcks"})

    verdict = judge(ran.folder, config())
    assert "delivered after ack" in [problem.kind for problem in verdict.problems]


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_faults_alone_break_no_promise(tmp_path: Path, point: str) -> None:
    faults = {
        "queue": {
            "latency": {"type": "p95_spike", "base_ms": 1, "p95_ms": 20},
            "error_rate": 0.05,
            "crash": {"rate": 0.05, "point": point, "calls": ["ack", "send"]},
        }
    }

    verdict = verdict_on(tmp_path, "sqew", faults=faults, workers=SLOW)

    tally = verdict.topics["orders"]
    assert verdict.problems == []
    assert (tally.done_unheard > 0) == (point == "after_commit")
    assert ("worker died" in tally.redelivered) == (point == "before_commit")
    assert tally.unsure > 0
    assert tally.recovered == (tally.unsure if point == "after_commit" else 0)
