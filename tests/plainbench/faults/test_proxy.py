"""The bad network: a TCP proxy before a server, on real sockets."""

import re
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from plainbench.faults.environment import environment
from plainbench.faults.proxy import proxied
from plainbench.faults.schedule import Firing, Schedule
from plainbench.faults.unfired import unfired
from plainbench.record.events import read
from sqew.errors import BadValue
from tests.plainbench.conftest import environment_of_children
from tests.plainbench.runs import run_real


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65_536):
            self.request.sendall(data)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    with Server(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def connect(context, server):
    """Yield a function that returns a begun context and connections to a proxied echo: ``connect(latency={…})``."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def open_(count=1, schedule=None, **network):
            from msgspec.structs import replace

            scene_ = replace(context(faults={"network": network}), schedule=schedule)
            scene_.time.began_ns = time.monotonic_ns()
            port = stack.enter_context(proxied(scene_, "127.0.0.1", server))
            connections = []
            for _ in range(count):
                connections.append(socket.create_connection(("127.0.0.1", port), timeout=10))
                stack.callback(connections[-1].close)
            return scene_, *connections

        yield open_


def exchange(connection: socket.socket, data: bytes) -> tuple[bytes, float]:
    """Send data, and return what came back and how long that took."""
    began = time.monotonic()
    connection.sendall(data)
    received = b""
    while len(received) < len(data):
        piece = connection.recv(65_536)
        if not piece:
            break
        received += piece
    return received, time.monotonic() - began


def faults(context) -> list[tuple[str, str, int | None]]:
    context.recorder.flush()
    return [(event.what, event.stream, event.index) for event in read(context.run) if event.event == "fault"]


def test_what_passes_is_not_changed(connect):
    _, connection = connect(slice_bytes=7)
    data = bytes(range(256)) * 100

    assert exchange(connection, data)[0] == data


def test_answers_come_late_as_the_seed_says(connect):
    context, connection = connect(latency={"type": "fixed", "ms": 80})

    _, took = exchange(connection, b"x")

    assert took >= 0.08
    assert faults(context) == [("latency", "network/0/latency", 1)]


def test_a_reset_cuts_an_answer_in_the_middle(connect):
    context, connection = connect(reset_rate=1)

    with pytest.raises(ConnectionResetError):
        exchange(connection, b"0123456789")

    assert faults(context) == [("reset", "network/0/reset", 1)]


def test_which_answers_are_cut_off_is_decided_by_the_seed(connect):
    def fates():
        _, *connections = connect(12, reset_rate=0.3)
        return [_survives(connection) for connection in connections]

    one, other = fates(), fates()

    assert one == other
    assert 0 < sum(one) < 12


def _survives(connection: socket.socket) -> bool:
    try:
        return exchange(connection, b"0123456789")[0] == b"0123456789"
    except ConnectionResetError:
        return False


def test_slices_arrive_one_by_one(connect):
    context, connection = connect(slice_bytes=10, bytes_per_s=400)
    connection.sendall(b"x" * 30)

    pieces = [connection.recv(100) for _ in range(3)]

    assert [len(piece) for piece in pieces] == [10, 10, 10]
    assert {what for what, _, _ in faults(context)} == {"slice", "limit"}


def test_a_limit_holds_each_way(connect):
    context, connection = connect(bytes_per_s=10_000)

    data, took = exchange(connection, b"x" * 2_000)

    assert len(data) == 2_000
    assert took >= 0.18
    assert faults(context) == [("limit", "network/0/limit", 1)]


def test_nothing_passes_in_a_stall_and_everything_after_it(connect):
    context, connection = connect(stall=[{"at_s": 0, "for_s": 0.3}])

    data, took = exchange(connection, b"x")

    assert data == b"x"
    assert took >= 0.2
    assert faults(context) == [("stall", "network/stall", 0)]


def test_a_schedule_holds_for_the_network_too(connect):
    only_the_second = Schedule(frozenset({Firing("network/1/reset", 1)}))

    _, *connections = connect(3, schedule=only_the_second, reset_rate=1, stall=[{"at_s": 0, "for_s": 60}])

    assert [_survives(connection) for connection in connections] == [True, False, True]


def test_a_server_that_is_away_is_a_connection_that_ends(context):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    with (
        proxied(context(), "127.0.0.1", nobody) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
    ):
        assert connection.recv(10) == b""


def test_faults_that_never_happened_are_told(config):
    network = {"reset_rate": 0.1, "slice_bytes": 5, "bytes_per_s": 9, "stall": [{"at_s": 1, "for_s": 1}]}

    sentences = unfired(config(faults={"network": network}), {("reset", "network")})

    assert [sentence.split()[2] for sentence in sentences] == ["stall", "slice", "limit"]


def test_a_network_fault_needs_a_server(context):
    with (
        pytest.raises(BadValue, match=r"give target.options.url"),
        environment(context(faults={"network": {"reset_rate": 1}})),
    ):
        pass


def test_a_run_over_a_bad_network_loses_nothing(tmp_path):
    network = {
        "latency": {"type": "uniform", "min_ms": 0, "max_ms": 4},
        "reset_rate": 0.05,
        "slice_bytes": 100,
        "stall": [{"at_s": 0.2, "for_s": 0.3}],
    }

    run = run_real(
        tmp_path,
        target={"driver": "sqew-http"},
        workload=[{"topic": "orders", "messages": 60, "arrivals": {"type": "constant", "rate": 100}}],
        workers=[{"name": "w", "concurrency": 2, "lease_ms": 400}],
        faults={"network": network},
    )

    assert {event.what for event in run.of("fault")} == {"latency", "reset", "slice", "stall"}
    sent = {event.n for event in run.of("sent")}
    assert len(sent) > 40
    assert sent <= {event.n for event in run.of("received")}
    assert run.why == "settled"


def test_a_server_of_the_lab_ends_when_the_lab_is_killed(tmp_path):
    (tmp_path / "plainbench.yaml").write_text(
        "target: {driver: sqew-http}\ntopics: [{name: orders}]\n"
        "workload: [{topic: orders, for_s: 60, arrivals: {type: constant, rate: 5}}]\nworkers: [{name: w}]\n"
    )
    command = [sys.executable, "-m", "plainbench.cli.main", "run"]
    lab = subprocess.Popen(command, cwd=tmp_path, env=environment_of_children(), stderr=subprocess.DEVNULL)
    try:
        address = eventually(lambda: _address_of_server(tmp_path))
    finally:
        lab.kill()
        lab.wait()

    assert eventually(lambda: _is_gone(address))


def _address_of_server(folder):
    texts = [log.read_text() for log in folder.glob("runs/*/server.log")]
    found = re.search(r"http://([^\s:]+):(\d+)", "".join(texts))
    return found and (found[1], int(found[2]))


def _is_gone(address):
    try:
        socket.create_connection(address, 1).close()
    except ConnectionRefusedError:
        return True
    return False


def eventually(look):
    """Return the first true result of a function; a false one if that takes too long."""
    until = time.monotonic() + 30
    while not (found := look()) and time.monotonic() < until:
        time.sleep(0.05)
    return found
