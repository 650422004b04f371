"""Flows: coroutines of operations, with a runner for threads and one for event loops that treat them alike."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from sqew.core.broker import Broker
from sqew.core.flows import Flow, InThread, InTurn, Read, run_in_loop, run_now
from sqew.core.flows.steps import in_steps
from sqew.embedded.queue import Queue
from sqew.errors import BadValue, QueueNotFound
from sqew.operations import GetQueue, LastId, Purge
from sqew.rules.limits import Limits

Run = Callable[[Flow[Any], Callable[[Any], Any]], Any]


def in_a_loop(flow: Flow[Any], execute: Callable[[Any], Any]) -> Any:
    async def carry_out(effect: Any) -> Any:
        await asyncio.sleep(0)
        return execute(effect)

    return asyncio.run(run_in_loop(flow, carry_out))


@pytest.fixture(params=[run_now, in_a_loop], ids=["now", "in a loop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return a runner of flows."""
    return request.param


def test_a_flow_gets_the_result_of_each_operation(run):
    async def last_two():
        return [await LastId(), await LastId()]

    results = iter([7, 8])

    assert run(last_two(), lambda _effect: next(results)) == [7, 8]


def test_a_flow_may_handle_what_an_operation_raises(run):
    async def info_or_none():
        try:
            return await GetQueue("orders")
        except QueueNotFound:
            return None

    def execute(_effect):
        raise QueueNotFound("orders")

    assert run(info_or_none(), execute) is None


def test_what_a_flow_does_not_handle_is_raised(run):
    async def info():
        return await GetQueue("orders")

    def execute(_effect):
        raise QueueNotFound("orders")

    with pytest.raises(QueueNotFound):
        run(info(), execute)


def test_an_interrupt_ends_a_flow_and_what_it_opened(run):
    ended = []

    async def interrupted():
        try:
            await LastId()
        finally:
            ended.append(True)

    def execute(_effect):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted(), execute)

    assert ended == [True]


def test_steps_are_refused_before_any_is_made(run):
    made = []

    with pytest.raises(BadValue):
        run(in_steps(Purge("orders", 0, -1), Limits()), made.append)

    assert made == []


async def effects() -> list[Any]:
    """Await one effect of each kind."""

    async def inner() -> int:
        return await LastId()

    return [await LastId(), await Read(LastId()), await InThread(lambda: "signed"), await InTurn(inner)]


def test_queue_and_broker_carry_out_the_same_effects(tmp_path):
    with Queue.open(tmp_path / "embedded.db") as q:
        embedded = q._run_flow(effects())

    async def over_a_broker():
        async with Broker.open(tmp_path / "broker.db") as broker:
            return await broker.run_flow(effects())

    assert embedded == asyncio.run(over_a_broker()) == [0, [0], "signed", 0]


def test_what_is_no_effect_is_refused_by_both(tmp_path):
    async def sleeps():
        await asyncio.sleep(0)

    with Queue.open(tmp_path / "embedded.db") as q, pytest.raises(TypeError, match="can't await"):
        q._run_flow(sleeps())

    async def over_a_broker():
        async with Broker.open(tmp_path / "broker.db") as broker:
            await broker.run_flow(sleeps())

    with pytest.raises(TypeError, match="can't await"):
        asyncio.run(over_a_broker())


def test_a_caller_that_is_cancelled_before_its_turn_leaves_no_flow_behind(tmp_path):
    async def slow() -> int:
        return await InThread(lambda: time.sleep(0.2) or 7)

    async def in_turn() -> int:
        return await InTurn(slow)

    async def two_and_cancel_one():
        async with Broker.open(tmp_path / "queue.db") as broker:
            first = asyncio.ensure_future(broker.run_flow(in_turn()))
            second = asyncio.ensure_future(broker.run_flow(in_turn()))
            await asyncio.sleep(0.05)
            second.cancel()
            answers = await asyncio.gather(first, second, return_exceptions=True)
            return answers, await broker.run_flow(in_turn())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (answer, cancelled), later = asyncio.run(two_and_cancel_one())
        gc.collect()

    assert (answer, later) == (7, 7)
    assert isinstance(cancelled, asyncio.CancelledError)


def test_an_embedded_queue_reads_as_of_one_moment(tmp_path):
    with Queue.open(tmp_path / "queue.db") as q, Queue.open(tmp_path / "queue.db") as other:
        q.create("orders")
        q.enqueue("orders", 1)
        run_all, seen = q._executor.run_all, []

        def purged_after(operations):
            seen.append(list(operations))
            answers = run_all(operations)
            other.purge("orders")
            return answers

        q._executor.run_all = purged_after
        stats = q.stats("orders")

    assert [len(operations) for operations in seen] == [2]
    assert stats.depths.total() == 1
