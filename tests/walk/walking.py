"""Walks of single requests: the files and functions of sqew that run, in order, as a profiler sees them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import sqew
from sqew.core.broker import Broker
from sqew.core.engine import limits_of, open_database, open_file
from sqew.http.run import make_server, make_service
from sqew.http.security.guard import Guard
from sqew.ids import MessageUuids
from sqew.settings import resolve

SOURCE = str(Path(sqew.__file__).parent) + "/"
TURNING = {"http", "core", "stores"}
"""The rooms between which a request changes. The others are called on the way, and return at once."""
TRIES = 20
"""Attempts of which the shortest counts: on a busy machine most of them meet upkeep, which runs by the clock."""
_JSON = "Content-Type: application/json"
_AWS = (
    "Content-Type: application/x-amz-json-1.0",
    "X-Amz-Target: AmazonSQS.SendMessage",
    "Authorization: AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/sqs/aws4_request",
)


class Walk:
    """A recording of each function of sqew that was entered, once, in the order of the first time."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self.steps.append((frame.f_code.co_filename[len(SOURCE) :], frame.f_code.co_qualname))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record this thread, and those that begin meanwhile."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type] # typeshed knows no None before 3.12

    @property
    def files(self) -> list[str]:
        """The files, in the order in which they are entered first."""
        return list(dict.fromkeys(file for file, _ in self.steps))

    @property
    def functions(self) -> int:
        return len(set(self.steps))

    @property
    def changes(self) -> int:
        """The number of changes from one room to another."""
        rooms = [room for file, _ in self.steps if (room := file.partition("/")[0]) in TURNING]
        return sum(one != other for one, other in pairwise(rooms))


def shortest(walks: list[Walk]) -> Walk:
    """Return the shortest walk: others met upkeep, or took a new block of ids."""
    return min(walks, key=lambda walk: (len(walk.files), walk.functions, len(walk.steps)))


class Connection:
    """A connection to a server in this process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, method: str, path: str, body: Any = None, *headers: str) -> Any:
        """Send a request, and decode the answer."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(encoded)}", *headers, "", ""]
        self._writer.write("\r\n".join(head).encode() + encoded)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in answer.split(b"\r\n")[1:-2])
        said = await self._reader.readexactly(int(fields[b"content-length"]))
        assert answer.split(b" ")[1] in (b"200", b"201"), said
        return msgspec.json.decode(said) if said else None


@contextlib.asynccontextmanager
async def serving(settings: dict[str, str]) -> AsyncIterator[Connection]:
    """Serve in this loop, with a queue `orders` that has been used."""
    resolved = resolve(settings, {}, None)
    engine = await open_database(resolved) if resolved.database_url else open_file(resolved)[0]
    broker = Broker(engine, limits_of(resolved))
    guard = Guard(resolved, broker)
    await guard.keep_up()
    server = make_server(make_service(broker, resolved, guard, MessageUuids(0)), guard)
    address = (await server.listen("127.0.0.1", 0))[0]
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    try:
        connection = Connection(reader, writer)
        await connection.ask("POST", "/queues", {"name": "orders", "dlq": None, "max_attempts": None}, _JSON)
        yield connection
    finally:
        writer.close()
        broker.dismiss()
        await server.drain(1)
        await broker.close()


async def walk(request: Callable[[], Awaitable[Any]]) -> Walk:
    """Record a request that has been made before, several times, and keep the shortest."""
    for _ in range(3):
        await request()
    walks = []
    for _ in range(TRIES):
        recorded = Walk()
        with recorded.recording():
            await request()
        walks.append(recorded)
    return shortest(walks)


async def walks_over_http(settings: dict[str, str]) -> dict[str, Walk]:
    """Record a lone send, poll and ack in Sqew's own dialect, and a SendMessage of SQS."""
    async with serving(settings) as connection:
        taken: list[dict[str, Any]] = []

        async def send() -> None:
            await connection.ask("POST", "/queues/orders/messages", {"payload": {"sku": 7}}, _JSON)

        async def poll() -> None:
            taken.extend((await connection.ask("POST", "/queues/orders/poll?wait_ms=1000"))["messages"])

        async def ack() -> None:
            message = taken.pop()
            await connection.ask("POST", "/queues/orders/ack", {"id": message["id"], "token": message["token"]}, _JSON)

        async def send_message() -> None:
            url = "http://localhost/000000000000/orders"
            await connection.ask("POST", "/", {"QueueUrl": url, "MessageBody": "hello"}, *_AWS)

        sent = await walk(send)
        return {
            "send": sent,
            "poll": await walk(poll),
            "ack": await walk(ack),
            "SQS SendMessage": await walk(send_message),
        }


def walk_embedded(folder: Path) -> Walk:
    """Record an enqueue of a queue in a file."""
    with sqew.Queue.open(folder / "queue.db") as q:
        q.create("orders", max_attempts=None, dead_letter=None)
        for _ in range(3):
            q.enqueue("orders", {"sku": 7})
        walks = []
        for _ in range(TRIES):
            recorded = Walk()
            with recorded.recording():
                q.enqueue("orders", {"sku": 7})
            walks.append(recorded)
    return shortest(walks)
