"""Requests of the tasks of an event loop."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import cast

from sqew.client.transport.failures import ConnectionBroken, TooSlow, TransportError, in_words, while_connecting
from sqew.client.transport.response import ResponseReader
from sqew.client.transport.route import IDLE_S, LAST_CHUNK, MOST_IDLE, PIECE, Glance, ServerRoute, Timeouts, chunk

_MOST_HELD = 262_144
"""Most bytes of a body that may wait to be taken before the server must wait."""


class LoopedTransport:
    """The connections to a server: as many as are needed at a time, and those that may be needed again."""

    def __init__(self, route: ServerRoute) -> None:
        self._route = route
        self.is_closed = False
        self._idle: deque[_Connection] = deque()
        self._busy: set[_Connection] = set()

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterable[bytes] | None,
        timeouts: Timeouts,
    ) -> LoopedResponse:
        """Send a request, and wait for the head of the answer. The response must be closed."""
        head = self._route.head(method, target, headers, body)
        connection = self._kept() or await self._connected(timeouts.connect)
        self._busy.add(connection)
        try:
            await connection.ask(head, body, timeouts)
            while not connection.reading.status:
                await connection.receive()
        except BaseException:
            self.release(connection, is_done=False)
            raise
        return LoopedResponse(self, connection)

    async def close(self) -> None:
        """Close all connections, and end what is under way."""
        self.is_closed = True
        loop = asyncio.get_running_loop()
        connections = [connection for connection in (*self._idle, *self._busy) if connection.loop is loop]
        self._idle.clear()
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.lost

    def _kept(self) -> _Connection | None:
        """Return an idle connection that the server has not closed, if there is one."""
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is not loop:
                continue  # that loop is gone, and nothing can be done with it
            if connection.is_usable():
                return connection
            connection.abort()
        return None

    async def _connected(self, seconds: float) -> _Connection:
        connection = await _dialled(self._route, seconds)
        if self.is_closed:
            connection.abort()
            raise ConnectionBroken("the client was closed")
        return connection

    def release(self, connection: _Connection, *, is_done: bool) -> None:
        """Keep a connection for the next request, if its exchange is complete."""
        self._busy.discard(connection)
        if not (is_done and connection.is_free) or self.is_closed:
            connection.abort()
            return
        connection.rest()
        self._idle.append(connection)
        while self._idle and (len(self._idle) > MOST_IDLE or self._idle[0].is_old()):
            self._idle.popleft().abort()


class LoopedResponse:
    """An answer, as far as it has come."""

    __slots__ = ("_connection", "_transport", "headers", "status")

    def __init__(self, transport: LoopedTransport, connection: _Connection) -> None:
        self._transport = transport
        self._connection: _Connection | None = connection
        self.status = connection.reading.status
        self.headers = connection.reading.headers

    async def read(self) -> bytes:
        """Return the body."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Little more of it is read than is taken."""
        while True:
            if self._connection is None:
                raise ConnectionBroken("the answer was closed before it was read")
            reading = self._connection.reading
            if reading.held:
                yield reading.take()
            elif reading.is_complete:
                return
            else:
                await self._connection.receive()

    def close(self) -> None:
        """Close the response. The part of its body that has not come yet is lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.release(connection, is_done=True)


class _Connection(asyncio.Protocol):
    """A connection, for one exchange after the other."""

    __slots__ = (
        "_failure", "_glance", "_is_full", "_is_held_up", "_is_resting", "_is_sent", "_rests_since", "_timeouts",
        "_transport", "_waiter", "loop", "lost", "reading",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
        self.loop = loop
        self.lost: asyncio.Future[None] = loop.create_future()
        self.reading = ResponseReader()
        self._failure: TransportError | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._is_full = self._is_held_up = self._is_resting = self._is_sent = False
        self._rests_since = 0.0
        self._timeouts = Timeouts(timeout, timeout, timeout)

    async def ask(self, head: bytes, body: bytes | AsyncIterable[bytes] | None, timeouts: Timeouts) -> None:
        """Send a request."""
        self.reading.begin()
        self._timeouts = timeouts
        self._is_sent = self._is_resting = False
        if body is None:
            self._is_sent = await self._write(head)
        elif not isinstance(body, bytes):
            self._is_sent = await self._write(head) and await self._write_chunks(body)
        elif len(body) < PIECE:
            self._is_sent = await self._write(head + body)
        else:
            self._is_sent = await self._write(head) and await self._write(body)

    async def _write_chunks(self, parts: AsyncIterable[bytes]) -> bool:
        async for part in parts:
            if part and not await self._write(chunk(part)):
                return False
        return await self._write(LAST_CHUNK)

    async def _write(self, data: bytes) -> bool:
        """Send; return False if the other side no longer reads, or has answered already."""
        rest = memoryview(data)
        while rest:
            if self._transport.is_closing() or self.reading.is_complete:
                return False
            self._transport.write(rest[:PIECE])
            rest = rest[PIECE:]
            while self._is_full and not self._transport.is_closing() and not self.reading.is_complete:
                await self._wait(self._timeouts.write, "the request was not taken in time")
        return True

    async def receive(self) -> None:
        """Wait for more of the answer."""
        if self._failure is not None:
            raise self._failure
        if self._is_held_up and not self._transport.is_closing():
            self._is_held_up = False
            self._transport.resume_reading()
        await self._wait(self._timeouts.read, "the answer did not come in time")

    async def _wait(self, seconds: float, otherwise: str) -> None:
        """Wait until something has happened, or raise `TooSlow`."""
        self._waiter = self.loop.create_future()
        timer = self.loop.call_later(seconds, self._wake, False)
        try:
            if not await self._waiter:
                raise TooSlow(otherwise)
        finally:
            timer.cancel()
            self._waiter = None

    @property
    def is_free(self) -> bool:
        """True if the request is sent and the answer is read, and another request may follow."""
        return self._is_sent and self.reading.is_reusable and not self._transport.is_closing()

    def rest(self) -> None:
        """Note that the connection is idle from now on."""
        self._is_resting = True
        self._rests_since = self.loop.time()

    def is_old(self) -> bool:
        return self.loop.time() - self._rests_since > IDLE_S

    def is_usable(self) -> bool:
        return not (self._transport.is_closing() or self.is_old() or self._glance.sees_something())

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if not self.lost.done():
            self._transport.abort()

    # The loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._glance = Glance(transport.get_extra_info("socket").fileno())

    def data_received(self, data: bytes) -> None:
        if self._is_resting:
            self.abort()  # nobody asked
            return
        try:
            self.reading.feed(data)
        except TransportError as error:
            self._fail(error)
        if self.reading.held > _MOST_HELD and not (self._is_held_up or self.reading.is_complete):
            self._is_held_up = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        try:
            self.reading.end()
        except TransportError as error:
            self._fail(error)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self.reading.is_complete:
            self._fail(ConnectionBroken(in_words(exc)))
        else:
            self.eof_received()
        self._wake()
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def _fail(self, failure: TransportError) -> None:
        if self._failure is None:
            self._failure = failure

    def _wake(self, is_in_time: bool = True) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(is_in_time)

    async def secured(self, route: ServerRoute) -> None:
        """Pass the proxy, and start TLS, if the route needs them."""
        if route.tunnel:
            self._transport.write(route.tunnel)
            while not self.reading.status:
                await self.receive()
            self.reading.check_tunnel()
            self.reading = ResponseReader()
        if route.tls is not None:
            secure = await self.loop.start_tls(self._transport, self, route.tls, server_hostname=route.host)
            self._transport = cast("asyncio.Transport", secure)


async def _dialled(route: ServerRoute, seconds: float) -> _Connection:
    loop = asyncio.get_running_loop()
    with while_connecting():
        dialled = await _socket_to(route, seconds, loop)
        connection = _Connection(loop, seconds)
        connect = loop.create_connection if route.socket is None else loop.create_unix_connection
        try:
            await connect(lambda: connection, sock=dialled)
        except BaseException:
            dialled.close()
            raise
        try:
            async with asyncio.timeout(seconds):
                await connection.secured(route)
        except BaseException:
            connection.abort()
            raise
        return connection


async def _socket_to(route: ServerRoute, seconds: float, loop: asyncio.AbstractEventLoop) -> socket.socket:
    """Return a connected socket: to the first address of the server that can be reached, with a timeout for each."""
    if route.socket is not None:
        return await _connected(socket.AF_UNIX, route.socket, seconds, loop)
    try:
        found = socket.getaddrinfo(*route.endpoint, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        # A name, and not an address: only then a thread must wait for what it means.
        found = await loop.getaddrinfo(*route.endpoint, type=socket.SOCK_STREAM)
    failure = OSError(f"{route.endpoint[0]} has no address")
    for family, *_, address in found:
        try:
            return await _connected(family, address, seconds, loop)
        except OSError as error:
            failure = error
    raise failure


async def _connected(family: int, address: object, seconds: float, loop: asyncio.AbstractEventLoop) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        async with asyncio.timeout(seconds):
            await loop.sock_connect(made, address)  # type: ignore[arg-type]  # an address as getaddrinfo gives it
    except BaseException:
        made.close()
        raise
    return made
