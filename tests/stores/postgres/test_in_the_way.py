"""Servers in each other's way: none of them fails, and none waits for what it does not need."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from sqew.core.broker import Broker
from sqew.core.engine import limits_of, open_database
from sqew.formats.columns import columns
from sqew.model import NewMessage, Policy, Promotion, Ref, Staged
from sqew.operations import (
    Ack,
    CreateQueue,
    DeleteQueue,
    GetWriter,
    Peek,
    Promote,
    Receive,
    Send,
    Stage,
    Sweep,
    SweepDue,
)
from sqew.settings import resolve
from sqew.stores.postgres.connection import SQL
from tests.stores.postgres.rivals import NOW, in_a_loop, rivals
from tests.support.postgres import Reused, reused_database

__all__ = ["reused_database"]

CONNECTIONS = 4


def send(queue: str, *priorities: int) -> Send:
    return Send(queue, [NewMessage(b"1", priority=priority) for priority in priorities])


@contextlib.asynccontextmanager
async def broker_on(database: str) -> AsyncIterator[Broker]:
    """Yield a broker as a server has it."""
    settings = resolve({"database_url": database, "database_connections": CONNECTIONS}, {}, None)
    async with Broker(await open_database(settings), limits_of(settings)) as broker:
        yield broker


# Deleted queues


@in_a_loop
async def test_a_deleted_queue_that_one_server_removes_is_passed_over_by_the_others(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy()), send("jobs", 0))
        await both.run(DeleteQueue("jobs"))

        removing, passing = await both.overlap(Sweep(), Sweep())

        assert (removing.removed > 0, passing.removed) == (True, 0)


@in_a_loop
async def test_who_asks_what_is_to_be_swept_bears_that_another_has_just_removed_a_queue(
    reused_database: Reused,
) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy()), DeleteQueue("jobs"))

        async with both.holder.transaction():
            # As by a statement that began before the other server's transaction ended, and one that began after it.
            await both.holder.execute("LOCK sqew_lane")
            asking = asyncio.ensure_future(both.other.run([SweepDue()], NOW))
            await both.until_waiting(1, asking)
            await both.holder.execute("DELETE FROM sqew_lane")
            await both.holder.execute("DELETE FROM sqew_queue WHERE name IS NULL")

        assert (await asking).results == [True]


# What is staged


def stage(part: str) -> Stage:
    return Stage("jobs", "load", 0, part, columns([NewMessage(b"1")]))


@in_a_loop
async def test_nothing_is_staged_of_an_epoch_that_another_server_is_just_promoting(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy()), stage("failed"))

        promoted, staged = await both.overlap(Promote("jobs", "load", 0, {}), stage("late"))

        assert (promoted, staged) == (Promotion(0), Staged(1, promoted=True))
        [again, writer] = await both.run(Promote("jobs", "load", 0, {}), GetWriter("jobs", "load"))
        assert (again, writer.staged) == (Promotion(0, repeated=True), [])


@in_a_loop
async def test_who_stages_does_not_wait_for_another_who_does(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy()), stage("first"))
        [ends_at] = await both.holder.fetchrow("SELECT ends_at FROM sqew_staging")
        # So much later that what is staged is to be kept for longer.
        later = NOW + 3_600_000

        async with both.holder.transaction(), asyncio.timeout(10):
            # As somebody does who adds to it, too.
            await both.holder.execute("SELECT FROM sqew_staging FOR SHARE")
            await both.run(stage("second"), now=later)
        await both.run(stage("third"), now=later)

        assert await both.holder.fetchval("SELECT ends_at FROM sqew_staging") == ends_at + 3_600_000


# New priorities


@in_a_loop
async def test_servers_that_use_new_priorities_in_another_order_do_not_wait_in_a_circle(
    reused_database: Reused,
) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy()))

        async with both.holder.transaction():
            # Each has got to where it tells the others of its priorities.
            await both.holder.execute("SELECT FROM sqew_meta FOR UPDATE")
            sends = [both.one.run([send("jobs", 1, 2)], NOW), both.other.run([send("jobs", 2, 1)], NOW)]
            sending = asyncio.gather(*sends)
            await both.until_waiting(2)
        await sending

        assert both.retries == 0
        [received] = await both.run(Receive("jobs", 10))
        assert [message.priority for message in received.messages] == [2, 2, 1, 1]


# Keys


@in_a_loop
async def test_an_ack_does_not_wait_for_who_repeats_the_send_of_its_message(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        keyed = Send("jobs", [NewMessage(b"1", key="k")])
        _, _, received = await both.run(CreateQueue("jobs", Policy()), keyed, Receive("jobs"))
        [message] = received.messages

        async with both.holder.transaction():
            [queue_id] = await both.holder.fetchrow("SELECT id FROM sqew_queue")
            assert await both.holder.fetchval(SQL.key_owner, queue_id, "k", NOW) == message.id
            # Two servers that each did both, for the same keys, waited in a circle.
            async with asyncio.timeout(10):
                [[acked]] = await both.run(Ack("jobs", [Ref(message.id, message.lease.token)]))

        assert acked.id == message.id


# Queues that a server holds which has stopped


@pytest.mark.parametrize("count", [1, 40])
@in_a_loop
async def test_who_sends_to_a_plain_queue_does_not_wait_for_who_holds_a_fifo_queue(
    reused_database: Reused, count: int
) -> None:
    async with rivals(reused_database) as both, broker_on(reused_database.url) as broker:
        await both.run(CreateQueue("plain", Policy()), CreateQueue("jobs", Policy(fifo=True)))

        async with both.holding("jobs"):
            # Together with what waits, and after that, whether or not there are as many as there are connections; and
            # whether or not there was such a message before.
            held_up = []
            for number in range(count):
                held_up.append(asyncio.ensure_future(broker.run(send("jobs", 0))))
                async with asyncio.timeout(10):
                    await broker.run(send("plain", number % 30))
            await both.until_waiting(1)
            assert not any(waiting.done() for waiting in held_up)
        await asyncio.gather(*held_up)

        jobs, plain = await both.run(Peek("jobs", 100), Peek("plain", 100))
        assert (len(jobs), len(plain)) == (count, count)


@in_a_loop
async def test_an_ack_that_is_done_in_parts_is_answered_as_one(reused_database: Reused) -> None:
    async with rivals(reused_database) as both, broker_on(reused_database.url) as broker:
        await both.run(CreateQueue("plain", Policy()))
        keyed = Send("plain", [NewMessage(b"1", key="k")])
        ids = [sent.id for op in (send("plain", 0), keyed, send("plain", 0)) for sent in await broker.run(op)]
        await broker.run(Receive("plain", 10))

        settled = await broker.run(Ack("plain", [Ref(id) for id in ids]))

        assert [one.id for one in settled] == ids
