"""Schedules over a real socket: made, read, put, changed, paused and deleted."""

import re

import pytest

from tests.http.dialects.native.schedules.nightly import NIGHTLY, make, patch, show
from tests.http.dialects.vocabularies import new_name, new_queue
from tests.support.serving import serving

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("schedules"), "--durability", "fast") as running:
        yield running


@pytest.fixture
def queue(server):
    return new_queue(server)


# Making


def test_a_schedule_is_made(server, queue):
    name = new_name()

    made = server.call("POST", "/v1/schedules", {"name": name, "target": queue, **NIGHTLY})

    assert (made.status, made.headers["location"]) == (201, f"/v1/schedules/{name}")
    view = made.json
    assert [local[10:16] for local in view.pop("next_fires_local")] == ["T03:00"] * 5
    assert view.pop("next_fires")[0] == view["next_fire_at"]
    assert all(re.fullmatch(TIME, view.pop(field)) for field in ("created_at", "updated_at", "next_fire_at"))
    assert view == {
        "name": name,
        "target_kind": "queue",
        "queue": queue,
        "target": {"queue": queue, "message": {"job": "report"}},
        "expression": "0 3 * * *",
        "cron": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "canonical": "0 3 * * *",
        "human_readable": "At 03:00 every day, Europe/Berlin time",
        "message": {"job": "report"},
        "format": "json",
        "headers": None,
        "delay": None,
        "ttl": None,
        "priority": 0,
        "lane": None,
        "group_id": None,
        "status": "active",
        "catchup": False,
        "catchup_limit": 100,
        "failure_threshold": 10,
        "jitter_secs": 0,
        "last_fired_at": None,
        "fired": 0,
        "fire_count": 0,
        "skipped": 0,
        "consecutive_failures": 0,
        "last_error": None,
        "paused_reason": None,
    }


@pytest.mark.parametrize(
    ("kind", "expression", "canonical"),
    [
        ("cron", "@daily", "0 0 * * *"),
        ("every", "1h30m", "@every 1h30m"),
        ("when", "every weekday at 9am", "0 9 * * 1-5"),
        ("fire_at", "2099-12-24T18:00:00+01:00", "2099-12-24T17:00:00Z"),
    ],
)
def test_a_schedule_keeps_its_expression_as_it_was_given(server, queue, kind, expression, canonical):
    name = new_name()
    spec = {"name": name, "target_kind": "queue", "target": queue, kind: expression, "message": 1}

    made = server.call("POST", "/v1/schedules", spec)
    shown = show(server, name)

    assert made.status == 201
    assert (shown[kind], shown["expression"], shown["canonical"]) == (expression, expression, canonical)
    others = {other: shown[other] for other in ("cron", "every", "when", "fire_at") if other in shown and other != kind}
    assert others == ({"cron": canonical} if kind == "when" else {})


def test_a_schedule_may_be_made_paused(server, queue):
    made = make(server, target=queue, status="paused")

    assert (made["status"], made["next_fires"]) == ("paused", [])


def test_a_name_that_is_taken_is_a_conflict(server, queue):
    name = make(server, target=queue)["name"]

    again = server.call("POST", "/v1/schedules", {"name": name, "target": queue, **NIGHTLY})

    assert again.status == 409
    assert again.json["error"] == f"Schedule '{name}' exists. Choose another name, or change the one that is there."


BAD = [
    ({"cron": "61 3 * * *"}, "Field 1 (minute) at position 1: '61' is above 59"),
    ({"cron": "0 3 * *"}, "has 4 fields"),
    ({"cron": "0 0 30 2 *"}, "never fires"),
    ({"cron": ""}, "The expression is empty"),
    ({"cron": "0 3 * * *", "every": "5 minutes"}, "in several ways: cron and every"),
    ({"timezone": "Europe/Berln"}, "There is no time zone 'Europe/Berln'. Nearest names: Europe/Berlin"),
    ({"timezone": "+02:00"}, "'+02:00' is an offset, not a time zone. Use Etc/GMT-2"),
    ({"target_kind": "workflow"}, "target_kind can't be 'workflow': it must be 'queue'"),
    ({"target": "no such queue"}, "'no such queue' can't be"),
    ({"jitter_secs": -1}, "jitter_secs can't be -1"),
    ({"jitter_secs": 86_401}, "jitter_secs can't be 86401"),
    ({"target_kind": "topic", "target": "a..b"}, "there is no word at position 3"),
    ({"target_kind": "topic", "target": "a.*"}, "'*' at position 3 is for patterns"),
    ({"target_kind": "topic", "target": "a.b", "lane": "fast"}, "A topic has no lanes"),
    ({"lane": "fast"}, "has no lane 'fast'"),
    ({"status": "asleep"}, "status can't be 'asleep': it must be one of active, paused."),
    ({"catchup_limit": 0}, "catchup_limit can't be 0"),
    ({"catchup_limit": 1001}, "catchup_limit can't be 1001"),
    ({"failure_threshold": 0}, "failure_threshold can't be 0"),
    ({"delay": -1}, "delay can't be -1"),
    ({"ttl": 0}, "ttl can't be 0"),
    ({"priority": 10**9}, "priority can't be 1000000000"),
]
"""Fields that are wrong in a new schedule and in a change."""
BAD_EXPRESSIONS = [
    ({"every": "0 minutes"}, "An interval of 0 seconds can't be"),
    ({"when": "every weekdy at 9am"}, "'weekdy' at position 7 is not understood. Nearest forms:"),
    ({"fire_at": "2001-01-01T00:00:00Z"}, "is in the past"),
    ({"fire_at": "2099-02-30T00:00:00Z"}, "'2099-02-30' at position 1 is not a date"),
]


def refused(server, method, name, spec, wrong):
    """Return True if the request is refused with these words."""
    path = "/v1/schedules" if method == "POST" else f"/v1/schedules/{name}"
    answer = server.call(method, path, {"name": name, **spec} if method == "POST" else spec)
    return answer.status == 400 and wrong in answer.json["error"]


@pytest.mark.parametrize(("change", "wrong"), BAD)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_bad_schedule_is_refused_and_not_made(server, queue, method, change, wrong):
    name = new_name()

    assert refused(server, method, name, {**NIGHTLY, "target": queue, **change}, wrong)
    assert server.call("GET", f"/v1/schedules/{name}").status == 404


@pytest.mark.parametrize(
    ("expression", "wrong"), [*BAD_EXPRESSIONS, ({}, "Give one of cron, every, when and fire_at.")]
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_schedule_that_does_not_say_when_it_fires_is_refused(server, queue, method, expression, wrong):
    name, spec = new_name(), {"target_kind": "queue", "target": queue, "message": 1}

    assert refused(server, method, name, {**spec, **expression}, wrong)
    assert server.call("GET", f"/v1/schedules/{name}").status == 404


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("target_kind", "The target does not say what"),
        ("target", "missing required field `target`"),
        ("message", "It does not say what to send"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_schedule_without_a_target_or_a_message_is_refused(server, queue, method, field, wrong):
    spec = {**NIGHTLY, "target": queue}
    del spec[field]

    assert refused(server, method, new_name(), spec, wrong)


@pytest.mark.parametrize(("change", "wrong"), [*BAD, *BAD_EXPRESSIONS])
def test_a_bad_change_is_refused_and_changes_nothing(server, queue, change, wrong):
    made = make(server, target=queue)

    assert refused(server, "PATCH", made["name"], change, wrong)
    assert show(server, made["name"]) == made


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 101])
def test_a_bad_name_is_refused(server, queue, name):
    answer = server.call("POST", "/v1/schedules", {"name": name, "target": queue, **NIGHTLY})

    assert answer.status == 400
    assert "can't be a schedule's name. Use 1 to 100 letters, digits" in answer.json["error"]


def test_a_target_that_is_misspelt_is_named_with_the_nearest(server, queue):
    made = make(server, target=f"{queue}x")

    assert f"did you mean '{queue}'?" in made["problem"]
    assert "Until then the schedule can't fire." in made["problem"]


# Reading


def test_schedules_are_listed_by_name_with_their_fires_to_come(server, queue):
    prefix = new_name()
    made = [make(server, name=f"{prefix}:{letter}", target=queue) for letter in "ba"]

    found = server.call("GET", f"/v1/schedules?name_prefix={prefix}:")

    assert (found.status, found.json) == (200, [made[1], made[0]])


def test_schedules_are_listed_by_status_and_target(server, queue):
    prefix = new_name()
    make(server, name=f"{prefix}-on", target=queue)
    make(server, name=f"{prefix}-off", target=queue, status="paused")
    make(server, name=f"{prefix}-topic", target_kind="topic", target="a.b")

    def names(query):
        found = server.call("GET", f"/v1/schedules?name_prefix={prefix}-&{query}").json
        return [one["name"].removeprefix(f"{prefix}-") for one in found]

    assert names("") == ["off", "on", "topic"]
    assert names("status=paused") == ["off"]
    assert names("target_kind=topic") == ["topic"]
    assert names("target_kind=workflow") == []
    assert names("color=red") == ["off", "on", "topic"]
    assert names("limit=2") == ["off", "on"]
    assert names(f"after={prefix}-on") == ["topic"]


def test_a_list_is_no_longer_than_the_server_allows(tmp_path):
    with serving(tmp_path, "--durability", "fast", "--schedule-list-max", "2") as server:
        queue = new_queue(server)
        for _ in range(3):
            make(server, target=queue)

        assert len(server.call("GET", "/v1/schedules").json) == 2
        too_many = server.call("GET", "/v1/schedules?limit=3")

    assert too_many.status == 400
    assert too_many.json["error"] == "limit can't be 3: it must be a whole number from 1 to 2."


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("status=asleep", "status can't be 'asleep': it must be one of active, paused."),
        ("target_kind=lambda", "target_kind can't be 'lambda': it must be one of queue, topic."),
    ],
)
def test_a_list_that_is_asked_for_wrongly_is_refused(server, query, wrong):
    answer = server.call("GET", f"/v1/schedules?{query}")

    assert answer.status == 400
    assert wrong in answer.json["error"]


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("PATCH", ""), ("POST", "/runs")])
def test_an_unknown_schedule_is_not_found(server, queue, method, path):
    name = make(server, target=queue)["name"]

    answer = server.call(method, f"/v1/schedules/{name}x{path}", {} if method == "PATCH" else None)

    assert answer.status == 404
    assert f"There is no schedule '{name}x' (did you mean '{name}'?)" in answer.json["error"]


# Putting


def test_to_put_a_schedule_makes_it_and_to_put_it_again_changes_nothing(server, queue):
    name, spec = new_name(), {**NIGHTLY, "target": queue, "headers": {}, "delay": 1.5, "failure_threshold": None}

    made = server.call("PUT", f"/v1/schedules/{name}", spec)
    again = server.call("PUT", f"/v1/schedules/{name}", {"name": name, **spec})

    assert (made.status, made.headers["location"]) == (201, f"/v1/schedules/{name}")
    assert again.status == 200
    assert "location" not in again.headers
    assert again.json == made.json


def test_what_is_left_out_of_a_put_has_its_default(server, queue):
    name = make(server, target=queue, catchup=True, catchup_limit=7, failure_threshold=None, headers={"a": 1})["name"]

    put = server.call("PUT", f"/v1/schedules/{name}", {**NIGHTLY, "target": queue, "cron": "0 4 * * *"}).json

    assert (put["catchup"], put["catchup_limit"], put["failure_threshold"], put["headers"]) == (False, 100, 10, None)
    assert put["next_fires_local"][0][11:16] == "04:00"


def test_a_paused_schedule_stays_paused_unless_a_put_says_otherwise(server, queue):
    name, spec = make(server, target=queue, status="paused")["name"], {**NIGHTLY, "target": queue}

    same = server.call("PUT", f"/v1/schedules/{name}", {**spec, "cron": "0 4 * * *"}).json
    resumed = server.call("PUT", f"/v1/schedules/{name}", {**spec, "status": "active"}).json

    assert (same["status"], same["cron"]) == ("paused", "0 4 * * *")
    assert resumed["status"] == "active"


def test_a_put_under_one_name_can_not_name_another(server, queue):
    answer = server.call("PUT", f"/v1/schedules/{new_name()}", {"name": "other", "target": queue, **NIGHTLY})

    assert answer.status == 400
    assert "The body names the schedule 'other', and the path" in answer.json["error"]


# Changing


def test_a_change_leaves_the_rest_as_it_was(server, queue):
    made = make(server, target=queue, headers={"a": 1}, priority=3, delay=1.5)

    changed = patch(server, made["name"], message=[1], ttl=60)

    assert (changed["message"], changed["ttl"]) == ([1], 60)
    assert changed["target"] == {**made["target"], "message": [1]}
    as_before = {field: made[field] for field in ("message", "target", "ttl", "updated_at")}
    same = {**changed, **as_before}
    assert same == made


def test_a_change_of_the_expression_changes_its_kind(server, queue):
    name = make(server, target=queue)["name"]

    changed = patch(server, name, when="every weekday at 9am")

    assert (changed["when"], changed["cron"], changed["canonical"]) == (
        "every weekday at 9am", "0 9 * * 1-5", "0 9 * * 1-5",
    )  # fmt: skip


def test_a_change_of_the_time_zone_moves_the_fires(server, queue):
    made = make(server, target=queue, timezone="UTC")

    changed = patch(server, made["name"], timezone="Asia/Kolkata")

    assert made["next_fires"][0][11:16] == "03:00"
    assert changed["next_fires"][0][11:16] == "21:30"


def test_a_schedule_is_paused_and_resumed(server, queue):
    made = make(server, target=queue)

    paused = patch(server, made["name"], status="paused")
    resumed = patch(server, made["name"], status="active")

    assert (paused["status"], paused["next_fires"]) == ("paused", [])
    assert paused["next_fire_at"] == made["next_fire_at"]
    assert {**resumed, "updated_at": made["updated_at"]} == made


def test_a_schedule_whose_queue_is_gone_can_still_be_paused(server, queue):
    name = make(server, target=queue)["name"]
    server.call("DELETE", f"/v1/queues/{queue}")

    assert patch(server, name, status="paused")["status"] == "paused"


def test_a_schedule_is_deleted_whether_it_is_there_or_not(server, queue):
    name = make(server, target=queue)["name"]

    deleted = server.call("DELETE", f"/v1/schedules/{name}")
    again = server.call("DELETE", f"/v1/schedules/{name}")

    assert (deleted.status, again.status) == (204, 204)
    assert server.call("GET", f"/v1/schedules/{name}").status == 404


def test_what_can_be_no_schedules_name_is_not_deleted_in_silence(server):
    answer = server.call("DELETE", "/v1/schedules/a%20b")

    assert answer.status == 400
    assert "'a b' can't be a schedule's name" in answer.json["error"]
