"""Queues held for a transaction: no two servers wait for each other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sqew.model import NewEvent, NewMessage, Policy, Ref, Release
from sqew.operations import (
    Ack,
    CreateQueue,
    Nack,
    Operation,
    Peek,
    Publish,
    Purge,
    Receive,
    Send,
    Subscribe,
    Sweep,
)
from tests.stores.postgres.rivals import NOW, in_a_loop, rivals
from tests.support.postgres import Reused, reused_database

__all__ = ["reused_database"]

FIFO = Policy(fifo=True)


def send(queue: str, count: int = 1, **fields: Any) -> Send:
    return Send(queue, [NewMessage(b"1", group="g", **fields)] * count)


@pytest.mark.parametrize("policy", [FIFO, Policy(quota=10)], ids=["FIFO", "quota"])
@in_a_loop
async def test_servers_send_to_the_same_queues_in_another_order(reused_database: Reused, policy: Policy) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("a", policy), CreateQueue("b", policy))

        async with both.holding("a", "b"):
            sends = [both.one.run([send("a"), send("b")], NOW), both.other.run([send("b"), send("a")], NOW)]
            sending = asyncio.gather(*sends)
            await both.until_waiting(2)
        await sending

        assert both.retries == 0
        assert [len(found) for found in await both.run(Peek("a"), Peek("b"))] == [2, 2]


@in_a_loop
async def test_servers_publish_to_the_same_queues_in_another_order(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("a", FIFO), CreateQueue("b", FIFO))
        for pattern, queue in (("x", "a"), ("x", "b"), ("y", "b"), ("y", "a")):
            await both.run(Subscribe(pattern, "queue", queue))

        async with both.holding("a", "b"):
            events = [NewEvent(key, NewMessage(b"1", group="g"), key) for key in "xy"]
            publishes = [one.run([Publish([event])], NOW) for one, event in zip(both.stores, events, strict=True)]
            publishing = asyncio.gather(*publishes)
            await both.until_waiting(2)
        await publishing

        assert both.retries == 0
        assert [len(found) for found in await both.run(Peek("a"), Peek("b"))] == [2, 2]


ENDS: dict[str, Operation[Any]] = {
    "sweep": Sweep(),
    "ack by id": Ack(None, [Ref(1)]),
    "death by id": Nack(None, [Release(Ref(1), dead=True)]),
    "purge": Purge("jobs", 9, 9),
}


@pytest.mark.parametrize("operation", ENDS.values(), ids=ENDS)
@in_a_loop
async def test_who_waits_for_a_queue_has_locked_none_of_its_messages(
    reused_database: Reused, operation: Operation[Any]
) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy(fifo=True, max_attempts=1, dead_letter="dead")))
        await both.run(CreateQueue("dead", FIFO), send("jobs", 3, ttl_ms=5), Receive("jobs", lease_ms=5))

        async with both.holding("jobs"):
            ending = asyncio.ensure_future(both.other.run([operation], NOW + 10))
            await both.until_waiting(1)
            free = await both.holder.fetch("SELECT id FROM sqew_message FOR UPDATE SKIP LOCKED")
        await ending

        assert len(free) == 3
        assert both.retries == 0
        assert len((await both.run(Peek("jobs")))[0]) < 3
