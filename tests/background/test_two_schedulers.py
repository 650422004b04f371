"""Schedulers on one store: each slot is fired once, and other processes' schedules are found."""

from __future__ import annotations

import asyncio

import pytest

from sqew.clock import ManualClock
from sqew.errors import ScheduleChanged
from sqew.operations import DeleteSchedule, FindDueSchedules, FireSchedule
from sqew.schedules.changes import fire_due
from tests.support.background import house, locked, ms, utc

NOON = ms("2026-06-01T12:00:00Z")
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


def test_two_schedulers_on_one_file_fire_every_slot_once(tmp_path):
    clock = ManualClock(NOON)
    fired: list[bool] = []

    async def scenario():
        async with house(tmp_path, clock) as one, house(tmp_path, clock) as two:
            await one.queue("ticks")
            for number in range(20):
                await one.schedule(f"tick{number}", "every", "1 minute")
            for _ in range(5):
                clock.advance(MINUTE)
                # Both find all of them due before either fires the first.
                await asyncio.gather(*(h.scheduler(observe=fired.append).fire_due() for h in (one, two)))
            return [await two.slots(f"tick{number}") for number in range(20)]

    expected = [utc(NOON + minute * MINUTE) for minute in range(1, 6)]
    assert asyncio.run(scenario()) == [expected] * 20
    assert fired == [True] * 100


def test_a_fire_of_a_deleted_schedule_is_not_taken_for_one_of_its_successor(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("once", "fire_at", "2026-06-01T12:30:00Z")
            clock.advance(HOUR)
            (found,) = (await h.broker.run(FindDueSchedules())).schedules
            await h.broker.run(DeleteSchedule("once"))
            successor = await h.schedule("once", "fire_at", "2026-06-02T12:00:00Z")
            with pytest.raises(ScheduleChanged):
                await h.publisher.fire(fire_due(found, clock.now()))
            return successor, await h.reads("once"), await h.messages()

    successor, stored, messages = asyncio.run(scenario())

    assert stored == successor
    assert messages == []


def test_a_schedule_that_another_process_made_is_found_by_looking(tmp_path):
    async def scenario():
        async with house(tmp_path) as one, house(tmp_path) as two, one.running_scheduler(poll_ms=5) as fires:
            await one.queue("ticks")
            await two.schedule("tick", "every", "1 second")
            assert await fires.get()

    asyncio.run(scenario())


def test_of_its_own_schedules_it_knows_without_looking(tmp_path):
    async def scenario():
        async with house(tmp_path) as h, h.running_scheduler(poll_ms=HOUR) as fires:
            await h.queue("ticks")
            schedule = await h.schedule("tick", "every", "1 second")
            assert await fires.get()
            return schedule, (await h.messages())[0]

    schedule, message = asyncio.run(scenario())

    assert message.headers["_schedule"]["scheduled_for"] == utc(schedule.next_fire_at)


def test_a_store_that_is_busy_is_asked_again_and_no_slot_is_lost(tmp_path):
    async def scenario():
        async with (
            house(tmp_path, busy_timeout_ms=1) as h,
            h.running_scheduler(poll_ms=5) as fires,
        ):
            await h.queue("ticks")
            schedule = await h.schedule("tick", "every", "1 second", catchup=True)
            with locked(tmp_path):
                await h.refusal_of(FireSchedule)
            assert await fires.get()
            return schedule, await h.slots("tick"), await h.reads("tick")

    before, slots, after = asyncio.run(scenario())

    assert slots == [utc(at) for at in range(before.next_fire_at, after.next_fire_at, SECOND)]
    assert (after.consecutive_failures, after.skipped) == (0, 0)
