"""Bad requests in every dialect: the right status, an error in that dialect's form, and a server that works on."""

import pytest

from tests.http.dialects.vocabularies import ALL, HQ, MAILBOX, NATIVE, SQEW, new_name, new_queue
from tests.support.serving import serving

every_dialect = pytest.mark.parametrize("dialect", ALL, ids=str)

NOT_JSON = {
    "endless nesting": b"[" * 100_000,
    "deep nesting": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "one level too many": b"[" * 129 + b"]" * 129,
    "NaN": b"NaN",
    "infinity": b"-Infinity",
    "bad UTF-8": b'"\xff\xfe"',
    "overlong UTF-8": b'"\xc0\x80"',
    "UTF-16": '"text"'.encode("utf-16-le"),
    "half a surrogate pair": b'"\\ud800"',
    "a byte order mark": b"\xef\xbb\xbf1",
    "a number without end": b"1" * 5_000,
    "a number without size": b"1e999",
    "a leading zero": b"01",
    "a control character": b'"\x01"',
    "a zero byte": b"\x00",
    "an unknown escape": b'"\\x41"',
    "single quotes": b"'a'",
    "a trailing comma": b"[1,]",
    "a comment": b"1/**/",
    "two values": b"1 2",
    "half a text": b'"abc',
    "nothing": b"",
}


@pytest.fixture(scope="module")
def queue(shared_server):
    """Return a queue that stays empty."""
    return new_queue(shared_server)


@every_dialect
@pytest.mark.parametrize("value", NOT_JSON.values(), ids=NOT_JSON)
def test_a_body_that_is_not_json_is_refused(shared_server, queue, dialect, value):
    answer = dialect.try_to_send(shared_server, queue, value)

    assert answer.status == 400
    assert dialect.sentence(answer.json).endswith(".")
    assert shared_server.call("GET", f"/queues/{queue}/peek").json == {"messages": []}


@every_dialect
def test_a_server_that_was_sent_nonsense_goes_on(shared_server, dialect):
    queue = new_queue(shared_server)
    for value in NOT_JSON.values():
        dialect.try_to_send(shared_server, queue, value)

    id = dialect.send(shared_server, queue, "sense")

    assert [delivery.id for delivery in dialect.receive(shared_server, queue)] == [id]


@every_dialect
def test_an_empty_body_is_refused(shared_server, queue, dialect):
    path = dialect.send_path.format(queue=queue)

    answer = shared_server.call("POST", path, b"", {"Content-Type": "application/json"})

    assert answer.status == 400
    assert "needs a JSON body" in dialect.sentence(answer.json)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (SQEW, b'{"payload":1,"payload":2}'),
        (SQEW, b'[{"payload":1},{"payload":2,"payload":3}]'),
        (MAILBOX, b'{"body":"a","body":"b"}'),
        (NATIVE, b'{"message":{"message":1},"message":2}'),
    ],
    ids=str,
)
def test_a_body_that_says_a_thing_twice_is_refused(shared_server, queue, dialect, body):
    path = dialect.send_path.format(queue=queue)

    answer = shared_server.call("POST", path, body, {"Content-Type": "application/json"})

    assert answer.status == 400
    assert "twice" in dialect.sentence(answer.json)


def test_what_is_sent_may_hold_the_name_of_the_field_it_is_sent_in(shared_server):
    queue = new_queue(shared_server)

    id = SQEW.send(shared_server, queue, {"payload": {"payload": 1}, "x": ["payload", "payload"]})

    assert [delivery.id for delivery in SQEW.receive(shared_server, queue)] == [id]


@pytest.mark.parametrize("dialect", [one for one in ALL if one is not HQ], ids=str)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_body_of_a_type_that_a_form_can_send_is_refused(shared_server, queue, dialect, kind):
    answer = dialect.try_to_send(shared_server, queue, b'"a"', content_type=kind)

    assert answer.status == 415
    assert "Content-Type: application/json" in dialect.sentence(answer.json)


@every_dialect
def test_a_message_over_the_limit_is_refused(shared_server, queue, dialect):
    most = 2_097_152 if dialect is HQ else 1_048_576
    answer = dialect.try_to_send(shared_server, queue, b'"' + b"x" * (most + 1) + b'"')

    assert answer.status == 413
    assert "max_body_bytes" in dialect.sentence(answer.json)


@every_dialect
def test_a_request_over_the_limit_is_refused(tmp_path, dialect):
    with serving(tmp_path, "--durability", "fast", "--max-request-bytes", "2048") as server:
        queue = new_queue(server)

        answer = dialect.try_to_send(server, queue, b'"' + b"x" * 3_000 + b'"')

        assert answer.status == 413
        assert "max_request_bytes" in dialect.sentence(answer.json)
        assert dialect.send(server, queue, "small") > 0


@pytest.mark.parametrize("dialect", [SQEW, HQ, NATIVE], ids=str)
def test_an_unknown_queue_is_not_found(shared_server, dialect):
    name = new_name()

    sent = dialect.try_to_send(shared_server, name, b"1")
    method, path = dialect.receive_line.format(queue=name).split(" ")
    received = shared_server.call(method, path)

    assert sent.status == 404
    assert f"Queue '{name}' does not exist" in dialect.sentence(sent.json)
    assert received.headers["x-sqew-error"] == "queue_not_found"
    if dialect is HQ:
        assert (received.status, received.body) == (200, b"null")
    else:
        assert received.status == 404
        assert f"Queue '{name}' does not exist" in dialect.sentence(received.json)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (SQEW, {"payload": 1, "prio": 2}),
        (MAILBOX, {"body": "a", "subject": "b"}),
    ],
    ids=str,
)
def test_an_unknown_field_is_refused(shared_server, queue, dialect, body):
    answer = shared_server.call("POST", dialect.send_path.format(queue=queue), body)

    assert answer.status == 400
    assert next(reversed(body)) in dialect.sentence(answer.json)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (SQEW, {"payload": 1, "priority": "high"}),
        (SQEW, {"payload": 1, "delay_ms": -1}),
        (SQEW, {"payload": 1, "lane": "fast"}),
        (SQEW, {"priority": 1}),
        (SQEW, 5),
        (MAILBOX, {"body": 5}),
        (MAILBOX, {"body": "a", "topic": "no such name!"}),
        (MAILBOX, {"body": "a", "dedupe_key": ""}),
        (MAILBOX, ["a"]),
        (NATIVE, {"message": 1, "delay": "soon"}),
        (NATIVE, {"message": 1, "delay": 1e300}),
        (NATIVE, {"message": 1, "ttl": 0}),
        (NATIVE, {"message": 1, "headers": [1]}),
        (NATIVE, None),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_or_size_is_refused(shared_server, queue, dialect, body):
    sent = b"null" if body is None else body
    headers = {"Content-Type": "application/json"}

    answer = shared_server.call("POST", dialect.send_path.format(queue=queue), sent, headers)

    # Under /v1, JSON of another shape is told from a value that can't be.
    is_misfit = answer.headers["x-sqew-error"] == "body_misfit"
    assert answer.status == (422 if is_misfit else 400)
    assert not is_misfit or dialect is NATIVE
    assert dialect.sentence(answer.json).endswith(".")


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        (SQEW, "batch=0"),
        (SQEW, "batch=1001"),
        (SQEW, "batch=one"),
        (SQEW, "wait_ms=-1"),
        (SQEW, "wait=1"),
        (MAILBOX, "limit=0"),
        (MAILBOX, "limit=1001"),
        (MAILBOX, "wait=nan"),
        (MAILBOX, "visibility_timeout=30"),
        (MAILBOX, "ack=true&visibility_timeout=-1"),
        (MAILBOX, "limit=1&limit=2"),
        (NATIVE, "max=-1"),
        (NATIVE, "max=ten"),
        (NATIVE, "wait=-1"),
        (NATIVE, "vt=inf"),
        (NATIVE, "wait=%FF"),
    ],
    ids=str,
)
def test_a_bad_parameter_of_a_receive_is_refused(shared_server, queue, dialect, query):
    method, path = dialect.receive_line.format(queue=queue).split(" ")

    answer = shared_server.call(method, f"{path.partition('?')[0]}?{query}")

    assert answer.status == 400
    assert dialect.sentence(answer.json).endswith(".")


@pytest.mark.parametrize("dialect", [SQEW, MAILBOX, NATIVE], ids=str)
def test_a_stale_token_changes_nothing_and_says_so(shared_server, dialect):
    queue = new_queue(shared_server)
    id = SQEW.send(shared_server, queue, 1)
    SQEW.receive(shared_server, queue)
    item = {"id": id, "token": "0" * 32}

    if dialect is SQEW:
        answer = shared_server.call("POST", f"/queues/{queue}/ack", item)
    elif dialect is MAILBOX:
        answer = shared_server.call("POST", "/v1/acks", {**item, "topic": queue})
    else:
        answer = shared_server.call("DELETE", f"/v1/queues/{queue}/messages/{id}?token={item['token']}")

    assert answer.status == 409
    assert "no longer yours" in dialect.sentence(answer.json)
    assert shared_server.call("GET", f"/queues/{queue}/messages/{id}").json["state"] == "leased"


@pytest.mark.parametrize(
    ("dialect", "method", "path"),
    [
        (SQEW, "GET", "/queues/q/messages/abc"),
        (SQEW, "GET", "/queues/q/messages/99999999999999999999"),
        (HQ, "PUT", "/messages/42/complete"),
        (HQ, "PUT", "/messages/not-a-uuid/fail"),
        (NATIVE, "DELETE", "/v1/queues/q/messages/-1"),
        (NATIVE, "DELETE", "/v1/queues/q/messages/1.5"),
    ],
    ids=str,
)
def test_an_id_that_can_be_no_messages_is_refused(shared_server, dialect, method, path):
    answer = shared_server.call(method, path)

    assert answer.status == 400
    assert "is not a message's id" in dialect.sentence(answer.json)
