"""Schedules made, changed, missed, paused and fired."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from sqew.errors import BadExpression, BadValue, BadZone
from sqew.model import Advance, NewMessage, Schedule
from sqew.schedules.changes import MOST_WEIGHT, changed_schedule, fire_due, fire_now, new_schedule, retry_at, weight_of

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


NOON = ms("2026-06-01T12:00:00Z")


def made(kind: Any = "every", expression: str = "1 hour", now: int = NOON, **more: Any) -> Schedule:
    return new_schedule("report", "queue", "jobs", kind, expression, NewMessage(b"1"), now, **more)


def slots(fire: Any) -> list[str]:
    return [event.message.headers["_schedule"]["scheduled_for"] for event in fire.events]


def hours(*numbers: int) -> list[str]:
    return [f"2026-06-01T{hour:02}:00:00.000Z" for hour in numbers]


# Making


def test_a_new_schedule_waits_for_its_next_slot():
    schedule = made()

    assert (schedule.next_fire_at, schedule.due_at) == (NOON + HOUR, NOON + HOUR)
    assert (schedule.status, schedule.fired, schedule.version) == ("active", 0, 0)


def test_a_new_schedule_keeps_what_was_written_and_what_it_means():
    schedule = made("when", "every weekday at 9am", timezone="Europe/Berlin")

    assert (schedule.kind, schedule.expression, schedule.timezone) == ("when", "every weekday at 9am", "Europe/Berlin")
    assert schedule.canonical == "0 9 * * 1-5"
    # It is Monday, after nine.
    assert schedule.next_fire_at == ms("2026-06-02T09:00:00+02:00")


def test_a_schedule_that_is_made_paused_is_not_due():
    schedule = made(status="paused")

    assert (schedule.status, schedule.due_at, schedule.next_fire_at) == ("paused", None, NOON + HOUR)


def test_what_a_new_schedule_is_told_besides_is_kept():
    schedule = made(catchup=True, catchup_limit=7, failure_threshold=None)

    assert (schedule.catchup, schedule.catchup_limit, schedule.failure_threshold) == (True, 7, None)


@pytest.mark.parametrize(
    ("kind", "expression", "zone", "error"),
    [
        ("cron", "61 * * * *", "UTC", BadExpression),
        ("every", "soon", "UTC", BadExpression),
        ("fire_at", "2026-06-01T12:00:00Z", "UTC", BadExpression),
        ("every", "1 hour", "Europe/Berlln", BadZone),
    ],
)
def test_what_can_not_be_understood_is_refused(kind, expression, zone, error):
    with pytest.raises(error):
        made(kind, expression, timezone=zone)
    with pytest.raises(error):
        changed_schedule(made(), {"kind": kind, "expression": expression, "timezone": zone}, NOON)


def test_a_field_that_is_none_is_refused_with_the_nearest_one():
    with pytest.raises(BadValue, match=r"no 'catchup_limits'.*catchup_limit"):
        changed_schedule(made(), {"catchup_limits": 3}, NOON)


@pytest.mark.parametrize("field", ["next_fire_at", "due_at", "version", "fired", "name"])
def test_what_is_not_the_users_to_say_is_refused(field):
    with pytest.raises(BadValue, match=f"no '{field}'"):
        changed_schedule(made(), {field: 1}, NOON)


# Changing


def same_again(schedule: Schedule) -> dict[str, Any]:
    """Return all that a user sets in a schedule, but for its status."""
    fields = ("target_kind", "target", "kind", "expression", "timezone", "message", "catchup", "catchup_limit")
    return {field: getattr(schedule, field) for field in (*fields, "failure_threshold")}


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("every", "7 minutes"),
        ("cron", "@daily"),
        ("when", "in 10 minutes"),
        ("when", "tomorrow at 6pm"),
        ("fire_at", "2026-06-01T12:30"),
    ],
)
def test_the_same_again_changes_nothing(kind, expression):
    schedule = made(kind, expression)

    for later in (NOON + 5 * MINUTE, NOON + 2 * DAY):
        assert changed_schedule(schedule, same_again(schedule), later) == schedule


def test_the_same_again_leaves_a_paused_schedule_paused_with_its_reason():
    paused = structs.replace(made(status="paused"), paused_reason="It failed 10 times in a row.")

    assert changed_schedule(paused, same_again(paused), NOON + DAY) == paused


def test_the_same_again_leaves_a_failed_slot_the_time_of_its_next_try():
    failed = structs.replace(made(), due_at=NOON + HOUR + 4 * SECOND, consecutive_failures=3, last_error="no")

    assert changed_schedule(failed, same_again(failed), NOON + HOUR + SECOND) == failed


def test_another_expression_begins_from_now():
    failed = structs.replace(made(), due_at=NOON + HOUR + 4 * SECOND, consecutive_failures=3)
    now = NOON + HOUR + SECOND

    changed = changed_schedule(failed, {"expression": "15 minutes"}, now)

    assert (changed.canonical, changed.consecutive_failures) == ("*/15 * * * *", 0)
    assert (changed.next_fire_at, changed.due_at) == (NOON + HOUR + 15 * MINUTE,) * 2


def test_another_time_zone_is_another_slot():
    schedule = made("cron", "0 9 * * *")

    changed = changed_schedule(schedule, {"timezone": "America/New_York"}, NOON)

    assert changed.next_fire_at == changed.due_at == ms("2026-06-01T09:00:00-04:00")


def test_a_time_with_its_offset_was_refused_as_past_in_another_zone():
    late = structs.replace(made("fire_at", "2026-06-01T13:00:00Z"), due_at=NOON + HOUR + 4 * SECOND)

    changed = changed_schedule(late, {"timezone": "Europe/Berlin"}, NOON + 2 * HOUR)

    assert changed == structs.replace(late, timezone="Europe/Berlin")


def test_a_local_time_that_is_over_in_another_zone_is_refused():
    schedule = made("fire_at", "2026-06-01T13:00")

    with pytest.raises(BadExpression, match=r"in the past: it was 2026-06-01T13:00:00\+02:00, and it is .*14:30:00"):
        changed_schedule(schedule, {"timezone": "Europe/Berlin"}, NOON + 30 * MINUTE)


def test_another_expression_of_a_paused_schedule_does_not_wake_it():
    changed = changed_schedule(made(status="paused"), {"expression": "15 minutes"}, NOON)

    assert (changed.status, changed.due_at, changed.next_fire_at) == ("paused", None, NOON + 15 * MINUTE)


def test_another_message_or_target_leaves_the_slot():
    schedule = made()

    changed = changed_schedule(schedule, {"message": NewMessage(b"2"), "target": "other"}, NOON + 30 * MINUTE)

    assert changed == structs.replace(schedule, message=NewMessage(b"2"), target="other")


# Pausing and resuming


def test_a_paused_schedule_keeps_its_slot_and_is_not_due():
    paused = changed_schedule(made(), {"status": "paused"}, NOON)

    assert (paused.status, paused.due_at, paused.next_fire_at) == ("paused", None, NOON + HOUR)
    assert paused.paused_reason == ""


def test_a_schedule_resumed_before_its_slot_fires_there():
    schedule = made()
    paused = changed_schedule(schedule, {"status": "paused"}, NOON)

    assert changed_schedule(paused, {"status": "active"}, NOON + MINUTE) == schedule


def test_a_schedule_resumed_after_its_slot_goes_on_with_the_next():
    paused = changed_schedule(made(), {"status": "paused"}, NOON)

    resumed = changed_schedule(paused, {"status": "active"}, NOON + 5 * HOUR + MINUTE)

    assert (resumed.next_fire_at, resumed.due_at) == (NOON + 6 * HOUR,) * 2


def test_a_schedule_that_catches_up_makes_up_for_its_pause_when_it_is_resumed():
    paused = changed_schedule(made(catchup=True), {"status": "paused"}, NOON)
    now = NOON + 3 * HOUR + MINUTE

    resumed = changed_schedule(paused, {"status": "active"}, now)

    assert resumed.due_at == NOON + HOUR
    assert slots(fire_due(resumed, now)) == hours(13, 14, 15)


def test_what_fires_once_fires_when_it_is_resumed_too_late():
    paused = changed_schedule(made("fire_at", "2026-06-01T13:00"), {"status": "paused"}, NOON)

    resumed = changed_schedule(paused, {"status": "active"}, NOON + DAY)

    assert resumed.due_at == NOON + HOUR
    fire = fire_due(resumed, NOON + DAY)
    assert (slots(fire), fire.advance) == (hours(13), Advance(None, NOON + HOUR))


def test_a_resumed_schedule_has_no_failures_any_more():
    paused = structs.replace(
        made(status="paused"), consecutive_failures=10, last_error="no queue", paused_reason="It failed 10 times."
    )

    resumed = changed_schedule(paused, {"status": "active"}, NOON)

    assert (resumed.consecutive_failures, resumed.last_error, resumed.paused_reason) == (0, "", "")


def test_resuming_what_is_active_changes_nothing():
    schedule = made()

    assert changed_schedule(schedule, {"status": "active"}, NOON + 5 * HOUR) == schedule


# Firing


def test_a_fire_sends_the_message_with_the_slot_and_goes_on_to_the_next():
    message = NewMessage(b"1", headers={"a": 1, "_schedule": "forged"}, priority=3, delay_ms=5)
    schedule = structs.replace(made(), message=message, version=4)

    fire = fire_due(schedule, NOON + HOUR + 17)

    [event] = fire.events
    mark = {"name": "report", "scheduled_for": "2026-06-01T13:00:00.000Z", "out_of_band": False}
    assert event.message == structs.replace(message, headers={"a": 1, "_schedule": mark})
    assert (event.routing_key, str(UUID(event.message_id))) == ("jobs", event.message_id)
    assert (fire.name, fire.version) == ("report", 4)
    assert fire.advance == Advance(NOON + 2 * HOUR, NOON + HOUR, skipped=0)


def test_what_was_missed_is_fired_once_and_the_rest_counted():
    fire = fire_due(made(), NOON + 5 * HOUR + MINUTE)

    assert slots(fire) == hours(13)
    assert fire.advance == Advance(NOON + 6 * HOUR, NOON + HOUR, skipped=4)


def test_a_schedule_that_catches_up_fires_every_slot_that_was_missed():
    fire = fire_due(made(catchup=True), NOON + 5 * HOUR)

    assert slots(fire) == hours(13, 14, 15, 16, 17)
    assert fire.advance == Advance(NOON + 6 * HOUR, NOON + 5 * HOUR, skipped=0)


def test_every_slot_that_is_made_up_for_has_an_id_of_its_own():
    fire = fire_due(made(catchup=True), NOON + 5 * HOUR)

    assert len({event.message_id for event in fire.events}) == 5


@pytest.mark.parametrize(("limit", "fired", "skipped"), [(1, 1, 4), (3, 3, 2), (4, 4, 1), (5, 5, 0), (100, 5, 0)])
def test_no_more_is_made_up_for_than_the_limit_and_the_rest_is_skipped(limit, fired, skipped):
    fire = fire_due(made(catchup=True, catchup_limit=limit), NOON + 5 * HOUR + MINUTE)

    assert slots(fire) == hours(13, 14, 15, 16, 17)[:fired]
    assert fire.advance == Advance(NOON + 6 * HOUR, NOON + fired * HOUR, skipped)


def large(size: int, **more: Any) -> Schedule:
    """Return a schedule whose message has so many bytes."""
    return structs.replace(made(catchup=True, **more), message=NewMessage(b"1" * size))


def test_a_year_of_large_messages_was_sent_in_one_transaction():
    schedule = large(250_000, expression="1 second", catchup_limit=1_000)

    fire = fire_due(schedule, NOON + 365 * DAY)

    assert len(fire.events) == 4
    assert fire.advance == Advance(NOON + 5 * SECOND, NOON + 4 * SECOND, skipped=0, caught_up=4)
    assert weight_of(fire) <= MOST_WEIGHT


def test_a_message_that_is_too_large_for_one_transaction_is_fired_alone():
    fire = fire_due(large(5_000_000), NOON + 3 * HOUR)

    assert slots(fire) == hours(13)
    assert fire.advance == Advance(NOON + 2 * HOUR, NOON + HOUR, caught_up=1)


def test_the_limit_counts_over_all_steps():
    schedule, now, fired = large(500_000, catchup_limit=5), NOON + 9 * HOUR + MINUTE, []

    while schedule.next_fire_at <= now:
        fire = fire_due(schedule, now)
        fired += slots(fire)
        schedule = structs.replace(
            schedule,
            next_fire_at=fire.advance.next_fire_at,
            caught_up=fire.advance.caught_up,
            skipped=schedule.skipped + fire.advance.skipped,
        )

    assert fired == hours(13, 14, 15, 16, 17)
    assert (schedule.skipped, schedule.caught_up, schedule.next_fire_at) == (4, 0, NOON + 10 * HOUR)


def test_no_more_slots_are_fired_than_are_wanted_and_the_rest_stays_due():
    fire = fire_due(made(catchup=True), NOON + 5 * HOUR, 2)

    assert slots(fire) == hours(13, 14)
    assert fire.advance == Advance(NOON + 3 * HOUR, NOON + 2 * HOUR, caught_up=2)


def test_a_limit_that_was_lowered_meanwhile_lets_the_slot_that_is_due_fire():
    schedule = structs.replace(made(catchup=True, catchup_limit=3), caught_up=4)

    fire = fire_due(schedule, NOON + 5 * HOUR + MINUTE)

    assert slots(fire) == hours(13)
    assert fire.advance == Advance(NOON + 6 * HOUR, NOON + HOUR, skipped=4)


def test_the_slot_of_this_very_moment_counts_as_due():
    fire = fire_due(made(catchup=True), NOON + 2 * HOUR)

    assert slots(fire) == hours(13, 14)
    assert fire.advance == Advance(NOON + 3 * HOUR, NOON + 2 * HOUR)


def test_after_a_long_time_no_more_than_a_hundred_slots_are_counted():
    fire = fire_due(made("every", "1 second"), NOON + 365 * DAY)

    assert fire.advance == Advance(NOON + 365 * DAY + SECOND, NOON + SECOND, skipped=100)


def test_what_fires_once_is_over_when_it_has():
    fire = fire_due(made("when", "in 10 minutes"), NOON + DAY)

    assert slots(fire) == ["2026-06-01T12:10:00.000Z"]
    assert fire.advance == Advance(None, NOON + 10 * MINUTE)


def test_a_slot_is_told_to_the_millisecond():
    fire = fire_due(made("fire_at", "2026-06-01T12:00:00.250Z"), NOON + SECOND)

    assert slots(fire) == ["2026-06-01T12:00:00.250Z"]


def test_a_fire_out_of_turn_is_marked_and_moves_nothing():
    schedule = structs.replace(made(), version=4)

    fire = fire_now(schedule, NOON + 123)

    [event] = fire.events
    assert event.message.headers == {
        "_schedule": {"name": "report", "scheduled_for": "2026-06-01T12:00:00.123Z", "out_of_band": True}
    }
    assert (fire.name, fire.version, fire.advance) == ("report", 4, None)


def test_a_night_with_two_half_past_twos_has_one_slot():
    before = ms("2026-10-24T12:00:00Z")
    schedule = made("cron", "30 2 * * *", before, timezone="Europe/Berlin", catchup=True)

    fire = fire_due(schedule, ms("2026-10-26T12:00:00Z"))

    assert slots(fire) == ["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"]


# Failing


@pytest.mark.parametrize(("failures", "wait_ms"), [(0, 1_000), (1, 2_000), (5, 32_000), (6, 60_000), (10**6, 60_000)])
def test_a_slot_that_failed_is_tried_again_later_and_later(failures, wait_ms):
    schedule = structs.replace(made(), consecutive_failures=failures)

    assert retry_at(schedule, NOON) == NOON + wait_ms


def test_a_slot_that_failed_for_hours_fires_with_its_own_time():
    failed = structs.replace(made(), due_at=NOON + 3 * HOUR + MINUTE, consecutive_failures=9)

    fire = fire_due(failed, NOON + 3 * HOUR + MINUTE)

    assert slots(fire) == hours(13)
    assert fire.advance == Advance(NOON + 4 * HOUR, NOON + HOUR, skipped=2)


# Jitter


def test_a_slot_is_due_by_the_jitter_later_and_the_same_time_each_time():
    schedule = made(jitter_secs=60)

    assert schedule.next_fire_at == NOON + HOUR
    assert NOON + HOUR <= schedule.due_at <= NOON + HOUR + MINUTE
    assert made(jitter_secs=60) == schedule


def test_jitter_spreads_schedules_and_slots():
    first = made(jitter_secs=600)
    others = [new_schedule(f"n{n}", "queue", "jobs", "every", "1 hour", NewMessage(b"1"), NOON, jitter_secs=600)
              for n in range(50)]  # fmt: skip

    lateness = {schedule.due_at - schedule.next_fire_at for schedule in [first, *others]}

    assert len(lateness) > 45
    assert max(lateness) - min(lateness) > 5 * MINUTE


def test_jitter_keeps_a_slot_before_the_one_that_follows_it():
    schedule = made("cron", "* * * * * *", jitter_secs=86_400)

    for _ in range(20):
        fire = fire_due(schedule, schedule.due_at)
        assert (fire.advance.next_fire_at, fire.advance.skipped) == (schedule.next_fire_at + SECOND, 0)
        assert fire.advance.next_fire_at <= fire.advance.due_at < fire.advance.next_fire_at + SECOND
        schedule = structs.replace(schedule, next_fire_at=fire.advance.next_fire_at, due_at=fire.advance.due_at)


def test_what_fires_once_fires_by_the_jitter_later():
    schedule = made("fire_at", "2026-06-02T12:00:00Z", jitter_secs=60)

    assert NOON + DAY <= schedule.due_at <= NOON + DAY + MINUTE
    assert slots(fire_due(schedule, schedule.due_at)) == ["2026-06-02T12:00:00.000Z"]


def test_another_jitter_moves_the_next_fire_and_a_failure_keeps_its_own_time():
    schedule = made(jitter_secs=60)
    failed = structs.replace(schedule, due_at=NOON + 2 * HOUR)

    assert changed_schedule(failed, {"catchup": True}, NOON).due_at == NOON + 2 * HOUR
    assert changed_schedule(failed, {"jitter_secs": 0}, NOON).due_at == NOON + HOUR


def test_a_resumed_schedule_has_its_jitter():
    schedule = made(jitter_secs=60)
    paused = changed_schedule(schedule, {"status": "paused"}, NOON)

    assert changed_schedule(paused, {"status": "active"}, NOON).due_at == schedule.due_at
