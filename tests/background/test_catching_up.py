"""Schedules after downtime: missed fires are made up for or skipped, and never too many at once."""

from __future__ import annotations

import asyncio

from sqew.clock import ManualClock
from sqew.model import NewMessage
from sqew.operations import CountDeliveries, FireSchedule, SaveSchedule
from sqew.schedules.changes import new_schedule
from tests.support.background import house, ms, utc

NOON = ms("2026-06-01T12:00:00Z")
MINUTE, HOUR = 60_000, 3_600_000


def test_without_catching_up_one_late_fire_stands_for_all_that_were_missed(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("tick", "every", "1 minute")
            clock.advance(10 * MINUTE + 1)
            await h.scheduler().fire_due()
            return await h.slots("tick"), await h.reads("tick")

    slots, schedule = asyncio.run(scenario())

    assert slots == [utc(NOON + MINUTE)]
    assert (schedule.fired, schedule.skipped) == (1, 9)
    assert schedule.next_fire_at == NOON + 11 * MINUTE


def test_catching_up_sends_what_was_missed_in_order_and_up_to_the_limit(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("tick", "every", "1 minute", catchup=True, catchup_limit=4)
            clock.advance(10 * MINUTE + 1)
            await h.scheduler().fire_due()
            sent = [message.headers["_schedule"]["scheduled_for"] for message in await h.messages()]
            return sent, await h.reads("tick")

    sent, schedule = asyncio.run(scenario())

    assert sent == [utc(NOON + minute * MINUTE) for minute in range(1, 5)]
    assert (schedule.fired, schedule.skipped) == (4, 6)
    assert schedule.next_fire_at == NOON + 11 * MINUTE


def test_what_was_missed_of_large_messages_was_sent_in_one_transaction(tmp_path):
    clock = ManualClock(NOON)
    sizes = []

    def measure(operations):
        fires = [operation for operation in operations if isinstance(operation, FireSchedule)]
        sizes.append(sum(len(event.message.body) for fire in fires for event in fire.events))

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            for name in ("a", "b", "c"):
                message = NewMessage(b'"' + b"x" * 300_000 + b'"')
                schedule = new_schedule(
                    name, "queue", "ticks", "every", "1 minute", message, clock.now(), catchup=True, catchup_limit=10
                )
                await h.broker.run(SaveSchedule(schedule, 0))
            clock.advance(HOUR)
            h.public_text = measure
            await h.scheduler().fire_due()
            return [await h.reads(name) for name in ("a", "b", "c")], await h.messages()

    schedules, messages = asyncio.run(scenario())

    assert [(schedule.fired, schedule.skipped) for schedule in schedules] == [(10, 50)] * 3
    assert len(messages) > 20
    assert max(sizes) < 2_000_000


def test_what_was_missed_by_a_topic_that_thousands_subscribe_to_comes_in_several_steps(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            for number in range(3_000):
                await h.subscribe("clock.*", f"https://{number}.example/")
            await h.schedule("tick", "every", "1 minute", "clock.minute", target_kind="topic", catchup=True)
            clock.advance(10 * MINUTE)
            await h.scheduler().fire_due()
            return await h.reads("tick"), await h.broker.run(CountDeliveries())

    schedule, deliveries = asyncio.run(scenario())

    assert (schedule.status, schedule.fired, schedule.skipped) == ("active", 10, 0)
    assert deliveries.waiting == 30_000


def test_what_was_missed_never_came_to_a_queue_that_has_no_room_for_all_of_it(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks", quota=2)
            await h.schedule("tick", "every", "1 minute", catchup=True, catchup_limit=5)
            clock.advance(5 * MINUTE + 1)
            scheduler = h.scheduler()
            for _ in range(3):
                await scheduler.fire_due()
            return await h.slots("tick"), await h.reads("tick")

    slots, schedule = asyncio.run(scenario())

    assert slots == [utc(NOON + MINUTE), utc(NOON + 2 * MINUTE)]
    assert (schedule.fired, schedule.skipped) == (2, 0)
    assert schedule.next_fire_at <= clock.now()
