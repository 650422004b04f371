"""Limits that several servers, or several connections of one, keep together."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import pytest

from sqew.errors import QuotaExceeded, RateLimited
from sqew.model import NewMessage, Policy, Ref, Release, Schedule
from sqew.operations import (
    Ack,
    CreateQueue,
    ListSchedules,
    Nack,
    Operation,
    Purge,
    Receive,
    Remove,
    RequeueDead,
    SaveSchedule,
    Send,
    Sweep,
    UpdateQueue,
)
from sqew.stores.postgres.batch import Batch
from sqew.stores.postgres.connection import SQL, PostgresConnection
from tests.stores.postgres.rivals import NOW, Rivals, in_a_loop, rivals
from tests.support.postgres import Reused, reused_database

__all__ = ["reused_database"]

QUOTA = 5
WRITTEN = "SELECT coalesce(sum(change), -1) FROM sqew_depth JOIN sqew_queue q ON q.id = queue_id WHERE q.name = 'jobs'"
STORED = "SELECT count(*) FROM sqew_message m JOIN sqew_queue q ON q.id = queue_id WHERE q.name = 'jobs'"


def send(count: int = 1, **fields: Any) -> Send:
    return Send("jobs", [NewMessage(b"1", **fields)] * count)


async def full(both: Rivals, **policy: Any) -> list[int]:
    """Fill a queue to its quota from both servers and return the ids."""
    await both.run(CreateQueue("jobs", Policy(quota=QUOTA, **policy)))
    one = await both.one.run([send(3, key=None)], NOW)
    other = await both.other.run([send(2, ttl_ms=10)], NOW)
    return [sent.id for commit in (one, other) for sent in commit.results[0]]


async def is_full(both: Rivals) -> bool:
    """Return True if both servers find the queue full."""
    results = [(await store.run([send()], NOW)).results[0] for store in both.stores]
    assert all(isinstance(result, QuotaExceeded | list) for result in results)
    return all(isinstance(result, QuotaExceeded) for result in results)


def every_way_out(ids: list[int]) -> dict[str, Operation[Any]]:
    return {
        "ack": Ack("jobs", [Ref(ids[0])]),
        "ack by id": Ack(None, [Ref(ids[0])]),
        "remove": Remove("jobs", ids[:1]),
        "death": Nack("jobs", [Release(Ref(ids[0]), dead=True)]),
        "receive for good": Receive("jobs", finish=True),
        "purge": Purge("jobs", ids[0], 1),
    }


@pytest.mark.parametrize("way", every_way_out([0]))
@pytest.mark.parametrize("keep", ["delete", "archive"])
@in_a_loop
async def test_what_one_server_takes_makes_room_for_the_other(reused_database: Reused, way: str, keep: Any) -> None:
    async with rivals(reused_database) as both:
        ids = await full(both, keep=keep)
        assert await is_full(both)

        await both.run(every_way_out(ids)[way])
        [sent] = (await both.other.run([send()], NOW)).results

        assert len(sent) == 1
        assert await is_full(both)
        assert await both.holder.fetchval(WRITTEN) == await both.holder.fetchval(STORED) == QUOTA


@in_a_loop
async def test_what_expires_and_what_comes_back_is_counted(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        ids = await full(both, dead_letter="dead")
        await both.run(CreateQueue("dead", Policy(quota=1)))
        await both.run(Nack("jobs", [Release(Ref(ids[0]), dead=True)]), Sweep(), now=NOW + 20)
        left = await both.holder.fetchval(WRITTEN)

        await both.other.run([RequeueDead("jobs")], NOW + 20)

        assert left == 2
        assert await both.holder.fetchval(WRITTEN) == await both.holder.fetchval(STORED) == 3
        assert await both.holder.fetchval(WRITTEN.replace("jobs", "dead")) == 0


@in_a_loop
async def test_an_ack_makes_room_when_it_is_committed_and_not_before(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        ids = await full(both)
        async with both.holder.transaction():
            await both.holder.execute(f"SELECT FROM sqew_message WHERE id = {ids[1]} FOR UPDATE")
            acking = asyncio.ensure_future(both.other.run([Ack("jobs", [Ref(ids[0]), Ref(ids[1])])], NOW))
            await both.until_waiting(1)
            assert await is_full(both)
        await acking

        sent, refused = (await both.one.run([send(2), send()], NOW)).results

        assert len(sent) == 2
        assert isinstance(refused, QuotaExceeded)


@in_a_loop
async def test_a_quota_that_was_away_for_a_while_is_counted_anew(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        ids = await full(both)
        await both.run(UpdateQueue("jobs", {"quota": None}))
        await both.run(Ack("jobs", [Ref(ids[0])]), send(3))

        await both.run(UpdateQueue("jobs", {"quota": 8}))
        sent, refused = (await both.one.run([send(), send()], NOW)).results

        assert len(sent) == 1
        assert isinstance(refused, QuotaExceeded)


@in_a_loop
async def test_messages_are_counted_once_however_many_are_sent(
    reused_database: Reused, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {text: name for name, text in SQL.texts.items()}
    statements: list[str] = []
    fetch = PostgresConnection.fetch

    async def note(link: PostgresConnection, statement: str, *parameters: object) -> object:
        statements.append(names[statement])
        return await fetch(link, statement, *parameters)

    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy(quota=1_000)))
        monkeypatch.setattr(PostgresConnection, "fetch", note)
        for _ in range(120):
            for store in both.stores:
                await store.run([send()], NOW)

        assert statements.count("count_depth") == 1
        assert await both.holder.fetchval("SELECT count(*) FROM sqew_depth") < 120
        assert await both.holder.fetchval(WRITTEN) == 240


@in_a_loop
async def test_priorities_that_nobody_uses_any_more_are_forgotten(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy()), CreateQueue("few", Policy()))
        await both.run(*(send(priority=n) for n in range(30)), Send("few", [NewMessage(b"1", priority=3)]))
        await both.run(Receive("jobs", 29, finish=True), Receive("few", finish=True))

        await both.other.run([Sweep()], NOW)

        kept = await both.holder.fetch("SELECT name, priority FROM sqew_bucket JOIN sqew_queue q ON q.id = queue_id")
        assert sorted(map(tuple, kept)) == [("few", 3), ("jobs", 0)]
        await both.run(send(priority=7))
        [received] = (await both.other.run([Receive("jobs", 9)], NOW)).results
        assert [message.priority for message in received.messages] == [7, 0]


@in_a_loop
async def test_all_connections_of_a_server_keep_to_one_rate(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy(rate_limit=1)))
        flights = [Batch([send()], NOW) for _ in range(2)]

        async with both.one._session() as first, both.one._session() as second:
            await first.run(flights[0])
            await second.run(flights[1])

        [sent], [refused] = (flight.commit.results for flight in flights)
        assert len(sent) == 1
        assert isinstance(refused, RateLimited)


@in_a_loop
async def test_who_lists_some_schedules_does_not_read_all(reused_database: Reused) -> None:
    body = b'"%s"' % (b"x" * 100_000)
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy()))
        for n in range(100):
            message = NewMessage(body)
            schedule = Schedule(f"s{n:03}", "queue", "jobs", "cron", "@daily", "0 0 * * *", "UTC", message)
            await both.run(SaveSchedule(schedule))

        tracemalloc.start()
        [found] = await both.run(ListSchedules(limit=2))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert [schedule.name for schedule in found] == ["s000", "s001"]
        assert peak < 50 * len(body)
