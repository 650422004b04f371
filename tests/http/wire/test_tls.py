"""Encrypted connections, which differ in the clients they accept, in how they end, and in the time for a handshake."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from sqew.http.wire.contract import ConnectionLimits
from tests.http.wire.echo import LOOPS, Running, echoing, read_all, read_until
from tests.http.wire.test_malformed import CORPUS, answers_of
from tests.support.serving import Serving, serving

GET = b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Certificates(NamedTuple):
    """A server's certificate and key, and what a client needs to trust it."""

    cert: Path
    key: Path
    client: ssl.SSLContext
    server: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(folder / "cert.pem", append=number > 0)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued.configure_cert(server)
    return Certificates(folder / "cert.pem", folder / "key.pem", client, server)


@pytest.fixture(params=LOOPS, scope="module")
def echo(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Running]:
    bounds = ConnectionLimits(header_s=0.4, body_s=0.6, idle_s=2)
    with echoing(request.param, bounds, (certificates.server, certificates.client)) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Serving]:
    flags = ["--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key), "--durability", "fast"]
    with serving(tmp_path_factory.mktemp("tls"), *flags) as running:
        yield running


def call(server: Serving, certificates: Certificates, method: str, path: str, body: str | None = None) -> int:
    connection = http.client.HTTPSConnection("localhost", server.port, context=certificates.client, timeout=10)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_server_with_a_certificate_serves_https(server, certificates):
    assert server.url.startswith("https://")
    assert call(server, certificates, "POST", "/queues", '{"name": "secret"}') == 201
    assert call(server, certificates, "POST", "/queues/secret/messages", '{"payload": 1}') == 201


def test_http_to_an_https_port_is_not_served(server, certificates):
    assert not server.talk(LAST, timeout=2).startswith(b"HTTP/1.1 2")

    assert call(server, certificates, "GET", "/queues") == 200


def test_old_versions_of_tls_are_refused(server, certificates):
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="deprecated"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1

    with server.connect() as connection, pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(connection)

    assert call(server, certificates, "GET", "/queues") == 200


def test_noise_instead_of_a_handshake_changes_nothing(server, certificates):
    for raw in list(CORPUS.values())[:40]:
        answers_of(server, raw)

    assert call(server, certificates, "GET", "/queues") == 200
    assert "Traceback" not in server.log.read_text()


def test_it_ends_by_signal_with_a_request_in_flight(tmp_path, certificates):
    flags = ["--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key), "--durability", "fast"]
    with serving(tmp_path, *flags) as server:
        assert call(server, certificates, "POST", "/queues", '{"name": "empty"}') == 201
        with certificates.client.wrap_socket(server.connect(), server_hostname="localhost") as connection:
            connection.sendall(b"POST /queues/empty/poll?wait_ms=50000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert call(server, certificates, "GET", "/queues") == 200
            server.process.send_signal(signal.SIGTERM)
            answer = read_until(connection, b"}")
        code = server.process.wait(20)

    assert answer.endswith(b'{"messages":[]}')
    assert code == 0
    assert "Traceback" not in server.log.read_text()


def test_pipelined_requests_and_streams_are_answered_in_order(echo):
    with echo.connect() as connection:
        connection.sendall(GET % b"a" + GET % b"stream" + GET % b"b" + LAST)
        answers = read_all(connection)

    assert len(re.findall(rb"HTTP/1\.1 200 ", answers)) == 4
    assert answers.index(b"GET /a") < answers.index(b"three") < answers.index(b"GET /b") < answers.index(b"/last")


def test_a_large_answer_arrives_whole(echo):
    with echo.connect() as connection:
        connection.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = read_all(connection)

    assert len(answer.partition(b"\r\n\r\n")[2]) == 8_000_000


def test_a_large_upload_arrives_whole(echo):
    with echo.connect() as connection:
        connection.sendall(b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n" + bytes(5_000_000))
        answer = read_until(connection, b"bytes")

    assert answer.endswith(b"5000000 bytes")


def test_a_refusal_reaches_a_client_that_still_sends(echo):
    with echo.connect() as connection:
        connection.sendall(b"POST /private HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + bytes(500_000))
        answer = read_until(connection, b"Not for you.")

    assert answer.startswith(b"HTTP/1.1 401 ")


def test_half_a_head_is_answered_with_408(echo):
    with echo.connect() as connection:
        connection.sendall(b"GET /a HTT")
        answer = read_until(connection, b"again.")

    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("part", [b"", b"\x16\x03\x01\x02\x00\x01"])
def test_a_handshake_that_stops_is_cut_off(echo, part):
    with socket.create_connection(("127.0.0.1", echo.port), 10) as connection:
        began = time.monotonic()
        connection.sendall(part)
        read_all(connection)

    assert time.monotonic() - began < 9
