"""Schedules as the store keeps them: by version, so that no editor overwrites a change that it has not seen."""

from typing import Any

import pytest
from msgspec import structs

from sqew.core.checks import check_operation
from sqew.errors import BadName, BadRoutingKey, BadValue, ScheduleChanged, ScheduleExists, ScheduleNotFound, TooLarge
from sqew.model import SCHEDULES, NewMessage, Saved, Schedule
from sqew.operations import DeleteSchedule, FindDueSchedules, GetSchedule, ListSchedules, SaveSchedule
from sqew.rules.limits import Limits
from tests.conformance.driver import START, Driver

HOUR = 3_600_000


def hourly(name: str = "report", due_at: int | None = START, **fields: Any) -> Schedule:
    """Return a schedule that sends to the queue ``jobs``."""
    known: dict[str, Any] = {
        "target_kind": "queue",
        "target": "jobs",
        "message": NewMessage(b'{"n": 1}'),
        "status": "active" if due_at is not None else "paused",
        "next_fire_at": due_at or START,
        **fields,
    }
    return Schedule(
        name, kind="cron", expression="@hourly", canonical="0 * * * *", timezone="UTC", due_at=due_at, **known
    )


def due_names(store: Driver, limit: int = 100) -> list[str]:
    return [schedule.name for schedule in store.run(FindDueSchedules(limit)).schedules]


# Saving


def test_a_new_schedule_is_read_as_it_was_saved(store):
    given = hourly(
        due_at=START + 5,
        message=NewMessage(b"text", "text", {"a": [1]}, 7, "fast", "g", None, 50, 60),
        catchup=True,
        catchup_limit=3,
        failure_threshold=None,
        jitter_secs=60,
        consecutive_failures=2,
        last_error="it failed",
        paused_reason="because",
        last_fired_at=START - 1,
        fired=9,
        skipped=4,
    )

    saved = store.run(SaveSchedule(given, expected=0))

    expected = structs.replace(given, created_at=store.now, updated_at=store.now, version=saved.schedule.version)
    assert saved == Saved(expected, created=True)
    store.reopen()
    assert store.schedule("report") == saved.schedule


def test_a_schedule_of_a_name_that_is_taken_is_not_made(store):
    first = store.save(hourly(), expected=0)

    with pytest.raises(ScheduleExists, match="'report' exists"):
        store.save(hourly(due_at=None), expected=0)
    assert store.schedule("report") == first


def test_a_change_counts_the_version_up_and_keeps_when_it_was_made(store):
    first = store.save(hourly())
    store.advance(1000)

    second = store.run(SaveSchedule(structs.replace(first, catchup=True), expected=first.version))

    assert not second.created
    assert second.schedule == structs.replace(first, catchup=True, version=first.version + 1, updated_at=store.now)
    assert store.schedule("report") == second.schedule


def test_who_has_not_seen_the_last_change_changes_nothing(store, neighbour):
    seen = store.save(hourly())
    changed = neighbour.save(structs.replace(seen, catchup=True), expected=seen.version)

    with pytest.raises(ScheduleChanged, match="Read it and try again"):
        store.save(structs.replace(seen, target="other"), expected=seen.version)
    assert store.schedule("report") == changed


def test_a_schedule_that_is_gone_is_not_brought_back_by_a_change(store):
    seen = store.save(hourly())
    store.run(DeleteSchedule("report"))

    with pytest.raises(ScheduleChanged):
        store.save(seen, expected=seen.version)
    assert store.schedule_names() == []


def test_without_an_expected_version_the_last_one_wins(store):
    first = store.save(hourly())

    assert store.save(hourly(due_at=None)).version == first.version + 1

    assert store.schedule("report").status == "paused"


def test_the_whole_message_may_be_changed(store):
    store.save(hourly(message=NewMessage(b"1", headers={"a": 1}, priority=3)))
    message = NewMessage(b"x" * 10_000, "text", delay_ms=5)

    store.save(hourly(message=message))

    assert store.schedule("report").message == message


def test_a_saved_schedule_stirs_whoever_waits_for_the_next_one(store):
    assert store.commit(SaveSchedule(hourly())).woken == {SCHEDULES}


def test_a_deleted_schedule_is_gone(store):
    store.save(hourly())

    assert store.run(DeleteSchedule("report")) is True

    assert store.run(DeleteSchedule("report")) is False
    assert due_names(store) == store.schedule_names() == []


def test_a_schedule_that_is_not_there_is_an_error_with_the_nearest_name(store):
    store.save(hourly("nightly-report"))

    with pytest.raises(ScheduleNotFound, match="nightly-report"):
        store.schedule("nightly-reprot")


# Listing


def test_schedules_are_listed_by_name(store):
    for name in ("b", "a", "B", "a.1", "a:2"):
        store.save(hourly(name))

    assert store.schedule_names() == ["B", "a", "a.1", "a:2", "b"]


def test_schedules_are_listed_by_status_target_and_prefix(store):
    store.save(hourly("eu.orders", target_kind="topic", target="orders.due"))
    store.save(hourly("eu.report"))
    store.save(hourly("eu.sleeps", due_at=None))
    store.save(hourly("us.report"))

    assert store.schedule_names(status="active") == ["eu.orders", "eu.report", "us.report"]
    assert store.schedule_names(status="paused") == ["eu.sleeps"]
    assert store.schedule_names(target_kind="topic") == ["eu.orders"]
    assert store.schedule_names(prefix="eu.") == ["eu.orders", "eu.report", "eu.sleeps"]
    assert store.schedule_names(prefix="eu.", status="active", target_kind="queue") == ["eu.report"]


def test_a_prefix_is_no_pattern(store):
    store.save(hourly("a_b"))
    store.save(hourly("axb"))

    assert store.schedule_names(prefix="a_") == ["a_b"]


def test_a_list_goes_on_after_the_last_one_of_the_page_before(store):
    names = [f"s{n}" for n in range(5)]
    for name in names:
        store.save(hourly(name))

    assert store.schedule_names(limit=2) == names[:2]
    assert store.schedule_names(after="s1", limit=2) == names[2:4]
    assert store.schedule_names(after="s3", limit=2) == names[4:]


# What is due


def test_the_longest_due_come_first(store):
    for name, due_at in [("b", START - 5), ("a", START), ("c", START - 10), ("later", START + 1)]:
        store.save(hourly(name, due_at))

    assert due_names(store) == ["c", "b", "a"]
    assert due_names(store, limit=2) == ["c", "b"]


def test_a_paused_schedule_is_never_due(store):
    store.save(hourly(due_at=None))
    store.advance(10 * HOUR)

    due = store.run(FindDueSchedules())

    assert (due.schedules, due.next_due_at) == ([], None)


def test_who_looks_for_due_ones_is_told_when_the_next_of_the_others_is(store):
    assert store.run(FindDueSchedules()).next_due_at is None
    for name, due_at in [("now", START), ("soon", START + 70), ("later", START + 500)]:
        store.save(hourly(name, due_at))

    assert store.run(FindDueSchedules()).next_due_at == START + 70
    store.advance(70)
    assert store.run(FindDueSchedules()).next_due_at == START + 500


def test_a_due_schedule_is_read_whole(store):
    saved = store.save(hourly(message=NewMessage(b"1", headers={"a": 1}, delay_ms=3)))

    assert store.run(FindDueSchedules()).schedules == [saved]


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (SaveSchedule(hourly("a b")), BadName),
        (SaveSchedule(hourly("x" * 101)), BadName),
        (SaveSchedule(hourly(target="a\nb")), BadName),
        (SaveSchedule(hourly(target_kind="topic", target="orders.*")), BadRoutingKey),
        (SaveSchedule(hourly(target_kind="workflow")), BadValue),
        (SaveSchedule(hourly(status="asleep")), BadValue),
        (SaveSchedule(hourly(message=NewMessage(b"1", key="k"))), BadValue),
        (SaveSchedule(hourly(catchup_limit=0)), BadValue),
        (SaveSchedule(hourly(catchup_limit=1_001)), BadValue),
        (SaveSchedule(hourly(failure_threshold=0)), BadValue),
        (SaveSchedule(hourly(), expected=-1), BadValue),
        (GetSchedule("\ud800"), BadValue),
        (ListSchedules(status="asleep"), BadValue),
        (FindDueSchedules(0), BadValue),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_reaches_the_store(operation, error):
    with pytest.raises(error):
        check_operation(operation, Limits())


# What it says of itself


@pytest.mark.parametrize("mark", ["_event", "_schedule"])
def test_a_schedule_could_say_that_somebody_else_had_sent_its_messages(mark):
    schedule = hourly(message=NewMessage(b"1", headers={mark: "forged"}))

    with pytest.raises(BadValue, match=f"headers can't have '{mark}'"):
        check_operation(SaveSchedule(schedule), Limits())


def test_a_schedule_whose_headers_left_no_room_for_its_name_could_never_fire():
    limits = Limits(max_headers_bytes=1_000)
    fits, too_large = (NewMessage(b"1", headers={"a": "x" * size}) for size in (800, 980))

    check_operation(SaveSchedule(hourly(message=fits)), limits)
    with pytest.raises(TooLarge, match="The headers have"):
        check_operation(SaveSchedule(hourly(message=too_large)), limits)


def test_schedules_that_are_due_were_all_read_at_once_however_large(store):
    for n in range(12):
        store.save(hourly(f"s{n}", message=NewMessage(b'"' + b"x" * 1_000_000 + b'"')))

    assert len(due_names(store)) == 9
