"""Requests at a fixed rate, whatever the server does, timed from the moment each should have started.

A generator that waits for an answer before it asks again asks less while the server is slow, and so hides how slow it
was. This one has a schedule. A request that finds all connections busy waits, and its wait counts. The generator's own
lag behind its schedule is measured too: latencies of that size are its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

import httptools
from msgspec import Struct

from bench.timing import quantile

HOST = b"127.0.0.1"
LONGEST_S = 120.0
"""The most seconds that a run lasts, even if it still waits for something."""
_LAST_ANSWERS_S = 30.0


class Load(Protocol):
    """A source of requests."""

    def next(self) -> bytes:
        """Return the next request, as it goes over the wire."""

    def answered(self, status: int, body: bytes) -> None:
        """Take note of an answer."""


class Seen(Struct, frozen=True):
    """The results of one run, in microseconds."""

    p50: float
    p99: float
    worst: float
    lag_p99: float
    """The lag of the generator itself."""
    count: int
    refused: int
    """Requests that were answered with an error; their times are among the others."""


class Client(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self, done: Callable[[Client, int, bytes], None]) -> None:
        self._done = done
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self.due_ns = 0

    def ask(self, request: bytes, due_ns: int) -> None:
        assert self._transport is not None
        self.due_ns = due_ns
        self._transport.write(request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self._body)
        self._body.clear()
        self._done(self, self._parser.get_status_code(), body)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()


class Export(asyncio.Protocol):
    """A client that reads a whole export, as fast as it comes, and counts its lines."""

    def __init__(self, path: str) -> None:
        self._request = b"GET %b HTTP/1.1\r\nhost: %b\r\nconnection: close\r\n\r\n" % (path.encode(), HOST)
        self._parser = httptools.HttpResponseParser(self)
        self.lines = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def stop(self) -> None:
        """Stop reading, even if the export has not ended."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.lines += body.count(b"\n")

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Generator:
    """Connections to one server, kept open from run to run."""

    def __init__(self, port: int, load: Load) -> None:
        self._port, self._load = port, load
        self._clients: list[Client] = []
        self._free: deque[Client] = deque()
        self._taken_ns: list[int] = []
        self._refused = 0
        self._all_answered = asyncio.Event()

    async def connect(self, connections: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            _, client = await loop.create_connection(lambda: Client(self._answered), HOST.decode(), self._port)
            self._clients.append(client)
        self._free.extend(self._clients)

    def close(self) -> None:
        for client in self._clients:
            client.close()

    async def run(self, rate: int, seconds: float) -> Seen:
        """Run for some seconds."""
        return await self._run(rate, lambda begun_ns: time.perf_counter_ns() - begun_ns >= seconds * 1e9)

    async def run_during(self, rate: int, other: asyncio.Future[None]) -> Seen:
        """Run until ``other`` has ended."""
        return await self._run(rate, lambda _: other.done())

    async def _run(self, rate: int, is_over: Callable[[int], bool]) -> Seen:
        self._taken_ns, self._refused = [], 0
        lags: list[int] = []
        waiting: deque[int] = deque()
        interval = 1_000_000_000 // rate
        begun = time.perf_counter_ns()
        due = begun
        ends = begun + int(LONGEST_S * 1e9)
        while (now := time.perf_counter_ns()) < ends and not is_over(begun):
            while due <= now:
                waiting.append(due)
                lags.append(now - due)
                due += interval
            self._ask(waiting)
            # Not until the next is due: a timer of the loop is late by up to a millisecond.
            await asyncio.sleep(0)
        # Who never got a turn has waited for this long, at least.
        self._taken_ns += [time.perf_counter_ns() - due for due in waiting]
        async with asyncio.timeout(_LAST_ANSWERS_S):
            await self._last_answers()
        taken = sorted(ns / 1000 for ns in self._taken_ns)
        return Seen(
            quantile(taken, 0.5),
            quantile(taken, 0.99),
            taken[-1],
            quantile(sorted(lags), 0.99) / 1000,
            len(taken),
            self._refused,
        )

    async def _last_answers(self) -> None:
        self._all_answered.clear()
        if len(self._free) < len(self._clients):
            await self._all_answered.wait()

    def _ask(self, waiting: deque[int]) -> None:
        while waiting and self._free:
            self._free.popleft().ask(self._load.next(), waiting.popleft())

    def _answered(self, client: Client, status: int, body: bytes) -> None:
        self._taken_ns.append(time.perf_counter_ns() - client.due_ns)
        self._refused += status >= 400
        self._load.answered(status, body)
        self._free.append(client)
        if len(self._free) == len(self._clients):
            self._all_answered.set()


class Cycle:
    """A load of sends, receives and acks in turn: the same mix as the throughput's."""

    def __init__(self, queue: str, payload: bytes) -> None:
        self._queue = queue.encode()
        self._send = self._text(b"messages", b'{"payload":%b}' % payload)
        self._receive = self._text(b"poll?batch=1", b"")
        self._held: deque[bytes] = deque()
        self._turn = 0

    def next(self) -> bytes:
        self._turn = self._turn % 3 + 1
        if self._turn == 2:
            return self._receive
        if self._turn == 3 and self._held:
            return self._text(b"ack", self._held.popleft())
        self._turn = 1
        return self._send

    def answered(self, status: int, body: bytes) -> None:
        start = body.find(b'"token":"')
        if status == 200 and start >= 0 and body.startswith(b'{"messages":[{"id":'):
            token = body[start + 9 : body.index(b'"', start + 9)]
            self._held.append(b'{"id":%b,"token":"%b"}' % (body[19 : body.index(b",", 19)], token))

    def _text(self, route: bytes, body: bytes) -> bytes:
        return (
            b"POST /queues/%b/%b HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (self._queue, route, HOST, len(body), body)
        )
