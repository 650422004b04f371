"""Clients that send and receive over HTTP whatever becomes of the servers, and record requests and answers."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterable
from itertools import count
from random import Random
from typing import Any

from tests.faults.client import FIFO, GROUPS, STANDARD
from tests.faults.history import Action, Entry, Event, Step, clock
from tests.support.serving import Serving

SENDERS = RECEIVERS = 4
LEASE_MS = 400
UNAVAILABLE = 503


class Lost(Exception):
    """An answer that never came: the request may have been carried out or not."""


class Doubt(Exception):
    """An answer that says of a message that nobody knows whether it was settled: the commit behind it was cut off."""


class Target:
    """The servers that are alive at the moment, if any are."""

    def __init__(self) -> None:
        self.servers: list[Serving] = []
        self.over = threading.Event()


class HttpClient(threading.Thread):
    """A client with one connection. It records its requests and their answers."""

    def __init__(self, name: str, target: Target, *, sends: bool) -> None:
        super().__init__(name=name)
        self.events: list[Event] = []
        self.done = self.refused = self.doubted = 0
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
        servers = list(self._target.servers)
        if not servers:
            return False
        server = self._random.choice(servers)
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
                lambda answer: _settled(entries, answer["results"]),
            )

    def _ask(self, action: Action, path: str, body: Any, asked: list[Entry], told: Any) -> Any:
        call, began = next(self._calls), clock()
        step: Step = "unknown"
        answer, entries = None, asked
        try:
            status, answer = self._post(path, body)
            step = "ok" if status < 300 else "unknown"
            if status == UNAVAILABLE:
                self.refused += 1
            entries = told(answer) if step == "ok" else asked
        except Doubt:
            step, entries = "unknown", asked
            self.doubted += 1
        except (OSError, http.client.HTTPException) as error:
            raise Lost from error
        finally:
            # The server's clock stood at no more than this when it did what was asked.
            now = int(time.time() * 1000)
            self.events.append(Event(began, self.name, call, "call", action, now, asked))
            self.events.append(Event(clock(), self.name, call, step, action, now, entries))
        if step != "ok":
            time.sleep(0.02)
            raise Lost
        self.done += 1
        return answer

    def _post(self, path: str, body: Any) -> tuple[int, Any]:
        assert self._connection is not None
        content = b"" if body is None else json.dumps(body).encode()
        self._connection.request("POST", path, content, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())


def _settled(entries: list[Entry], results: list[dict[str, Any]]) -> list[Entry]:
    """Return the entries that were settled. Those refused were not; of others it may be unknown, one by one."""
    if any(not result["ok"] and result["error"]["code"] == "outcome_unknown" for result in results):
        raise Doubt
    return [entry for entry, result in zip(entries, results, strict=True) if result["ok"]]


def _entry(queue: str, message: dict[str, Any]) -> Entry:
    group = f"{queue}/{message['group']}" if queue == FIFO else None
    return Entry(message["payload"]["value"], message["id"], message["attempts"], message["lease_expires_at"], group)


def new_clients(target: Target) -> list[HttpClient]:
    senders = [HttpClient(f"sender{n}", target, sends=True) for n in range(SENDERS)]
    return senders + [HttpClient(f"receiver{n}", target, sends=False) for n in range(RECEIVERS)]


def make_queues(server: Serving) -> None:
    """Create the two queues that the clients use."""
    for name in (STANDARD, FIFO):
        assert server.call("POST", "/queues", {"name": name, "dlq": None, "max_attempts": None}).status == 201


def finished(clients: Iterable[HttpClient]) -> list[Event]:
    """Return the events of the calls that have come to an end, so that what is judged by them stays so."""
    events = [event for client in clients for event in list(client.events)]
    ended = {(event.process, event.call) for event in events if event.step != "call"}
    return [event for event in events if (event.process, event.call) in ended]


def work_for(clients: Iterable[HttpClient], seconds: float) -> None:
    """Let the clients work for a while, counted from when they have all been answered."""
    before = {client: client.done for client in clients}
    deadline = time.monotonic() + 60
    while any(client.done <= done for client, done in before.items()):
        assert time.monotonic() < deadline, "a client did not get to work"
        time.sleep(0.005)
    time.sleep(seconds)
