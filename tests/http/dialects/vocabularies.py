"""The four HTTP dialects, each with the same few operations on a queue."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from tests.support.serving import Answer, Serving

_numbers = itertools.count()


class Delivery(NamedTuple):
    """A message as a receiver sees it. The mailbox does not show attempts, nor hq tokens."""

    id: int
    body: Any
    attempts: int | None
    token: str | None = None


class Vocabulary(NamedTuple):
    """The requests and answers of one dialect."""

    name: str
    send_path: str
    wrap: Callable[[bytes], bytes]
    """A function that returns the body of a request that sends this JSON."""
    id_sent: Callable[[Serving, Any], int]
    receive_line: str
    """First line of a request that receives."""
    read: Callable[[Serving, Any], list[Delivery]]
    settle: Callable[[Serving, str, Delivery], Answer]
    sentence: Callable[[Any], str]
    """A function that takes the error's sentence out of this dialect's shape, and raises for another shape."""
    wait: str = ""
    """Query that makes a receive wait for 20 seconds."""

    def send(self, server: Serving, queue: str, value: Any) -> int:
        answer = self.try_to_send(server, queue, json.dumps(value, ensure_ascii=False).encode())
        assert answer.status in (200, 201), answer
        return self.id_sent(server, answer.json)

    def try_to_send(self, server: Serving, queue: str, value: bytes, content_type: str = "application/json") -> Answer:
        path = self.send_path.format(queue=queue)
        body = self.wrap(value).replace(b"QUEUE", queue.encode())
        return server.call("POST", path, body, {"Content-Type": content_type})

    def receive(self, server: Serving, queue: str, wait: bool = False) -> list[Delivery]:
        method, path = self.receive_line.format(queue=queue).split(" ")
        answer = server.call(method, path + (self.wait if wait else ""))
        assert answer.status == 200, answer
        return self.read(server, answer.json)

    def waiting_request(self, queue: str) -> bytes:
        return f"{self.receive_line.format(queue=queue)}{self.wait} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def __str__(self) -> str:
        return self.name


def _only(shape: dict[str, Any], *names: str) -> dict[str, Any]:
    assert set(shape) == set(names), shape
    return shape


SQEW = Vocabulary(
    "sqew",
    "/queues/{queue}/messages",
    lambda value: b'{"payload":%b}' % value,
    lambda _, sent: sent["message_id"],
    "POST /queues/{queue}/poll?batch=1",
    lambda _, answer: [Delivery(m["id"], m["payload"], m["attempts"], m["token"]) for m in answer["messages"]],
    lambda server, queue, it: server.call("POST", f"/queues/{queue}/ack", {"id": it.id, "token": it.token}),
    lambda answer: _only(_only(answer, "error")["error"], "code", "message")["message"],
    "&wait_ms=20000",
)
HQ = Vocabulary(
    "hq",
    "/queues/{queue}/enqueue",
    lambda value: value,
    lambda server, sent: server.uuids.id_of(UUID(sent["message_id"])),
    "GET /queues/{queue}/receive",
    lambda server, job: (
        [] if job is None else [Delivery(server.uuids.id_of(UUID(job["id"])), job["args"], job["attempts"])]
    ),
    lambda server, _queue, it: server.call("PUT", f"/messages/{server.uuids.of(it.id)}/complete"),
    lambda answer: _only(answer, "error", "code")["error"],
)
MAILBOX = Vocabulary(
    "mailbox",
    "/v1/messages",
    lambda value: b'{"topic":"QUEUE","body":%b}' % value,
    lambda _, sent: sent["id"],
    "GET /v1/messages?topic={queue}&ack=true",
    lambda _, answer: [Delivery(m["id"], m["body"], None, m["token"]) for m in answer],
    lambda server, queue, it: server.call("POST", "/v1/acks", {"id": it.id, "token": it.token, "topic": queue}),
    lambda answer: _only(answer, "error", "code")["error"],
    "&wait=20",
)
NATIVE = Vocabulary(
    "native",
    "/v1/queues/{queue}/messages",
    lambda value: b'{"message":%b}' % value,
    lambda _, sent: sent["id"],
    "GET /v1/queues/{queue}/messages?max=1",
    lambda _, answer: [Delivery(m["id"], m["message"], m["read_ct"], m["token"]) for m in answer],
    lambda server, queue, it: server.call("DELETE", f"/v1/queues/{queue}/messages/{it.id}"),
    lambda answer: _only(answer, "error", "code", "message")["error"],
    "&wait=20",
)
ALL = (SQEW, HQ, MAILBOX, NATIVE)
WAITING = (SQEW, MAILBOX, NATIVE)
"""Dialects with long polling."""


def new_queue(server: Serving, **policy: Any) -> str:
    """Make a queue with a name of its own."""
    name = f"queue-{next(_numbers)}"
    answer = server.call("POST", "/queues", {"name": name, **policy})
    assert answer.status == 201, answer
    return name


def new_name() -> str:
    """Return a name that no queue has."""
    return f"queue-{next(_numbers)}"


def caught_up(server: Serving) -> None:
    """Return when the server has handled everything that was sent to it before.

    It reads all sockets that have something in every turn of its loop, so by the third answer it has read the others'
    requests, looked for their messages and begun to wait.
    """
    for _ in range(3):
        assert server.call("GET", "/livez").status == 200
    if server.database is not None:
        # There what was asked for is begun by then, and done after a few more turns that others have.
        for _ in range(10):
            assert server.call("GET", "/queues").status == 200
