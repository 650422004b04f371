"""Input that is not HTTP, or not quite: a quick 4xx or a closed connection, from a server that works on as before."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.serving import Serving, serving

HOST = b"Host: localhost\r\n"
POST = b"POST /queues HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
QUICK_S = 5.0
"""Long before a deadline: what waits for the rest of a head is cut off after ten seconds."""

CORPUS: dict[str, bytes] = {
    # The request line
    "lower-case method": b"get / HTTP/1.1\r\n" + HOST + b"\r\n",
    "unknown method": b"FROBNICATE / HTTP/1.1\r\n" + HOST + b"\r\n",
    "method with a space before it": b" GET / HTTP/1.1\r\n" + HOST + b"\r\n",
    "method with a tab after it": b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "method that is not ASCII": b"G\xc3\x8bT / HTTP/1.1\r\n" + HOST + b"\r\n",
    "no version": b"GET /\r\n" + HOST + b"\r\n",
    "no target": b"GET HTTP/1.1\r\n" + HOST + b"\r\n",
    "two spaces": b"GET  /nowhere HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET / HTTP/0.9\r\n" + HOST + b"\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\n" + HOST + b"\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "HTTP/11.1": b"GET / HTTP/11.1\r\n" + HOST + b"\r\n",
    "HTTP/1.": b"GET / HTTP/1.\r\n" + HOST + b"\r\n",
    "version in lower case": b"GET / http/1.1\r\n" + HOST + b"\r\n",
    "not HTTP": b"GET /nowhere RTSP/1.0\r\n" + HOST + b"\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    "noise": bytes(Random(7).randbytes(4_096)),
    "NUL in the target": b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
    "bytes in the target": b"GET /\xff\xfe HTTP/1.1\r\n" + HOST + b"\r\n",
    "space in the target": b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n",
    "target without a slash": b"GET queues HTTP/1.1\r\n" + HOST + b"\r\n",
    "target of another scheme": b"GET ftp://x/queues HTTP/1.1\r\n" + HOST + b"\r\n",
    "target without a host": b"GET http:///queues HTTP/1.1\r\n" + HOST + b"\r\n",
    "star of GET": b"GET * HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT": b"CONNECT x:443 HTTP/1.1\r\n" + HOST + b"\r\n" + SMUGGLED,
    "CONNECT with a body": b"CONNECT /a HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\n" + SMUGGLED,
    "bad percent-encoding": b"GET /queues/%ff%fe HTTP/1.1\r\n" + HOST + b"\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "bare CR": b"GET / HTTP/1.1\rHost: localhost\r\r",
    "endless URL": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "endless URL without an end": b"GET /" + b"a" * 300_000,
    # Headers
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + b"Host: y\r\n\r\n",
    "folded header": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n",
    "folded first header": b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\n" + HOST + b"A : b\r\n\r\n",
    "space in a name": b"GET / HTTP/1.1\r\n" + HOST + b"A b: c\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\n" + HOST + b": c\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\n" + HOST + b"A\r\n\r\n",
    "NUL in a name": b"GET / HTTP/1.1\r\n" + HOST + b"A\x00: b\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\x00c\r\n\r\n",
    "LF in a value": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\nC: d\r\n\r\n",
    "CR in a value": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\rC: d\r\n\r\n",
    "control character in a value": b"GET / HTTP/1.1\r\n" + HOST + b"A: \x01\r\n\r\n",
    "bytes in a name": b"GET / HTTP/1.1\r\n" + HOST + b"\xc3\xa9: b\r\n\r\n",
    "endless header": b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"b" * 300_000,
    "endless header name": b"GET / HTTP/1.1\r\n" + HOST + b"a" * 300_000,
    "endless headers": b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"A%d: b\r\n" % n for n in range(30_000)),
    "one header very often": b"GET / HTTP/1.1\r\n" + HOST + b"a:\r\n" * 60_000 + b"\r\n",
    "two credentials": b"GET / HTTP/1.1\r\n" + HOST + b"Authorization: a\r\nAuthorization: b\r\n\r\n",
    # Lengths
    "negative length": POST + b"Content-Length: -1\r\n\r\n",
    "signed length": POST + b"Content-Length: +5\r\n\r\nhello",
    "hexadecimal length": POST + b"Content-Length: 0x5\r\n\r\nhello",
    "empty length": POST + b"Content-Length:\r\n\r\n",
    "length with a comma": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "length with a space": POST + b"Content-Length: 5 5\r\n\r\nhello",
    "length that is too long to count": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "length of 16 EiB": POST + b"Content-Length: 18446744073709551615\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "the same length twice": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    # Chunks
    "chunk size of letters": CHUNKED + b"xyz\r\nabc\r\n0\r\n\r\n",
    "negative chunk size": CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n",
    "chunk size with 0x": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "chunk size with a space": CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
    "chunk size that overflows": CHUNKED + b"10000000000000003\r\nabc\r\n0\r\n\r\n",
    "chunk size that is empty": CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
    "chunk longer than its size": CHUNKED + b"3\r\nabcdef\r\n0\r\n\r\n",
    "chunk size ended by LF": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "chunk ended by LF": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "chunk extension with LF": CHUNKED + b"3;a\nabc\r\n0\r\n\r\n",
    "endless chunk extension": CHUNKED + b"3;" + b"a" * 300_000,
    "endless trailer": CHUNKED + b"3\r\nabc\r\n0\r\nA: " + b"b" * 300_000,
    "endless trailers": CHUNKED + b"3\r\nabc\r\n0\r\n" + b"A: b\r\n" * 60_000,
    "bad trailer": CHUNKED + b"3\r\nabc\r\n0\r\nno colon\r\n\r\n",
    "length in a trailer": CHUNKED + b"3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n",
    # Smuggling
    "CL.TE": POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE.CL": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE.TE, unknown coding last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE.TE, twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE.TE, chunked twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE with another coding first": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE with a prefix": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE with a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE with a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE with quotes": POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n' + SMUGGLED,
    "TE with a parameter": POST + b"Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE that is empty": POST + b"Transfer-Encoding:\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE on a folded line": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE of identity": POST + b"Transfer-Encoding: identity\r\n\r\n" + SMUGGLED,
    "TE in HTTP/1.0": b"POST /queues HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "length hidden behind a CR": POST + b"A: b\rContent-Length: 60\r\n\r\n" + SMUGGLED,
    "length hidden behind a NUL": POST + b"A: b\x00\r\nContent-Length: 60\r\n\r\n" + SMUGGLED,
    "chunk extension with a CR": CHUNKED + b"0;a\rb\r\n\r\n" + SMUGGLED,
    "upgrade with a body": POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 43\r\n\r\n" + SMUGGLED,
    "upgrade with chunks": POST
    + b"Connection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n2b\r\n"
    + SMUGGLED
    + b"\r\n0\r\n\r\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("malformed"), "--durability", "fast") as running:
        assert running.call("POST", "/queues", {"name": "good"}).status == 201
        yield running


def answers_of(server: Serving, raw: bytes) -> tuple[list[int], bytes]:
    """Return the statuses and bytes of all answers. A reset while the client still sends is no failure."""
    received = b""
    with server.connect(timeout=QUICK_S) as connection, contextlib.suppress(OSError):
        with contextlib.suppress(OSError):
            connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65_536):
            received += chunk
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+) ", received)], received


@pytest.mark.parametrize("name", CORPUS)
def test_what_is_not_http_is_refused_quickly(server, name):
    began = time.monotonic()
    statuses, received = answers_of(server, CORPUS[name])
    took = time.monotonic() - began

    assert len(statuses) == 1, received
    assert 400 <= statuses[0] < 500, received
    assert took < QUICK_S
    assert b"smuggled" not in received


def test_the_server_still_serves_and_says_nothing_of_it_in_its_log(server):
    for raw in CORPUS.values():
        answers_of(server, raw)

    assert server.call("POST", "/queues/good/messages", {"payload": 1}).status == 201
    assert "Traceback" not in server.log.read_text()


def test_thousands_of_malformed_requests_leave_memory_as_it_was(server):
    def onslaught(rounds: int) -> None:
        for _ in range(rounds):
            for raw in CORPUS.values():
                answers_of(server, raw)

    onslaught(8)
    before = resident_kib(server.process.pid)
    onslaught(25)
    after = resident_kib(server.process.pid)

    assert 25 * len(CORPUS) > 2_000
    assert after - before < 4_096, f"{before} KiB before, {after} KiB after"


CHUNKS = b'Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\nd;e\r\n{"payload":1}\r\n0\r\nT: x\r\n\r\n'
VALID = [
    b"GET /queues HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b'POST /queues/good/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n{"payload":1}',
    b"POST /queues/good/poll?batch=2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /queues/good/messages HTTP/1.1\r\n" + CHUNKS,
    b"HEAD /queues HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET /queues HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"POST /queues/good/ack HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\n{\"id\":1}",
]  # fmt: skip
SPECIAL = [b"\r\n", b"\r", b"\n", b"\x00", b" ", b":", b";", b"0", b"-1", b"ffffffffffffffff", b"chunked", b"\r\n\r\n"]


def mutated(random: Random) -> bytes:
    raw = bytearray(b"".join(random.choices(VALID, k=random.randint(1, 3))))
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(raw) + 1)
        match random.randrange(5):
            case 0:
                raw[at:at] = random.choice(SPECIAL)
            case 1:
                del raw[at : at + random.randint(1, 8)]
            case 2:
                raw[at : at + 1] = random.randbytes(1)
            case 3:
                raw[at:at] = raw[at : at + random.randint(1, 40)]
            case _:
                raw[at : at + 4] = random.choice(SPECIAL)
    return bytes(raw)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_requests_never_break_the_server(server, seed):
    random = Random(seed)
    for _ in range(400):
        raw = mutated(random)
        cut = random.randrange(len(raw) + 1)
        received = b""
        with server.connect(timeout=QUICK_S) as connection, contextlib.suppress(OSError):
            connection.sendall(raw[:cut])
            connection.sendall(raw[cut:])
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65_536):
                received += chunk
        statuses = [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+) ", received)]
        assert all(status < 500 for status in statuses), (raw, received)

    assert server.call("GET", "/queues/good").status == 200
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize("request_", VALID)
def test_a_valid_request_cut_off_at_any_byte_is_never_answered_as_whole(server, request_):
    for end in range(len(request_)):
        statuses, received = answers_of(server, request_[:end])
        assert all(status == 100 or 400 <= status < 500 for status in statuses), (request_[:end], received)


def resident_kib(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])
