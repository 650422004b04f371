"""Servers of other queues, for the tests of drivers: one of each for all processes of a run. They end with it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.cluster import HOME

START_WITHIN_S = 60.0

_END = """
while [ -d "$1" ]; do sleep 0.1; done
kill -KILL "-$2"
rm -rf "$3"
"""
"""A shell script that waits until the run is over, killed or not: PostgreSQL's guard removes its folder then."""
_RABBIT = """
epmd &
exec /usr/lib/rabbitmq/bin/rabbitmq-server
"""
_kept: list[subprocess.Popen[bytes]] = []


@functools.cache
def redis_url() -> str:
    """Start Redis, with a file that it appends to and syncs every second, and return its URL."""
    return _shared("redis", _start_redis)


@functools.cache
def rabbitmq_url() -> str:
    """Start RabbitMQ, as a single node, and return its URL."""
    return _shared("rabbitmq", _start_rabbitmq)


def _shared(name: str, start: Callable[[], str]) -> str:
    home = Path(os.environ[HOME])
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        address = home / f"{name}.address"
        if not address.exists():
            address.write_text(start())
        return address.read_text()


def _start_redis() -> str:
    assert shutil.which("redis-server"), "Redis is not installed (Debian: sudo apt-get install redis-server)."
    (port,) = _free_ports(1)
    listens = ["--port", str(port), "--bind", "127.0.0.1"]
    keeps = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]
    _start("redis", ["redis-server", *listens, *keeps], lambda _: {}, port)
    return f"redis://127.0.0.1:{port}/0"


def _start_rabbitmq() -> str:
    program = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    assert program.exists(), "RabbitMQ is not installed (Debian: sudo apt-get install rabbitmq-server)."
    port, among_nodes, names = _free_ports(3)

    def environment(folder: str) -> dict[str, str]:
        return {
            "HOME": folder,
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "lab@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(among_nodes),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_LOGS": "-",
            **{f"RABBITMQ_{name}_FILE": f"{folder}/none" for name in ("CONFIG", "ADVANCED_CONFIG", "CONF_ENV")},
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            # Quiet while nothing is to be done, and without a daemon that nobody would end.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false +S 2:2 +sbwt none",
        }

    _start("rabbitmq", ["sh", "-c", _RABBIT], environment, port)
    return f"amqp://guest:guest@127.0.0.1:{port}/%2F"


def _start(name: str, command: list[str], environment: Callable[[str], dict[str, str]], port: int) -> None:
    """Start a server in a folder of its own, as a user other than root."""
    folder = tempfile.mkdtemp(prefix=f"sqew-{name}-")
    user = _user(name)
    if user is not None:
        shutil.chown(folder, user)
    log = Path(folder) / "said"
    with log.open("w") as said:
        server = subprocess.Popen(
            command, cwd=folder, env={"PATH": os.environ["PATH"], **environment(folder)}, user=user,
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
    watcher = ["sh", "-c", _END, "sh", os.environ[HOME], str(server.pid), folder]
    _kept.extend([server, subprocess.Popen(watcher, cwd="/", start_new_session=True, stderr=subprocess.DEVNULL)])
    deadline = time.monotonic() + START_WITHIN_S
    while not _answers(port):
        assert server.poll() is None, f"{name} could not start: {log.read_text()}"
        assert time.monotonic() < deadline, f"{name} did not start within {START_WITHIN_S:g} s: {log.read_text()}"
        time.sleep(0.05)


def _user(name: str) -> str | None:
    if os.geteuid() != 0:
        return None
    return name if name in {user.pw_name for user in pwd.getpwall()} else "nobody"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Cable:
    """A connection to a server that can be cut: requests still get there, and their answers don't come back."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._is_cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._is_cut.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()
                threading.Thread(target=self._bring_back, args=(far, near), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(65_536):
                far.sendall(data)
        _hang_up(far)

    def _bring_back(self, far: socket.socket, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (data := far.recv(65_536)) and not self._is_cut.is_set():
                near.sendall(data)
        _hang_up(near)
        _hang_up(far)

    def close(self) -> None:
        _hang_up(self._listener)


def _hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextlib.contextmanager
def cable(port: int) -> Iterator[Cable]:
    made = Cable(port)
    try:
        yield made
    finally:
        made.close()
