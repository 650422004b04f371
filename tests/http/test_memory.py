"""Memory that clients can make the server hold, with and without credentials, and without reading their answers."""

import contextlib
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from tests.support.serving import serving

MIB = 1024 * 1024
WITHIN_S = 20.0
TOKEN = "open-sesame-7e1f"
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"
ANYBODY = (
    "Authorization: AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/sqs/aws4_request, "
    "SignedHeaders=host, Signature=0\r\n"
)


def held(server) -> float:
    """Return the server's peak memory, in MiB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def begin(server, path, size, sent, headers=FORM):
    """Return a connection that has sent the head of a request and a part of its body."""
    connection = server.connect()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {size}\r\n\r\n"
    with contextlib.suppress(ConnectionError, TimeoutError):
        connection.sendall(head.encode() + b"x" * sent)
    return connection


def answered(connection) -> bytes:
    """Return all that comes back before the connection is closed."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while chunk := connection.recv(65_536):
            received += chunk
    return received


@pytest.fixture
def small(tmp_path):
    """Yield a server that holds 2 MiB of large requests."""
    flags = ("--durability", "fast", "--max-buffered-bytes", str(2 * MIB), "--max-request-bytes", str(2 * MIB))
    with serving(tmp_path, *flags) as server:
        assert server.call("POST", "/queues", {"name": "orders"}).status == 201
        yield server


def send(server, size):
    return server.call("POST", "/queues/orders/messages", {"payload": "x" * size}).status


def becomes(what, wanted):
    deadline = time.monotonic() + WITHIN_S
    while (found := what()) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)


def test_large_requests_are_refused_while_as_many_are_held_and_small_ones_get_through(small):
    with begin(small, "/queues/orders/messages", 2 * MIB - 1000, 2 * MIB - 2000, "Content-Type: application/json\r\n"):
        becomes(lambda: small.figure("http_buffered_bytes"), 2 * MIB - 2000)

        refused = small.call("POST", "/queues/orders/messages", {"payload": "x" * 500_000})
        assert refused.status == 429
        assert refused.json["error"]["code"] == "overloaded"
        assert "max_buffered_bytes" in refused.json["error"]["message"]
        assert refused.headers["retry-after"] == "1"
        assert [send(small, 1_000) for _ in range(20)] == [201] * 20

    becomes(lambda: small.figure("http_buffered_bytes"), 0)
    assert send(small, 500_000) == 201


def test_a_body_that_grows_beyond_what_may_be_held_is_refused_though_its_head_did_not_say_so(small):
    chunks = (b"10000\r\n" + b"x" * 65_536 + b"\r\n") * 24
    head = b"POST /queues/orders/enqueue HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with small.connect() as first, small.connect() as second:
        first.sendall(head + chunks)
        becomes(lambda: small.figure("http_buffered_bytes"), 24 * 65_536)
        with contextlib.suppress(ConnectionError):
            second.sendall(head + chunks)

        assert answered(second).startswith(b"HTTP/1.1 429 ")


def test_what_was_answered_is_held_no_longer(small):
    assert [send(small, 900_000) for _ in range(10)] == [201] * 10
    body = b'{"payload":"%b"}' % (b"x" * 900_000)
    head = b"POST /queues/orders/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    refused = b"POST /queues/nowhere/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with small.connect() as connection:
        for _ in range(10):
            connection.sendall(head + body + refused + body)
            received = b""
            while received.count(b"HTTP/1.1 ") < 2:
                received += connection.recv(65_536)
            assert b"HTTP/1.1 201 " in received
            assert b"HTTP/1.1 404 " in received


IMPORTS = ["/queues/orders/import", "/v1/queues/orders/bulk"]
LINES = "Content-Type: application/x-ndjson\r\n"


@pytest.mark.parametrize("path", IMPORTS)
def test_the_beginning_of_a_long_line_counts_with_what_is_held(small, path):
    with begin(small, path, 2 * MIB, 2 * MIB - 1000, LINES):
        becomes(lambda: small.figure("http_buffered_bytes"), 2 * MIB - 1000)

        with begin(small, path, MIB, MIB - 1000, LINES) as second:
            assert answered(second).startswith(b"HTTP/1.1 429 ")
        lines = b'{"payload":1}\n' * 20_000
        assert small.call("POST", path, lines, {"Content-Type": "application/x-ndjson"}).status == 200

    becomes(lambda: small.figure("http_buffered_bytes"), 0)
    long = b'{"payload":"%b"}\n' % (b"x" * 900_000)
    assert small.call("POST", path, long * 10, {"Content-Type": "application/x-ndjson"}).json["imported"] == 10
    assert small.figure("http_buffered_bytes") == 0


@pytest.mark.parametrize("path", IMPORTS)
def test_what_an_import_held_goes_with_its_client(tmp_path, path):
    with serving(tmp_path, "--durability", "fast") as server:
        server.call("POST", "/queues", {"name": "orders"})
        before = held(server)
        for _ in range(10):
            with begin(server, path, 16 * MIB, 12 * MIB, LINES):
                becomes(lambda: server.figure("http_buffered_bytes"), 12 * MIB)
            becomes(lambda: server.figure("http_buffered_bytes"), 0)

        assert held(server) - before < 50


def test_bodies_of_strangers_are_not_received_where_a_token_is_needed(tmp_path):
    with (
        serving(tmp_path, "--durability", "fast", env={"SQEW_AUTH_TOKEN": TOKEN}) as server,
        contextlib.ExitStack() as stack,
    ):
        before = held(server)
        for headers in ("", ANYBODY, "Authorization: Bearer nonsense\r\n"):
            for path in ("/", "/000000000000/orders", "/queues", "/v1/messages", "/no/such/route"):
                for _ in range(3):
                    stack.enter_context(begin(server, path, 15 * MIB, 8 * MIB, FORM + headers))
        assert server.call("GET", "/queues", None, {"Authorization": f"Bearer {TOKEN}"}).status == 200

        # All of them would be 360 MiB.
        assert held(server) - before < 60


def test_small_bodies_of_strangers_are_not_kept(tmp_path):
    with (
        serving(tmp_path, "--durability", "fast", env={"SQEW_AUTH_TOKEN": TOKEN}) as server,
        contextlib.ExitStack() as stack,
    ):
        before = held(server)
        for _ in range(300):
            stack.enter_context(begin(server, "/queues", 65_536, 65_535))
        assert server.call("GET", "/queues", None, {"Authorization": f"Bearer {TOKEN}"}).status == 200

        # All of them would be 19 MiB.
        assert held(server) - before < 8


PIPELINED = {
    "bodies": b"POST /queues HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536\r\n\r\n" + b"x" * 65_536,
    "heads": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 60_000 + b"\r\n\r\n",
    "tiny": b"GET /livez HTTP/1.1\r\nHost:a\r\n\r\n" * 2_000,
}


def pile_up(server, kind):
    """Send requests without reading an answer until the server takes no more; return the connection."""
    connection = server.connect(timeout=1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    with contextlib.suppress(TimeoutError, ConnectionError):
        connection.sendall(b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        for _ in range(100):
            connection.sendall(PIPELINED[kind])
    return connection


@pytest.mark.parametrize("kind", PIPELINED)
@pytest.mark.parametrize("token", ["", TOKEN], ids=["open", "token"])
def test_requests_behind_answers_that_nobody_reads_are_not_piled_up(tmp_path, kind, token):
    env = {"SQEW_AUTH_TOKEN": token} if token else {}
    with (
        serving(tmp_path, "--durability", "fast", env=env) as server,
        ThreadPoolExecutor(24) as clients,
        contextlib.ExitStack() as stack,
    ):
        assert server.call("GET", "/v1/openapi.json").status == 200  # made once, of 20 MiB
        before = held(server)
        for connection in clients.map(pile_up, [server] * 24, [kind] * 24):
            stack.enter_context(connection)
        assert server.call("GET", "/livez").status == 200

        # 1.6 to 3.3 MiB each, where 32 requests wait however large they are.
        assert (held(server) - before) / 24 < 1.2


def test_requests_that_had_to_wait_because_they_are_large_are_answered_in_order(tmp_path):
    sizes = [60_000, 10, 65_000, 70_000, 10, 65_536, 300_000, 10, 10] * 20
    with serving(tmp_path, "--durability", "fast") as server, server.connect(30) as connection:
        server.call("POST", "/queues", {"name": "orders"})
        bodies = [json.dumps({"payload": "x" * size}).encode() for size in sizes]
        head = b"POST /queues/orders/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        sending = Thread(target=connection.sendall, args=[b"".join(head % len(body) + body for body in bodies)])
        sending.start()
        received = b""
        while received.count(b"HTTP/1.1 ") < len(sizes) or not received.endswith(b"}"):
            received += connection.recv(65_536)
        sending.join()

        assert [int(id) for id in re.findall(rb'"message_id":(\d+)', received)] == [*range(1, len(sizes) + 1)]
        exported = server.call("GET", "/queues/orders/export").body.splitlines()
        assert [len(json.loads(line)["body"]) for line in exported] == sizes


@pytest.mark.parametrize(
    "line", ["GET /livez", "GET /docs", "OPTIONS /", "OPTIONS /queues", "POST /queues/orders/poll"]
)
@pytest.mark.parametrize("framing", [f"Content-Length: {2 * MIB}", "Transfer-Encoding: chunked"])
def test_bodies_that_nothing_asks_for_take_no_room_from_others(small, line, framing):
    body = (b"10000\r\n" + b"x" * 65_536 + b"\r\n") * 32 if "chunked" in framing else b"x" * 2 * MIB
    with small.connect() as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(f"{line} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode() + body)
        answer = answered(connection)

        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"takes no body" in answer
        assert small.figure("http_buffered_bytes") == 0


@pytest.mark.parametrize("headers", ["", ANYBODY], ids=["nobody", "anybody"])
def test_40_connections_that_send_16_mib_each_are_not_all_held(tmp_path, headers):
    flags = ("--durability", "fast", "--max-buffered-bytes", str(32 * MIB))
    with serving(tmp_path, *flags) as server, contextlib.ExitStack() as stack:
        before = held(server)
        for _ in range(40):
            stack.enter_context(begin(server, "/", 16 * MIB - 1, 15 * MIB, FORM + headers))
        assert server.call("GET", "/queues").status == 200

        assert held(server) - before < 100


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/queues/orders/export", "*/*"),
        ("/v1/queues/orders/export", "application/vnd.apache.arrow.stream"),
        ("/queues/done/export?archive=true", "*/*"),
    ],
    ids=["lines", "arrow", "archive"],
)
def test_exports_that_nobody_reads_cost_little(tmp_path, path, accept):
    with serving(tmp_path, "--durability", "fast") as server, contextlib.ExitStack() as stack:
        for queue, keep in (("orders", "delete"), ("done", "archive")):
            server.call("POST", "/queues", {"name": queue, "keep": keep})
            for _ in range(40):
                server.call("POST", f"/queues/{queue}/messages", {"payload": "x" * 1_000_000})
        while (taken := server.call("POST", "/queues/done/poll?batch=5").json["messages"]) != []:
            acks = [{"id": message["id"], "token": message["token"]} for message in taken]
            assert server.call("POST", "/queues/done/ack", acks).status == 200
        before = held(server)

        for _ in range(20):
            connection = stack.enter_context(server.connect())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
        # What is read for the last one has been read when others have had their turn.
        assert [server.call("GET", "/queues").status for _ in range(20)] == [200] * 20

        assert held(server) - before < 20 * (3 if "arrow" not in accept else 11)


def test_an_export_is_whole_though_it_is_read_slowly_and_its_messages_differ_in_size(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server:
        server.call("POST", "/queues", {"name": "orders"})
        sizes = [1, 900_000, 10, 100_000, 900_000, 1, 300_000] * 5 + [5] * 200
        for size in sizes:
            server.call("POST", "/queues/orders/messages", {"payload": "x" * size})
        with server.connect(30) as connection:
            connection.sendall(b"GET /queues/orders/export HTTP/1.0\r\nHost: localhost\r\n\r\n")
            received = b""
            while chunk := connection.recv(500_000):
                received += chunk

    lines = received.partition(b"\r\n\r\n")[2].splitlines()
    assert [line.count(b"x" * 1) >= size for line, size in zip(lines, sizes, strict=True)] == [True] * len(sizes)
