"""The server: it listens, keeps the time of its connections, and ends without losing an answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import ssl
from email.utils import formatdate
from http import HTTPStatus

from sqew.errors import BadSetting
from sqew.http.connection import Application, Bounds, Connection

_BACKLOG = 4_096


class Server:
    """Connections and what they share. Implements `sqew.http.connection.Hub`."""

    def __init__(self, application: Application, bounds: Bounds) -> None:
        self.application = application
        self.bounds = bounds
        self.connections: set[Connection] = set()
        self.is_draining = False
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._heads: dict[tuple[int, bytes], bytes] = {}
        self._prefix = os.urandom(4).hex().encode()
        self._served = 0
        self._listeners: list[asyncio.Server] = []
        self._emptied = asyncio.Event()

    # What a connection asks for

    def head(self, status: int, content_type: bytes) -> bytes:
        """The first lines of an answer, up to the content-length's value. They change once a second."""
        known = self._heads.get((status, content_type))
        if known is None:
            lines = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ndate: {formatdate(usegmt=True)}\r\n".encode()
            known = lines + b"content-type: " + content_type + b"\r\ncontent-length: "
            self._heads[status, content_type] = known
        return known

    def new_id(self) -> bytes:
        """A name for a request that brought none."""
        self._served += 1
        return b"%b-%x" % (self._prefix, self._served)

    # Its life

    async def listen(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, unix_socket: str | None = None
    ) -> list[str]:
        """Begin to accept connections; the addresses at which it does."""

        def connect() -> Connection:
            return Connection(self)

        if unix_socket:
            listener = await self._loop.create_unix_server(connect, unix_socket, ssl=tls, backlog=_BACKLOG)
            self._listeners.append(listener)
            return [f"unix:{unix_socket}"]
        try:
            listener = await self._loop.create_server(connect, host or None, port, ssl=tls, backlog=_BACKLOG)
        except OSError as error:
            raise BadSetting(
                f"{host}:{port} can't be listened at ({error.strerror or error}). "
                "Another program may have it: choose another with --port."
            ) from error
        self._listeners.append(listener)
        scheme = "https" if tls else "http"
        addresses = [socket.getsockname()[:2] for socket in listener.sockets]
        return [f"{scheme}://{f'[{name}]' if ':' in name else name}:{number}" for name, number in addresses]

    def tick(self) -> None:
        """Once a second: close what has been slow for too long."""
        self._heads.clear()
        now = self.now()
        for connection in [connection for connection in self.connections if connection.deadline < now]:
            connection.timed_out()

    async def drain(self, within_s: float) -> bool:
        """Accept nothing more and answer what is in flight; whether all was answered in time."""
        self.is_draining = True
        for listener in self._listeners:
            listener.close()
        for connection in list(self.connections):
            connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.connections:
                    self._emptied.clear()
                    await self._emptied.wait()
        return not self.connections

    def forget(self, connection: Connection) -> None:
        """A connection was closed."""
        self.connections.discard(connection)
        if not self.connections:
            self._emptied.set()


def raise_file_limit() -> None:
    """A connection is an open file, and the usual limit of 1,024 is meant for other programs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
