"""Connections that say nothing, ten thousand of them, while other clients work."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from pathlib import Path

import pytest

from tests.support.serving import serving

WANTED = 10_000
BESIDES = 500
"""Files that this process needs for other things."""
MOST_BYTES_EACH = 10_240


def resident_bytes(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1_024


@pytest.fixture
def many_files():
    """Raise the limit of open files to the machine's; yield the number of connections that this allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(WANTED, hard - BESIDES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_thousand_idle_connections_cost_little_and_hold_up_nobody(tmp_path, many_files, capsys):
    request = b"GET /queues/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(tmp_path, "--durability", "fast") as server, contextlib.ExitStack() as stack:
        assert server.call("POST", "/queues", {"name": "jobs"}).status == 201
        before = resident_bytes(server.process.pid)
        idle = [stack.enter_context(socket.create_connection((server.host, server.port))) for _ in range(many_files)]
        for connection in idle:
            # Half of them have been used: what a request leaves behind counts too.
            if connection.fileno() % 2:
                connection.sendall(request)
        for connection in idle:
            if connection.fileno() % 2:
                assert connection.recv(4_096).startswith(b"HTTP/1.1 200 ")
        each = (resident_bytes(server.process.pid) - before) / len(idle)
        times = []
        for number in range(200):
            began = time.perf_counter()
            assert server.call("POST", "/queues/jobs/messages", {"payload": number}).status == 201
            times.append(time.perf_counter() - began)
        for connection in idle[::500]:
            connection.sendall(request)
            assert connection.recv(4_096).startswith(b"HTTP/1.1 200 ")

    with capsys.disabled():
        print(f"\n{len(idle)} idle connections: {each:.0f} bytes each; median send {sorted(times)[100] * 1e3:.2f} ms")  # noqa: T201
    assert len(idle) == WANTED
    assert each <= MOST_BYTES_EACH
    assert sorted(times)[190] < 0.25
