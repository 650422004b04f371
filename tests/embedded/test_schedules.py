"""Schedules of the embedded queue."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from sqew import NewMessage, Queue
from sqew.clock import ManualClock
from sqew.errors import (
    BadExpression,
    BadName,
    BadRoutingKey,
    BadValue,
    BadZone,
    Conflict,
    ScheduleExists,
    ScheduleNotFound,
    UnknownLane,
)

MONDAY = 1_794_787_200_000
"""Monday, 2026-11-16, 00:00 in UTC."""
HOUR = 3_600_000


@pytest.fixture
def clock():
    return ManualClock(MONDAY)


@pytest.fixture
def q(tmp_path, clock):
    with Queue.open(tmp_path / "queue.db", durability="fast", clock=clock) as q:
        q.create("orders")
        yield q


@pytest.fixture
def report(q):
    """Return a schedule that fires every weekday at 9 in Berlin."""
    return q.schedules.create(
        "report", queue="orders", when="every weekday at 9am", timezone="Europe/Berlin", message={"kind": "daily"}
    )


def test_a_schedule_says_when_it_fires(report):
    assert (report.status, report.target_kind, report.target) == ("active", "queue", "orders")
    assert (report.kind, report.expression, report.canonical) == ("when", "every weekday at 9am", "0 9 * * 1-5")
    assert report.human_readable == "At 09:00 on weekdays, Europe/Berlin time"
    assert report.next_fire_at == MONDAY + 8 * HOUR
    assert [fire.local for fire in report.next_fires[:2]] == ["2026-11-16T09:00:00+01:00", "2026-11-17T09:00:00+01:00"]


@pytest.mark.parametrize(
    ("timing", "canonical"),
    [
        ({"cron": "@daily"}, "0 0 * * *"),
        ({"every": "90 minutes"}, "@every 1h30m"),
        ({"when": "first monday of the month at noon"}, "0 12 * * 1#1"),
        ({"fire_at": "2026-12-24T18:00:00+01:00"}, "2026-12-24T17:00:00Z"),
        ({"fire_at": datetime(2026, 12, 24, 18, tzinfo=UTC)}, "2026-12-24T18:00:00Z"),
    ],
)
def test_every_kind_of_expression_is_taken(q, timing, canonical):
    assert q.schedules.create("x", queue="orders", message=1, **timing).canonical == canonical


def test_all_that_is_said_of_a_schedule_is_kept(q):
    q.create("lanes", lanes=["fast", "slow"])
    made = q.schedules.create(
        "x", queue="lanes", every="5m", message="text", headers={"a": 1}, priority=3, lane="slow", group="g",
        delay_seconds=1.5, ttl_seconds=60, status="paused", catchup=True, catchup_limit=7, failure_threshold=None,
    )  # fmt: skip

    assert q.schedules.get("x") == made
    assert made.message == NewMessage(b"text", "text", {"a": 1}, 3, "slow", "g", delay_ms=1_500, ttl_ms=60_000)
    assert (made.status, made.next_fires) == ("paused", [])
    assert (made.catchup, made.catchup_limit, made.failure_threshold) == (True, 7, None)


def test_a_name_is_taken_once(q, report):
    with pytest.raises(ScheduleExists):
        q.schedules.create("report", queue="orders", every="5m", message=1)


def test_putting_makes_a_schedule_and_then_replaces_it(q):
    q.schedules.put("x", queue="orders", every="5m", message=1, priority=3, catchup=True)

    replaced = q.schedules.put("x", topic="orders.tick", cron="0 * * * *", message=2)

    assert q.schedules.list() == [q.schedules.list()[0]]
    assert (replaced.target_kind, replaced.canonical, replaced.message.body) == ("topic", "0 * * * *", b"2")
    assert (replaced.message.priority, replaced.catchup) == (0, False)


def test_putting_the_same_again_changes_nothing(q, clock):
    fields = {"queue": "orders", "when": "in 2 hours", "message": 1}
    made = q.schedules.put("x", **fields)
    clock.advance(HOUR)

    assert q.schedules.put("x", **fields) == made


def test_a_paused_schedule_stays_paused_when_it_is_put_again(q, report):
    q.schedules.pause("report")

    assert q.schedules.put("report", queue="orders", every="5m", message=1).status == "paused"
    assert q.schedules.put("report", queue="orders", every="5m", message=1, status="active").status == "active"


def test_a_change_leaves_the_rest_as_it_is(q, report):
    changed = q.schedules.change("report", priority=5, timezone="America/New_York")

    assert (changed.message.body, changed.message.priority) == (b'{"kind":"daily"}', 5)
    assert changed.next_fire_at == MONDAY + 14 * HOUR


def test_a_schedule_is_paused_and_resumed(q, report, clock):
    assert q.schedules.pause("report").next_fires == []
    clock.advance(24 * HOUR)

    resumed = q.schedules.resume("report")

    assert (resumed.status, resumed.next_fire_at) == ("active", MONDAY + 32 * HOUR)


def test_a_change_made_in_a_block_that_fails_is_undone(q, report):
    def pause_and_fail():
        with q.transaction():
            q.schedules.pause("report")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pause_and_fail()

    assert q.schedules.get("report").status == "active"


def test_schedules_are_listed_by_what_they_are(q, report):
    q.schedules.create("tick", topic="orders.tick", every="5m", message=1, status="paused")

    assert [one.name for one in q.schedules.list()] == ["report", "tick"]
    assert [one.name for one in q.schedules.list(status="paused")] == ["tick"]
    assert [one.name for one in q.schedules.list(target_kind="queue")] == ["report"]
    assert [one.name for one in q.schedules.list(prefix="ti")] == ["tick"]
    assert [one.name for one in q.schedules.list(limit=1, after="report")] == ["tick"]


def test_a_deleted_schedule_is_gone_and_may_be_deleted_again(q, report):
    q.schedules.delete("report")
    q.schedules.delete("report")

    with pytest.raises(ScheduleNotFound, match="no schedule 'report'"):
        q.schedules.get("report")


def test_a_run_sends_at_once_is_counted_and_leaves_the_slots_as_they_are(q, report):
    run = q.schedules.run("report")

    message = q.claim("orders")
    assert (run.ids, run.scheduled_for, run.deliveries) == ([message.id], MONDAY, 0)
    assert message.value == {"kind": "daily"}
    mark = {"name": "report", "scheduled_for": "2026-11-16T00:00:00.000Z", "out_of_band": True}
    assert message.headers == {"_schedule": mark}
    assert q.schedules.get("report") == structs.replace(report, fired=1, last_fired_at=MONDAY)


def test_a_run_publishes_to_those_who_subscribe(tmp_path, clock):
    with Queue.open(tmp_path / "queue.db", clock=clock, delivery_allow="127.0.0.1") as q:
        q.create("orders")
        q.events.subscribe("orders.*", queue="orders")
        q.events.subscribe("orders.*", endpoint="http://127.0.0.1:9/", envelope=True)
        q.schedules.create("tick", topic="orders.tick", every="5m", message=1)

        run = q.schedules.run("tick")

        assert (len(run.ids), run.deliveries) == (1, 1)


def test_a_run_whose_queue_is_gone_says_so(q, report):
    q.delete("orders")

    with pytest.raises(Conflict, match=r"can't fire\. Queue 'orders' does not exist"):
        q.schedules.run("report")


def test_a_fifo_queue_is_found_by_its_bare_name_when_it_is_there(q, report):
    q.delete("orders")
    q.create("orders.fifo")

    assert q.schedules.get("report").problem == ""
    assert q.schedules.run("report").ids == [q.claim("orders.fifo").id]


def test_an_embedded_queue_fires_nothing_by_itself(q, report, clock):
    clock.advance(7 * 24 * HOUR)

    assert q.claim("orders") is None


def test_a_preview_stores_nothing(q):
    shown = q.schedules.preview(cron="30 2 * * *", timezone="Europe/Berlin", count=2)

    assert (shown.canonical, shown.timezone) == ("30 2 * * *", "Europe/Berlin")
    assert shown.human_readable == "At 02:30 every day, Europe/Berlin time"
    assert [(fire.at, fire.local) for fire in shown.next_fires] == [
        (MONDAY + 1.5 * HOUR, "2026-11-16T02:30:00+01:00"),
        (MONDAY + 25.5 * HOUR, "2026-11-17T02:30:00+01:00"),
    ]
    assert q.schedules.list() == []


GOOD = {"queue": "orders", "every": "5m", "message": 1}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"queue": "a b"}, BadName, "a b"),
        ({"jitter_secs": -1}, BadValue, "jitter_secs"),
        ({"jitter_secs": 86_401}, BadValue, "jitter_secs"),
        ({"queue": None}, BadValue, "needs a target"),
        ({"topic": "orders.tick"}, BadValue, "one target"),
        ({"queue": None, "topic": "orders.*"}, BadRoutingKey, "position 8"),
        ({"every": None}, BadValue, "Nothing says when"),
        ({"cron": "@daily"}, BadValue, "cron and every contradict"),
        ({"every": 5}, BadValue, "every can't be 5"),
        ({"every": None, "cron": "0 25 * * *"}, BadExpression, "position 3"),
        ({"every": None, "when": "evry day"}, BadExpression, "Nearest forms"),
        ({"every": None, "fire_at": "2020-01-01T00:00:00Z"}, BadExpression, "in the past"),
        ({"timezone": "Europe/Berlni"}, BadZone, "Europe/Berlin"),
        ({"timezone": 1}, BadValue, "timezone can't be 1"),
        ({"lane": "fast"}, UnknownLane, "no lane 'fast'"),
        ({"lane": ["fast"]}, BadName, "lane"),
        ({"status": "off"}, BadValue, "status"),
        ({"catchup": "yes"}, BadValue, "catchup can't be 'yes'"),
        ({"catchup_limit": 0}, BadValue, "catchup_limit"),
        ({"failure_threshold": 0}, BadValue, "failure_threshold"),
        ({"ttl_seconds": 0}, BadValue, "ttl_seconds"),
        ({"prioritty": 3}, BadValue, "did you mean 'priority'"),
    ],
)
def test_what_can_not_be_scheduled_is_refused(q, changes, error, words):
    fields = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}

    with pytest.raises(error, match=words):
        q.schedules.create("x", **fields)

    assert q.schedules.list() == []


def test_a_schedule_needs_a_message(q):
    with pytest.raises(BadValue, match="needs a message"):
        q.schedules.create("x", queue="orders", every="5m")


@pytest.mark.parametrize("name", ["", "a b", 7, "x" * 101])
def test_a_name_that_no_schedule_can_have_is_refused(q, name):
    with pytest.raises(BadName):
        q.schedules.create(name, **GOOD)


@pytest.mark.parametrize("act", ["get", "run", "pause", "resume", "change"])
def test_a_schedule_that_is_not_there_is_not_found(q, report, act):
    with pytest.raises(ScheduleNotFound, match="did you mean 'report'"):
        getattr(q.schedules, act)("reprot")


def test_a_preview_of_nothing_is_refused(q):
    with pytest.raises(BadValue, match="Nothing says when"):
        q.schedules.preview()
