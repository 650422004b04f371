"""The hq dialect over a real socket."""

import re

import pytest
from vocabularies import HQ, SQEW, new_name

from serving import STORES

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """The shared server, on each store in turn."""
    return servers(request.param)


@pytest.fixture
def queue(shared_server):
    name = new_name()
    made = shared_server.call("POST", f"/queues?name={name}&max_attempts=2&visibility_timeout_seconds=30")
    assert (made.status, made.body) == (200, b"")
    return name


def test_the_example_of_its_description_works_as_it_stands(shared_server):
    created = shared_server.call("POST", "/queues?name=myqueue&max_attempts=5&visibility_timeout_seconds=30")
    sent = shared_server.call(
        "POST", "/queues/myqueue/enqueue", b'{"a":1, "b":2}', {"Content-type": "application/json"}
    )
    received = shared_server.call("GET", "/queues/myqueue/receive")

    assert (created.status, created.body) == (200, b"")
    assert re.fullmatch(rf'{{"message_id":"{UUID}"}}', sent.body.decode())
    id = sent.json["message_id"].encode()
    assert received.body == b'{"id":"%b","args":{"a":1, "b":2},"queue":"myqueue","attempts":1}' % id
    assert shared_server.call("DELETE", "/queues/myqueue").status == 204


def test_an_empty_queue_gives_null(shared_server, queue):
    received = shared_server.call("GET", f"/queues/{queue}/receive")

    assert (received.status, received.body) == (200, b"null")


def test_a_completed_message_is_gone(shared_server, queue):
    id = shared_server.call("POST", f"/queues/{queue}/enqueue", [1]).json["message_id"]
    shared_server.call("GET", f"/queues/{queue}/receive")

    first = shared_server.call("PUT", f"/messages/{id}/complete")
    second = shared_server.call("PUT", f"/messages/{id}/complete")

    assert [(answer.status, answer.body) for answer in (first, second)] == [(200, b"")] * 2
    assert shared_server.call("GET", f"/queues/{queue}/stats").json["totals"]["acked"] == 1


def test_a_failed_message_is_dead(shared_server, queue):
    id = shared_server.call("POST", f"/queues/{queue}/enqueue", [1]).json["message_id"]
    shared_server.call("GET", f"/queues/{queue}/receive")

    failed = shared_server.call("PUT", f"/messages/{id}/fail")

    assert (failed.status, failed.body) == (200, b"")
    assert shared_server.call("GET", f"/queues/{queue}/receive").json is None
    (dead,) = shared_server.call("GET", f"/queues/{queue}/dlq").json["messages"]
    assert (dead["died_in"], dead["reason"]) == (queue, "failed by its consumer")


def test_a_message_is_received_no_more_often_than_its_queue_allows(shared_server, queue):
    shared_server.call("PUT", f"/queues/{queue}?visibility_timeout_seconds=0")
    HQ.send(shared_server, queue, 1)

    attempts = [delivery.attempts for _ in range(4) for delivery in HQ.receive(shared_server, queue)]

    assert attempts == [1, 2]


def test_a_queue_shows_what_it_was_given(shared_server, queue):
    shown = shared_server.call("GET", f"/queues/{queue}").json

    assert (shown["name"], shown["max_attempts"], shown["visibility_timeout_seconds"]) == (queue, 2, 30)


def test_a_queue_is_updated_in_part(shared_server, queue):
    updated = shared_server.call("PUT", f"/queues/{queue}?max_attempts=9")

    shown = shared_server.call("GET", f"/queues/{queue}").json
    assert (updated.status, updated.body) == (200, b"")
    assert (shown["max_attempts"], shown["visibility_timeout_seconds"]) == (9, 30)


CREATION = {"name": "made", "max_attempts": "5", "visibility_timeout_seconds": "30"}


def made_in_the_url(server, **parameters):
    given = {**CREATION, "name": new_name(), **parameters}
    return server.call("POST", "/queues?" + "&".join(f"{k}={v}" for k, v in given.items() if v is not None))


@pytest.mark.parametrize("missing", CREATION)
def test_a_queue_is_made_with_all_parameters_or_not_at_all(shared_server, missing):
    answer = made_in_the_url(shared_server, **{missing: None})

    assert answer.status == 400
    assert missing in answer.body.decode() or "name" in answer.body.decode()


@pytest.mark.parametrize("parameter", ["max_attempts", "visibility_timeout_seconds"])
@pytest.mark.parametrize("value", ["0", "-1"])
def test_a_parameter_below_one_is_refused_with_422(shared_server, parameter, value):
    answer = made_in_the_url(shared_server, **{parameter: value})

    assert answer.status == 422
    assert answer.json["error"] == f"{parameter} can't be {float(value):g}: it must be 1 or more."
    assert answer.headers["x-sqew-error"] == "bad_value"


@pytest.mark.parametrize("max_attempts", ["5", "6"])
def test_a_queue_that_exists_is_not_made_again_even_if_it_is_the_same(shared_server, max_attempts):
    name = new_name()
    assert made_in_the_url(shared_server, name=name).status == 200

    again = made_in_the_url(shared_server, name=name, max_attempts=max_attempts)

    assert (again.status, again.headers["x-sqew-error"]) == (409, "queue_exists")
    assert shared_server.call("GET", f"/queues/{name}").json["max_attempts"] == 5


def test_a_queue_that_does_not_exist_is_shown_as_null(shared_server):
    shown = shared_server.call("GET", f"/queues/{new_name()}")

    assert (shown.status, shown.headers["content-type"], shown.body) == (200, "application/json", b"null")


def test_a_queue_can_not_be_renamed(shared_server, queue):
    answer = shared_server.call("PUT", f"/queues/{queue}?name={new_name()}")

    assert answer.status == 400
    assert "can't be renamed" in answer.json["error"]


def test_queues_are_listed_with_their_attempts(shared_server, queue):
    listed = shared_server.call("GET", "/queues").json

    assert (queue, 2) in [(q["name"], q["max_attempts"]) for q in listed]


@pytest.mark.parametrize(
    "parameters", ["max_attempts=x", "max_attempts=0", "visibility_timeout_seconds=-1", "color=red"]
)
def test_a_bad_parameter_is_refused(shared_server, queue, parameters):
    answer = shared_server.call("PUT", f"/queues/{queue}?{parameters}")

    assert answer.status == 400
    assert answer.json["error"].endswith(".")


@pytest.mark.parametrize("act", ["complete", "fail"])
@pytest.mark.parametrize("id", ["7aab413c-d164-468e-ab3b-14a4ee1ece3d", "7aab413cd164468eab3b14a4ee1ece3d"])
def test_a_uuid_that_is_no_messages_changes_nothing(shared_server, id, act):
    answer = shared_server.call("PUT", f"/messages/{id}/{act}")

    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("act", ["complete", "fail"])
def test_what_is_no_uuid_is_refused(shared_server, act):
    assert shared_server.call("PUT", f"/messages/123/{act}").status == 400


@pytest.mark.parametrize("act", ["complete", "fail"])
def test_a_message_that_nobody_has_received_is_neither_completed_nor_failed(shared_server, queue, act):
    id = shared_server.call("POST", f"/queues/{queue}/enqueue", [1]).json["message_id"]

    answer = shared_server.call("PUT", f"/messages/{id}/{act}")

    assert (answer.status, answer.body) == (200, b"")
    assert shared_server.call("GET", f"/queues/{queue}/receive").json["attempts"] == 1


@pytest.mark.parametrize("act", ["complete", "fail"])
def test_a_message_whose_lease_ran_out_is_neither_completed_nor_failed(shared_server, queue, act):
    shared_server.call("PUT", f"/queues/{queue}?visibility_timeout_seconds=0")
    shared_server.call("POST", f"/queues/{queue}/enqueue", [1])
    id = shared_server.call("GET", f"/queues/{queue}/receive").json["id"]

    late = shared_server.call("PUT", f"/messages/{id}/{act}")

    assert (late.status, late.body) == (200, b"")
    assert shared_server.call("GET", f"/queues/{queue}/receive").json["attempts"] == 2


def test_a_message_completes_without_its_queue_being_named(shared_server):
    one, other = new_name(), new_name()
    for name in (one, other):
        shared_server.call("POST", f"/queues?name={name}&max_attempts=5&visibility_timeout_seconds=30")
    HQ.send(shared_server, one, 1)
    HQ.send(shared_server, other, 2)
    [delivery] = HQ.receive(shared_server, other)

    assert HQ.settle(shared_server, other, delivery).status == 200

    assert SQEW.receive(shared_server, other) == []
    assert len(SQEW.receive(shared_server, one)) == 1


def test_a_message_that_is_failed_twice_stays_a_dead_letter_of_its_queue(shared_server, queue):
    shared_server.call("POST", f"/queues/{queue}/enqueue", [1])
    id = shared_server.call("GET", f"/queues/{queue}/receive").json["id"]

    statuses = [shared_server.call("PUT", f"/messages/{id}/fail").status for _ in range(2)]

    assert statuses == [200, 200]
    assert len(shared_server.call("GET", f"/queues/{queue}/dlq").json["messages"]) == 1


def test_a_dead_letter_is_not_deleted_by_a_worker_that_completes_it_late(shared_server, queue):
    shared_server.call("POST", f"/queues/{queue}/enqueue", [1])
    id = shared_server.call("GET", f"/queues/{queue}/receive").json["id"]
    shared_server.call("PUT", f"/messages/{id}/fail")

    late = shared_server.call("PUT", f"/messages/{id}/complete")

    assert (late.status, late.body) == (200, b"")
    assert len(shared_server.call("GET", f"/queues/{queue}/dlq").json["messages"]) == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/messages/7/complete"),
        ("GET", "/queues/x/enqueue"),
        ("POST", "/queues?name=zz&max_attempts=abc"),
        ("PUT", "/v1/messages"),
        ("GET", "/v1/nowhere"),
        ("POST", "/v1/nowhere"),
    ],
)
def test_what_there_is_not_is_said_in_the_dialect_that_was_meant(shared_server, method, path):
    assert isinstance(shared_server.call(method, path).json["error"], str)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_a_path_of_two_parts_that_nobody_has_is_not_found_whatever_the_method(shared_server, method):
    for path in ("/some/where", "/12x/where"):
        answer = shared_server.call(method, path)

        assert (answer.status, answer.json["error"]["code"]) == (404, "route_not_found")
