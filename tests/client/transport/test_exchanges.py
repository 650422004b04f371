"""Exchanges over real sockets: answers in every form, cut off, late and wrong, and connections that are reused."""

import asyncio
import os
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from sqew import AsyncClient, Client
from sqew.client.transport import sockets, streams
from sqew.client.transport.failures import BadHost, ConnectionBroken, NoConnection, TooSlow, TooSlowToConnect
from sqew.client.transport.response import MOST_HEAD
from sqew.client.transport.route import ServerRoute, Timeouts
from sqew.errors import NotSqew, StoreClosed, Unreachable
from tests.client.transport.exchanges import (
    AMPLE,
    KINDS,
    Listener,
    answer,
    echoes,
    exchanging,
    request_on,
    says,
    says_once,
)

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nx-last: 1\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nx-a: b\r\n\r\nabcde"
LARGE = 64 << 20


@pytest.fixture(params=KINDS)
def to(request):
    """Return a function that makes a transport to a URL, of each kind in turn."""

    def to(base, **options):
        return exchanging(request.param, base, **options)

    return to


# Answers


@pytest.mark.parametrize(
    ("data", "status", "body"),
    [
        (answer(b"abcde"), 200, b"abcde"),
        (CHUNKED, 200, b"abcde"),
        (UNTIL_CLOSED, 200, b"abcde"),
        (answer(b""), 200, b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", 304, b""),
        (b"HTTP/1.0 200 OK\r\n\r\nabcde", 200, b"abcde"),
        (b"HTTP/1.1 200\r\ncontent-length: 1\r\n\r\na", 200, b"a"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\ncontent-length: 9\r\n\r\n" + answer(b"a"), 200, b"a"),
        (b"HTTP/1.1 103 Early\r\ncontent-length: 9\r\n\r\n" + UNTIL_CLOSED, 200, b"abcde"),
        (answer(b"abcde", "500 Oh", "connection: close"), 500, b"abcde"),
    ],
)
def test_an_answer_is_read_whatever_says_where_it_ends(to, data, status, body):
    with Listener(says_once(data)) as server, to(server.url) as transport:
        assert transport.ask() == (status, body)


@pytest.mark.parametrize("data", [answer(b"abcde"), CHUNKED, UNTIL_CLOSED])
def test_an_answer_may_come_in_pieces_of_one_byte(to, data):
    def handle(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request_on(connection)
        for byte in data:
            connection.send(bytes([byte]))

    with Listener(handle) as server, to(server.url) as transport:
        assert transport.ask() == (200, b"abcde")


@pytest.mark.parametrize("data", [answer(b"abcde"), CHUNKED], ids=["length", "chunked"])
def test_an_answer_that_is_cut_off_is_never_taken_for_a_whole_one(to, data):
    def handle(connection):
        line, _, _ = request_on(connection)
        connection.sendall(data[: int(line.split(" ")[1].removeprefix("/"))])

    with Listener(handle) as server, to(server.url) as transport:
        for cut in range(len(data)):
            with pytest.raises(ConnectionBroken, match=r"in the middle of the answer|without an answer"):
                transport.ask(f"/{cut}")

        assert transport.ask(f"/{len(data)}") == (200, b"abcde")


def test_an_answer_until_the_end_of_the_connection_may_be_cut_off_in_its_head_alone(to):
    head = UNTIL_CLOSED.index(b"abcde")
    for cut in (0, 1, head - 1):
        with (
            Listener(says_once(UNTIL_CLOSED[:cut])) as server,
            to(server.url) as transport,
            pytest.raises(ConnectionBroken),
        ):
            transport.ask()


def test_a_connection_that_is_reset_says_so(to):
    def handle(connection):
        request_on(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with Listener(handle) as server, to(server.url) as transport, pytest.raises(ConnectionBroken, match=r"[Rr]eset"):
        transport.ask()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"220 smtp.example.com\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 abc\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nz\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 101 Sure\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\nabc", "another protocol"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * MOST_HEAD * 8, "more than"),
    ],
)
def test_what_is_no_answer_is_refused(to, data, why):
    with Listener(says_once(data)) as server, to(server.url) as transport, pytest.raises(ConnectionBroken, match=why):
        transport.ask()


def test_headers_are_known_by_small_letters_and_those_said_twice_are_joined(to):
    data = b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + answer(b"", "200 OK", "X-One: 1", "x-two: a", "X-Two: b")
    with Listener(says(data)) as server, to(server.url) as transport, transport.begun() as (response, _):
        assert response.headers == {"content-length": "0", "x-one": "1", "x-two": "a, b"}


def test_what_is_said_after_the_body_is_no_header(to):
    with Listener(says(CHUNKED)) as server, to(server.url) as transport, transport.begun() as (response, pieces):
        assert b"".join(pieces) == b"abcde"
        assert response.headers == {"transfer-encoding": "chunked"}


# Requests


def test_a_request_says_what_it_must_and_no_more(to):
    asked = []

    def handle(connection):
        asked.append(request_on(connection))
        connection.sendall(answer(b"", "200 OK", "connection: close"))

    with Listener(handle) as server, to(server.url + "/b ä/") as transport:
        transport.ask("/x?y=1")
        transport.ask("/x", method="POST")
        transport.ask("/x", method="PUT", body=b"abc", headers={"content-type": "a/b"})
        transport.ask("/x", method="POST", body=[b"ab", b"", b"c" * 100_000])

    host = {"host": f"127.0.0.1:{server.port}"}
    assert asked == [
        ("GET /b%20%C3%A4/x?y=1 HTTP/1.1", host, b""),
        ("POST /b%20%C3%A4/x HTTP/1.1", {**host, "content-length": "0"}, b""),
        ("PUT /b%20%C3%A4/x HTTP/1.1", {**host, "content-type": "a/b", "content-length": "3"}, b"abc"),
        ("POST /b%20%C3%A4/x HTTP/1.1", {**host, "transfer-encoding": "chunked"}, b"ab" + b"c" * 100_000),
    ]


@pytest.mark.parametrize(
    ("base", "host"),
    [
        ("http://example.org", "example.org"),
        ("http://example.org:80", "example.org"),
        ("http://example.org:443", "example.org:443"),
        ("https://example.org:443", "example.org"),
        ("http://[::1]:8888", "[::1]:8888"),
        ("http://bücher.example", "xn--bcher-kva.example"),
        ("http://faß.example", "xn--fa-hia.example"),
    ],
)
def test_the_host_is_named_as_http_has_it(base, host):
    assert f"\r\nhost: {host}\r\n".encode() in ServerRoute(base, {}).head("GET", "/", {}, None)


def test_a_host_that_none_can_be_called_is_told_from_one_that_is_not_there(to):
    with to("http://ⅷ.example") as transport, pytest.raises(BadHost):
        transport.ask()
    with Client("http://ⅷ.example", retries=0) as q, pytest.raises(Unreachable, match="can't be the URL of a server"):
        q.queues()


def test_a_large_body_arrives_whole(to):
    body = os.urandom(3 << 20)
    with Listener(echoes) as server, to(server.url) as transport:
        assert transport.ask("/", method="POST", body=body) == (200, b"/" + body)
        assert transport.ask("/", method="POST", body=[body]) == (200, b"/" + body)
        assert len(server.connections) == 1


def test_a_server_that_answers_before_it_has_heard_all_is_understood(to):
    def handle(connection):
        connection.recv(1)
        connection.sendall(answer(b"too large", "413 Large"))
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 20):
            pass

    with Listener(handle) as server, to(server.url) as transport:
        for body in (bytes(LARGE), [bytes(1 << 20)] * 64):
            assert transport.ask("/", method="POST", body=body) == (413, b"too large")
        assert len(server.connections) == 2


def test_a_server_that_answers_and_hangs_up_on_the_rest_of_a_request_is_understood():
    def handle(connection):
        connection.recv(1)
        connection.sendall(answer(b"too large", "413 Large"))

    with Listener(handle) as server, exchanging("threads", server.url) as transport:
        assert transport.ask("/", method="POST", body=bytes(LARGE)) == (413, b"too large")


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_request_that_was_answered_before_it_was_sent_is_not_followed_by_another(kind):
    def handle(connection):
        connection.recv(1)
        connection.sendall(answer(b"too large", "413 Large"))
        while connection.recv(1 << 20):
            pass

    with Listener(handle) as server, exchanging(kind, server.url) as transport:
        for number in (1, 2):
            assert transport.ask("/", method="POST", body=[bytes(1 << 20)] * 1_000) == (413, b"too large")
            assert len(server.connections) == number


@pytest.mark.parametrize("trouble", [ValueError, KeyboardInterrupt])
def test_what_the_body_raises_comes_out_as_it_is_and_leaves_no_half_request_behind(to, trouble):
    def body():
        yield b"a"
        raise trouble("mine")

    with Listener(echoes) as server, to(server.url) as transport:
        transport.ask("/first")
        with pytest.raises(trouble, match="mine"):
            transport.ask("/", method="POST", body=body())

        assert transport.ask("/next") == (200, b"/next")
        assert len(server.connections) == 2


# Connections that are kept


def test_a_connection_is_used_again(to):
    with Listener(echoes) as server, to(server.url) as transport:
        for number in range(5):
            assert transport.ask(f"/{number}") == (200, f"/{number}".encode())

        assert len(server.connections) == 1


@pytest.mark.parametrize(
    "data",
    [
        answer(b"abcde", "200 OK", "connection: close"),
        answer(b"abcde") + b"!",
        answer(b"abcde") + answer(b"fghij"),
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nabcde",
    ],
    ids=["closes", "garbage", "two answers", "HTTP/1.0"],
)
def test_a_connection_that_can_not_be_trusted_is_not_used_again(to, data):
    with Listener(says(data)) as server, to(server.url) as transport:
        for _ in range(3):
            assert transport.ask() == (200, b"abcde")

        assert len(server.connections) == 3


@pytest.mark.parametrize("after", [b"", answer(b"nobody asked")], ids=["end", "answer to nothing"])
def test_a_connection_on_which_something_came_meanwhile_is_not_used_again(to, after):
    done = threading.Event()

    def handle(connection):
        request_on(connection)
        connection.sendall(answer(b"abcde"))
        connection.sendall(after)
        connection.shutdown(socket.SHUT_WR)
        done.set()
        connection.recv(1)

    with Listener(handle) as server, to(server.url) as transport:
        for number in range(1, 4):
            assert transport.ask() == (200, b"abcde")
            assert done.wait(10)
            done.clear()

            assert len(server.connections) == number


def test_a_connection_on_which_was_heard_what_nobody_asked_for_is_not_used_again(to):
    asked_one, said_more = threading.Event(), threading.Event()

    def handle(connection):
        request_on(connection)
        connection.sendall(answer(b"abcde"))
        asked_one.wait(20)
        connection.sendall(answer(b"nobody asked"))
        said_more.set()
        connection.recv(1)

    with Listener(handle) as server, to(server.url) as transport:
        transport.ask()
        asked_one.set()
        assert said_more.wait(20)
        transport.settle()

        assert transport.ask() == (200, b"abcde")
        assert len(server.connections) == 2


def test_connections_that_rest_for_long_are_not_used_again(to, monkeypatch):
    monkeypatch.setattr(sockets, "IDLE_S", -1)
    monkeypatch.setattr(streams, "IDLE_S", -1)
    with Listener(echoes) as server, to(server.url) as transport:
        transport.ask()
        transport.ask()

        assert len(server.connections) == 2


def test_no_more_connections_are_kept_than_may_be(to, monkeypatch):
    monkeypatch.setattr(sockets, "MOST_IDLE", 2)
    monkeypatch.setattr(streams, "MOST_IDLE", 2)
    together = threading.Barrier(4)

    def handle(connection):
        while asked := request_on(connection):
            if asked[0].startswith("GET /together"):
                together.wait(20)
            connection.sendall(answer(b"a"))

    with Listener(handle) as server, to(server.url) as transport:
        transport.at_once([f"/together{number}" for number in range(4)])
        transport.at_once([f"/together{number}" for number in range(4)])

        assert len(server.connections) == 6


def test_thirty_two_at_a_time_each_get_their_own_answer(to):
    with Listener(echoes) as server, to(server.url) as transport:
        for turn in range(10):
            targets = [f"/{turn}-{number}-{'x' * number * 50}" for number in range(32)]

            assert transport.at_once(targets) == [target.encode() for target in targets]
        assert len(server.connections) <= 32


def test_a_process_made_by_a_fork_connects_anew():
    code = """
import os, sys
from sqew.client.transport.sockets import BlockingTransport
from sqew.client.transport.route import ServerRoute, Timeouts

def ask(target):
    response = transport.send("GET", target, {}, None, Timeouts(20, 20, 20))
    assert response.read() == target.encode()
    response.close()

transport = BlockingTransport(ServerRoute(sys.argv[1], {}))
ask("/before")
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    ask("/parent")
else:
    ask("/child")
transport.close()
"""
    with Listener(echoes) as server:
        subprocess.run([sys.executable, "-c", code, server.url], check=True)

        assert len(server.connections) == 2


# Streams


def test_a_server_must_wait_for_who_reads_slowly_and_notices_who_leaves(to):
    sent = []
    stuck, left = threading.Event(), threading.Event()

    def handle(connection):
        request_on(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % LARGE)
        connection.settimeout(1)
        try:
            for _ in range(LARGE >> 20):
                connection.sendall(bytes(1 << 20))
                sent.append(1)
        except TimeoutError:
            stuck.set()
            connection.settimeout(20)
            try:
                while connection.recv(1):
                    pass
            except ConnectionResetError:
                pass
            left.set()

    with Listener(handle) as server, to(server.url) as transport:
        with transport.begun() as (_, pieces):
            assert next(pieces)
            assert stuck.wait(20)
            assert len(sent) < LARGE >> 21
        assert left.wait(20)


def test_a_large_answer_arrives_whole(to):
    body = os.urandom(5 << 20)
    with Listener(says(answer(body))) as server, to(server.url) as transport:
        for _ in range(2):
            with transport.begun() as (_, pieces):
                assert b"".join(pieces) == body

        assert len(server.connections) == 1


def test_an_answer_that_is_left_early_does_not_disturb_the_next_one(to):
    with Listener(says(answer(bytes(5 << 20)))) as server, to(server.url) as transport:
        with transport.begun() as (_, pieces):
            next(pieces)

        assert transport.ask() == (200, bytes(5 << 20))
        assert len(server.connections) == 2


def test_an_answer_that_was_closed_can_not_be_read(to):
    with Listener(echoes) as server, to(server.url) as transport:
        with transport.begun() as (_, pieces):
            pass
        with pytest.raises(ConnectionBroken, match="closed before"):
            next(pieces)


# Time


def test_who_does_not_take_a_request_in_time_is_given_up(to):
    stop = threading.Event()
    with Listener(lambda _: stop.wait(20)) as server, to(server.url) as transport:
        try:
            for body in (bytes(LARGE), [bytes(LARGE)]):
                with pytest.raises(TooSlow, match="not taken"):
                    transport.ask("/", method="POST", body=body, timeouts=Timeouts(20, 0.2, 20))
        finally:
            stop.set()


@pytest.mark.parametrize(
    "before", [b"", b"HTTP/1.1 200 OK\r\n", answer(b"abcde")[:-1]], ids=["nothing", "head", "body"]
)
def test_an_answer_that_does_not_come_in_time_is_given_up(to, before):
    stop = threading.Event()

    def handle(connection):
        request_on(connection)
        connection.sendall(before)
        stop.wait(20)

    with Listener(handle) as server, to(server.url) as transport:
        try:
            with pytest.raises(TooSlow, match="did not come"):
                transport.ask(timeouts=Timeouts(20, 20, 0.2))
        finally:
            stop.set()


def test_each_piece_of_a_request_has_its_own_time(to):
    def handle(connection):
        for _ in range(30):
            time.sleep(0.05)
            connection.recv(1 << 20, socket.MSG_WAITALL)
        connection.sendall(answer(b"at last"))
        connection.recv(1 << 20)

    with Listener(handle) as server, to(server.url) as transport:
        asked = transport.ask("/", method="POST", body=bytes(30 << 20), timeouts=Timeouts(20, 1, 20))

        assert asked == (200, b"at last")


def test_each_piece_of_an_answer_has_its_own_time(to):
    def handle(connection):
        request_on(connection)
        for byte in answer(b"abcdefgh"):
            connection.sendall(bytes([byte]))
            time.sleep(0.03)

    with Listener(handle) as server, to(server.url) as transport:
        assert transport.ask(timeouts=Timeouts(20, 20, 1)) == (200, b"abcdefgh")


def test_a_handshake_that_takes_too_long_is_given_up(to):
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        to(f"https://127.0.0.1:{silent.getsockname()[1]}") as transport,
        pytest.raises(TooSlowToConnect),
    ):
        transport.ask(timeouts=Timeouts(0.2, 20, 20))


# Ways


def test_a_server_that_is_not_there_is_told_so(to):
    with to("http://127.0.0.1:1") as transport, pytest.raises(NoConnection, match=r"Errno"):
        transport.ask()


def test_every_address_of_a_name_is_tried(to, monkeypatch):
    with Listener(echoes) as server:
        there = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))
        nowhere = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [nowhere, there, nowhere])

        with to("http://two-addresses.example") as transport:
            assert transport.ask("/there") == (200, b"/there")


# Ends


def test_a_task_that_is_cancelled_hangs_up_and_the_next_gets_its_own_answer():
    gone = threading.Event()
    asked = threading.Event()

    def handle(connection):
        while request := request_on(connection):
            target = request[0].split(" ")[1].encode()
            if target == b"/slow":
                asked.set()
                assert connection.recv(1) == b""
                gone.set()
            connection.sendall(answer(target))

    async def cancel(transport):
        slow = asyncio.create_task(transport.send("GET", "/slow", {}, None, AMPLE))
        await asyncio.to_thread(asked.wait, 20)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow

    with Listener(handle) as server, exchanging("asyncio", server.url) as exchange:
        exchange.ask("/first")
        exchange.runner.run(cancel(exchange.transport))

        assert gone.wait(20)
        assert exchange.ask("/next") == (200, b"/next")
        assert len(server.connections) == 2


def test_a_thread_that_waits_is_told_that_its_client_was_closed():
    asked, ends = threading.Event(), []

    def handle(connection):
        request_on(connection)
        asked.set()
        connection.recv(1)

    def wait(q):
        try:
            q.queues()
        except StoreClosed as error:
            ends.append(str(error))

    with Listener(handle) as server:
        q = Client(server.url)
        waiting = threading.Thread(target=wait, args=(q,))
        waiting.start()
        assert asked.wait(20)
        q.close()
        waiting.join(20)

        assert ends == ["The client was closed. Make a new one."]


def test_a_task_that_waits_is_told_that_its_client_was_closed():
    asked = threading.Event()

    def handle(connection):
        request_on(connection)
        asked.set()
        connection.recv(1)

    async def close_meanwhile(url):
        q = AsyncClient(url)
        waiting = asyncio.create_task(q.queues())
        await asyncio.to_thread(asked.wait, 20)
        await q.close()
        await waiting

    with Listener(handle) as server, pytest.raises(StoreClosed, match="The client was closed"):
        asyncio.run(close_meanwhile(server.url))


def test_an_async_client_may_be_used_in_one_loop_after_the_other():
    code = """
import asyncio, sys
from sqew import AsyncClient

q = AsyncClient(sys.argv[1])
for _ in range(2):
    assert asyncio.run(q.queues()) == []
asyncio.run(q.close())
"""
    with Listener(says(answer(b"[]"))) as server:
        subprocess.run([sys.executable, "-c", code, server.url], check=True)


def test_an_export_that_is_packed_is_not_from_a_sqew_server():
    packed = answer(b"abc\n", "200 OK", "content-encoding: gzip")
    with Listener(says(packed)) as server, Client(server.url) as q, pytest.raises(NotSqew):
        list(q.export("orders"))


def test_nothing_that_may_be_printed_shows_the_token(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://me:sEcret@127.0.0.1:1")
    with Client("http://example.org", token="tOken") as q:
        shown = "".join(map(repr, (q, q._transport, q._transport._route, q._transport._route._proxy)))

    assert "tOken" not in shown
    assert "sEcret" not in shown
