"""Requests that block their thread. A transport may be shared by threads."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Lock
from time import monotonic

from sqew.client.transport.failures import ConnectionBroken, TooSlow, in_words, while_connecting
from sqew.client.transport.response import ResponseReader
from sqew.client.transport.route import IDLE_S, LAST_CHUNK, MOST_IDLE, PIECE, Glance, ServerRoute, Timeouts, chunk

_AT_A_TIME = 65_536


class BlockingTransport:
    """The connections to a server: as many as are needed at a time, and those that may be needed again."""

    def __init__(self, route: ServerRoute) -> None:
        self._route = route
        self.is_closed = False
        self._idle: deque[_Connection] = deque()
        self._busy: set[_Connection] = set()
        self._lock = Lock()
        self._process = os.getpid()

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | Iterable[bytes] | None,
        timeouts: Timeouts,
    ) -> BlockingResponse:
        """Send a request, and wait for the head of the answer. The response must be closed."""
        head = self._route.head(method, target, headers, body)
        connection = self._kept() or self._connected(timeouts.connect)
        try:
            connection.ask(head, body, timeouts)
            while not connection.reading.status:
                connection.receive()
        except BaseException:
            self.release(connection, is_done=False)
            raise
        return BlockingResponse(self, connection)

    def close(self) -> None:
        """Close all connections, and end what is under way."""
        with self._lock:
            self.is_closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            for connection in self._busy:
                connection.hang_up()

    def _kept(self) -> _Connection | None:
        """Return an idle connection that the server has not closed, if there is one."""
        with self._lock:
            if self._process != os.getpid():
                # Made by a fork: what is said on these connections is said by the other process too.
                self._process = os.getpid()
                self._busy = set()
                while self._idle:
                    self._idle.pop().close()
            while self._idle:
                connection = self._idle.pop()
                if connection.is_usable():
                    self._busy.add(connection)
                    return connection
                connection.close()
        return None

    def _connected(self, timeout: float) -> _Connection:
        connection = _Connection(_dialled(self._route, timeout), timeout)
        with self._lock:
            if not self.is_closed:
                self._busy.add(connection)
                return connection
        connection.close()
        raise ConnectionBroken("the client was closed")

    def release(self, connection: _Connection, *, is_done: bool) -> None:
        """Keep a connection for the next request, if its exchange is complete."""
        with self._lock:
            self._busy.discard(connection)
            if not (is_done and connection.is_free) or self.is_closed:
                connection.close()
                return
            connection.rests_since = monotonic()
            self._idle.append(connection)
            while self._idle and (len(self._idle) > MOST_IDLE or self._idle[0].is_old()):
                self._idle.popleft().close()


class BlockingResponse:
    """An answer, as far as it has come."""

    __slots__ = ("_connection", "_transport", "headers", "status")

    def __init__(self, transport: BlockingTransport, connection: _Connection) -> None:
        self._transport = transport
        self._connection: _Connection | None = connection
        self.status = connection.reading.status
        self.headers = connection.reading.headers

    def read(self) -> bytes:
        """Return the body."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. No more of it is read than is taken."""
        while True:
            if self._connection is None:
                raise ConnectionBroken("the answer was closed before it was read")
            reading = self._connection.reading
            if reading.held:
                yield reading.take()
            elif reading.is_complete:
                return
            else:
                self._connection.receive()

    def close(self) -> None:
        """Close the response. The part of its body that has not come yet is lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.release(connection, is_done=True)


class _Connection:
    """A connection, for one exchange after the other."""

    __slots__ = ("_glance", "_is_sent", "_socket", "_timeout", "_timeouts", "reading", "rests_since")

    def __init__(self, connected: socket.socket, timeout: float) -> None:
        self._socket = connected
        self._timeout = timeout
        self._timeouts = Timeouts(timeout, timeout, timeout)
        self._glance = Glance(connected.fileno())
        self._is_sent = False
        self.rests_since = 0.0
        self.reading = ResponseReader()

    def ask(self, head: bytes, body: bytes | Iterable[bytes] | None, timeouts: Timeouts) -> None:
        """Send a request."""
        self.reading.begin()
        self._timeouts = timeouts
        # Whoever hears no more may have answered: that is for `receive` to find out.
        self._is_sent = all(map(self._write, _parts(head, body)))

    def _write(self, data: bytes) -> bool:
        """Send; return False if the other side no longer reads."""
        self._allow(self._timeouts.write)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._socket.send(rest[:PIECE]) :]
        except TimeoutError as error:
            raise TooSlow("the request was not taken in time") from error
        except OSError:
            return False
        return True

    def receive(self) -> None:
        """Wait for more of the answer."""
        self._allow(self._timeouts.read)
        try:
            data = self._socket.recv(_AT_A_TIME)
        except TimeoutError as error:
            raise TooSlow("the answer did not come in time") from error
        except OSError as error:
            raise ConnectionBroken(in_words(error)) from error
        if data:
            self.reading.feed(data)
        else:
            self.reading.end()

    def _allow(self, seconds: float) -> None:
        if seconds != self._timeout:
            self._timeout = seconds
            self._socket.settimeout(seconds)

    @property
    def is_free(self) -> bool:
        """True if the request is sent and the answer is read, and another request may follow."""
        return self._is_sent and self.reading.is_reusable

    def is_old(self) -> bool:
        return monotonic() - self.rests_since > IDLE_S

    def is_usable(self) -> bool:
        return not self.is_old() and not self._glance.sees_something()

    def hang_up(self) -> None:
        """Wake the thread that waits here, which closes the connection then."""
        with suppress(OSError):
            # Not by the method of a TLS socket, which would forget its state.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def _parts(head: bytes, body: bytes | Iterable[bytes] | None) -> Iterator[bytes]:
    """Yield the data to send, small parts together."""
    if body is None:
        yield head
    elif not isinstance(body, bytes):
        yield head
        yield from (chunk(part) for part in body if part)
        yield LAST_CHUNK
    elif len(body) < PIECE:
        yield head + body
    else:
        yield head
        yield body


def _dialled(route: ServerRoute, timeout: float) -> socket.socket:
    with while_connecting():
        if route.socket is not None:
            dialled = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            dialled = socket.create_connection(route.endpoint, timeout)
        try:
            if route.socket is not None:
                dialled.settimeout(timeout)
                dialled.connect(route.socket)
            else:
                dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if route.tunnel:
                _pass_proxy(dialled, route.tunnel)
            if route.tls is not None:
                return route.tls.wrap_socket(dialled, server_hostname=route.host)
        except BaseException:
            dialled.close()
            raise
        return dialled


def _pass_proxy(proxy: socket.socket, tunnel: bytes) -> None:
    proxy.sendall(tunnel)
    reading = ResponseReader()
    while not reading.status:
        if data := proxy.recv(_AT_A_TIME):
            reading.feed(data)
        else:
            reading.end()
    reading.check_tunnel()
