"""Writers over a real socket: messages sent in whole epochs."""

import json

import pytest

from tests.http.dialects.vocabularies import new_name
from tests.support.serving import STORES, serving


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


@pytest.fixture
def queue(shared_server):
    name = new_name()
    assert shared_server.call("POST", "/v1/queues", {"name": name}).status == 201
    return name


def stage(server, queue, body, part="0-a", epoch=0, writer="job", query="", **headers):
    path = f"/v1/queues/{queue}/writers/{writer}/epochs/{epoch}/parts/{part}{query}"
    return server.call("POST", path, body, headers)


def promote(server, queue, parts, epoch=0, writer="job"):
    return server.call("POST", f"/v1/queues/{queue}/writers/{writer}/epochs/{epoch}/promote", {"parts": parts})


def lines(*messages):
    return b"\n".join(json.dumps(message).encode() for message in messages)


def received(server, queue):
    answer = server.call("GET", f"/v1/queues/{queue}/messages?max=100")
    assert answer.status == 200, answer
    return answer.json


def error_of(answer):
    return answer.status, answer.headers["x-sqew-error"], answer.json["error"]


def test_lines_are_staged_and_promoted(shared_server, queue):
    staged = stage(shared_server, queue, lines({"message": {"n": 1}}, {"message": "two"}, {"message": None}))
    before = received(shared_server, queue)

    promoted = promote(shared_server, queue, {"0-a": 3})

    assert (staged.status, staged.json) == (200, {"staged": 3})
    assert before == []
    assert (promoted.status, promoted.json) == (200, {"promoted": 3, "duplicates": 0, "repeated": False})
    assert [message["message"] for message in received(shared_server, queue)] == [{"n": 1}, "two", None]


def test_an_array_is_staged_with_all_that_is_said_of_its_messages(shared_server, queue):
    messages = [
        {"message": 1, "headers": {"trace": "x"}, "priority": 5, "key": "k", "ttl": 60},
        {"body": "as it is\nwith a line break", "format": "text", "priority": 3, "ttl_ms": 60_000},
        {"message": 3, "delay_ms": 3_600_000},
        {"message": 4, "delay": 3_600},
    ]
    stage(shared_server, queue, messages)
    assert promote(shared_server, queue, {"0-a": 4}).status == 200

    first, second = received(shared_server, queue)

    assert (first["message"], first["headers"], first["priority"], first["key"]) == (1, {"trace": "x"}, 5, "k")
    assert second["message"] == "as it is\nwith a line break"
    assert first["expires_at"] is not None
    assert second["expires_at"] is not None


def test_a_body_arrives_byte_for_byte(shared_server, queue):
    body = b'{"b":  1.0,\t"a": "\\u00e4"}'
    stage(shared_server, queue, b'{"message":' + body + b"}\n")
    promote(shared_server, queue, {"0-a": 1})

    answer = shared_server.call("GET", f"/v1/queues/{queue}/messages")

    assert b'"message":' + body in answer.body


def test_a_promotion_that_is_repeated_adds_nothing(shared_server, queue):
    stage(shared_server, queue, lines({"message": 1}))
    promote(shared_server, queue, {"0-a": 1})

    again = promote(shared_server, queue, {"0-a": 1})
    late = stage(shared_server, queue, lines({"message": 1}), "0-b")

    assert again.json == {"promoted": 1, "duplicates": 0, "repeated": True}
    assert late.json == {"staged": 1, "promoted": True}
    assert len(received(shared_server, queue)) == 1


def test_a_request_that_is_repeated_with_its_offset_adds_nothing(shared_server, queue):
    for offset in (0, 0, 1):
        answer = stage(shared_server, queue, lines({"message": offset}), query=f"?offset={offset}")
        assert answer.json == {"staged": 1}

    assert promote(shared_server, queue, {"0-a": 2}).json["promoted"] == 2


def test_parts_that_lack_messages_are_refused(shared_server, queue):
    stage(shared_server, queue, lines({"message": 1}))

    status, code, sentence = error_of(promote(shared_server, queue, {"0-a": 1, "1-a": 7}))

    assert (status, code) == (409, "part_incomplete")
    assert sentence.startswith("Part '1-a' has 0 messages staged, and not 7")
    assert received(shared_server, queue) == []


def test_an_epoch_is_aborted_as_often_as_is_asked_for(shared_server, queue):
    path = f"/v1/queues/{queue}/writers/job/epochs/0"
    stage(shared_server, queue, lines({"message": 1}))

    assert [shared_server.call("DELETE", path).status for _ in range(2)] == [204, 204]
    promote(shared_server, queue, {})
    assert error_of(shared_server.call("DELETE", path))[:2] == (409, "already_promoted")


def test_writers_are_shown_with_what_they_have_staged(shared_server, queue):
    stage(shared_server, queue, lines({"message": 1}))
    promote(shared_server, queue, {"0-a": 1})
    stage(shared_server, queue, lines({"message": 1}, {"message": 2}), epoch=1)
    stage(shared_server, queue, lines({"message": 1}), writer="a%20stream%2Fof%20it", epoch=0)

    stream, job = shared_server.call("GET", f"/v1/queues/{queue}/writers").json
    page = shared_server.call("GET", f"/v1/queues/{queue}/writers?after=job").json
    alone = shared_server.call("GET", f"/v1/queues/{queue}/writers/job").json

    assert stream["name"] == "a stream/of it"
    assert job == alone
    assert page == []
    staged = [{"epoch": 1, "parts": 1, "messages": 2, "promoting": False}]
    assert job == {"name": "job", "epoch": 0, "promoted": 1, "duplicates": 0, "staged": staged}


def test_an_unknown_writer_is_refused_with_the_nearest_name(shared_server, queue):
    stage(shared_server, queue, lines({"message": 1}), writer="nightly")

    answer = shared_server.call("GET", f"/v1/queues/{queue}/writers/nihgtly")

    assert error_of(answer)[:2] == (404, "writer_not_found")
    assert "did you mean 'nightly'?" in answer.json["error"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"message": 1}\n{"message": \n', "Line 2 is not a message"),
        (
            b'{"message": 1}\n\n{"mesage": 1}\n',
            "Line 3 is not a message: there is no 'mesage' (did you mean",
        ),
        (b'[{"message": 1}, {"lanes": 1}]', "there is no 'lanes' (did you mean 'lane'?)"),
        (b'[{"message": 1}, {"priority": 1}]', 'Message 2 has no body. Give it a "message".'),
        (b'{"message": 1}\n{"message": "\xff"}', "Message 2: The body is not valid JSON"),
        (b'{"message": 1}\n{"message": 1, "priority": 1001}', "Message 2: priority can't be 1001"),
        (b'{"message": 1}\n{"message": 1, "lane": "fats"}', "Message 2: Queue '"),
        (b'{"message": 1}\n{"message": 1, "format": "text"}', "Message 2: A text body must be a JSON string"),
        (b'{"message": 1}\n{"message": 1, "delay": -1}', "Message 2: delay can't be -1"),
        (b'{"message": 1}\n{"message": ' + b"[" * 100 + b"]" * 100 + b"}", "Message 2: The body is nested 100 levels"),
        (b"hello", "Line 1 is not a message"),
        (b"[1]", "That is not an array of messages"),
    ],
)
def test_what_is_not_a_message_is_refused_with_its_place_and_nothing_is_staged(shared_server, queue, body, told):
    answer = stage(shared_server, queue, body)

    assert answer.status == 400, answer
    assert told in answer.json["error"]
    assert shared_server.call("GET", f"/v1/queues/{queue}/writers").json == []


def test_too_many_at_once_are_refused(shared_server, queue):
    answer = stage(shared_server, queue, b'{"message":1}\n' * 10_001)

    assert error_of(answer)[:2] == (413, "too_large")
    assert "10000 messages may be staged at once" in answer.json["error"]


def test_what_a_form_could_send_is_refused(shared_server, queue):
    answer = stage(shared_server, queue, b'{"message":1}', **{"Content-Type": "text/plain"})

    assert error_of(answer)[:2] == (415, "wrong_content_type")


@pytest.mark.parametrize("epoch", ["-1", "one", "1.5", "1" * 30])
def test_an_epoch_that_is_no_number_is_refused(shared_server, queue, epoch):
    answer = stage(shared_server, queue, lines({"message": 1}), epoch=epoch)

    assert error_of(answer)[:2] == (400, "bad_value")
    assert "it must be a whole number, 0 or more" in answer.json["error"]


def test_a_queue_that_does_not_exist_is_refused(shared_server):
    assert error_of(stage(shared_server, "nowhere", lines({"message": 1})))[:2] == (404, "queue_not_found")
    assert error_of(promote(shared_server, "nowhere", {}))[:2] == (404, "queue_not_found")


def test_a_key_must_allow_to_send(tmp_path):
    admin = {"Authorization": "Bearer the-token"}
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "the-token"}) as server:
        for name in ("orders", "others"):
            assert server.call("POST", "/v1/queues", {"name": name}, admin).status == 201
        keys = {
            scope: server.call("POST", "/queues/orders/keys", {"scopes": [scope]}, admin).json["key"]
            for scope in ("send", "receive")
        }

        def status(scope, queue="orders"):
            headers = {"Authorization": f"Bearer {keys[scope]}"}
            return stage(server, queue, lines({"message": 1}), **headers).status

        assert (status("send"), status("receive"), status("send", "others")) == (200, 403, 403)
        assert stage(server, "orders", lines({"message": 1})).status == 403
