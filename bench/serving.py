"""Servers in processes of their own, on a core of their own, with their processor time and memory."""

from __future__ import annotations

import contextlib
import http.client
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

HOST = "127.0.0.1"
ROOT = Path(__file__).parent.parent
QUEUE = "bench"
START_WITHIN_S = 60.0
_IDLE_WITHIN_S = 20.0
_LOOK_S = 0.03
_PROCESS_CPU_CLOCK = 2
"""The kernel's CPUCLOCK_SCHED: the time that all threads of a process ran, as clock_getcpuclockid(3) gives it."""


class Served:
    """A running server."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        port: int,
        folder: Path,
        probe: str = "/",
        env: dict[str, str] | None = None,
        *,
        beside: bool = False,
    ) -> None:
        """Start it; with ``beside``, not on the servers' core, but on the load's."""
        self.name, self.port = name, port
        self.url = f"http://{HOST}:{port}"
        self.log = folder / f"{port}.log"
        is_pinned = server_core() is not None and not beside
        pinned = ["taskset", "-c", str(server_core()), *command] if is_pinned else command
        began = time.perf_counter()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                pinned,
                cwd=ROOT,
                env={**_plain_environment(), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        with self.stopped_if_it_fails():
            self.started_s = self._first_answer(probe) - began
            """Seconds from its start to its first answer."""

    @contextlib.contextmanager
    def stopped_if_it_fails(self) -> Iterator[None]:
        """Stop the server if the block fails: until it is entered, nothing else would."""
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def _first_answer(self, probe: str) -> float:
        deadline = time.perf_counter() + START_WITHIN_S
        while time.perf_counter() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.call("GET", probe)
                return time.perf_counter()
            time.sleep(0.001)
        lines = self.log.read_text(errors="replace").strip().splitlines()
        raise NotServed(f"{self.name} did not start: {lines[-1] if lines else 'it says nothing'}")

    def call(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send one request on a connection of its own; return the status and the body of its answer."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=120)
        try:
            connection.request(method, path, body, headers or {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request with JSON; the program ends if the server refuses."""
        status, answer = self.call(method, path, None if body is None else msgspec.json.encode(body))
        if status >= 400:
            sys.exit(f"bench: {self.name} answers {method} {path} with {status}: {answer[:300].decode()}")
        return msgspec.json.decode(answer) if answer else None

    def cpu_s(self) -> float:
        """Return the seconds that its threads have run."""
        return time.clock_gettime((~self.process.pid << 3) | _PROCESS_CPU_CLOCK)

    def wait_until_idle(self) -> None:
        """Wait until it has handled all requests that its clients left behind."""
        deadline = time.monotonic() + _IDLE_WITHIN_S
        while time.monotonic() < deadline:
            before = self.cpu_s()
            time.sleep(_LOOK_S)
            if self.cpu_s() - before < _LOOK_S / 10:
                return

    def rss_bytes(self) -> int:
        """Return the bytes of memory that it holds."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def stop(self) -> None:
        """Stop the server: terminate it, and kill it if that takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class NotServed(Exception):
    """Failure of a server to start."""


def sqew(folder: Path, durability: str, db: Path | None = None, *flags: str, beside: bool = False) -> Served:
    """Start ``sqew serve``, on a new file unless one is given, with the queue that all messages are sent to."""
    folder.mkdir(parents=True, exist_ok=True)
    db = db or folder / f"{durability}-{time.monotonic_ns()}.db"
    port = free_port()
    command = [sys.executable, "-m", "sqew", "--db", str(db), "--durability", durability, "serve", "--port", str(port)]
    command += flags
    served = Served("sqew", command, port, folder, "/queues", beside=beside)
    with served.stopped_if_it_fails():
        # (As hq has it, a queue that is not there is null.)
        if served.json("GET", f"/queues/{QUEUE}") is None:
            make_queue(served, QUEUE)
    return served


def make_queue(served: Served, name: str) -> None:
    """Make a queue in which no message comes back or dies during the benchmark, even if received and left alone."""
    served.json("POST", "/queues", {"name": name, "visibility_ms": 6 * 3_600_000, "max_attempts": None})


def constant(folder: Path, *, beside: bool = False) -> Served:
    """Start the ceiling: the same connection, which answers everything alike. See bench/constant.py."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    return Served("constant", [sys.executable, "-m", "bench.constant", str(port)], port, folder, beside=beside)


def _plain_environment() -> dict[str, str]:
    """Return the environment without variables that set up a server: the figures are those of its defaults."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH", "TMPDIR") if name in os.environ}


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def server_core() -> int | None:
    """Return the core for servers, or None if there is only one or they can't be told apart."""
    return _CORES[0] if len(_CORES) > 1 and shutil.which("taskset") else None


def pin_the_load() -> None:
    """Keep this process, and all that it starts besides servers, off the servers' core."""
    if server_core() is not None:
        os.sched_setaffinity(0, _CORES[1:])


_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
