"""A server in the loop of the test: all that a test sends on many connections without waiting in between is there when
the loop next looks, in one tick.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import uvloop

from sqew.core.broker import Broker
from sqew.core.engine import limits_of, open_database, open_file
from sqew.http.run import make_server, make_service
from sqew.http.security.guard import Guard
from sqew.http.wire.server import Server
from sqew.ids import MessageUuids
from sqew.model import NewMessage, Policy
from sqew.operations import CreateQueue, Operation, Receive, Scan, Send
from sqew.settings import Settings

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SEND, ACK = "/queues/orders/messages", "/queues/orders/ack"
AWS_SEND, AWS_DELETE = "AmazonSQS.SendMessage", "AmazonSQS.DeleteMessage"
QUEUE_URL = "http://localhost/000000000000/orders"
CREDENTIAL = "AWS4-HMAC-SHA256 Credential=me/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0"
UUIDS = MessageUuids(0)
TIMES = re.compile(rb'_at":\d{13}')
COUNTED = re.compile(r"http_requests_total|http_errors_total|queue_depth|queue_messages")

R = TypeVar("R")


class Sent(NamedTuple):
    """A request, as a test writes it."""

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    method: str = "POST"

    @property
    def head(self) -> bytes:
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(self.body)}"]
        return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in self.headers), "", ""]).encode()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def alike(self) -> Any:
        """The parts of an answer that are the same on two servers: all but times and request ids."""
        named = {"date", "x-request-id", "x-amzn-requestid"}
        said = {name: value for name, value in self.headers.items() if name not in named}
        return self.status, said, sorted(self.headers), TIMES.sub(b"", self.body)


def plain(payload: Any, queue: str = "orders") -> Sent:
    return Sent(f"/queues/{queue}/messages", json.dumps({"payload": payload}).encode())


def native(message: Any, **more: Any) -> Sent:
    return Sent("/v1/queues/orders/messages", json.dumps({"message": message, **more}).encode())


def ack(id: int, token: str, queue: str = "orders") -> Sent:
    return Sent(f"/queues/{queue}/ack", json.dumps({"id": id, "token": token}).encode())


def native_delete(id: int, query: str = "", queue: str = "orders") -> Sent:
    return Sent(f"/v1/queues/{queue}/messages/{id}{query}", b"", method="DELETE")


def aws_plain(text: Any) -> Sent:
    return aws(AWS_SEND, QueueUrl=QUEUE_URL, MessageBody=f"{text}")


def aws(target: str, path: str = "/", **fields: Any) -> Sent:
    return aws_bytes(target, json.dumps(fields).encode(), path)


def aws_bytes(target: str, body: bytes, path: str = "/", authorization: str = CREDENTIAL) -> Sent:
    kind = ("Content-Type", "application/x-amz-json-1.0")
    return Sent(path, body, (kind, ("X-Amz-Target", target), ("Authorization", authorization)))


class Place:
    """A server in this loop, and clients that all send in one tick."""

    def __init__(self, server: Server, broker: Broker, guard: Guard, engine: Any, port: int) -> None:
        self.server, self.broker, self.guard, self.engine, self._port = server, broker, guard, engine, port
        self.operations: list[Operation[Any]] = []
        self.transactions = 0
        self.numbers = itertools.count()
        self._clients: list[socket.socket] = []
        counters: Any = broker.observe_batch

        def observe_batch(operations: Sequence[Operation[Any]], results: Sequence[Any], seconds: float) -> None:
            self.operations += operations
            self.transactions += 1
            counters(operations, results, seconds)

        broker.observe_batch = observe_batch

    def client(self, number: int) -> socket.socket:
        while len(self._clients) <= number:
            client = socket.create_connection(("127.0.0.1", self._port))
            client.setblocking(False)
            self._clients.append(client)
        return self._clients[number]

    async def at_once(self, requests: Sequence[Sent]) -> list[Answer]:
        """Send all requests in one tick, each on a connection of its own, with heads that the server knows."""
        await self.know(requests)
        self.say(requests)
        return await self.hear(len(requests))

    async def one_by_one(self, requests: Sequence[Sent]) -> list[Answer]:
        """Send each request when the one before was answered, on one connection."""
        await self.know(requests)
        answers = []
        for request in requests:
            self.say([request])
            answers += await self.hear(1)
        return answers

    async def know(self, requests: Sequence[Sent]) -> None:
        """Have the server remember the heads, by refused bodies of the same length, and accept all connections.

        A head that names a message is never remembered, and would delete it.
        """
        for number in range(len(requests)):
            self.client(number)
        for head, request in {request.head: request for request in requests}.items():
            if head not in self.server.known_heads and request.method == "POST":
                self.say([request._replace(body=b" " * len(request.body))])
                await self.hear(1)
        async with asyncio.timeout(20):
            while len(self.server.connections) < len(self._clients):  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0)
        self.operations.clear()
        self.transactions = 0

    def say(self, requests: Sequence[Sent]) -> None:
        for number, request in enumerate(requests):
            self.client(number).sendall(request.head + request.body)

    async def hear(self, count: int) -> list[Answer]:
        async with asyncio.timeout(20):
            return [await answer_on(self.client(number)) for number in range(count)]

    async def metrics(self) -> dict[str, float]:
        client = self.client(0)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = (await answer_on(client)).body.decode()
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    async def stored(self, queue: str = "orders") -> list[Any]:
        """Return the messages of a queue, without their times."""
        page = await self.broker.run(Scan(queue, 0, 1 << 62, 1_000))
        return [(m.id, m.body, m.format, m.lane, m.priority, m.group, m.key, m.attempts) for m in page.messages]

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()


async def answer_on(client: socket.socket) -> Answer:
    loop, received = asyncio.get_running_loop(), b""
    while True:
        head, end, body = received.partition(b"\r\n\r\n")
        if end:
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            if len(body) >= (length := int(headers.get("content-length", 0))):
                assert len(body) == length, "more than one answer"
                return Answer(int(first.split()[1]), headers, body)
        chunk = await loop.sock_recv(client, 65_536)
        assert chunk, f"closed after {received!r}"
        received += chunk


@contextlib.asynccontextmanager
async def place(
    db: Path, policy: Policy | None = None, uuids: MessageUuids = UUIDS, **changes: Any
) -> AsyncIterator[Place]:
    """Yield a server with the queues ``orders`` and ``others``."""
    chosen = Settings(db=str(db), **{"durability": "fast", **changes})
    engine = await open_database(chosen) if chosen.database_url else open_file(chosen)[0]
    async with Broker(engine, limits_of(chosen)) as broker:
        guard = Guard(chosen, broker)
        await broker.run(CreateQueue("orders", policy or Policy(), exist_ok=True))
        await broker.run(CreateQueue("others", Policy(), exist_ok=True))
        await guard.keep_up()
        service = make_service(broker, chosen, guard, uuids)
        server = make_server(service, guard)
        (address,) = await server.listen("127.0.0.1", 0)
        service.publisher.flows.base_url = address
        here = Place(server, broker, guard, engine, int(address.rpartition(":")[2]))
        try:
            yield here
        finally:
            here.close()
            await server.drain(5)


def run(story: Callable[[], Coroutine[Any, Any, R]], loop: str = "uvloop") -> R:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(story())


async def both(folder: Path, requests: Sequence[Sent], policy: Policy | None = None, **changes: Any) -> list[Answer]:
    """Return the answers to requests of one tick; one by one, they must be the same and leave the same state."""
    async with place(folder / "together.db", policy, **changes) as together:
        answers = await together.at_once(requests)
        left = await left_behind(together)
    async with place(folder / "alone.db", policy, **changes) as alone:
        expected = await alone.one_by_one(requests)
        assert [answer.alike for answer in answers] == [answer.alike for answer in expected]
        assert left == await left_behind(alone)
    return answers


async def left_behind(here: Place) -> Any:
    metrics = await here.metrics()
    counted = {name: value for name, value in metrics.items() if COUNTED.match(name)}
    return await here.stored("orders"), await here.stored("others"), counted


def sizes(here: Place) -> list[tuple[type[Operation[Any]], int]]:
    """Return each operation's kind, and its number of messages."""
    operations: list[Any] = here.operations
    return [(type(op), len(op.messages if type(op) is Send else op.refs)) for op in operations]


async def held(here: Place, count: int, queue: str = "orders") -> list[tuple[int, str]]:
    """Send and receive messages; return the id and the token of each."""
    await here.broker.send(queue, [NewMessage(b"%d" % next(here.numbers)) for _ in range(count)])
    received = await here.broker.receive(Receive(queue, count))
    assert len(received.messages) == count
    return [(message.id, message.lease.token) for message in received.messages if message.lease is not None]
