"""Schedules, through a server."""

from datetime import UTC, datetime, timedelta

import pytest

from sqew import NewMessage, Queue
from sqew.errors import (
    BadBody,
    BadExpression,
    BadName,
    BadValue,
    BadZone,
    Conflict,
    Invalid,
    ScheduleExists,
    ScheduleNotFound,
    UnknownLane,
)
from tests.client.clients import connect, queue
from tests.support.serving import serving

__all__ = ["connect", "queue"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("schedules"), "--durability", "fast", "--schedule-list-max", "20") as server:
        yield server


@pytest.fixture
def q(connect, server, queue):
    """Yield a client with a queue; delete the server's schedules at the end."""
    q = connect(server.url)
    q.create(queue, lanes=["fast", "slow"])
    yield q
    for schedule in q.schedules.list():
        q.schedules.delete(schedule.name)


@pytest.fixture
def report(q, queue):
    """Return a schedule that fires every weekday at 9 in Berlin."""
    return q.schedules.create(
        "report", queue=queue, when="every weekday at 9am", timezone="Europe/Berlin", message={"kind": "daily"}
    )


def test_a_schedule_says_when_it_fires(report, queue):
    assert (report.status, report.target_kind, report.target) == ("active", "queue", queue)
    assert (report.kind, report.expression, report.canonical) == ("when", "every weekday at 9am", "0 9 * * 1-5")
    assert report.human_readable == "At 09:00 on weekdays, Europe/Berlin time"
    assert report.next_fires[0].at == report.next_fire_at
    assert "T09:00:00+0" in report.next_fires[0].local


def test_a_client_sees_the_schedules_that_the_embedded_queue_sees(q, report, queue, server):
    q.schedules.create(
        "tick", queue=queue, every="90m", message=[1.5], headers={"a": 1}, priority=3, lane="slow", group="g",
        delay_seconds=1.5, ttl_seconds=60, status="paused", catchup=True, catchup_limit=7, failure_threshold=None,
        jitter_secs=30,
    )  # fmt: skip
    q.schedules.create("later", queue="not-there-yet", when="every weekday at 9am", message=1)
    q.create("only.fifo")
    q.schedules.create("in-order", queue="only", every="90m", message=1)

    with Queue.open(server.db, create=False) as embedded:
        assert q.schedules.list() == embedded.schedules.list()
        assert q.schedules.get("tick") == embedded.schedules.get("tick")
        assert q.schedules.get("report") == embedded.schedules.get("report")
        assert q.schedules.get("later") == embedded.schedules.get("later")
        assert q.schedules.get("in-order").target == embedded.schedules.get("in-order").target == "only.fifo"
        assert q.schedules.get("later").problem.startswith("Queue 'not-there-yet' does not exist")


def test_a_list_of_schedules_with_large_messages_is_whole(q, queue, server):
    names = [f"large-{n:02}" for n in range(12)]
    for name in names:
        q.schedules.create(name, queue=queue, every="5h", message="x" * 1_000_000)

    assert [one.name for one in q.schedules.list(limit=20)] == names
    assert [one.name for one in q.schedules.list()] == names
    assert [one.name for one in q.schedules.list(limit=11)] == names[:11]
    with Queue.open(server.db, create=False) as embedded:
        assert [one.name for one in embedded.schedules.list()] == names


def test_a_list_of_schedules_that_ends_early_says_after_which_it_goes_on(q, queue, server):
    for n in range(12):
        q.schedules.create(f"large-{n:02}", queue=queue, every="5h", message="x" * 1_000_000)

    first = server.call("GET", "/v1/schedules")
    rest = server.call("GET", f"/v1/schedules?after={first.headers['x-sqew-after']}")

    assert [one["name"] for one in first.json + rest.json] == [f"large-{n:02}" for n in range(12)]
    assert first.headers["x-sqew-after"] == first.json[-1]["name"]
    assert "x-sqew-after" not in rest.headers


def test_a_list_without_a_limit_is_longer_than_a_page(q, queue):
    names = [f"many-{n:02}" for n in range(25)]
    for name in names:
        q.schedules.create(name, queue=queue, every="5h", message=1)

    assert [one.name for one in q.schedules.list()] == names


def test_the_message_of_a_schedule_is_kept(q, queue):
    made = q.schedules.create("x", queue=queue, every="5m", message={"a": 1}, headers={"h": 1}, ttl_seconds=60)

    assert made.message == NewMessage(b'{"a":1}', "json", {"h": 1}, ttl_ms=60_000)


def test_a_time_may_be_given_as_a_datetime(q, queue):
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)

    assert q.schedules.create("x", queue=queue, fire_at=at, message=1).next_fire_at == at.timestamp() * 1000


def test_a_name_is_taken_once(q, report, queue):
    with pytest.raises(ScheduleExists, match="'report' exists") as refusal:
        q.schedules.create("report", queue=queue, every="5m", message=1)

    assert refusal.value.name == "report"


def test_putting_makes_a_schedule_and_then_replaces_it(q, queue):
    fields = {"queue": queue, "when": "in 2 hours", "message": 1, "priority": 3}
    made = q.schedules.put("x", **fields)

    again = q.schedules.put("x", **fields)
    replaced = q.schedules.put("x", topic="orders.tick", cron="0 * * * *", message=2)

    assert again == made
    assert (replaced.target_kind, replaced.canonical, replaced.message.priority) == ("topic", "0 * * * *", 0)


def test_a_change_leaves_the_rest_as_it_is(q, report):
    changed = q.schedules.change("report", priority=5, failure_threshold=None)

    assert (changed.message.body, changed.message.priority) == (b'{"kind":"daily"}', 5)
    assert (changed.failure_threshold, changed.next_fire_at) == (None, report.next_fire_at)


def test_a_schedule_is_paused_and_resumed(q, report):
    paused = q.schedules.pause("report")

    assert (paused.status, paused.next_fires) == ("paused", [])
    assert q.schedules.resume("report").status == "active"


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


def test_a_run_sends_at_once(q, report, queue):
    run = q.schedules.run("report")

    message = q.claim(queue)
    assert (run.schedule, run.ids, run.deliveries) == ("report", [message.id], 0)
    assert abs(run.scheduled_for - message.created_at) < 10_000
    assert message.headers["_schedule"]["out_of_band"] is True


def test_a_run_whose_queue_is_gone_says_so(q, report, queue):
    q.delete(queue)

    with pytest.raises(Conflict, match="can't fire"):
        q.schedules.run("report")


def test_a_server_fires_what_a_client_schedules(q, queue):
    q.schedules.create("soon", queue=queue, every="1 second", message={"n": 1})

    message = q.claim(queue, wait_seconds=10)

    assert (message.value, message.headers["_schedule"]["name"]) == ({"n": 1}, "soon")
    assert message.headers["_schedule"]["out_of_band"] is False


def test_a_server_fires_what_the_embedded_queue_schedules(q, queue, server):
    with Queue.open(server.db, create=False) as embedded:
        embedded.schedules.create("soon", queue=queue, every="1 second", message={"n": 1})

    assert q.claim(queue, wait_seconds=10).value == {"n": 1}


def test_a_preview_is_the_same_as_the_embedded_one(q, server):
    with Queue.open(server.db, create=False) as embedded:
        here = embedded.schedules.preview(cron="30 2 29 2 *", timezone="Europe/Berlin", count=2)

    assert q.schedules.preview(cron="30 2 29 2 *", timezone="Europe/Berlin", count=2) == here


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"queue": "a b"}, BadName, "a b"),
        ({"jitter_secs": -1}, BadValue, "jitter_secs"),
        ({"queue": None}, BadValue, "needs a target"),
        ({"topic": "orders.tick"}, BadValue, "one target"),
        ({"every": None}, BadValue, "Nothing says when"),
        ({"cron": "@daily"}, BadValue, "cron and every contradict"),
        ({"every": 5}, BadValue, "every can't be 5"),
        ({"every": None, "cron": "0 25 * * *"}, BadExpression, "position 3"),
        ({"every": None, "when": "evry day"}, BadExpression, "Nearest forms"),
        ({"every": None, "fire_at": "2020-01-01T00:00:00Z"}, BadExpression, "in the past"),
        ({"timezone": "Europe/Berlni"}, BadZone, "Europe/Berlin"),
        ({"lane": "none"}, UnknownLane, "no lane 'none'"),
        ({"status": "off"}, BadValue, "status"),
        ({"catchup": "yes"}, BadValue, "catchup"),
        ({"failure_threshold": 0}, BadValue, "failure_threshold"),
        ({"ttl_seconds": -1}, BadValue, "ttl_seconds"),
        ({"message": float("nan")}, BadBody, "NaN"),
        ({"prioritty": 3}, BadValue, "did you mean 'priority'"),
    ],
)
def test_what_can_not_be_scheduled_is_refused(q, queue, changes, error, words):
    good = {"queue": queue, "every": "5m", "message": 1}
    fields = {name: value for name, value in {**good, **changes}.items() if value is not None}

    with pytest.raises(error, match=words):
        q.schedules.create("x", **fields)

    assert q.schedules.list() == []


@pytest.mark.parametrize("method", ["create", "put"])
def test_a_schedule_without_a_message_was_sent_to_the_server_to_be_refused(q, queue, method):
    with pytest.raises(BadValue, match="A schedule needs a message to send"):
        getattr(q.schedules, method)("x", queue=queue, every="5m")


@pytest.mark.parametrize("method", ["create", "put"])
@pytest.mark.parametrize("message", [None, {"a": None}, [None, 1], "null", "a text"])
def test_a_message_with_null_in_it_is_kept_as_the_embedded_queue_keeps_it(q, queue, server, method, message):
    getattr(q.schedules, method)("x", queue=queue, every="5m", message=message, failure_threshold=None)

    with Queue.open(server.db, create=False) as embedded:
        here = embedded.schedules.create("y", queue=queue, every="5m", message=message)
    assert q.schedules.get("x").message == here.message == q.schedules.get("y").message


@pytest.mark.parametrize("name", ["", "a b", "a/b", 7, "x" * 101])
def test_a_name_that_no_schedule_can_have_is_refused(q, name):
    for act in (q.schedules.get, q.schedules.delete, q.schedules.run, q.schedules.pause):
        with pytest.raises(BadName):
            act(name)


@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_are_nothing_but_dots_are_refused(q, queue, name):
    with pytest.raises(BadName):
        q.schedules.create(name, queue=queue, every="5m", message=1)


@pytest.mark.parametrize("act", ["get", "run", "pause", "resume", "change"])
def test_a_schedule_that_is_not_there_is_not_found(q, act):
    with pytest.raises(ScheduleNotFound):
        getattr(q.schedules, act)("nowhere")


@pytest.mark.parametrize("options", [{"status": "off"}, {"target_kind": "lambda"}, {"limit": 0}, {"limit": 21}])
def test_what_can_not_be_asked_of_schedules_is_refused(q, options):
    with pytest.raises(BadValue):
        q.schedules.list(**options)


@pytest.mark.parametrize("options", [{}, {"cron": "x"}, {"every": "5m", "count": 0}, {"every": "5m", "timezone": "x"}])
def test_a_preview_that_can_not_be_is_refused(q, options):
    with pytest.raises(Invalid):
        q.schedules.preview(**options)
