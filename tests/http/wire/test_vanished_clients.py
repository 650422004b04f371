"""Clients that leave before their answer comes: messages received for them go back at once, as if never taken."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tests.support.serving import STORES

_names = itertools.count()
HEAD = b"POST /queues/%b/poll?%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
SEND = b"POST /queues/%b/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n"


@pytest.fixture(params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


@pytest.fixture
def queue(shared_server):
    name = f"vanished-{next(_names)}"
    assert shared_server.call("POST", "/queues", {"name": name, "visibility_ms": 600_000}).status == 201
    return name


def send(server, queue: str, count: int = 1) -> None:
    assert server.call("POST", f"/queues/{queue}/messages", [{"payload": n} for n in range(count)]).status == 201


def poll(server, queue: str, query: str = "batch=10&wait_ms=2000") -> list[dict]:
    return server.call("POST", f"/queues/{queue}/poll?{query}").json["messages"]


def reset(connection: socket.socket) -> None:
    """Reset the connection, as a process that is killed with unread answers does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@contextlib.contextmanager
def standing_still(server) -> Iterator[None]:
    """Stop the server for the block: afterwards it finds all that was done meanwhile as if it had happened at once."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["closed", "reset"])
def test_who_leaves_while_waiting_gets_nothing_of_what_comes_later(shared_server, queue, leave):
    waiting = shared_server.connect()
    waiting.sendall(HEAD % (queue.encode(), b"wait_ms=30000"))
    # Asked and answered after it on another connection: the wait has begun.
    shared_server.call("GET", f"/queues/{queue}")
    leave(waiting)
    send(shared_server, queue)
    (message,) = poll(shared_server, queue)

    assert message["attempts"] == 1


@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["closed", "reset"])
def test_who_leaves_right_after_asking_takes_nothing(shared_server, queue, leave):
    send(shared_server, queue, 20)
    with standing_still(shared_server):
        for _ in range(20):
            leaving = shared_server.connect()
            leaving.sendall(HEAD % (queue.encode(), b"batch=10"))
            leave(leaving)
    deadline = time.monotonic() + 30
    received: list[dict] = []
    while len(received) < 20 and time.monotonic() < deadline:
        received += poll(shared_server, queue)

    assert [message["attempts"] for message in received] == [1] * 20


def test_who_leaves_with_requests_behind_the_receive_takes_nothing(shared_server, queue):
    send(shared_server, queue, 1)
    with standing_still(shared_server):
        leaving = shared_server.connect()
        leaving.sendall(HEAD % (queue.encode(), b"batch=10") + SEND % queue.encode() + b'{"payload":9}')
        leaving.close()
    received = poll(shared_server, queue)

    assert [message["attempts"] for message in received if message["payload"] == 0] == [1]


def test_a_hundred_waiters_that_leave_take_nothing_with_them(shared_server, queue):
    waiting = [shared_server.connect() for _ in range(100)]
    for connection in waiting:
        connection.sendall(HEAD % (queue.encode(), b"wait_ms=30000&batch=1"))
    shared_server.call("GET", f"/queues/{queue}")
    sending = shared_server.connect()
    with standing_still(shared_server):
        # When it moves again, it finds all at once: who left, and what they were waiting for.
        sending.sendall((SEND % queue.encode() + b'{"payload":9}') * 100)
        for connection in waiting:
            connection.close()
    deadline = time.monotonic() + 30
    received: list[dict] = []
    while len(received) < 100 and time.monotonic() < deadline:
        received += poll(shared_server, queue, "batch=100&wait_ms=500")
    sending.close()

    assert [message["attempts"] for message in received] == [1] * 100


def test_a_bad_request_among_others_undoes_none_of_them(shared_server, queue):
    good = SEND % queue.encode() + b'{"payload":1}'
    unknown = SEND % b"no-such-queue" + b'{"payload":1}'
    stale = b"POST /queues/%b/ack HTTP/1.1\r\nHost: localhost\r\nContent-Length: 27\r\n\r\n" % queue.encode()
    stale += b'{"id":99999999,"token":"x"}'
    connections = [shared_server.connect() for _ in range(30)]
    for number, connection in enumerate(connections):
        connection.sendall((good, unknown, stale)[number % 3] + good)
    statuses = []
    for connection in connections:
        received = b""
        while received.count(b"HTTP/1.1 ") < 2 or not received.endswith(b"}"):
            received += connection.recv(65_536)
        statuses.append([int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]])
        connection.close()

    assert statuses == [[201, 201], [404, 201], [404, 201]] * 10
    assert len(poll(shared_server, queue, "batch=100")) == 40


def test_who_left_before_its_first_look_was_over_does_not_wait_in_the_name_of_nobody(shared_server, queue):
    """Check that no receive goes on for a client that has left.

    The end of the connection was read before the transaction in which nothing was found.
    """
    with standing_still(shared_server):
        waiting = shared_server.connect()
        waiting.sendall(HEAD % (queue.encode(), b"finish=true&wait_ms=30000"))
        waiting.close()
    shared_server.call("GET", f"/queues/{queue}")

    send(shared_server, queue)

    assert [message["payload"] for message in poll(shared_server, queue)] == [0]


TAKING = {
    "poll": b"POST /queues/QUEUE/poll?batch=10",
    "poll for good": b"POST /queues/QUEUE/poll?batch=10&finish=true",
    "hq": b"GET /queues/QUEUE/receive",
    "native": b"GET /v1/queues/QUEUE/messages?max=10",
    "mailbox": b"GET /v1/messages?topic=QUEUE&limit=10",
    "mailbox with acks": b"GET /v1/messages?topic=QUEUE&limit=10&ack=true",
    "sqs": b"POST /000000000000/QUEUE?Action=ReceiveMessage&MaxNumberOfMessages=10",
}


def asking(line: bytes, queue: str) -> bytes:
    credential = b"Authorization: AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/sqs/aws4_request\r\n"
    return line.replace(b"QUEUE", queue.encode()) + b" HTTP/1.1\r\nHost: localhost\r\n" + credential + b"\r\n"


def received(server, queue: str) -> int:
    """Return the number of messages that were ever received from a queue."""
    return server.call("GET", f"/queues/{queue}/stats").json["totals"].get("received", 0)


@pytest.mark.parametrize("leave", ["close", "reset", "half-close"])
@pytest.mark.parametrize("taking", TAKING.values(), ids=TAKING)
def test_a_request_whose_client_has_left_takes_no_message(shared_server, queue, taking, leave):
    send(shared_server, queue)
    with shared_server.connect() as connection:
        with standing_still(shared_server):
            connection.sendall(asking(taking, queue))
            if leave == "half-close":
                connection.shutdown(socket.SHUT_WR)
            else:
                (socket.socket.close if leave == "close" else reset)(connection)
        if leave == "half-close":
            answer = until_the_end(connection)
        shared_server.call("GET", f"/queues/{queue}")

        assert received(shared_server, queue) == 0
        assert leave != "half-close" or answer == b""
    assert [message["payload"] for message in poll(shared_server, queue)] == [0]


def until_the_end(connection: socket.socket) -> bytes:
    answer = b""
    with contextlib.suppress(ConnectionError):
        while chunk := connection.recv(65_536):
            answer += chunk
    return answer


def until_they_wait(server, count: int) -> None:
    """Wait until so many requests wait and none is in a transaction, which a database would finish."""
    quiet, deadline = 0, time.monotonic() + 30
    while quiet < 3:
        assert time.monotonic() < deadline, "they are still looking"
        looking = server.figure("db_pool_active") + server.figure("db_operations_waiting")
        quiet = quiet + 1 if not looking and server.figure("http_connections_active") > count else 0


def test_waiters_that_have_left_lose_nothing_that_they_would_have_taken_for_good(shared_server, queue):
    waiting = [shared_server.connect() for _ in range(20)]
    for connection in waiting:
        connection.sendall(HEAD % (queue.encode(), b"wait_ms=30000&batch=1&finish=true"))
    until_they_wait(shared_server, len(waiting))
    sending = shared_server.connect()
    with standing_still(shared_server):
        sending.sendall((SEND % queue.encode() + b'{"payload":9}') * 20)
        for connection in waiting:
            connection.close()
    deadline = time.monotonic() + 30
    taken: list[dict] = []
    while len(taken) < 20 and time.monotonic() < deadline:
        taken += poll(shared_server, queue, "batch=100&wait_ms=500")
    sending.close()

    assert len(taken) == 20
