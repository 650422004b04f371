"""Calls of the public program `sqew`, with the types that its clients read: a field that is missing, null or of
another type fails."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import msgspec
import pytest

from tests.http.dialects.vocabularies import new_queue
from tests.support.serving import STORES


class Queue(msgspec.Struct):
    id: int
    name: str
    max_attempts: Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]


class Message(msgspec.Struct):
    id: int
    queue_id: int
    payload: str
    attempts: int
    available_at: int
    created_at: int


class Sent(msgspec.Struct):
    """A sent message in an answer: its sender knows the other fields."""

    id: int
    available_at: int


class Deleted(msgspec.Struct):
    deleted: int


class Stats(msgspec.Struct):
    ready: int


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


@pytest.fixture
def queue(shared_server):
    return new_queue(shared_server)


@pytest.fixture
def ask(shared_server):
    """Return a function that makes a request and decodes the answer: ``ask(list[Queue], "GET", "/queues")``."""

    def ask(kind, method, path, body=None, status=200):
        answer = shared_server.call(method, path, body)
        assert answer.status == status, answer
        return msgspec.json.decode(answer.body, type=kind)

    return ask


def test_a_queue_is_made_listed_shown_and_deleted(shared_server, ask):
    name = f"demo-{time.time_ns()}"

    made = ask(Queue, "POST", "/queues", {"name": name, "max_attempts": 2}, 201)

    assert (made.name, made.max_attempts) == (name, 2)
    assert ask(Queue, "GET", f"/queues/{name}") == made
    # Its dead-letter queue, which knows no limit, is in the list as well.
    listed = ask(list[Queue], "GET", f"/queues?prefix={name}")
    assert [one.name for one in listed] == [name, f"{name}-dlq"]
    assert listed[0] == made
    assert ask(Queue, "POST", "/queues", {"name": f"{name}-plain"}, 201).max_attempts == 5
    assert shared_server.call("DELETE", f"/queues/{name}").status in (200, 204)
    assert name not in [other.name for other in ask(list[Queue], "GET", "/queues?prefix=demo-")]


def test_messages_are_sent_listed_counted_and_deleted(shared_server, ask, queue):
    messages = f"/queues/{queue}/messages"

    first = ask(Sent, "POST", messages, {"payload": {"n": 1}, "delay_ms": 0}, 201)
    second = ask(Sent, "POST", messages, {"payload": {"n": 2}}, 201)
    later = ask(Sent, "POST", messages, {"payload": {"n": 3}, "delay_ms": 60_000}, 201)

    assert 0 < first.id < second.id < later.id
    assert later.available_at >= second.available_at + 60_000
    [listed] = ask(list[Message], "GET", messages)
    assert listed.queue_id == ask(Queue, "GET", f"/queues/{queue}").id
    assert (listed.id, json.loads(listed.payload), listed.attempts) == (first.id, {"n": 1}, 0)
    assert listed.available_at == listed.created_at == first.available_at
    all_listed = ask(list[Message], "GET", f"{messages}?limit=10")
    assert [(one.id, one.available_at) for one in all_listed] == [
        (one.id, one.available_at) for one in (first, second, later)
    ]
    assert ask(Stats, "GET", f"/queues/{queue}/stats") == Stats(2)
    assert ask(Deleted, "DELETE", messages) == Deleted(3)
    assert ask(list[Message], "GET", f"{messages}?limit=10") == []


def test_the_lease_of_a_listed_message_hides_it_until_it_ends(ask, shared_server, queue):
    sent = ask(Sent, "POST", f"/queues/{queue}/messages", {"payload": None}, 201)

    shared_server.call("POST", f"/queues/{queue}/poll?visibility_ms=60000")

    [listed] = ask(list[Message], "GET", f"/queues/{queue}/messages")
    assert (listed.id, listed.attempts) == (sent.id, 1)
    assert listed.available_at >= sent.available_at + 60_000
    assert ask(Stats, "GET", f"/queues/{queue}/stats") == Stats(0)


def test_messages_whose_time_was_over_were_listed_and_found_until_the_next_sweep(ask, shared_server, queue):
    def send(ttl_ms):
        return ask(Sent, "POST", f"/queues/{queue}/messages", {"payload": 1, "ttl_ms": ttl_ms}, 201)

    over = send(1)
    while send(60_000).available_at <= over.available_at + 1:
        pass

    assert over.id not in [one.id for one in ask(list[Message], "GET", f"/queues/{queue}/messages?limit=1000")]
    over = send(1)
    while send(60_000).available_at <= over.available_at + 1:
        pass
    assert shared_server.call("GET", f"/messages/{over.id}").status == 404


@pytest.mark.parametrize("payload", [None, True, 1e300, 12345678901234567890, 'é\u2028"\\', [], {"a": {"b": [1, "x"]}}])
def test_whatever_the_payload_is_it_is_listed_as_its_text(ask, queue, payload):
    ask(Sent, "POST", f"/queues/{queue}/messages", {"payload": payload}, 201)

    [listed] = ask(list[Message], "GET", f"/queues/{queue}/messages")

    assert json.loads(listed.payload) == payload


def test_many_senders_at_once_are_all_answered_and_nothing_is_lost(ask, queue):
    def send(sender):
        body = {"payload": {"worker": sender, "seq": 0}, "delay_ms": 0}
        return [ask(Sent, "POST", f"/queues/{queue}/messages", body, 201).id for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        ids = [id for some in pool.map(send, range(8)) for id in some]

    assert len(set(ids)) == 160
    assert ask(Stats, "GET", f"/queues/{queue}/stats") == Stats(160)


def test_the_server_says_that_it_is_well(shared_server):
    assert shared_server.call("GET", "/health").status == 200
    assert shared_server.call("GET", "/healthz").status == 200
