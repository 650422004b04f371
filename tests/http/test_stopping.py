"""Stopping a server, and failing to start one: every answer that is due is sent, and an error is one line."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support.serving import serving

IN_FLIGHT = 50


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_all(connection: socket.socket) -> bytes:
    received = bytearray()
    while chunk := connection.recv(1_048_576):
        received += chunk
    return bytes(received)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_requests_in_flight_are_answered_before_the_end(tmp_path, number):
    message = json.dumps({"payload": "x" * 1_000}).encode()
    with serving(tmp_path, "--durability", "fast") as server, ExitStack() as stack:
        for name in ("full", "empty"):
            assert server.call("POST", "/queues", {"name": name}).status == 201
        for _ in range(6):
            server.call("POST", "/queues/full/messages", [{"payload": "y" * 1_000} for _ in range(1_000)])
        connections = [stack.enter_context(server.connect()) for _ in range(IN_FLIGHT)]
        polls, exports, sends, halves = connections[:20], connections[20:25], connections[25:45], connections[45:]
        for connection in polls:
            connection.sendall(request("POST", "/queues/empty/poll?wait_ms=50000"))
        for connection in exports:
            connection.sendall(request("GET", "/queues/full/export"))
            assert connection.recv(1)
        for connection in halves:
            connection.sendall(request("POST", "/queues/full/messages", message)[:-500])
        # Answered after all of these were read.
        assert server.call("GET", "/queues/empty").status == 200
        for connection in sends:
            connection.sendall(request("POST", "/queues/full/messages", message) * 3)
        server.process.send_signal(number)
        for connection in halves:
            connection.sendall(message[-500:])
        answers = {connection: read_all(connection) for connection in connections}
        code = server.process.wait(20)

    assert code == 0
    assert all(answers[one].endswith(b'{"messages":[]}') for one in polls)
    assert all(answers[one].endswith(b"\r\n0\r\n\r\n") for one in exports)
    assert all(answers[one].count(b"HTTP/1.1 201 ") == 3 for one in sends)
    assert all(answers[one].count(b"HTTP/1.1 201 ") == 1 for one in halves)
    assert "Traceback" not in server.log.read_text()


def test_what_was_answered_before_the_end_is_there_after_it(tmp_path):
    with serving(tmp_path) as server:
        server.call("POST", "/queues", {"name": "jobs"})
        sent = [server.call("POST", "/queues/jobs/messages", {"payload": n}).json["message_id"] for n in range(10)]
        assert server.stop(signal.SIGTERM) == 0
    with serving(tmp_path) as server:
        found = server.call("POST", "/queues/jobs/poll?batch=100").json["messages"]

    assert [message["id"] for message in found] == sent


def test_idle_connections_do_not_delay_the_end(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server, ExitStack() as stack:
        idle = [stack.enter_context(server.connect()) for _ in range(20)]
        for connection in idle[:10]:
            connection.sendall(request("GET", "/queues"))
            connection.recv(65_536)
        began = time.monotonic()
        code = server.stop()
        took = time.monotonic() - began

    assert code == 0
    assert took < 5


def test_a_reader_that_never_reads_delays_the_end_only_so_long(tmp_path):
    with serving(tmp_path, "--durability", "fast", "--drain-ms", "500") as server, server.connect() as connection:
        server.call("POST", "/queues", {"name": "full"})
        for _ in range(20):
            server.call("POST", "/queues/full/messages", [{"payload": "y" * 1_000} for _ in range(1_000)])
        connection.sendall(request("GET", "/queues/full/export"))
        assert connection.recv(1)
        began = time.monotonic()
        code = server.stop()
        took = time.monotonic() - began

    assert code == 0
    assert 0.5 <= took < 8
    assert "Traceback" not in server.log.read_text()


def test_a_second_ctrl_c_ends_it_at_once(tmp_path):
    with serving(tmp_path, "--durability", "fast", "--drain-ms", "60000") as server, server.connect() as connection:
        server.call("POST", "/queues", {"name": "full"})
        connection.sendall(request("POST", "/queues/full/messages", b"x" * 100)[:-50])
        assert server.call("GET", "/queues").status == 200
        server.process.send_signal(signal.SIGINT)
        wait_until_refused(server)
        assert server.process.poll() is None
        code = server.stop(signal.SIGINT, within=10)

    assert code == 130
    assert "Traceback" not in server.log.read_text()


def wait_until_refused(server) -> None:
    """Wait until the server no longer listens: then it has begun to stop."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            server.connect().close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            pass  # it was not accepted any more: the next is refused
        time.sleep(0.01)
    raise AssertionError("it still listens")


# What keeps it from starting


def failed_start(folder: Path, *flags: str) -> str:
    """Start a server that can't start, and return the one line that it prints."""
    command = [sys.executable, "-m", "sqew", "--db", str(folder / "queue.db"), "serve", "--port", "0", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=folder, env={**os.environ})
    assert done.returncode not in (0, 130)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_a_port_in_use_is_one_line(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        line = failed_start(tmp_path, "--port", str(taken.getsockname()[1]))

    assert "can't be listened at" in line
    assert "--port" in line


def test_an_address_of_another_machine_is_one_line(tmp_path):
    assert "can't be listened at" in failed_start(tmp_path, "--host", "192.0.2.1", "--insecure")


def test_a_unix_socket_that_can_not_be_made_is_one_line(tmp_path):
    assert "--unix-socket" in failed_start(tmp_path, "--unix-socket", str(tmp_path / "missing" / "socket"))


@pytest.mark.parametrize("content", [None, "not a certificate"])
def test_an_unusable_certificate_is_one_line(tmp_path, content):
    certificate = tmp_path / "cert.pem"
    if content is not None:
        certificate.write_text(content)

    line = failed_start(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(certificate))

    assert str(certificate) in line


def test_a_certificate_without_its_key_is_one_line(tmp_path):
    assert "tls_key" in failed_start(tmp_path, "--tls-cert", "cert.pem")


def test_a_locked_file_is_one_line(tmp_path):
    with serving(tmp_path) as server:
        server.stop()
    with closing(sqlite3.connect(tmp_path / "queue.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        line = failed_start(tmp_path, "--busy-timeout-ms", "100")

    assert "queue.db" in line


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / "queue.db").write_bytes(b"this is not a database" * 1_000)

    assert "queue.db" in failed_start(tmp_path)


def test_an_unreadable_settings_file_is_one_line(tmp_path):
    (tmp_path / "sqew.toml").write_text("port = [")

    assert "sqew.toml" in failed_start(tmp_path)


def test_a_unix_socket_that_another_server_listens_at_is_not_taken_from_it(tmp_path):
    path = tmp_path / "s.sock"
    command = [sys.executable, "-m", "sqew", "--db", str(tmp_path / "a.db"), "serve", "--unix-socket", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        assert "s.sock" in first.stderr.readline()
        refused = failed_start(tmp_path, "--unix-socket", str(path))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = client.recv(65_536)
        first.terminate()

    assert "can't be listened at" in refused
    assert answer.startswith(b"HTTP/1.1 200")
    assert not path.exists()
