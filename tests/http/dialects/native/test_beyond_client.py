"""Calls of beyond-queue's client for queues and messages, with the bodies it sends and the types it reads.

It sends `delay` and `headers` with every message, even if the caller gave none, and a token that the server
need not know.
"""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import quote

import pytest

from tests.http.dialects.native.beyond_types import (
    Deleted,
    Message,
    Purged,
    Queue,
    QueueFigures,
    Refusal,
    SentMany,
    SentOne,
    Visibility,
    decoded,
)
from tests.http.dialects.vocabularies import caught_up, new_name
from tests.support.serving import STORES, Answer, Serving, serving


class Caller:
    """A client with the calls of beyond-queue's."""

    def __init__(self, server: Serving, token: str = "anon") -> None:
        self._server, self._headers = server, {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        return self._server.call(method, path, body, self._headers)

    def create(self, name: str, fifo: bool = False) -> None:
        assert self.call("POST", "/v1/queues", {"name": name, "fifo": fifo}).status == 201

    def list(self) -> list[Queue]:
        return decoded(self.call("GET", "/v1/queues"), list[Queue])

    def get(self, name: str) -> QueueFigures:
        return decoded(self.call("GET", f"/v1/queues/{quote(name)}"), QueueFigures)

    def delete(self, name: str) -> int:
        return self.call("DELETE", f"/v1/queues/{quote(name)}").status

    def purge(self, name: str) -> int:
        return decoded(self.call("POST", f"/v1/queues/{quote(name)}/purge"), Purged).deleted

    def send(self, queue: str, message: Any, query: str = "", **more: Any) -> int:
        answer = self.call("POST", f"/v1/queues/{queue}/messages{query}", _item(message, **more))
        assert answer.status == 201, answer
        return decoded(answer, SentOne).id

    def send_batch(self, queue: str, items: list[dict[str, Any]], query: str = "") -> list[int]:
        answer = self.call("POST", f"/v1/queues/{queue}/messages{query}", [_item(**item) for item in items])
        assert answer.status == 201, answer
        return decoded(answer, SentMany).ids

    def receive(self, queue: str, query: str = "") -> list[Message]:
        answer = self.call("GET", f"/v1/queues/{queue}/messages{query}")
        assert answer.status == 200, answer
        return decoded(answer, list[Message])

    def delete_message(self, queue: str, id: int) -> int:
        return self.call("DELETE", f"/v1/queues/{queue}/messages/{id}").status

    def delete_batch(self, queue: str, ids: list[int]) -> list[int]:
        return decoded(self.call("DELETE", f"/v1/queues/{queue}/messages", {"ids": ids}), Deleted).deleted

    def change_visibility(self, queue: str, id: int, vt: int) -> Visibility:
        return decoded(self.call("PATCH", f"/v1/queues/{queue}/messages/{id}", {"vt": vt}), Visibility)


def _item(message: Any, **more: Any) -> dict[str, Any]:
    return {"message": message, "delay": 0, "headers": None, **more}


@pytest.fixture(scope="module", params=STORES)
def client(request: pytest.FixtureRequest, servers: Any) -> Caller:
    return Caller(servers(request.param))


@pytest.fixture
def queue(client):
    name = new_name()
    client.create(name)
    return name


def test_a_queue_comes_is_listed_counted_and_goes(client, queue):
    client.create(queue)
    client.send_batch(queue, [{"message": 1}, {"message": 2}])
    [listed] = [one for one in client.list() if one.name == queue]
    counters = client.get(queue)

    assert not listed.is_partitioned
    assert (counters.name, counters.queue_length, counters.total_messages) == (queue, 2, 2)
    assert 0 <= counters.newest_msg_age_sec <= counters.oldest_msg_age_sec
    assert (client.purge(queue), client.get(queue).oldest_msg_age_sec) == (2, None)
    assert [client.delete(queue), client.delete(queue)] == [204, 204]
    assert queue not in [one.name for one in client.list()]


@pytest.mark.parametrize("message", [None, True, 5, "text", [1, [2]], {"a": {"b": None}}], ids=str)
def test_any_json_arrives_as_it_was_sent(client, queue, message):
    id = client.send(queue, message, headers={"trace": "x"})

    [received] = client.receive(queue)

    assert (received.id, received.message, received.headers, received.read_count) == (id, message, {"trace": "x"}, 1)


def test_a_message_that_is_hidden_longer_shown_at_once_and_deleted(client, queue):
    id = client.send(queue, "work")
    [first] = client.receive(queue, "?vt=5")
    later = client.change_visibility(queue, id, 60)
    assert client.receive(queue) == []

    now = client.change_visibility(queue, id, 0)
    [second] = client.receive(queue, "?vt=0")

    assert now.visible_at < first.visible_at < later.visible_at
    assert (now.id, second.read_count) == (id, 2)
    assert [client.delete_message(queue, id), client.delete_message(queue, id)] == [204, 404]


def test_messages_have_delays_of_their_own_and_batches_are_deleted_in_part(client, queue):
    ids = client.send_batch(queue, [{"message": 1}, {"message": 2, "delay": 60}, {"message": 3}], "?async_commit=true")

    received = client.receive(queue, "?max=10&wait=0&vt=30")

    assert [message.id for message in received] == [ids[0], ids[2]]
    assert client.delete_batch(queue, [*ids, 999_999_999]) == ids
    assert client.delete_batch(queue, []) == []
    assert client.get(queue).queue_length == 0


@pytest.mark.parametrize("id", [0, -1, 2**62 + 1, 2**63 - 1, 2**63])
def test_an_id_that_no_message_can_have_kept_a_whole_batch_from_being_deleted(client, queue, id):
    first, second = client.send_batch(queue, [{"message": 1}, {"message": 2}])

    assert client.delete_batch(queue, [first, id, second]) == [first, second]


def test_a_message_is_shown_at_once_where_the_time_is_below_0(client, queue):
    id = client.send(queue, 1)
    client.receive(queue, "?vt=60")

    client.change_visibility(queue, id, -5)

    assert [message.id for message in client.receive(queue)] == [id]


@pytest.mark.parametrize("body", [b"{}", b" {} ", b"{ }", b"{\r\n\t}\n"])
def test_an_empty_object_stands_for_no_body_however_it_is_written(client, queue, body):
    client.send(queue, 1)

    assert decoded(client.call("POST", f"/v1/queues/{queue}/purge", body), Purged).deleted == 1
    assert client.call("POST", f"/v1/queues/{queue}/purge", body + b",").status == 400


def test_a_receive_waits_for_a_message(client, queue):
    received = []
    waiting = threading.Thread(target=lambda: received.extend(client.receive(queue, "?max=1&wait=20&vt=30")))
    waiting.start()
    caught_up(client._server)

    id = client.send(queue, "now", "?async_commit=true")
    waiting.join(timeout=10)

    assert [message.id for message in received] == [id]


@pytest.mark.parametrize("query", ["?max=1", "?max=1&fifo=true", "?max=1&fifo=false"])
def test_groups_of_a_fifo_queue_are_in_order_and_go_by_its_bare_name(client, query):
    name = new_name()
    client.create(name, fifo=True)
    client.create(name, fifo=True)
    first, second, third = client.send_batch(name, [{"message": n, "group_id": group} for n, group in enumerate("aab")])

    [one] = client.receive(name, query)
    [other] = client.receive(name, query)
    assert client.receive(name, query) == []
    assert client.delete_message(name, one.id) == 204
    [next_one] = client.receive(name, query)

    assert [one.id, other.id, next_one.id] == [first, third, second]
    assert client.change_visibility(name, second, 0).id == second
    assert name in [one.name for one in client.list()]
    assert (client.get(name).name, client.purge(name), client.delete(name)) == (name, 2, 204)
    assert name not in [one.name for one in client.list()]


def test_parameters_that_nobody_knows_are_passed_over_but_where_something_is_deleted(client, queue):
    id = client.send(queue, 1)
    schedule = {"cron": "0 0 1 1 *", "target": {"queue": queue, "message": 1}}
    passing = [
        ("POST", "/v1/queues", {"name": queue}),
        ("GET", "/v1/queues", None),
        ("GET", f"/v1/queues/{queue}", None),
        ("GET", f"/v1/queues/{queue}/subscriptions", None),
        ("PATCH", f"/v1/queues/{queue}/messages/{id}", {"vt": 60}),
        ("POST", f"/v1/events/{queue}.k/subscriptions", {"queue_name": queue}),
        ("POST", f"/v1/events/{queue}.k", {"message": 2}),
        ("PUT", f"/v1/schedules/s-{queue}", schedule),
        ("POST", "/v1/schedules", {"name": f"t-{queue}", **schedule}),
        ("GET", f"/v1/schedules/s-{queue}", None),
        ("PATCH", f"/v1/schedules/s-{queue}", {"status": "paused"}),
        ("POST", f"/v1/schedules/s-{queue}/runs", None),
        ("POST", "/v1/previews", {"every": "5m"}),
    ]
    deleting = [
        ("DELETE", f"/v1/queues/{queue}/messages/{id}", None),
        ("DELETE", f"/v1/queues/{queue}/messages", {"ids": [id]}),
        ("POST", f"/v1/queues/{queue}/purge", None),
        ("DELETE", f"/v1/schedules/s-{queue}", None),
        ("DELETE", f"/v1/queues/{queue}", None),
    ]

    passed = [client.call(method, f"{path}?colour=red", body) for method, path, body in passing]
    refused = [client.call(method, f"{path}?tokn=red", body) for method, path, body in deleting]

    assert [answer for answer in passed if answer.status >= 300] == []
    assert [answer.status for answer in refused] == [400] * len(deleting)
    assert client.get(queue).queue_length == 3
    assert [client.call("DELETE", f"/v1/schedules/{letter}-{queue}").status for letter in "st"] == [204, 204]


def test_fields_of_newer_clients_are_passed_over(client, queue):
    id = client.send(queue, 1, colour="red")

    later = client.call("PATCH", f"/v1/queues/{queue}/messages/{id}", {"vt": 60, "colour": "red"})
    deleted = client.call("DELETE", f"/v1/queues/{queue}/messages", {"ids": [id], "colour": "red"})

    assert (later.status, decoded(deleted, Deleted).deleted) == (200, [id])


def test_what_is_wrong_is_told_in_words_that_the_client_knows(client, queue):
    answers = [
        client.call("GET", "/v1/queues/nowhere"),
        client.call("PATCH", f"/v1/queues/{queue}/messages/999999999", {"vt": 5}),
        client.call("POST", "/v1/queues", {"name": "no such name!", "fifo": False}),
        client.call("POST", f"/v1/queues/{queue}/messages", []),
    ]

    refusals = [decoded(answer, Refusal) for answer in answers]

    assert [answer.status for answer in answers] == [404, 404, 400, 400]
    assert [refusal.code for refusal in refusals] == [
        "queue_not_found",
        "message_not_found",
        "bad_request",
        "bad_request",
    ]


def test_a_server_with_the_clients_token_lets_it_in_and_nobody_without(tmp_path):
    with serving(tmp_path, "--durability", "fast", env={"SQEW_AUTH_TOKEN": "test"}) as server:
        client = Caller(server, "test")
        client.create("guarded")

        assert client.send("guarded", 1)
        assert Caller(server, "other").call("GET", "/v1/queues").status == 401
        assert server.call("GET", "/v1/queues").status == 403
        assert server.call("GET", "/readyz").status == 200
