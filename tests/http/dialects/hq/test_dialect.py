"""The hq dialect over a real socket."""

import re
import time

import pytest

from sqew import Client, QueueNotFound
from tests.http.dialects.vocabularies import HQ, SQEW, new_name
from tests.support.serving import STORES, serving

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
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
    assert shared_server.call("DELETE", "/queues/myqueue").status == 200


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


@pytest.mark.parametrize("body", [b'{"reason": "no paper"}', b"null", b"done", b"\xff"])
@pytest.mark.parametrize("act", ["complete", "fail"])
def test_a_body_that_hq_does_not_look_at_was_refused(shared_server, queue, act, body):
    id = shared_server.call("POST", f"/queues/{queue}/enqueue", [1]).json["message_id"]
    shared_server.call("GET", f"/queues/{queue}/receive")

    answer = shared_server.call("PUT", f"/messages/{id}/{act}", body)

    assert (answer.status, answer.body) == (200, b"")
    totals = shared_server.call("GET", f"/queues/{queue}/stats").json["totals"]
    assert totals[{"complete": "acked", "fail": "dead"}[act]] == 1


def test_a_failed_message_is_dead(shared_server, queue):
    id = shared_server.call("POST", f"/queues/{queue}/enqueue", [1]).json["message_id"]
    shared_server.call("GET", f"/queues/{queue}/receive")

    failed = shared_server.call("PUT", f"/messages/{id}/fail")

    assert (failed.status, failed.body) == (200, b"")
    assert shared_server.call("GET", f"/queues/{queue}/receive").json is None
    (dead,) = shared_server.call("GET", f"/queues/{queue}/dlq").json["messages"]
    assert (dead["died_in"], dead["reason"]) == (queue, "failed by its consumer")


def test_a_message_is_received_no_more_often_than_its_queue_allows(shared_server, queue):
    shared_server.call("PATCH", f"/queues/{queue}", {"visibility_ms": 0})
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


def wait_for(condition):
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it has not come to that within ten seconds")


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
    ("parameters", "status"),
    [
        ("max_attempts=x", 400),
        ("visibility_timeout_seconds=1.5", 400),
        ("max_attempts=0", 422),
        ("visibility_timeout_seconds=-1", 422),
    ],
)
def test_a_bad_parameter_is_refused_and_changes_nothing(shared_server, queue, parameters, status):
    answer = shared_server.call("PUT", f"/queues/{queue}?{parameters}")

    shown = shared_server.call("GET", f"/queues/{queue}").json
    assert answer.status == status
    assert answer.json["error"].endswith(".")
    assert (shown["max_attempts"], shown["visibility_timeout_seconds"]) == (2, 30)


def test_parameters_that_hq_does_not_know_are_ignored_in_it_alone(shared_server, queue):
    changed = shared_server.call("PUT", f"/queues/{queue}?color=red&max_attempts=7")
    refused = shared_server.call("POST", "/queues?color=red", {"name": new_name()})

    assert (changed.status, refused.status) == (200, 400)
    assert shared_server.call("GET", f"/queues/{queue}").json["max_attempts"] == 7
    assert made_in_the_url(shared_server, color="red").status == 200


@pytest.mark.parametrize("act", ["complete", "fail"])
def test_parameters_that_mean_nothing_to_hq_kept_jobs_from_being_sent_received_and_finished(shared_server, queue, act):
    sent = shared_server.call("POST", f"/queues/{queue}/enqueue?from=cron", 1)
    received = shared_server.call("GET", f"/queues/{queue}/receive?worker=7&_=1795120741672")
    finished = shared_server.call("PUT", f"/messages/{received.json['id']}/{act}?worker=7")

    assert (sent.status, received.status, finished.status) == (200, 200, 200)
    assert received.json["id"] == sent.json["message_id"]
    assert shared_server.call("GET", f"/queues/{queue}/stats").json["leased"] == 0


def test_a_queue_tells_when_it_was_made_and_when_it_was_changed(shared_server, queue):
    made = shared_server.call("GET", f"/queues/{queue}").json
    shared_server.call("PUT", f"/queues/{queue}")
    untouched = shared_server.call("GET", f"/queues/{queue}").json
    shared_server.call("PUT", f"/queues/{queue}?max_attempts=3")
    changed = shared_server.call("GET", f"/queues/{queue}").json

    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", made["inserted_at"])
    assert made["inserted_at"] == made["updated_at"] == untouched["updated_at"] == changed["inserted_at"]
    assert changed["updated_at"] > made["updated_at"]


def test_queues_of_other_dialects_show_whole_numbers_to_hq(shared_server):
    name = new_name()
    shared_server.call("POST", "/queues", {"name": name, "max_attempts": None, "visibility_ms": 1_500})

    shown = shared_server.call("GET", f"/queues/{name}").json

    assert (shown["max_attempts"], shown["visibility_timeout_seconds"]) == (2_147_483_647, 2)
    assert shared_server.call("PATCH", f"/queues/{name}", {"max_attempts": shown["max_attempts"]}).status == 200
    assert shared_server.call("PUT", f"/queues/{name}?max_attempts={shown['max_attempts']}").status == 200
    with Client(shared_server.url) as client:
        assert client.info(name).policy.max_attempts is None


def test_a_queue_made_through_hq_has_no_other_beside_it_and_leaves_none(shared_server, queue):
    assert shared_server.call("GET", f"/queues/{queue}").json["dlq"] is None
    assert shared_server.call("GET", f"/queues/{queue}-dlq").json is None

    assert shared_server.call("DELETE", f"/queues/{queue}").status == 200

    assert queue not in [q["name"] for q in shared_server.call("GET", "/queues").json]


def test_what_is_to_be_done_with_a_queue_that_does_not_exist_is_done(shared_server):
    name = new_name()

    deleted = shared_server.call("DELETE", f"/queues/{name}")
    changed = shared_server.call("PUT", f"/queues/{name}?max_attempts=6")
    received = shared_server.call("GET", f"/queues/{name}/receive")

    assert [(answer.status, answer.body) for answer in (deleted, changed, received)] == [
        (200, b""), (200, b""), (200, b"null"),
    ]  # fmt: skip
    assert {answer.headers["x-sqew-error"] for answer in (deleted, changed, received)} == {"queue_not_found"}
    assert shared_server.call("GET", f"/queues/{name}").body == b"null"


def test_a_client_of_ours_is_told_that_there_is_no_queue_to_delete(shared_server):
    with Client(shared_server.url) as client, pytest.raises(QueueNotFound):
        client.delete(new_name())


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("OPTIONS", "/queues", "GET, HEAD, POST"),
        ("OPTIONS", "/queues/q", "DELETE, GET, HEAD, PATCH, PUT"),
        ("PATCH", "/queues/q", "DELETE, GET, HEAD, PATCH with a JSON body, PUT"),
        ("POST", "/messages/7aab413c-d164-468e-ab3b-14a4ee1ece3d/complete", "PUT"),
        ("POST", "/queues/q/receive", "GET, HEAD"),
    ],
)
def test_a_method_that_hq_does_not_have_is_refused(shared_server, method, path, allowed):
    answer = shared_server.call(method, path)

    assert (answer.status, answer.headers["allow"]) == (405, allowed)


def test_a_path_of_hq_with_a_slash_at_its_end_is_another(shared_server, queue):
    assert shared_server.call("GET", "/queues/").status == 404
    assert shared_server.call("GET", f"/queues/{queue}/").status == 404


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "image/png"])
def test_a_body_is_json_whatever_its_type_is_said_to_be(shared_server, queue, content_type):
    sent = shared_server.call("POST", f"/queues/{queue}/enqueue", b'{"a": 1}', {"Content-Type": content_type})

    assert sent.status == 200
    assert shared_server.call("GET", f"/queues/{queue}/receive").json["args"] == {"a": 1}


@pytest.mark.parametrize(
    "body", [b'"' + b"x" * 1_500_000 + b'"', b"[" * 100 + b"]" * 100], ids=["1.5 MB", "100 levels"]
)
def test_a_job_may_be_larger_and_deeper_than_other_messages_and_all_dialects_show_it(shared_server, queue, body):
    assert shared_server.call("POST", f"/queues/{queue}/messages", b'{"payload":%b}' % body).status in (400, 413)

    sent = shared_server.call("POST", f"/queues/{queue}/enqueue", body)

    assert sent.status == 200
    assert body in shared_server.call("GET", f"/queues/{queue}/peek").body
    assert body in shared_server.call("GET", f"/v1/queues/{queue}/export").body
    assert body in shared_server.call("GET", f"/queues/{queue}/receive").body


def test_a_page_of_another_site_can_not_enqueue_by_a_form(shared_server, queue):
    form = {"Content-Type": "text/plain", "Origin": "https://elsewhere.example"}

    answer = shared_server.call("POST", f"/queues/{queue}/enqueue", b'{"a": 1}', form)

    assert (answer.status, answer.headers["x-sqew-error"]) == (403, "forbidden")
    assert shared_server.call("GET", f"/queues/{queue}/receive").json is None


def test_a_job_of_3_mb_is_too_large(shared_server, queue):
    answer = shared_server.call("POST", f"/queues/{queue}/enqueue", b'"' + b"x" * 3_000_000 + b'"')

    assert (answer.status, answer.headers["x-sqew-error"]) == (413, "too_large")


def test_limits_that_the_operator_has_set_hold_for_jobs_too(tmp_path):
    with serving(tmp_path, "--max-body-bytes", "1000", "--max-depth", "10") as server:
        server.call("POST", "/queues?name=q&max_attempts=2&visibility_timeout_seconds=30")

        assert server.call("POST", "/queues/q/enqueue", b'"' + b"x" * 1_000 + b'"').status == 413
        assert server.call("POST", "/queues/q/enqueue", b"[" * 11 + b"]" * 11).status == 400


def test_what_ran_out_of_attempts_comes_back_with_its_count_when_more_are_allowed(shared_server, queue):
    shared_server.call("PATCH", f"/queues/{queue}", {"visibility_ms": 0})
    shared_server.call("POST", f"/queues/{queue}/enqueue", ["used up"])
    for _ in range(2):
        shared_server.call("GET", f"/queues/{queue}/receive")
    assert shared_server.call("GET", f"/queues/{queue}/receive").json is None
    shared_server.call("POST", f"/queues/{queue}/enqueue", ["failed"])
    shared_server.call("PATCH", f"/queues/{queue}", {"visibility_ms": 30_000})
    failed = shared_server.call("GET", f"/queues/{queue}/receive").json
    shared_server.call("PUT", f"/messages/{failed['id']}/fail")
    wait_for(lambda: len(shared_server.call("GET", f"/queues/{queue}/dlq").json["messages"]) == 2)

    shared_server.call("PUT", f"/queues/{queue}?max_attempts=3")

    back = shared_server.call("GET", f"/queues/{queue}/receive").json
    [dead] = shared_server.call("GET", f"/queues/{queue}/dlq").json["messages"]
    assert (back["args"], back["attempts"]) == (["used up"], 3)
    assert dead["payload"] == ["failed"]
    assert shared_server.call("GET", f"/queues/{queue}/receive").json is None


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
    shared_server.call("PATCH", f"/queues/{queue}", {"visibility_ms": 0})
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
