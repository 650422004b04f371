"""Dialects on one queue, four of them: a message sent in one is received and settled in another."""

import json
import socket
import threading

import pytest

from tests.http.dialects.vocabularies import ALL, HQ, MAILBOX, NATIVE, SQEW, WAITING, caught_up, new_name, new_queue
from tests.support.serving import STORES

pairs = pytest.mark.parametrize(("sender", "receiver"), [(s, r) for s in ALL for r in ALL], ids=str)


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


@pairs
def test_what_one_dialect_sends_another_receives_under_the_same_id(shared_server, sender, receiver):
    queue = new_queue(shared_server)
    value = "Grüße \u2028" if sender is MAILBOX else {"sku": 7, "of": ["é", None, 1.5]}

    id = sender.send(shared_server, queue, value)
    (delivery,) = receiver.receive(shared_server, queue)

    # JSON is text to the mailbox, and text is a JSON string to the others.
    shown = json.dumps(value, ensure_ascii=False) if receiver is MAILBOX and sender is not MAILBOX else value
    assert (delivery.id, delivery.body) == (id, shown)
    assert delivery.attempts in (1, None)


@pytest.mark.parametrize("receiver", ALL, ids=str)
def test_bytes_of_json_are_shown_as_they_were_sent(shared_server, receiver):
    queue = new_queue(shared_server)
    sent = b'{ "big": 123456789012345678901234567890,  "a":1, "a":2, "e": "\\u00e9" }'
    assert SQEW.try_to_send(shared_server, queue, sent).status == 201

    method, path = receiver.receive_line.format(queue=queue).split(" ")
    answer = shared_server.call(method, path)

    assert (json.dumps(sent.decode()).encode() if receiver is MAILBOX else sent) in answer.body


BY_TOKEN = (SQEW, MAILBOX)
"""Dialects that settle only by a token, which hq does not show."""


@pytest.mark.parametrize(
    ("receiver", "settler"), [(r, s) for r in ALL for s in ALL if r is not HQ or s not in BY_TOKEN], ids=str
)
def test_what_one_dialect_receives_another_settles(shared_server, receiver, settler):
    queue = new_queue(shared_server, keep="archive")
    id = SQEW.send(shared_server, queue, 1)
    [delivery] = receiver.receive(shared_server, queue)

    settled = settler.settle(shared_server, queue, delivery)
    again = settler.settle(shared_server, queue, delivery)

    assert settled.status in (200, 204)
    if settler is HQ:
        assert (again.status, again.body) == (200, b"")
    else:
        assert again.status == 404
        assert "was acknowledged" in settler.sentence(again.json)
    (archived,) = shared_server.call("GET", f"/queues/{queue}/archive").json["messages"]
    assert (archived["id"], archived["outcome"]) == (id, "done")


def test_attempts_count_deliveries_in_whatever_dialect(shared_server):
    queue = new_queue(shared_server)
    id = HQ.send(shared_server, queue, 1)
    seen = []

    for receiver in (SQEW, NATIVE, MAILBOX, HQ):
        (delivery,) = receiver.receive(shared_server, queue)
        seen.append(delivery.attempts)
        nack = {"id": id, "token": delivery.token, "delay_ms": 0}
        assert receiver is HQ or shared_server.call("POST", f"/queues/{queue}/nack", nack).status == 200

    assert seen == [1, 2, None, 4]


@pytest.mark.parametrize("sender", ALL, ids=str)
@pytest.mark.parametrize("receiver", WAITING, ids=str)
def test_a_waiting_receive_is_answered_by_a_send_in_another_dialect(shared_server, sender, receiver):
    queue = new_queue(shared_server)
    received = []
    waiting = threading.Thread(target=lambda: received.extend(receiver.receive(shared_server, queue, wait=True)))
    waiting.start()
    caught_up(shared_server)
    assert not received

    id = sender.send(shared_server, queue, "now")
    waiting.join(timeout=10)

    assert [delivery.id for delivery in received] == [id]


@pytest.mark.parametrize("receiver", WAITING, ids=str)
def test_a_client_that_hangs_up_while_it_waits_leaves_nothing_leased(shared_server, receiver):
    queue = new_queue(shared_server)
    with shared_server.connect() as connection:
        connection.sendall(receiver.waiting_request(queue))
        caught_up(shared_server)
        assert not was_answered(connection)
    caught_up(shared_server)

    id = SQEW.send(shared_server, queue, 1)
    (delivery,) = NATIVE.receive(shared_server, queue)

    assert (delivery.id, delivery.attempts) == (id, 1)


def test_a_client_that_hangs_up_while_it_waits_to_take_for_good_takes_nothing(shared_server):
    topic = new_name()
    with shared_server.connect() as connection:
        connection.sendall(f"GET /v1/messages?topic={topic}&wait=20 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        caught_up(shared_server)
        assert not was_answered(connection)
    caught_up(shared_server)

    MAILBOX.send(shared_server, topic, "still here")

    assert [text["body"] for text in shared_server.call("GET", f"/v1/messages?topic={topic}").json] == ["still here"]


@pytest.mark.parametrize("receiver", ALL, ids=str)
def test_head_takes_nothing_where_get_would(shared_server, receiver):
    queue = new_queue(shared_server)
    id = SQEW.send(shared_server, queue, 1)
    _, path = receiver.receive_line.format(queue=queue).split(" ")

    answer = shared_server.call("HEAD", path)

    assert answer.status == 405
    assert [delivery.id for delivery in SQEW.receive(shared_server, queue)] == [id]


@pytest.mark.parametrize("receiver", [HQ, MAILBOX, NATIVE], ids=str)
def test_a_get_that_takes_messages_may_not_be_cached(shared_server, receiver):
    queue = new_queue(shared_server)

    answer = shared_server.call("GET", receiver.receive_line.format(queue=queue).split(" ")[1])

    assert answer.headers["cache-control"] == "no-store"


def was_answered(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return False


@pytest.mark.parametrize(("make", "field"), [("/queues", "dlq"), ("/v1/queues", "dead_letter")], ids=["sqew", "native"])
def test_a_dead_letter_queue_that_is_named_is_made_on_creation_and_on_a_change(shared_server, make, field):
    name = new_name()
    shared_server.call("POST", make, {"name": name, "max_attempts": 1, field: f"{name}-1"})
    dead = HQ.send(shared_server, name, "dead")
    [received] = shared_server.call("POST", f"/queues/{name}/poll").json["messages"]
    shared_server.call("POST", f"/queues/{name}/nack", {"id": dead, "token": received["token"]})

    changed = shared_server.call("PATCH", f"{make}/{name}", {field: f"{name}-2"})

    assert changed.status == 200
    assert [message["id"] for message in shared_server.call("POST", f"/queues/{name}-1/poll").json["messages"]] == [
        dead
    ]
    assert shared_server.call("GET", f"/v1/queues/{name}-2").json["policy"]["max_attempts"] is None
