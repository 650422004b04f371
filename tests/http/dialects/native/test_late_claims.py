"""Claims that reach a server while it is suspended, and are executed when it runs again: nothing unread is acked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import new_database
from tests.support.serving import STORES, Answer, Serving, serving

CONSUMER = "/v1/queues/q/consumers/c"


@pytest.fixture(params=STORES)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Serving, Serving]]:
    """Yield two servers on one file or database, with a queue."""
    database = new_database() if request.param == "postgres" else None
    with serving(tmp_path, database=database) as slow, serving(tmp_path, database=database) as quick:
        assert quick.call("POST", "/v1/queues", {"name": "q"}).status == 201
        yield slow, quick


@contextlib.contextmanager
def standing_still(server: Serving) -> Iterator[None]:
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def send(server: Serving, value: int) -> None:
    assert server.call("POST", "/v1/queues/q/messages", {"message": value}).status == 201


def opened(server: Serving) -> int:
    epoch: int = server.call("POST", f"{CONSUMER}/open", {"owner": "me"}).json["epoch"]
    return epoch


def claim(server: Serving, epoch: int, after: int) -> Answer:
    return server.call("POST", f"{CONSUMER}/claims", {"epoch": epoch, "after": after})


def read(server: Serving, number: int) -> list[int]:
    answer = server.call("GET", f"{CONSUMER}/claims/{number}/parts/0?columns=body")
    assert answer.status == 200, answer
    return [json.loads(line)["body"] for line in answer.body.splitlines()]


def request(epoch: int, after: int) -> bytes:
    body = json.dumps({"epoch": epoch, "after": after}).encode()
    head = f"POST {CONSUMER}/claims HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def open_claims(server: Serving) -> list[int]:
    (consumer,) = server.call("GET", "/v1/queues/q/consumers").json
    return [one["number"] for one in consumer["claims"]]


def waiting(server: Serving) -> int:
    length: int = server.call("GET", "/v1/queues/q").json["queue_visible_length"]
    return length


def test_a_late_claim_of_a_finished_number_takes_nothing_and_no_unread_message_is_acked(
    pair: tuple[Serving, Serving],
) -> None:
    slow, quick = pair
    epoch = opened(quick)
    send(quick, 1)

    with slow.connect() as connection:
        with standing_still(slow):
            # Its client goes on waiting for the answer, and asks the other server meanwhile.
            connection.sendall(request(epoch, 0))
            assert claim(quick, epoch, 0).json["number"] == 1
            assert read(quick, 1) == [1]
            assert claim(quick, epoch, 1).json["count"] == 0
            send(quick, 2)
        late = connection.recv(65_536)

    assert late.startswith(b"HTTP/1.1 409 ")
    assert b"x-sqew-error: claim_spent" in late
    assert open_claims(quick) == []
    assert claim(quick, epoch, 1).json == {"number": 2, "count": 1, "parts": [{"part": 0, "count": 1}]}
    assert read(quick, 2) == [2]


def test_a_claim_whose_client_has_left_is_not_made(pair: tuple[Serving, Serving]) -> None:
    slow, quick = pair
    epoch = opened(quick)
    send(quick, 1)

    with standing_still(slow):
        connection = slow.connect()
        connection.sendall(request(epoch, 0))
        connection.close()
    # Asked and answered after it.
    assert slow.call("GET", "/livez").status == 200
    time.sleep(0.2)

    assert (open_claims(quick), waiting(quick)) == ([], 1)
    assert claim(quick, epoch, 0).json["count"] == 1


def test_a_claim_whose_client_has_ended_its_side_is_not_made_and_not_answered(pair: tuple[Serving, Serving]) -> None:
    slow, quick = pair
    epoch = opened(quick)
    send(quick, 1)

    with slow.connect() as connection:
        with standing_still(slow):
            connection.sendall(request(epoch, 0))
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(65_536) == b""

    assert (open_claims(quick), waiting(quick)) == ([], 1)


def test_a_late_request_to_open_a_consumer_fenced_off_the_client_that_had_sent_it(
    pair: tuple[Serving, Serving],
) -> None:
    slow, quick = pair
    body = json.dumps({"owner": "me"}).encode()
    head = f"POST {CONSUMER}/open HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"

    with standing_still(slow):
        # It gives this one up, and asks the other server.
        connection = slow.connect()
        connection.sendall(head.encode() + body)
        connection.close()
        epoch = opened(quick)
    # Asked and answered after it.
    assert slow.call("GET", "/v1/queues/q").status == 200
    send(quick, 1)

    assert claim(quick, epoch, 0).json["count"] == 1


def test_two_servers_that_are_asked_for_the_same_claim_at_once_give_the_same(pair: tuple[Serving, Serving]) -> None:
    epoch = opened(pair[0])
    for value in range(5):
        send(pair[1], value)
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda server=server: answers.append(claim(server, epoch, 0)))
        for server in (*pair, *pair)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [answer.status for answer in answers] == [200] * 4
    assert len({answer.body for answer in answers}) == 1
