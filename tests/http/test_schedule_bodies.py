"""What may stand in the body of a schedule: nulls, texts, and what a server showed before."""

import pytest
from timetables import NIGHTLY, make, patch, show
from vocabularies import new_name, new_queue

from serving import serving
from sqew.http.dialects.schedules.bodies import PutSchedule, ScheduleSpec
from sqew.http.dialects.schedules.views import ScheduleDetails


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


def test_put_ignores_exactly_what_is_shown_besides():
    ignored = set(PutSchedule.__struct_fields__) - set(ScheduleSpec.__struct_fields__)

    assert ignored == set(ScheduleDetails.__struct_fields__) - set(ScheduleSpec.__struct_fields__)


def test_what_is_shown_besides_is_no_field_of_a_new_schedule(server, queue):
    answer = server.call("POST", "/v1/schedules", {"name": new_name(), "target": queue, **NIGHTLY, "fired": 0})

    assert answer.status == 400
    assert "there is no 'fired'" in answer.json["error"]


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
