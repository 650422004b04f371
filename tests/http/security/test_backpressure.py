"""Backpressure: senders are asked to come back later, and workers that finish messages go on."""

import asyncio
import time

import apsw
import pytest

from sqew.core.broker import Broker
from sqew.errors import Overloaded
from sqew.http.run import make_server, make_service
from sqew.http.security.guard import Guard
from sqew.http.wire.connection import Connection
from sqew.http.wire.exchange import Request
from sqew.ids import MessageUuids
from sqew.model import NewMessage, Policy
from sqew.operations import CreateQueue, Send
from sqew.settings import Settings
from tests.support.serving import serving


@pytest.mark.parametrize(
    ("method", "path", "is_refused"),
    [
        (b"POST", b"/queues/orders/messages", True),
        (b"POST", b"/queues/orders/enqueue", True),
        (b"POST", b"/queues/orders/ack", False),
        (b"POST", b"/queues/orders/poll", False),
    ],
)
def test_with_more_waiting_than_allowed_sends_are_refused_and_acks_are_not(tmp_path, method, path, is_refused):
    async def refuses():
        settings = Settings(db=str(tmp_path / "queue.db"), durability="fast", max_pending=2)
        async with Broker.open(settings.db) as broker:
            await broker.run(CreateQueue("orders", Policy()))
            guard = Guard(settings, broker)
            server = make_server(make_service(broker, settings, guard, MessageUuids(0)), guard)
            request = Request(Connection(server), method, path, b"", {})
            server.application.begin(request)
            for _ in range(3):
                broker.submit(Send("orders", [NewMessage(b"1")]), lambda _: None)
            try:
                guard.admit(request)
            except Overloaded:
                return True
            return False

    assert asyncio.run(refuses()) is is_refused


def send_until(server, status, payload, within_s=20.0):
    """Send until the answer has this status."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        answer = server.call("POST", "/queues/orders/messages", {"payload": payload})
        if answer.status == status:
            return answer
    raise AssertionError(f"no answer {status} within {within_s} s, but {answer}")


def test_while_the_write_ahead_log_is_too_large_sends_are_refused_and_acks_go_on(tmp_path):
    with serving(tmp_path, "--durability", "fast", "--max-wal-bytes", "1MiB") as server:
        server.call("POST", "/queues", {"name": "orders"})
        # Whoever reads from a moment keeps the log from being cut off after it.
        reader = apsw.Connection(str(server.db))
        reader.execute("BEGIN; SELECT count(*) FROM sqew_message").fetchall()
        server.call("POST", "/queues/orders/messages", {"payload": "first"})

        refused = send_until(server, 429, "x" * 200_000)
        (message,) = server.call("POST", "/queues/orders/poll").json["messages"]
        acked = server.call("POST", "/queues/orders/ack", {"id": message["id"], "token": message["token"]})
        reader.close()
        accepted = send_until(server, 201, "small")

    assert refused.json["error"]["code"] == "overloaded"
    assert "max_wal_bytes" in refused.json["error"]["message"]
    assert refused.headers["retry-after"] == "1"
    assert acked.status == 200
    assert accepted.json["duplicate"] is False


SENDS = [
    ("/queues/{}/messages", {"payload": 1}),
    ("/queues/{}/enqueue", {"n": 1}),
    ("/v1/queues/{}/messages", {"message": 1}),
]


@pytest.mark.parametrize(("number", "path", "body"), [(n, *send) for n, send in enumerate(SENDS)])
def test_a_sender_over_the_rate_limit_is_told_when_to_come_back(shared_server, number, path, body):
    name = f"limited-{number}"
    shared_server.call("POST", "/queues", {"name": name, "rate_limit": 0.1})

    first, second = (shared_server.call("POST", path.format(name), body) for _ in range(2))

    assert first.status < 300
    assert second.status == 429
    assert 1 <= int(second.headers["retry-after"]) <= 10


@pytest.mark.parametrize(("number", "path", "body"), [(n, *send) for n, send in enumerate(SENDS)])
def test_a_full_queue_takes_no_more_until_some_is_consumed(shared_server, number, path, body):
    name = f"full-{number}"
    shared_server.call("POST", "/queues", {"name": name, "quota": 1})

    first, second = (shared_server.call("POST", path.format(name), body) for _ in range(2))
    (message,) = shared_server.call("POST", f"/queues/{name}/poll").json["messages"]
    shared_server.call("POST", f"/queues/{name}/ack", {"id": message["id"], "token": message["token"]})
    third = shared_server.call("POST", path.format(name), body)

    assert (second.status, second.headers["retry-after"]) == (429, "1")
    assert first.status == third.status < 300
