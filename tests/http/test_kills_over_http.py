"""kill -9 of the server while many clients send and receive over HTTP, judged by Jepsen's total-queue."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import apsw

from serving import Serving, serving
from sqew.clock import Clock
from sqew.stores.sqlite import SQLiteStore

sys.path.append(str(Path(__file__).parents[1] / "faults"))

from consistency import problems_of
from history import Action, Entry, Event, Step, Verdict, check, clock

from client import FIFO, GROUPS, STANDARD, Client

KILLS = 12
SENDERS = RECEIVERS = 4
LEASE_MS = 400


class Lost(Exception):
    """No answer: whether it was done, nobody can say."""


class Target:
    """The server that is alive at the moment, if one is."""

    def __init__(self) -> None:
        self.server: Serving | None = None
        self.over = threading.Event()


class HttpClient(threading.Thread):
    """One client with one connection. It notes what it asks and what it is told."""

    def __init__(self, name: str, target: Target, *, sends: bool) -> None:
        super().__init__(name=name)
        self.events: list[Event] = []
        self._target, self._sends, self._random = target, sends, Random(name)
        self._calls, self._values = count(), count()
        self._connection: http.client.HTTPConnection | None = None

    def run(self) -> None:
        while not self._target.over.is_set():
            if self._connection is None and not self._connect():
                time.sleep(0.01)
                continue
            try:
                self._send() if self._sends else self._consume()
            except Lost:
                self._hang_up()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self) -> bool:
        server = self._target.server
        if server is None:
            return False
        connection = http.client.HTTPConnection(server.host, server.port, timeout=10)
        try:
            connection.connect()
        except OSError:
            connection.close()
            return False
        self._connection = connection
        return True

    def _send(self) -> None:
        queue = self._random.choice((STANDARD, FIFO))
        entries, items = [], []
        for _ in range(self._random.randint(1, 5)):
            value = f"{self.name}-{next(self._values)}"
            group = self._random.choice(GROUPS) if queue == FIFO else None
            padding = "x" * self._random.choice((0, 50, 6_000))
            entries.append(Entry(value, group=group))
            items.append({"payload": {"value": value, "padding": padding}, "group": group})
        self._ask("send", f"/queues/{queue}/messages", items, entries, lambda _: entries)

    def _consume(self) -> None:
        queue = self._random.choice((STANDARD, FIFO))
        path = f"/queues/{queue}/poll?batch={self._random.randint(1, 5)}&visibility_ms={LEASE_MS}&wait_ms=50"
        answer = self._ask("receive", path, None, [], lambda answer: [_entry(queue, m) for m in answer["messages"]])
        held = [(m, _entry(queue, m)) for m in answer["messages"] if self._random.random() < 0.8]
        if held:
            items = [{"id": message["id"], "token": message["token"]} for message, _ in held]
            entries = [entry for _, entry in held]
            self._ask(
                "ack",
                f"/queues/{queue}/ack",
                items,
                entries,
                lambda answer: [e for e, r in zip(entries, answer["results"], strict=True) if r["ok"]],
            )

    def _ask(self, action: Action, path: str, body: Any, asked: list[Entry], told: Any) -> Any:
        call, began = next(self._calls), clock()
        step: Step = "unknown"
        answer, entries = None, asked
        try:
            status, answer = self._post(path, body)
            step = "ok" if status < 300 else "unknown"
            entries = told(answer) if step == "ok" else asked
        except (OSError, http.client.HTTPException) as error:
            raise Lost from error
        finally:
            # The server's clock stood at no more than this when it did what was asked.
            now = int(time.time() * 1000)
            self.events.append(Event(began, self.name, call, "call", action, now, asked))
            self.events.append(Event(clock(), self.name, call, step, action, now, entries))
        if step != "ok":
            raise Lost
        return answer

    def _post(self, path: str, body: Any) -> tuple[int, Any]:
        assert self._connection is not None
        content = b"" if body is None else json.dumps(body).encode()
        self._connection.request("POST", path, content, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())


def _entry(queue: str, message: dict[str, Any]) -> Entry:
    group = f"{queue}/{message['group']}" if queue == FIFO else None
    return Entry(message["payload"]["value"], message["id"], message["attempts"], message["lease_expires_at"], group)


def kill_and_judge(folder: Path, kills: int, seed: int) -> Verdict:
    random, target = Random(seed), Target()
    clients = [HttpClient(f"sender{n}", target, sends=True) for n in range(SENDERS)]
    clients += [HttpClient(f"receiver{n}", target, sends=False) for n in range(RECEIVERS)]
    for life in range(kills):
        # A small WAL, so that kills fall into checkpoints too.
        flags = ["--durability", random.choice(("durable", "fast")), "--wal-autocheckpoint-pages", "50"]
        with serving(folder, *flags) as server:
            if life == 0:
                for name in (STANDARD, FIFO):
                    policy = {"name": name, "dlq": None, "max_attempts": None}
                    assert server.call("POST", "/queues", policy).status == 201
                for client in clients:
                    client.start()
            target.server = server
            work_for(clients, random.uniform(0.1, 0.5))
            server.process.kill()
            server.process.wait()
            target.server = None
            assert "Traceback" not in server.log.read_text()
    target.over.set()
    for client in clients:
        client.join(20)
    with closing(apsw.Connection(str(folder / "queue.db"))) as connection:
        assert not problems_of(connection)
    return check([event for client in clients for event in client.events] + drain(folder / "queue.db"))


def work_for(clients: Iterable[HttpClient], seconds: float) -> None:
    """Let them work for a while, counted from when they are all at work."""
    before = {client: len(client.events) for client in clients}
    deadline = time.monotonic() + 20
    while any(len(client.events) <= events for client, events in before.items()):
        assert time.monotonic() < deadline, "a client did not get to work"
        time.sleep(0.005)
    time.sleep(seconds)


def drain(path: Path) -> list[Event]:
    events: list[Event] = []
    now = Clock().now
    with closing(SQLiteStore(path, now=now())) as store:
        Client(store, events.append, "drain", now).drain()
    return events


def test_a_killed_server_loses_nothing_it_has_answered(tmp_path, capsys):
    verdict = kill_and_judge(tmp_path, KILLS, seed=1)

    with capsys.disabled():
        print(f"\n{KILLS} kills of the server: {verdict}")  # noqa: T201
    assert not verdict.violations
    # Otherwise the kills fell where nothing was at stake.
    assert verdict.unknown
    assert verdict.recovered
    assert verdict.duplicated
    assert len(verdict.acked) > 10 * KILLS
