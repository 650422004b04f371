"""Clients that are slow, silent or gone: each has its deadline, and none holds up another."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqew.http.wire.contract import ConnectionLimits
from tests.http.wire.echo import LOOPS, Running, echoing, read_all
from tests.support.serving import serving

SHORT = ConnectionLimits(header_s=0.25, body_s=1.5, idle_s=0.75, write_s=1.0)
SLACK_S = 5.0
"""Seconds after its deadline within which a connection is closed on a busy machine."""


@pytest.fixture(params=LOOPS, scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    with echoing(request.param, SHORT) as running:
        yield running


def ended(connection: socket.socket) -> tuple[float, bytes]:
    """Return the seconds until the server closed, and the bytes that it sent before."""
    began = time.monotonic()
    received = b""
    with contextlib.suppress(ConnectionError):
        received = read_all(connection)
    return time.monotonic() - began, received


def test_a_silent_connection_is_closed_without_a_word(server):
    with server.connect() as connection:
        took, received = ended(connection)

    assert SHORT.idle_s / 2 < took < SHORT.idle_s + SLACK_S
    assert received == b""


def test_a_connection_that_was_used_is_closed_when_it_falls_silent(server):
    with server.connect() as connection:
        connection.sendall(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        took, received = ended(connection)

    assert SHORT.idle_s / 2 < took < SHORT.idle_s + SLACK_S
    assert received.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("part", [b"G", b"GET /a HTT", b"GET /a HTTP/1.1\r\nHost: x\r\nA: "])
def test_half_a_head_is_answered_with_408_after_its_deadline(server, part):
    with server.connect() as connection:
        connection.sendall(part)
        took, received = ended(connection)

    assert SHORT.header_s / 2 < took < SHORT.header_s + SLACK_S
    assert received.startswith(b"HTTP/1.1 408 ")


def test_a_head_that_trickles_in_does_not_get_more_time_by_that(server):
    began = time.monotonic()
    with server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.settimeout(0.02)
        connection.sendall(b"GET /a HTTP/1.1\r\nHost: x\r\n")
        received = b""
        while not received and time.monotonic() - began < 10:
            connection.sendall(b"A: b\r\n")
            with contextlib.suppress(TimeoutError):
                received = connection.recv(65_536)

    assert received.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - began < SHORT.header_s + SLACK_S


def test_a_body_that_trickles_in_does_not_get_more_time_by_that(server):
    began = time.monotonic()
    with server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.settimeout(0.02)
        connection.sendall(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        received = b""
        while not received and time.monotonic() - began < 10:
            connection.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                received = connection.recv(65_536)

    assert received.startswith(b"HTTP/1.1 408 ")
    assert SHORT.body_s / 2 < time.monotonic() - began < SHORT.body_s + SLACK_S


def test_a_streamed_body_may_take_its_time_as_long_as_it_comes(server):
    with server.connect() as connection:
        connection.sendall(b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\nConnection: close\r\n\r\n")
        for _ in range(8):
            time.sleep(SHORT.body_s / 6)
            connection.sendall(b"x")
        _, received = ended(connection)

    assert received.endswith(b"8 bytes")


def test_a_streamed_body_that_stops_is_answered_with_408(server):
    with server.connect() as connection:
        connection.sendall(b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nxx")
        took, received = ended(connection)

    assert received.startswith(b"HTTP/1.1 408 ")
    assert took < SHORT.body_s + SLACK_S


@pytest.mark.parametrize("path", [b"/big", b"/endless"])
def test_a_reader_that_does_not_read_is_cut_off(server, path):
    with server.connect() as connection:
        connection.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        assert connection.recv(1)
        began = time.monotonic()
        while server.server.connections and time.monotonic() - began < 10:
            time.sleep(0.01)

    assert time.monotonic() - began < SHORT.write_s + SLACK_S


def test_a_reader_that_does_not_read_and_goes_on_asking_is_cut_off(server):
    with server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.settimeout(0.02)
        began = time.monotonic()
        while time.monotonic() - began < 10:
            with contextlib.suppress(TimeoutError):
                connection.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n" * 20)

    assert time.monotonic() - began < SHORT.write_s + SLACK_S


def test_a_slow_reader_gets_all_of_a_large_answer(server):
    received = 0
    with server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        began = time.monotonic()
        while chunk := connection.recv(100_000):
            received += len(chunk)
            time.sleep(0.03)

    assert received > 8_000_000
    assert time.monotonic() - began > 2 * SHORT.write_s


def test_slow_clients_hold_up_nobody(server):
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            connection = stack.enter_context(server.connect())
            connection.sendall(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Le")
        began = time.monotonic()
        answer = server.talk(b"GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert time.monotonic() - began < 5


def test_the_deadlines_are_settings_of_the_server(tmp_path: Path):
    flags = ["--header-timeout-ms", "200", "--idle-timeout-ms", "400", "--body-timeout-ms", "300"]
    body = b"POST /queues HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"

    with serving(tmp_path, "--durability", "fast", *flags) as server:
        received = [server.talk(raw) for raw in (b"", b"GET /que", body)]

    assert [re.findall(rb"HTTP/1\.1 (\d+)", one) for one in received] == [[], [b"408"], [b"408"]]
