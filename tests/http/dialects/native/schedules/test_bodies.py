"""Bodies of schedules: nulls, strings, and documents that a server showed before."""

import pytest

from tests.http.dialects.native.schedules.nightly import NIGHTLY, make, patch, show
from tests.http.dialects.vocabularies import new_name, new_queue
from tests.support.serving import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("bodies"), "--durability", "fast", "--schedule-enabled", "false") as running:
        yield running


@pytest.fixture(scope="module")
def queue(server):
    return new_queue(server)


NULLS = {"cron": None, "when": None, "fire_at": None, "every": "90 minutes"}


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_expression_that_is_null_was_refused_beside_the_one_that_is_given(server, queue, method):
    name = new_name()
    path = "/v1/schedules" if method == "POST" else f"/v1/schedules/{name}"

    made = server.call(method, path, {"name": name, "target_kind": "queue", "target": queue, "message": 1, **NULLS})

    assert made.status == 201, made
    assert made.json["canonical"] == "@every 1h30m"


def test_nulls_leave_an_expression_as_it_is(server, queue):
    made = make(server, target=queue)

    assert patch(server, made["name"], cron=None, every=None, priority=1)["cron"] == made["cron"]
    assert patch(server, made["name"], cron=None, every="90 minutes")["canonical"] == "@every 1h30m"


def test_a_preview_takes_nulls_for_what_is_not_given(server):
    answer = server.call("POST", "/v1/previews", NULLS)

    assert (answer.status, answer.json["canonical"]) == (200, "@every 1h30m")


def test_nulls_alone_do_not_say_when_it_fires(server, queue):
    spec = {"target_kind": "queue", "target": queue, "message": 1, "cron": None}

    answer = server.call("PUT", f"/v1/schedules/{new_name()}", spec)

    assert answer.status == 400
    assert "Give one of cron, every, when and fire_at." in answer.json["error"]


@pytest.mark.parametrize(
    "fields",
    [{}, {"status": "paused"}, {"headers": {"a": 1}, "delay": 1.5, "ttl": 60, "group_id": "g", "priority": 3},
     {"message": "a text", "format": "text"}, {"catchup": True, "failure_threshold": None}],
)  # fmt: skip
def test_what_a_server_showed_of_a_schedule_could_not_be_put_back(server, queue, fields):
    made = make(server, target=queue, **fields)

    answer = server.call("PUT", f"/v1/schedules/{made['name']}", made)

    assert (answer.status, answer.json) == (200, made)


@pytest.mark.parametrize("expression", [{"every": "90 minutes"}, {"every": "5m"}, {"when": "tomorrow at 6pm"}])
def test_what_an_expression_is_stored_as_may_be_put_back_beside_it(server, queue, expression):
    target = {"queue": queue, "message": 1}
    made = server.call("POST", "/v1/schedules", {"name": new_name(), "target": target, **expression}).json

    answer = server.call("PUT", f"/v1/schedules/{made['name']}", made)

    assert (answer.status, answer.json) == (200, made)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_what_is_shown_only_or_known_to_nobody_is_ignored_as_beyond_queue_ignores_it(server, queue, method):
    name = new_name()
    path = "/v1/schedules" if method == "POST" else f"/v1/schedules/{name}"

    made = server.call(method, path, {"name": name, "target": queue, **NIGHTLY, "fired": 7, "color": "red"})

    assert (made.status, made.json["fired"]) == (201, 0)


# Targets


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_target_holds_the_message_and_its_headers(server, queue, method):
    name = new_name()
    path = "/v1/schedules" if method == "POST" else f"/v1/schedules/{name}"
    target = {"queue": queue, "message": {"a": [1, None]}, "headers": {"by": "cron"}}

    made = server.call(method, path, {"name": name, "every": "5m", "target": target})

    assert made.status == 201
    assert made.json["target"] == target
    shown = {field: made.json[field] for field in ("target_kind", "message", "headers")}
    assert shown == {"target_kind": "queue", "message": {"a": [1, None]}, "headers": {"by": "cron"}}


def test_what_is_said_beside_a_target_and_in_it_is_the_same_schedule(server, queue):
    beside = make(server, target=queue, headers={"by": "cron"})
    message = {"queue": queue, "message": {"job": "report"}, "headers": {"by": "cron"}}

    within = patch(server, beside["name"], target=message)

    assert within == beside


def test_a_target_that_is_changed_is_said_as_a_whole(server, queue):
    made = make(server, target=queue, headers={"by": "cron"})

    changed = patch(server, made["name"], target={"topic": "orders.due", "message": 7})

    assert changed["target"] == {"topic": "orders.due", "message": 7}
    assert (changed["target_kind"], changed["headers"]) == ("topic", None)


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ({"workflow": "report", "input": {}}, "schedule_invalid: A workflow can't be a target"),
        ({"message": 1}, "schedule_invalid: The target names neither queue nor topic"),
        ({"queue": "a", "topic": "b", "message": 1}, "schedule_invalid: The target names queue and topic"),
        ({"queue": "a"}, "It does not say what to send"),
        ({"queue": "a b", "message": 1}, "'a b' can't be"),
        ({"topic": "a..b", "message": 1}, "there is no word at position 3"),
        ({"queue": "a", "message": 1, "headers": {"_schedule": {}}}, "headers can't have '_schedule'"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_target_that_can_not_be_is_refused(server, method, target, wrong):
    name = new_name()
    path = "/v1/schedules" if method == "POST" else f"/v1/schedules/{name}"

    answer = server.call(method, path, {"name": name, "every": "5m", "target": target})

    assert answer.status == 400
    assert wrong in f"{answer.json['code']}: {answer.json['error']}"
    assert server.call("GET", f"/v1/schedules/{name}").status == 404


@pytest.mark.parametrize(
    ("beside", "wrong"),
    [
        ({"message": 2}, "one message in its target and another beside it"),
        ({"headers": {"a": 2}}, "headers in its target and others beside it"),
        ({"target_kind": "topic"}, "target_kind says topic, and the target names a queue"),
    ],
)
def test_a_target_that_is_contradicted_is_refused(server, queue, beside, wrong):
    target = {"queue": queue, "message": 1, "headers": {"a": 1}}

    answer = server.call("POST", "/v1/schedules", {"name": new_name(), "every": "5m", "target": target, **beside})

    assert answer.status == 400
    assert wrong in answer.json["error"]


@pytest.mark.parametrize("nulls", [{"timezone": None, "jitter_secs": None, "catchup": None, "catchup_limit": None}])
def test_what_is_null_is_left_out(server, queue, nulls):
    spec = {"name": new_name(), "every": "5m", "target": {"queue": queue, "message": 1}, "status": None, **nulls}

    made = server.call("POST", "/v1/schedules", spec)

    assert made.status == 201
    assert (made.json["timezone"], made.json["jitter_secs"], made.json["catchup_limit"]) == ("UTC", 0, 100)
    assert patch(server, made.json["name"], target=None, status=None, **nulls) == made.json


def test_a_queue_that_does_not_exist_yet_is_a_target_with_a_problem(server, queue):
    later = new_name()
    spec = {"name": new_name(), "every": "5m", "target": {"queue": later, "message": 1}}

    made = server.call("POST", "/v1/schedules", spec)
    server.call("POST", "/v1/queues", {"name": later})

    assert made.status == 201
    assert made.json["problem"].startswith(f"Queue '{later}' does not exist")
    assert "problem" not in show(server, spec["name"])


def test_jitter_is_shown_and_kept_until_it_is_changed(server, queue):
    made = make(server, target=queue, jitter_secs=30)

    assert made["jitter_secs"] == 30
    assert patch(server, made["name"], priority=1)["jitter_secs"] == 30
    assert patch(server, made["name"], jitter_secs=0)["jitter_secs"] == 0


def test_a_text_is_sent_as_text(server, queue):
    made = make(server, target=queue, message="hi", format="text")
    server.call("POST", f"/v1/schedules/{made['name']}/runs")

    (sent,) = server.call("POST", f"/queues/{queue}/poll?batch=10").json["messages"]
    assert (made["message"], made["format"]) == ("hi", "text")
    assert (sent["payload"], sent["format"]) == ("hi", "text")


def test_a_text_becomes_json_again(server, queue):
    name = make(server, target=queue, message="hi", format="text")["name"]

    assert patch(server, name, priority=1)["format"] == "text"
    assert patch(server, name, message="hi")["format"] == "json"
    assert show(server, name)["format"] == "json"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"message": {"a": 1}, "format": "text"}, "A text body must be a JSON string"),
        ({"message": "hi", "format": "xml"}, "Invalid enum value 'xml'"),
        ({"format": "text"}, "Give the message with it"),
    ],
)
def test_a_format_that_does_not_fit_the_message_is_refused(server, queue, change, wrong):
    made = make(server, target=queue)

    answer = server.call("PATCH", f"/v1/schedules/{made['name']}", change)

    assert answer.status == 400
    assert wrong in answer.json["error"]
    assert show(server, made["name"]) == made
