"""The scheduler: a real store on a file, and a clock that is moved by hand through days, time changes and downtime."""

from __future__ import annotations

import asyncio

import apsw
import pytest

from sqew.clock import ManualClock
from sqew.errors import ScheduleNotFound
from sqew.model import NewMessage
from sqew.operations import DeleteQueue, FailSchedule, SaveSchedule
from sqew.schedules.changes import new_schedule
from tests.support.background import HERE, house, ms, utc
from tests.support.endpoint import endpoint, values

NOON = ms("2026-06-01T12:00:00Z")
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


# At its time


def test_a_schedule_fires_at_its_time_and_says_so_in_the_message(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            message = NewMessage(b'{"n": 1}', headers={"trace": "abc"}, priority=3)
            schedule = new_schedule("tick", "queue", "ticks", "every", "1 minute", message, clock.now())
            await h.broker.run(SaveSchedule(schedule, 0))
            clock.advance(MINUTE - 1)
            await h.scheduler().fire_due()
            before = await h.messages()
            clock.advance(1)
            await h.scheduler().fire_due()
            return before, await h.messages()

    before, after = asyncio.run(scenario())

    assert before == []
    (message,) = after
    assert (message.body, message.priority) == (b'{"n": 1}', 3)
    assert message.headers == {
        "trace": "abc",
        "_schedule": {"name": "tick", "scheduled_for": "2026-06-01T12:01:00.000Z", "out_of_band": False},
    }


def test_looking_again_in_the_same_moment_fires_nothing_again(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("tick", "every", "1 minute")
            clock.advance(MINUTE)
            for _ in range(3):
                next_due_at = await h.scheduler().fire_due()
            return next_due_at, await h.slots("tick")

    next_due_at, slots = asyncio.run(scenario())

    assert next_due_at == NOON + 2 * MINUTE
    assert slots == [utc(NOON + MINUTE)]


def test_who_has_fired_is_told_when_the_same_schedule_is_due_next(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("tick", "every", "1 second")
            clock.advance(SECOND)
            return await h.scheduler().fire_due()

    assert asyncio.run(scenario()) == NOON + 2 * SECOND


def test_what_fires_once_is_gone_when_it_has(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("once", "fire_at", "2026-06-01T13:00:00Z")
            clock.advance(2 * HOUR)
            await h.scheduler().fire_due()
            with pytest.raises(ScheduleNotFound):
                await h.reads("once")
            return await h.slots("once")

    assert asyncio.run(scenario()) == ["2026-06-01T13:00:00.000Z"]


def test_a_paused_schedule_does_not_fire_and_leaves_out_what_it_missed(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("tick", "every", "1 minute")
            await h.change("tick", status="paused")
            clock.advance(5 * MINUTE + 1)
            await h.scheduler().fire_due()
            while_paused = await h.slots("tick")
            await h.change("tick", status="active")
            clock.advance(MINUTE)
            await h.scheduler().fire_due()
            return while_paused, await h.slots("tick")

    assert asyncio.run(scenario()) == ([], [utc(NOON + 6 * MINUTE)])


# When clocks change


@pytest.mark.parametrize(
    ("zone", "cron", "start", "fires"),
    [
        # 02:30 does not exist on the 29th: it fires when the clock has been set forward, at 03:00.
        ("Europe/Berlin", "30 2 * * *", "2026-03-28", ["28T01:30", "29T01:00", "30T00:30"]),
        # 02:30 comes twice on the 25th.
        ("Europe/Berlin", "30 2 * * *", "2026-10-24", ["24T00:30", "25T00:30", "26T01:30"]),
        ("America/New_York", "30 2 * * *", "2026-03-07", ["07T07:30", "08T07:00", "09T06:30"]),
        ("America/New_York", "30 1 * * *", "2026-10-31", ["31T05:30", "01T05:30", "02T06:30"]),
    ],
    ids=["Berlin forward", "Berlin back", "New York forward", "New York back"],
)
@pytest.mark.parametrize("step", [10 * MINUTE, 72 * HOUR], ids=["step by step", "after downtime"])
def test_every_day_has_one_fire_whatever_the_clock_does(tmp_path, zone, cron, start, fires, step):
    clock = ManualClock(ms(f"{start}T00:00:00Z"))

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("daily", "cron", cron, timezone=zone, catchup=True)
            for _ in range(0, 72 * HOUR, step):
                clock.advance(step)
                await h.scheduler().fire_due()
            return await h.slots("daily")

    assert [slot[8:16] for slot in asyncio.run(scenario())] == fires


@pytest.mark.parametrize("start", ["2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"], ids=["forward", "back"])
def test_every_hour_that_passes_has_one_fire_whatever_the_clock_does(tmp_path, start):
    clock = ManualClock(ms(start))

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("hourly", "cron", "0 * * * *", timezone="Europe/Berlin")
            for _ in range(24 * 4):
                clock.advance(15 * MINUTE)
                await h.scheduler().fire_due()
            return await h.slots("hourly")

    assert asyncio.run(scenario()) == [utc(ms(start) + hour * HOUR) for hour in range(1, 25)]


# When it fails


def test_a_slot_whose_queue_is_gone_is_tried_again_ever_later(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("tick", "every", "1 hour", failure_threshold=None)
            await h.broker.run(DeleteQueue("ticks"))
            clock.advance(HOUR)
            waits = []
            for _ in range(8):
                await h.scheduler().fire_due()
                due_at = (await h.reads("tick")).due_at
                waits.append(due_at - clock.now())
                clock.advance(waits[-1] - 1)
                await h.scheduler().fire_due()
                assert (await h.reads("tick")).due_at == due_at
                clock.advance(1)
            return waits, await h.reads("tick")

    waits, schedule = asyncio.run(scenario())

    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    assert (schedule.status, schedule.consecutive_failures) == ("active", 8)
    assert schedule.last_error == "Queue 'ticks' does not exist. Create it first, or list the queues."
    assert schedule.next_fire_at == NOON + HOUR


def test_a_slot_that_failed_fires_when_the_queue_is_back(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.schedule("tick", "every", "1 hour")
            clock.advance(HOUR)
            await h.scheduler().fire_due()
            await h.queue("ticks")
            clock.advance(SECOND)
            await h.scheduler().fire_due()
            return await h.slots("tick"), await h.reads("tick")

    slots, schedule = asyncio.run(scenario())

    assert slots == [utc(NOON + HOUR)]
    assert (schedule.consecutive_failures, schedule.last_error) == (0, "")


def test_at_its_threshold_a_schedule_pauses_with_the_reason_and_can_be_resumed(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.schedule("tick", "every", "1 hour", failure_threshold=3, catchup=True)
            clock.advance(HOUR)
            for _ in range(5):
                await h.scheduler().fire_due()
                clock.advance(MINUTE)
            paused = await h.reads("tick")
            await h.queue("ticks")
            await h.scheduler().fire_due()
            assert await h.messages() == []
            await h.change("tick", status="active")
            await h.scheduler().fire_due()
            return paused, await h.slots("tick"), await h.reads("tick")

    paused, slots, resumed = asyncio.run(scenario())

    assert (paused.status, paused.due_at, paused.consecutive_failures) == ("paused", None, 3)
    assert paused.paused_reason.startswith("It failed 3 times in a row: Queue 'ticks' does not exist.")
    assert slots == [utc(NOON + HOUR)]
    assert (resumed.status, resumed.paused_reason, resumed.consecutive_failures) == ("active", "", 0)


def test_the_reason_of_a_pause_named_a_queue_that_has_nothing_to_do_with_it(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks2")
            made = await h.schedule("tick", "every", "1 hour", failure_threshold=1)
            clock.advance(HOUR)
            await h.scheduler().fire_due()
            return made, await h.reads("tick")

    made, paused = asyncio.run(scenario())

    assert paused.paused_reason == (
        "It failed once: Queue 'ticks' does not exist. Create it first, or list the queues."
    )
    assert (made.updated_at, paused.updated_at) == (NOON, NOON + HOUR)


def test_a_schedule_that_fails_does_not_keep_the_others_from_firing(tmp_path):
    clock = ManualClock(NOON)
    fired = []

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("a", "every", "1 minute")
            await h.schedule("b", "every", "1 minute", target="nowhere")
            await h.schedule("c", "every", "1 minute")
            clock.advance(MINUTE)
            await h.scheduler(batch=1, observe=fired.append).fire_due()
            return [await h.slots(name) for name in ("a", "b", "c")]

    assert [len(slots) for slots in asyncio.run(scenario())] == [1, 0, 1]
    assert sorted(fired) == [False, True, True]


@pytest.mark.parametrize(
    "damage",
    [
        "body = X'00'",
        "headers = X'00'",
        "details = X'FF'",
        "details = X'7B7D'",
        "details = replace(details, 'UTC', 'XTC')",
        "slot_at = NULL",
    ],
    ids=["body", "headers", "no JSON", "no details", "no zone", "no slot"],
)
def test_a_damaged_schedule_does_not_keep_the_others_from_firing(tmp_path, damage):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("a", "every", "1 minute")
            await h.schedule("b", "every", "1 minute")
            await h.schedule("c", "every", "1 minute")
            connection = apsw.Connection(str(tmp_path / "queue.db"))
            connection.execute(f"UPDATE sqew_schedule SET {damage} WHERE name = 'a'")
            connection.close()
            clock.advance(MINUTE)
            await h.scheduler(batch=1).fire_due()
            return [await h.slots(name) for name in ("a", "b", "c")]

    assert [len(slots) for slots in asyncio.run(scenario())] == [0, 1, 1]


def test_a_queue_whose_policy_was_damaged_stopped_the_schedules_of_all_queues(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("bad")
            await h.queue("ticks")
            await h.schedule("a", "every", "1 minute", "bad")
            await h.schedule("b", "every", "1 minute")
            connection = apsw.Connection(str(tmp_path / "queue.db"))
            connection.execute("UPDATE sqew_queue SET policy = '{' WHERE name = 'bad'")
            connection.execute("UPDATE sqew_meta SET catalog = catalog + 1")
            connection.close()
            clock.advance(MINUTE)
            await h.scheduler().fire_due()
            return await h.slots("a", "bad"), await h.slots("b")

    of_bad, others = asyncio.run(scenario())

    # It has the default policy now.
    assert len(of_bad) == len(others) == 1


# Where it goes


def test_a_topic_reaches_queues_and_endpoints(tmp_path):
    clock = ManualClock(NOON)

    async def scenario(hook):
        async with house(tmp_path, clock) as h, h.sender(allow=HERE) as sender:
            for name in ("ticks", "audit"):
                await h.queue(name)
                await h.subscribe("clock.*", name)
            await h.subscribe("clock.#", hook.url("/raw"))
            await h.subscribe("clock.minute", hook.url("/sealed"), 2)
            await h.schedule("tick", "every", "1 minute", "clock.minute", target_kind="topic")
            clock.advance(MINUTE)
            await h.scheduler().fire_due()
            for _ in range(2):
                assert (await sender.attempt()).ended == "delivered"
            return [await h.messages(name) for name in ("ticks", "audit")]

    with endpoint() as hook:
        queues = asyncio.run(scenario(hook))

        assert [[message.headers["_schedule"]["name"] for message in messages] for messages in queues] == [["tick"]] * 2
        assert values(hook.received("/raw")) == ["tick"]
        assert [envelope["Message"] for envelope in values(hook.received("/sealed"))] == ['"tick"']


# After the clock was wrong


def test_a_schedule_that_fired_while_the_clock_was_ahead_stood_still_until_it_got_there_again(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            saved = asyncio.Event()
            await h.queue("ticks")
            await h.schedule("tick", "every", "1 minute")
            async with h.running_scheduler(poll_ms=5) as fired:
                clock.advance(24 * HOUR)
                await fired.get()
                h.public_text = lambda operations: (
                    saved.set() if any(type(one) is SaveSchedule for one in operations) else None
                )
                clock.advance(-24 * HOUR)
                await saved.wait()
                clock.advance(MINUTE)
                await fired.get()
            return await h.reads("tick")

    schedule = asyncio.run(asyncio.wait_for(scenario(), 30))

    assert schedule.fired == 2
    assert NOON < schedule.last_fired_at <= NOON + MINUTE


def test_a_schedule_that_failed_while_the_clock_was_ahead_was_tried_again_only_when_it_got_there(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            failed = asyncio.Event()
            await h.schedule("tick", "every", "1 minute")
            h.public_text = lambda operations: (
                failed.set() if any(type(one) is FailSchedule for one in operations) else None
            )
            async with h.running_scheduler(poll_ms=5) as fired:
                clock.advance(24 * HOUR)
                await failed.wait()
                clock.advance(MINUTE - 24 * HOUR)
                await h.queue("ticks")
                while not await fired.get():
                    pass

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_schedule_that_was_made_while_the_clock_was_ahead_stood_still_after_a_restart(tmp_path, caplog):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            clock.advance(24 * HOUR)
            await h.schedule("tick", "every", "1 minute")
        for _ in range(2):
            async with house(tmp_path, ManualClock(NOON + HOUR)) as h, h.running_scheduler(poll_ms=5):
                async with asyncio.timeout(30):
                    while (schedule := await h.reads("tick")).next_fire_at > NOON + 2 * HOUR:  # noqa: ASYNC110 (nobody tells)
                        await asyncio.sleep(0.005)
                # The second time it must not be set right once more.
                await asyncio.sleep(0.1)
        return schedule

    schedule = asyncio.run(scenario())

    assert schedule.next_fire_at == NOON + HOUR + MINUTE
    assert [record.fields["name"] for record in caplog.records if "set right" in record.message] == ["tick"]


def test_a_scheduler_that_starts_in_1970_leaves_schedules_as_they_are(tmp_path):
    clock = ManualClock(NOON)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("ticks")
            await h.schedule("tick", "every", "1 minute")
            before = await h.reads("tick")
        async with house(tmp_path, ManualClock(10_000)) as h:
            async with h.running_scheduler(poll_ms=5):
                await asyncio.sleep(0.1)
            return before, await h.reads("tick")

    before, after = asyncio.run(scenario())

    assert after == before
