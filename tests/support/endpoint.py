"""A real endpoint in a thread of this process: it records what is posted to it, and behaves as badly as it is told.

with endpoint() as hook:
    hook.does("/flaky", status(500), status(200))
    ...
    hook.wait_for("/flaky", 2)
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, NamedTuple

import trustme

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


_LAST_TURNS_S = 0.01


class Received(NamedTuple):
    """A request as it came: on which connection, and as which of that connection's requests."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    turn: int
    at: float


Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[bool]]
"""A function that answers a request, or doesn't; it returns True if the connection goes on."""


def says(raw: bytes, *, goes_on: bool = True) -> Behaviour:
    """Return a behaviour that answers with these bytes, whatever they are."""

    async def behave(_: Received, writer: asyncio.StreamWriter) -> bool:
        writer.write(raw)
        await writer.drain()
        return goes_on

    return behave


def status(code: int, **headers: str) -> Behaviour:
    """Return a behaviour that answers with a status, and perhaps headers (``retry_after="5"``)."""
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    length = "" if code == 204 else "content-length: 0\r\n"
    return says(f"HTTP/1.1 {code} So\r\n{length}{extra}\r\n".encode())


async def stalls(_: Received, __: asyncio.StreamWriter) -> bool:
    """Stall for ever instead of answering."""
    return await asyncio.get_running_loop().create_future() is None


def after(seconds: float, behaviour: Behaviour) -> Behaviour:
    """Return a behaviour that waits, and then does something else."""

    async def behave(received: Received, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(seconds)
        return await behaviour(received, writer)

    return behave


def both(first: Behaviour, second: Behaviour) -> Behaviour:
    """Return a behaviour that does one thing after the other."""

    async def behave(received: Received, writer: asyncio.StreamWriter) -> bool:
        return await first(received, writer) and await second(received, writer)

    return behave


async def drips(_: Received, writer: asyncio.StreamWriter) -> bool:
    """Answer a byte every 10 ms."""
    for index in range(len(OK)):
        writer.write(OK[index : index + 1])
        await writer.drain()
        await asyncio.sleep(0.01)
    return True


async def resets(_: Received, writer: asyncio.StreamWriter) -> bool:
    """Reset the connection instead of answering."""
    reset(writer)
    return False


async def hangs_up(_: Received, __: asyncio.StreamWriter) -> bool:
    """Close the connection instead of answering."""
    return False


async def answers_once(received: Received, writer: asyncio.StreamWriter) -> bool:
    """Answer a connection's first request, and close the connection when another comes."""
    return received.turn == 1 and await says(OK)(received, writer)


async def answers_and_resets(received: Received, writer: asyncio.StreamWriter) -> bool:
    """Answer, and reset the connection although the answer said it would be kept."""
    await says(OK)(received, writer)
    reset(writer)
    return False


async def endless(beginning: bytes, again: bytes, _: Received, writer: asyncio.StreamWriter) -> bool:
    writer.write(beginning)
    while True:
        writer.write(again)
        await writer.drain()


endless_headers: Behaviour = functools.partial(endless, b"HTTP/1.1 200 OK\r\n", b"x-more: " + b"y" * 1_000 + b"\r\n")
endless_header: Behaviour = functools.partial(endless, b"HTTP/1.1 200 OK\r\nx-more: ", b"y" * 1_000)
endless_body: Behaviour = functools.partial(endless, b"HTTP/1.1 200 OK\r\n\r\n", b"z" * 1_000)
endless_chunks: Behaviour = functools.partial(
    endless, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nz\r\n" * 100
)
endless_interims: Behaviour = functools.partial(endless, b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST: what was not sent yet is lost."""
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Gate:
    """A behaviour that answers no request until it is opened, and all from then on."""

    def __init__(self, answer: bytes = OK) -> None:
        self._opened: Future[None] = Future()
        self._answer = answer

    async def __call__(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        # Shielded, because others wait for it too.
        await asyncio.shield(asyncio.wrap_future(self._opened))
        return await says(self._answer)(received, writer)

    def open(self) -> None:
        self._opened.set_result(None)


class Hook:
    """The endpoint, as a test sees it from another thread."""

    def __init__(self, scheme: str) -> None:
        self.scheme, self.port = scheme, 0
        self.connections = self.ended = 0
        self.server_names: list[str | None] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self._behaviours: dict[str, list[Behaviour]] = {}
        self._unread: dict[str, Behaviour] = {}
        self._received: list[Received] = []
        self._news = threading.Condition()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def does(self, path: str, *behaviours: Behaviour) -> None:
        """Set the behaviours for posts to a path: each in turn, the last from then on. Without any, it answers 200."""
        self._behaviours[path] = list(behaviours)

    def does_unread(self, path: str, behaviour: Behaviour) -> None:
        """Do the same, but before the body is read."""
        self._unread[path] = behaviour

    def received(self, path: str | None = None) -> list[Received]:
        """Return all requests that came to a path, or to any."""
        with self._news:
            return [request for request in self._received if path in (None, request.path)]

    def wait_for(self, path: str, count: int = 1, within: float = 30) -> list[Received]:
        """Wait until so many requests came to a path."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.received(path)) >= count, within), self.received(path)
            return self.received(path)

    def wait_for_any(self, count: int, within: float = 30) -> None:
        """Wait until so many requests came, to whatever path."""
        with self._news:
            assert self._news.wait_for(lambda: len(self._received) >= count, within), self._received

    def wait_for_ends(self, count: int, within: float = 30) -> None:
        """Wait until so many connections have ended."""
        with self._news:
            assert self._news.wait_for(lambda: self.ended >= count, within), self.ended

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        # A task that is cancelled before it has begun closes nothing itself.
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._news:
            self.connections += 1
            connection = self.connections
        try:
            turn = 1
            while await self._serve_one(connection, turn, reader, writer):
                turn += 1
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass  # the other side has gone
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()
            with self._news:
                self.ended += 1
                self._news.notify_all()

    async def _serve_one(
        self, connection: int, turn: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        at = time.monotonic()
        if path in self._unread:
            return await self._unread[path](Received(method, path, headers, b"", connection, turn, at), writer)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Received(method, path, headers, body, connection, turn, at)
        with self._news:
            self._received.append(request)
            self._news.notify_all()
        return await self._next_behaviour(path)(request, writer)

    def _next_behaviour(self, path: str) -> Behaviour:
        behaviours = self._behaviours.get(path, [])
        if len(behaviours) > 1:
            return behaviours.pop(0)
        return behaviours[0] if behaviours else says(OK)


async def arrived(hook: Hook, path: str, count: int = 1) -> list[Received]:
    """Wait in an event loop until so many requests came to a path, and return them."""
    return await asyncio.to_thread(hook.wait_for, path, count, within=20)


def values(requests: list[Received]) -> list[Any]:
    """Return the bodies, decoded from JSON."""
    return [json.loads(request.body) for request in requests]


@contextlib.contextmanager
def endpoint(certificate: trustme.LeafCert | None = None, host: str = "127.0.0.1") -> Iterator[Hook]:
    """Run an endpoint for a while: over HTTPS if it has a certificate."""
    hook = Hook("http" if certificate is None else "https")
    ready = threading.Event()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        server = await asyncio.start_server(hook.accept, host, 0, ssl=_context(certificate, hook))
        hook.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        # asyncio leaves open what it is accepting when a server is closed: so nothing more is accepted before that.
        # What was accepted just now comes to `accept` some turns of the loop later, and is closed some after that.
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(_LAST_TURNS_S)
        server.close()
        for task in hook.tasks:
            task.cancel()
        await asyncio.gather(*hook.tasks, return_exceptions=True)
        await asyncio.sleep(_LAST_TURNS_S)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    try:
        yield hook
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive()


def _context(certificate: trustme.LeafCert | None, hook: Hook) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    context.sni_callback = lambda _, name, __: hook.server_names.append(name)
    return context
