"""A real server in a process of its own, and clients that send exactly what they are given."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import apsw
import pytest

from sqew.ids import MessageUuids
from tests.support.postgres import fetch_column, new_database

START_WITHIN_S = 20.0
STORES = ("sqlite", "postgres")


class Answer(NamedTuple):
    """An answer as a client sees it."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Serving:
    """A server that runs, and the simplest way to talk to it. Its queues are in a file or a database."""

    def __init__(
        self, process: subprocess.Popen[str], url: str, db: Path, log: Path, database: str | None = None
    ) -> None:
        self.process, self.url, self.db, self.log, self.database = process, url, db, log, database
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0

    @functools.cached_property
    def uuids(self) -> MessageUuids:
        """The names of its messages where they have UUIDs."""
        if self.database is not None:
            return MessageUuids(*fetch_column(self.database, "SELECT salt FROM sqew_meta"))
        with contextlib.closing(apsw.Connection(str(self.db))) as connection:
            return MessageUuids(connection.execute("SELECT salt FROM sqew_meta").get)

    def figure(self, metric: str) -> float:
        """Return the value of a metric in /metrics; 0 if it is not there."""
        text = self.call("GET", "/metrics").body.decode()
        found = re.search(rf"^{re.escape(metric)} (\S+)$", text, re.MULTILINE)
        return 0 if found is None else float(found[1])

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 30
    ) -> Answer:
        """Send one request on a connection of its own. A body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            sent = dict(headers or {})
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            answer = response.read()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, answer)
        finally:
            connection.close()

    def connect(self, timeout: float = 10) -> socket.socket:
        """Open a bare connection."""
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def talk(self, raw: bytes, timeout: float = 10) -> bytes:
        """Send bytes as they are, and read until the server closes (or says nothing more for ``timeout``)."""
        with self.connect(timeout) as connection:
            connection.sendall(raw)
            received = b""
            with contextlib.suppress(TimeoutError, ConnectionError):
                while chunk := connection.recv(65_536):
                    received += chunk
            return received

    def stop(self, number: int = signal.SIGTERM, within: float = 20) -> int:
        """Send a signal, wait for the end and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(within)


@contextlib.contextmanager
def serving(
    folder: Path,
    *flags: str,
    env: dict[str, str] | None = None,
    db: Path | None = None,
    database: str | None = None,
) -> Iterator[Serving]:
    """Run `sqew serve` on a free port, with more flags. It is killed at the end if it still runs."""
    db = db or folder / "queue.db"
    place = ["--database-url", database] if database else [] if "--database-url" in flags else ["--db", str(db)]
    with launching(folder, *place, "--port", "0", *flags, env=env) as server:
        server.db, server.database = db, database
        yield server


@contextlib.contextmanager
def launching(folder: Path, *flags: str, env: dict[str, str] | None = None) -> Iterator[Serving]:
    """Run `sqew serve` in a folder with these flags and variables alone. It is killed at the end if it still runs."""
    log = folder / f"serve-{time.monotonic_ns()}.log"
    command = [sys.executable, "-m", "sqew", "serve", *flags]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, stderr=stderr, stdout=subprocess.DEVNULL, text=True, cwd=folder, env={**os.environ, **(env or {})}
        )
    try:
        yield Serving(process, _address(process, log), folder / "queue.db", log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """Wait until the server listens, and return the address that it logs."""
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline:
        if found := re.search(r"https?://\S+:\d+|unix:[^\s\"]+", log.read_text()):
            return found[0].rstrip(',"')
        if process.poll() is not None:
            break
        time.sleep(0.01)
    raise AssertionError(f"the server did not start (exit {process.poll()}): {log.read_text()}")


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Serving]]:
    """Yield a function that starts one server on each store, when it is first wanted, and returns it."""
    with contextlib.ExitStack() as stack:

        def start(store: str) -> Serving:
            folder = tmp_path_factory.mktemp(f"server-on-{store}")
            database = new_database() if store == "postgres" else None
            return stack.enter_context(serving(folder, "--durability", "fast", database=database))

        yield functools.cache(start)


@pytest.fixture(scope="session")
def shared_server(servers: Callable[[str], Serving]) -> Serving:
    """Return one server for all tests that leave it as they found it: use queues of a name of your own."""
    return servers("sqlite")
