"""Runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plainbench.cli.compare import judged
from plainbench.config.model import Keys, Pragmas, SQLite, Target, Workload
from plainbench.record.inputs import Input
from plainbench.statistics.bootstrap import Blocks, Estimate, Resampled, rate
from plainbench.statistics.compare import Comparison, Figure, NotComparable, compare
from plainbench.verdict.log_columns import NEVER, Numbers
from sqew.errors import BadValue
from tests.plainbench.made_up import MadeUpRun, config_of, with_manifest


def made(folder: Path, *, wait: int = 1_000, count: int = 400, **changes: Any) -> Path:
    """Make a run whose messages wait for about so many microseconds; every tenth for three times as long."""
    run = MadeUpRun(folder)
    for n in range(1, count + 1):
        run.sent(n * 1_000, n)
        received = n * 1_000 + wait * (3 if n % 10 == 0 else 1) + n % 7
        run.received(received, n)
        run.ended(received + 100, n)
    config = changes.pop("config", config_of())
    return with_manifest(run.finish(), config, **changes)


def figure_of(comparison: Comparison, name: str) -> Figure:
    (figure,) = [one for one in comparison.figures if one.name == name]
    return figure


def median(due: Numbers, samples: Numbers, seed: int = 0) -> Resampled:
    (found,) = Blocks(due, samples, seed).quantiles([0.5])
    return found


def test_a_run_is_no_different_from_itself(tmp_path: Path) -> None:
    one, other = made(tmp_path / "one"), made(tmp_path / "other")

    found = compare([one, other])

    assert found.differences == {}
    for figure in found.figures:
        ratio = figure.ratios[1]
        assert ratio is not None
        assert ratio.value == 1
        assert judged(ratio, higher_is_better=False) == "no difference shown"


def test_a_slower_run_is_found_to_be_slower(tmp_path: Path) -> None:
    fast, slow = made(tmp_path / "fast"), made(tmp_path / "slow", wait=1_500)

    figure = figure_of(compare([fast, slow]), "due → claim p50")

    ratio = figure.ratios[1]
    assert ratio is not None
    assert ratio.value == pytest.approx(1.5, rel=0.02)
    assert judged(ratio, higher_is_better=False) == "worse"


def test_estimates_lie_in_their_intervals(tmp_path: Path) -> None:
    found = compare([made(tmp_path / "one"), made(tmp_path / "other", wait=1_200)])

    for figure in found.figures:
        for estimate in figure.estimates:
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.value is not None
            assert estimate.low * 0.99 <= estimate.value <= estimate.high * 1.01


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"machine": {"cpu": "another"}}, "from other machines (cpu: one and another)"),
        ({"durability": "fast"}, "differ in durability (durable and fast)"),
        ({"inputs": [Input("orders.jsonl", "messages", 1, "ab")]}, "had other inputs (orders.jsonl)"),
        ({"before": [Input("queue-before.db", "queue", 1, "ab")]}, "had other inputs (queue-before.db)"),
        ({"config": config_of(workload=[Workload("orders", keys=Keys(7))])}, "had other inputs (workload)"),
        ({"config": config_of(seed=3)}, "had other inputs (seed)"),
        ({"config": config_of(mode="virtual")}, "in real time and the other in virtual time"),
    ],
    ids=["machine", "durability", "file", "queue", "workload", "seed", "mode"],
)
def test_runs_that_are_not_comparable_are_refused_unless_forced(tmp_path: Path, changes: Any, why: str) -> None:
    one, other = made(tmp_path / "one", count=20), made(tmp_path / "other", count=20, **changes)

    with pytest.raises(NotComparable) as refusal:
        compare([one, other])

    assert why in str(refusal.value)
    assert any(why in objection for objection in compare([one, other], force=True).objections)


def test_another_worker_is_what_may_be_compared(tmp_path: Path) -> None:
    worker = [Input("work.py", "worker w", 1, "ab")]
    one, other = made(tmp_path / "one", count=20), made(tmp_path / "other", count=20, inputs=worker)

    assert compare([one, other]).objections == []


def test_what_differs_between_the_configurations_is_listed(tmp_path: Path) -> None:
    pragmas = config_of(sqlite=SQLite(pragmas=Pragmas(wal_autocheckpoint_pages=250)))
    one, other = made(tmp_path / "one", count=20), made(tmp_path / "other", count=20, config=pragmas)

    found = compare([one, other])

    assert found.differences == {"sqlite.pragmas.wal_autocheckpoint_pages": ["1000", "250"]}


def test_secrets_that_differ_are_told_without_what_they_are(tmp_path: Path) -> None:
    targets = [
        Target("sqew-http", {"token": f"sesame-{name}", "url": f"http://me:{name}@localhost"}) for name in ("a", "b")
    ]
    one, other = (made(tmp_path / f"run-{n}", count=20, config=config_of(target=t)) for n, t in enumerate(targets))

    found = compare([one, other])

    assert found.differences == {
        "target.options.token": ["…", "…"],
        "target.options.url": ["http://…@localhost", "http://…@localhost"],
    }


def test_several_runs_are_each_compared_with_the_first(tmp_path: Path) -> None:
    runs = [made(tmp_path / name, wait=wait) for name, wait in (("a", 1_000), ("b", 2_000), ("c", 500))]

    ratios = figure_of(compare(runs), "due → claim p50").ratios

    assert [None if ratio is None else round(ratio.value or 0, 1) for ratio in ratios] == [None, 2.0, 0.5]


def test_one_run_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="two runs"):
        compare([made(tmp_path / "one", count=20)])


def test_a_quantile_that_is_for_ever_is_worse_than_any_other() -> None:
    due = np.arange(100)
    some, lost = np.full(100, 1_000), np.full(100, NEVER)

    ratio = median(due, lost).ratio(median(due, some))

    assert ratio == Estimate(None, None, None)
    assert judged(ratio, higher_is_better=False) == "worse"


def test_the_interval_is_wide_where_slow_messages_come_together() -> None:
    due = np.arange(10_000)
    spread, together = np.full(10_000, 1_000), np.full(10_000, 1_000)
    spread[::40] = 50_000
    together[:250] = 50_000

    (apart,), (stalled,) = Blocks(due, spread, 0).quantiles([0.98]), Blocks(due, together, 0).quantiles([0.98])

    # The same samples: but if one stall made them all, another run might have had none.
    assert apart.value == stalled.value == 50
    assert apart.estimate().low == pytest.approx(50, rel=0.01)
    assert stalled.estimate().low == pytest.approx(1, rel=0.01)


def test_the_interval_holds_the_true_value_as_often_as_it_says() -> None:
    generator = np.random.default_rng(7)
    held = 0
    for number in range(20):
        samples = (generator.exponential(10_000, 500) + 1).astype(np.int64)
        estimate = median(np.arange(500), samples, number).estimate()
        assert estimate.low is not None
        assert estimate.high is not None
        held += estimate.low <= 10 * np.log(2) <= estimate.high

    assert 16 <= held <= 20


def test_a_rate_is_that_of_the_whole_run() -> None:
    done = np.arange(1, 1_001) * 10_000

    found = rate(done, 0, 10_000_000, 0)

    assert found.value == 100
    assert found.estimate().low == pytest.approx(100, rel=0.02)
