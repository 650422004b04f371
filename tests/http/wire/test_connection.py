"""HTTP/1.1 on one connection, byte for byte: requests in any pieces, and answers in their order."""

from __future__ import annotations

import contextlib
import gc
import re
import resource
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqew.http.wire.connection import Connection
from sqew.http.wire.contract import ConnectionLimits
from sqew.http.wire.exchange import Request
from tests.http.wire.echo import CHUNK, LOOPS, Running, echoing, read_all, read_until
from tests.support.serving import serving

HOST = b"Host: x\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.fixture(params=LOOPS, scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    with echoing(request.param) as running:
        yield running


def get(path: bytes, *headers: bytes, method: bytes = b"GET", version: bytes = b"1.1") -> bytes:
    return b"%b %b HTTP/%b\r\n%b%b\r\n" % (method, path, version, HOST, b"".join(h + b"\r\n" for h in headers))


def post(path: bytes, body: bytes, *headers: bytes) -> bytes:
    return get(path, b"Content-Length: %d" % len(body), *headers, method=b"POST") + body


def statuses(answers: bytes) -> list[int]:
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+) ", answers)]


def wait_until(condition, within: float = 30) -> None:
    """Wait until another thread has made a condition true; there is nothing that would notify."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


# Requests one after the other


def test_pipelined_requests_are_answered_in_their_order(server):
    answers = server.talk(post(b"/a", b"1") + get(b"/b") + post(b"/c", b"3") + LAST)

    assert re.findall(rb"\r\n\r\n(\w+ /\w+  \d?)", answers) == [
        b"POST /a  1",
        b"GET /b  ",
        b"POST /c  3",
        b"GET /last  ",
    ]


def test_a_slow_answer_holds_back_those_behind_it(server):
    server.run(server.echo.gate.clear)
    with server.connect() as connection:
        connection.sendall(get(b"/gated") + get(b"/quick") + LAST)
        wait_until(lambda: b"/gated" in server.echo.handled)
        assert b"/quick" not in server.echo.handled
        server.open_gate()
        answers = read_all(connection)

    assert answers.index(b"open") < answers.index(b"/quick") < answers.index(b"/last")


def test_thousands_of_pipelined_requests_sent_at_once_are_all_answered(server):
    with server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_048_576)
        connection.sendall(get(b"/a") * 3_000 + LAST)
        answers = read_all(connection)

    assert statuses(answers) == [200] * 3_001


def test_a_pipeline_whose_answers_nobody_reads_is_not_read_either():
    with echoing() as server, server.connect() as connection:
        connection.setblocking(False)
        sent = 0
        request = get(b"/big")
        with contextlib.suppress(BlockingIOError):
            while sent < 16_000_000:
                sent += connection.send(request * 1_000)
        wait_until(lambda: b"/big" in server.echo.handled)

        assert sent < 16_000_000
        assert len(server.echo.handled) < 5
        (one,) = server.server.connections
        assert len(one._queue) < 3_000


def test_http_1_0_closes_unless_it_asks_to_be_kept(server):
    closed = server.talk(get(b"/a", version=b"1.0"))
    kept = server.talk(get(b"/a", b"Connection: keep-alive", version=b"1.0") + get(b"/b", version=b"1.0"))

    assert b"connection: close" in closed
    assert b"connection: keep-alive" in kept
    assert statuses(kept) == [200, 200]


def test_connection_close_ends_it_and_what_comes_after_is_not_answered(server):
    answers = server.talk(LAST + get(b"/unasked"))

    assert statuses(answers) == [200]
    assert b"/unasked" not in server.echo.handled


def test_a_client_that_half_closes_gets_all_its_answers(server):
    with server.connect() as connection:
        connection.sendall(get(b"/a") + get(b"/b") + get(b"/c"))
        connection.shutdown(socket.SHUT_WR)
        answers = read_all(connection)

    assert statuses(answers) == [200, 200, 200]


def test_a_half_closed_client_gets_an_answer_that_takes_its_time(server):
    server.run(server.echo.gate.clear)
    with server.connect() as connection:
        connection.sendall(get(b"/gated") + get(b"/next"))
        connection.shutdown(socket.SHUT_WR)
        wait_until(lambda: any(c._has_left for c in server.server.connections))
        server.open_gate()
        answers = read_all(connection)

    assert statuses(answers) == [200, 200]


# Heads


def test_head_is_answered_without_a_body_but_with_its_length(server):
    answer = server.talk(get(b"/a", method=b"HEAD") + LAST)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-length: 9\r\n" in answer
    assert answer.partition(b"\r\n\r\n")[2].startswith(b"HTTP/1.1 200 OK")


def test_head_of_a_stream_has_no_chunks(server):
    answers = server.talk(get(b"/stream", method=b"HEAD") + LAST)

    assert statuses(answers) == [200, 200]
    assert b"one," not in answers
    assert b"\r\n0\r\n" not in answers


def test_an_answer_without_content_has_no_length_either(server):
    first, _, rest = server.talk(get(b"/nothing") + LAST).partition(b"\r\n\r\n")

    assert first.startswith(b"HTTP/1.1 204 ")
    assert b"content-length" not in first
    assert rest.startswith(b"HTTP/1.1 200 ")


def test_an_absolute_target_is_taken_as_its_path(server):
    answer = server.talk(get(b"http://somewhere:80/a/b?c=d", b"Connection: close"))

    assert answer.endswith(b"GET /a/b c=d ")


def test_options_of_everything_is_taken_as_the_root(server):
    assert server.talk(get(b"*", b"Connection: close", method=b"OPTIONS")).endswith(b"OPTIONS /  ")


def test_more_than_500_headers_are_refused(server):
    headers = [b"X-%d: 1" % number for number in range(498)]

    few = server.talk(get(b"/a", *headers, b"Connection: close"))
    many = server.talk(get(b"/a", *headers, b"X-Last: 1", b"Connection: close"))

    assert statuses(few) == [200]
    assert statuses(many) == [431]
    assert b"more than 500 headers" in many


def test_repeated_headers_are_joined_and_a_few_may_not_be(server):
    joined = server.talk(get(b"/a", b"X-A: 1", b"X-A: 2", b"Connection: close"))
    host_twice = server.talk(get(b"/a", b"Host: y"))

    assert statuses(joined) == [200]
    assert statuses(host_twice) == [400]
    assert b"two host headers" in host_twice


# Bodies


def test_a_chunked_body_is_put_together_and_its_extensions_and_trailers_are_dropped(server):
    head = get(b"/a", b"Transfer-Encoding: chunked", method=b"POST")
    chunks = b'3;name=value\r\nabc\r\n2;q="x"\r\nde\r\n0\r\nX-Trailer: 1\r\nHost: other\r\n\r\n'

    answers = server.talk(head + chunks + LAST)

    assert b"POST /a  abcde" in answers
    assert statuses(answers) == [200, 200]


def test_a_body_of_single_bytes_in_chunks_is_put_together(server):
    body = b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n"

    answers = server.talk(get(b"/a", b"Transfer-Encoding: chunked", method=b"POST") + body + LAST)

    assert b"POST /a  " + b"x" * 5_000 in answers


def test_100_continue_is_said_before_the_body(server):
    with server.connect() as connection:
        connection.sendall(get(b"/a", b"Content-Length: 2", b"Expect: 100-continue", method=b"POST"))
        invitation = read_until(connection, b"\r\n\r\n")
        connection.sendall(b"hi" + LAST)
        answers = read_all(connection)

    assert invitation == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert b"POST /a  hi" in answers


def test_100_continue_is_said_before_a_streamed_body(server):
    with server.connect() as connection:
        connection.sendall(get(b"/upload", b"Content-Length: 2", b"Expect: 100-Continue", method=b"POST"))
        invitation = read_until(connection, b"\r\n\r\n")
        connection.sendall(b"hi" + LAST)
        answers = read_all(connection)

    assert invitation == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert b"2 bytes" in answers


def test_100_continue_waits_for_the_answers_before_it(server):
    server.run(server.echo.gate.clear)
    with server.connect() as connection:
        connection.sendall(get(b"/gated") + get(b"/a", b"Content-Length: 2", b"Expect: 100-continue", method=b"POST"))
        wait_until(lambda: b"/gated" in server.echo.handled)
        server.open_gate()
        received = read_until(connection, b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.sendall(b"hi" + LAST)
        answers = read_all(connection)

    assert statuses(received) == [200, 100]
    assert statuses(answers) == [200, 200]


def test_a_client_that_expects_an_invitation_is_refused_without_one(server):
    answer = server.talk(get(b"/private", b"Content-Length: 2", b"Expect: 100-continue", method=b"POST"))

    assert statuses(answer) == [401]
    assert b"connection: close" in answer


def test_a_body_that_would_be_too_large_is_refused_without_an_invitation(server):
    answer = server.talk(get(b"/a", b"Content-Length: 99999999", b"Expect: 100-continue", method=b"POST"))

    assert statuses(answer) == [413]


def test_http_1_0_is_never_invited(server):
    head = get(b"/a", b"Content-Length: 2", b"Expect: 100-continue", method=b"POST", version=b"1.0")

    assert statuses(server.talk(head + b"hi")) == [200]


def test_a_refused_request_with_a_small_body_leaves_the_connection_usable(server):
    answers = server.talk(post(b"/private", b"x" * 1_000) + LAST)

    assert statuses(answers) == [401, 200]


def test_a_client_that_is_refused_while_it_sends_sees_why(server):
    with server.connect() as connection:
        connection.sendall(get(b"/private", b"Content-Length: 15000000", method=b"POST"))
        for _ in range(40):
            connection.sendall(CHUNK)
        answer = read_all(connection)

    assert statuses(answer) == [401]
    assert answer.endswith(b"Not for you.")


def test_a_body_in_chunks_that_grows_too_large_is_refused_while_it_comes():
    with echoing(bounds=ConnectionLimits(max_body_bytes=100_000)) as server, server.connect() as connection:
        connection.sendall(get(b"/a", b"Transfer-Encoding: chunked", method=b"POST"))
        connection.sendall(b"10000\r\n" + CHUNK + b"\r\n10000\r\n" + CHUNK)
        answer = read_all(connection)

    assert statuses(answer) == [413]


# Upgrades


@pytest.mark.parametrize("framing", [b"Content-Length: 45", b"Transfer-Encoding: chunked"])
def test_the_body_of_a_request_to_upgrade_is_not_taken_for_a_request(server, framing):
    hidden = b"GET /smuggled HTTP/1.1\r\nHost: x\r\nA: bcdef\r\n\r\n"
    body = hidden if framing.startswith(b"Content") else b"2d\r\n" + hidden + b"\r\n0\r\n\r\n"
    assert len(hidden) == 45

    answers = server.talk(get(b"/a", framing, b"Connection: Upgrade", b"Upgrade: h2c", method=b"POST") + body)

    assert statuses(answers) == [200]
    assert answers.endswith(b"POST /a  " + hidden)
    assert b"/smuggled" not in server.echo.handled


def test_a_request_to_upgrade_is_answered_in_http_1_1_and_the_connection_goes_on(server):
    upgrade = get(b"/a", b"Connection: Upgrade", b"Upgrade: websocket")

    assert statuses(server.talk(upgrade * 3_000 + LAST)) == [200] * 3_001


def test_connect_is_refused_and_nothing_behind_it_is_read(server):
    answers = server.talk(get(b"x:443", method=b"CONNECT") + get(b"/tunnelled"))

    assert statuses(answers) == [400]
    assert b"/tunnelled" not in server.echo.handled


# Streams


def test_a_stream_comes_in_chunks_and_the_connection_goes_on(server):
    answers = server.talk(get(b"/stream") + LAST)

    assert b"\r\n4\r\none,\r\n4\r\ntwo,\r\n5\r\nthree\r\n0\r\n\r\nHTTP/1.1 200 OK" in answers


def test_a_stream_to_http_1_0_ends_with_the_connection(server):
    answer = server.talk(get(b"/stream", b"Connection: keep-alive", version=b"1.0"))

    assert answer.endswith(b"\r\n\r\none,two,three")
    assert b"transfer-encoding" not in answer


def test_a_stream_that_fails_is_not_ended_as_if_it_were_whole(server):
    received = b""
    with server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(get(b"/broken") + get(b"/next"))
        received = read_all(connection)

    assert not received.endswith(b"0\r\n\r\n")
    assert b"/next" not in received


def test_a_stream_goes_no_faster_than_its_reader(server):
    server.echo.streamed = 0
    with server.connect() as connection:
        connection.sendall(get(b"/endless"))
        read_until_size = connection.recv(65_536)
        wait_until(lambda: any(c._drained is not None for c in server.server.connections))
        produced = server.echo.streamed

    assert read_until_size
    assert produced < 32_000_000
    wait_until(lambda: not server.server.connections)


def test_a_stream_whose_reader_vanished_is_stopped(server):
    with server.connect() as connection:
        connection.sendall(get(b"/endless"))
        assert connection.recv(65_536)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    wait_until(lambda: not server.server.connections)
    wait_until(lambda: not server.echo._tasks)


def test_an_upload_is_read_while_it_comes(server):
    server.echo.uploaded = 0
    with server.connect() as connection:
        connection.sendall(get(b"/upload", b"Content-Length: %d" % (3 * len(CHUNK)), method=b"POST") + CHUNK)
        wait_until(lambda: server.echo.uploaded == len(CHUNK))
        connection.sendall(CHUNK * 2 + LAST)
        answers = read_all(connection)

    assert b"196608 bytes" in answers
    assert statuses(answers) == [200, 200]


def test_an_upload_to_a_slow_handler_is_held_up_and_not_timed_out():
    with echoing(bounds=ConnectionLimits(body_s=0.2)) as server, server.connect() as connection:
        size = 200 * len(CHUNK)
        connection.sendall(get(b"/upload-gated", b"Content-Length: %d" % size, method=b"POST"))
        connection.setblocking(False)
        sent, silent_since = 0, time.monotonic()
        while time.monotonic() - silent_since < 0.6:
            try:
                sent += connection.send(CHUNK)
                silent_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        assert sent < size
        server.open_gate()
        connection.settimeout(10)
        connection.sendall(bytes(size - sent))
        answer = read_until(connection, b"bytes")

    assert answer.endswith(b"%d bytes" % size)


def test_an_upload_that_is_answered_early_is_not_read_as_requests(server):
    with server.connect() as connection:
        connection.sendall(get(b"/upload-refused", b"Content-Length: 1000000", method=b"POST"))
        connection.sendall(get(b"/smuggled") * 100)
        answer = read_all(connection)

    assert statuses(answer) == [409]
    assert b"connection: close" in answer
    assert b"/smuggled" not in server.echo.handled


def test_an_upload_that_ends_too_soon_fails(server):
    with server.connect() as connection:
        connection.sendall(get(b"/upload", b"Content-Length: 100", method=b"POST") + b"half")
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)

    assert statuses(answer) == [400]
    assert b"ended before it was complete" in answer


# Any pieces


def _pipeline() -> st.SearchStrategy[list[bytes]]:
    token = st.text("abcXYZ019", min_size=1, max_size=8).map(str.encode)
    body = st.binary(max_size=40)
    chunks = st.lists(st.binary(min_size=1, max_size=20), max_size=4).map(
        lambda parts: b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    )
    return st.lists(
        st.one_of(
            token.map(lambda name: get(b"/" + name)),
            st.builds(lambda name, content: post(b"/" + name, content), token, body),
            st.builds(
                lambda name, content: get(b"/" + name, b"Transfer-Encoding: chunked", method=b"POST") + content,
                token,
                chunks,
            ),
            token.map(lambda name: get(b"/" + name, b"Upgrade: h2c", b"Connection: upgrade")),
            token.map(lambda name: get(b"/" + name, method=b"HEAD")),
            token.map(lambda name: get(b"/stream?" + name)),
            body.map(lambda content: post(b"/upload", content)),
            body.map(lambda content: post(b"/private", content)),
        ),
        max_size=5,
    )


@settings(max_examples=60)
@given(_pipeline(), st.data())
def test_any_split_of_a_pipeline_gives_the_same_answers(server, requests, data):
    raw = b"".join(requests) + LAST
    cuts = data.draw(st.lists(st.integers(1, len(raw) - 1), unique=True, max_size=30).map(sorted))

    whole = server.talk(raw)
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
            connection.sendall(raw[start:end])
        split = read_all(connection)

    assert undated(split) == undated(whole)
    assert len(statuses(whole)) == len(requests) + 1


def test_a_pipeline_that_comes_byte_by_byte_gives_the_same_answers(server):
    raw = post(b"/a", b"hello") + get(b"/stream") + get(b"/b", b"Transfer-Encoding: chunked", method=b"POST")
    raw += b"3;x\r\nabc\r\n0\r\nT: 1\r\n\r\n" + post(b"/upload", b"12345") + LAST

    whole = server.talk(raw)
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(raw)):
            connection.sendall(raw[at : at + 1])
        split = read_all(connection)

    assert undated(split) == undated(whole)
    assert statuses(whole) == [200] * 5


def undated(answers: bytes) -> bytes:
    return re.sub(rb"date: [^\r]+", b"date: ", answers)


# What is left behind


def test_closed_connections_do_not_wait_for_the_garbage_collector(server):
    gc.collect()
    gc.disable()
    try:
        for raw in (LAST, get(b"/private") + LAST, b"not http", get(b"/stream") + LAST, get(b"/a", b"Host: y")):
            server.talk(raw)
        with server.connect() as connection:
            connection.sendall(post(b"/a", b"x")[:-1])
        wait_until(lambda: not server.server.connections)
        # Two turns of the loop: the transports let go of their protocols only after they have told them.
        server.run(lambda: None)
        server.run(lambda: None)
        left = [one for one in gc.get_objects() if isinstance(one, Connection | Request)]
    finally:
        gc.enable()

    assert left == []


# Other ways in


def test_a_server_may_listen_at_a_unix_socket(tmp_path):
    path = tmp_path / "socket"
    with serving(tmp_path, "--durability", "fast", "--unix-socket", str(path)) as running:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(path))
            connection.sendall(b"GET /queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = read_all(connection)
        code = running.stop()

    assert statuses(answer) == [200]
    assert code == 0


# Too many


def test_there_are_never_more_connections_than_files_may_be_open():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    try:
        with echoing() as server:
            most = server.server.limits.max_connections
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert 0 < most < 300


def test_one_connection_too_many_is_told_so():
    with echoing(bounds=ConnectionLimits(max_connections=2)) as server:
        with server.connect() as first, server.connect() as second:
            first.sendall(get(b"/a"))
            second.sendall(get(b"/a"))
            read_until(first, b"GET /a  ")
            read_until(second, b"GET /a  ")
            with server.connect() as third:
                refused = read_all(third)
            first.sendall(LAST)
            read_all(first)
        served = server.talk(LAST)

    assert statuses(refused) == [503]
    assert b"retry-after: 1\r\n" in refused
    assert statuses(served) == [200]
