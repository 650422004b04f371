"""The order within the groups of FIFO topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from plainbench.config.model import TopicConfig
from plainbench.verdict.verdict import judge
from tests.plainbench.made_up import MadeUpRun, config_of


@pytest.fixture
def run(tmp_path: Path) -> MadeUpRun:
    return MadeUpRun(tmp_path / "run")


def overtakers(run: MadeUpRun) -> list[int]:
    verdict = judge(run.finish(), config_of(topics=[TopicConfig("orders", fifo=True)]))
    return [n for problem in verdict.problems if problem.kind == "order" for n in problem.examples]


def deliver(run: MadeUpRun, n: int, at: int, worker: str = "w/0", group: str = "a", until: int | None = None) -> None:
    run.received(at, n, worker=worker, group=group)
    run.ended(at + 50 if until is None else until, n, worker=worker, group=group)


def test_messages_that_come_out_as_they_went_in_are_in_order(run: MadeUpRun) -> None:
    for n in range(1, 6):
        run.sent(n * 100, n)
        deliver(run, n, n * 100 + 1_000)

    assert overtakers(run) == []


def test_a_message_that_comes_out_before_an_earlier_one_of_its_group_is_found(run: MadeUpRun) -> None:
    for n in (1, 2, 3):
        run.sent(n * 100, n)
    deliver(run, 2, 1_000)
    deliver(run, 1, 2_000)
    deliver(run, 3, 3_000)

    assert overtakers(run) == [2]


def test_a_message_that_comes_out_while_an_earlier_one_is_with_a_worker_is_found(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.sent(200, 2)
    deliver(run, 1, 1_000, until=2_000)
    deliver(run, 2, 1_500, worker="w/1")

    assert overtakers(run) == [2]


def test_messages_of_other_groups_may_overtake(run: MadeUpRun) -> None:
    run.sent(100, 1, group="a")
    run.sent(200, 2, group="b")
    deliver(run, 2, 1_000, group="b")
    deliver(run, 1, 2_000, group="a")

    assert overtakers(run) == []


def test_the_group_is_that_of_the_send_whatever_the_queue_says(run: MadeUpRun) -> None:
    run.sent(100, 1, group="a")
    run.sent(200, 2, group="a")
    deliver(run, 2, 1_000, group="b")
    deliver(run, 1, 2_000, group="a")

    assert overtakers(run) == [2]


def test_a_batch_may_hold_several_of_a_group(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.sent(200, 2)
    for n in (1, 2):
        run.received(1_000, n, group="a")
    for n in (1, 2):
        run.ended(2_000, n, group="a")

    assert overtakers(run) == []


def test_a_message_may_come_first_in_a_batch_with_an_earlier_one_that_comes_again(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.sent(200, 2)
    run.received(1_000, 1, group="a")
    run.crashed(1_100)
    for n, attempt in ((1, 2), (2, 1)):
        run.received(2_000_000, n, worker="w/1", group="a", attempt=attempt)
    for n in (1, 2):
        run.ended(2_000_100, n, worker="w/1", group="a")

    assert overtakers(run) == []


def test_a_message_left_out_of_a_batch_is_overtaken_by_those_behind_it(run: MadeUpRun) -> None:
    for n in (1, 2, 3):
        run.sent(n * 100, n)
    for n in (1, 3):
        run.received(1_000, n, group="a")
        run.ended(1_100, n, group="a")
    deliver(run, 2, 2_000)

    assert overtakers(run) == [3]


def test_messages_that_were_sent_at_the_same_time_have_no_order(run: MadeUpRun) -> None:
    run.sent(1_000, 1, took=900, worker="generator-0/0")
    run.sent(1_000, 2, took=900, worker="generator-0/1")
    deliver(run, 2, 2_000)
    deliver(run, 1, 3_000)

    assert overtakers(run) == []


def test_messages_of_one_call_have_the_order_of_their_numbers(run: MadeUpRun) -> None:
    run.sent(100, 1, to=3)
    deliver(run, 1, 1_000)
    deliver(run, 3, 2_000)
    deliver(run, 2, 3_000)

    assert overtakers(run) == [3]


def test_a_retry_blocks_the_group(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.sent(200, 2)
    run.received(1_000, 1, group="a")
    run.ended(1_100, 1, how="retried", group="a")
    deliver(run, 2, 1_500)
    run.received(2_000, 1, group="a", attempt=2)
    run.ended(2_100, 1, group="a")

    assert overtakers(run) == [2]


def test_the_order_of_other_topics_is_nobodys_concern(run: MadeUpRun) -> None:
    run.sent(100, 1)
    run.sent(200, 2)
    deliver(run, 2, 1_000)
    deliver(run, 1, 2_000)

    assert judge(run.finish(), config_of()).passed
