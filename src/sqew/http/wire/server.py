"""The server: it listens, enforces the deadlines of its connections, and stops without losing a response."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import ssl
import sys
import time
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from uuid import uuid4

from msgspec import structs

from sqew.errors import BadSetting
from sqew.http.wire.connection import Connection
from sqew.http.wire.contract import Application, ConnectionLimits
from sqew.http.wire.heads import KnownHead

_BACKLOG = 4_096
_OTHER_FILES = 64
"""Files that a server needs besides its connections."""
_TLS_GOODBYE_S = 2.0
_LAST_CALL_S = 0.05
"""Seconds to wait when the server stops: what was sent before that was announced may still be on its way."""


class Server:
    """The connections of a server and what they share. Implements `sqew.http.wire.contract.ConnectionOwner`."""

    def __init__(self, application: Application, bounds: ConnectionLimits) -> None:
        self.application = application
        self.limits = structs.replace(bounds, max_connections=min(bounds.max_connections, _most_connections()))
        self.connections: set[Connection] = set()
        self.is_draining = False
        self.buffered_bytes = 0
        self.known_heads: dict[bytes, KnownHead] = {}
        self.known_tails: dict[tuple[bytes, bytes], KnownHead] = {}
        self._loop = asyncio.get_running_loop()
        # Not the loop's: uvloop's stands still during a tick, and with it what a request took.
        self.now = time.monotonic
        self._heads: dict[tuple[int, bytes], bytes] = {}
        # The first 24 characters of a UUID: the last 12 count.
        self._prefix = str(uuid4())[:24].encode()
        self._served = 0
        self._listeners: list[asyncio.Server] = []
        self._emptied = asyncio.Event()
        self._unix_socket = ""

    # What a connection asks for

    def head(self, status: int, content_type: bytes) -> bytes:
        """Return the first lines of a response, up to the content-length's value. They change once a second."""
        known = self._heads.get((status, content_type))
        if known is None:
            lines = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ndate: {formatdate(usegmt=True)}\r\n".encode()
            kind = b"content-type: " + content_type + b"\r\n" if content_type else b""
            known = lines + kind + b"content-length: "
            self._heads[status, content_type] = known
        return known

    def new_id(self) -> bytes:
        """Return an id for a request that brought none: a UUID, as clients of AWS expect."""
        self._served += 1
        return b"%b%012x" % (self._prefix, self._served)

    # Its life

    async def listen(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, unix_socket: str | None = None
    ) -> list[str]:
        """Begin to accept connections; return the addresses at which it does."""

        def connect() -> Connection:
            return Connection(self)

        # A handshake is the head of an encrypted connection: it may take no longer.
        handshake_s = self.limits.header_s if tls else None
        shutdown_s = _TLS_GOODBYE_S if tls else None
        listener: asyncio.Server
        try:
            if unix_socket:
                _check_unused(unix_socket)
                listener = await self._loop.create_unix_server(
                    connect, unix_socket, ssl=tls, backlog=_BACKLOG,
                    ssl_handshake_timeout=handshake_s, ssl_shutdown_timeout=shutdown_s,
                )  # fmt: skip
            else:
                listener = await self._loop.create_server(
                    connect, host or None, port, ssl=tls, backlog=_BACKLOG,
                    ssl_handshake_timeout=handshake_s, ssl_shutdown_timeout=shutdown_s,
                )  # fmt: skip
        except OSError as error:
            where = unix_socket or f"{host}:{port}"
            advice = "another path with --unix-socket" if unix_socket else "others with --host and --port"
            why = str(error) if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
            raise BadSetting(
                f"{where} can't be listened at ({why}). "
                f"Another program may have it, or it is not this machine's to use: choose {advice}."
            ) from error
        self._listeners.append(listener)
        if unix_socket:
            self._unix_socket = unix_socket
            return [f"unix:{unix_socket}"]
        scheme = "https" if tls else "http"
        addresses = [listening.getsockname()[:2] for listening in listener.sockets]
        return [f"{scheme}://{f'[{name}]' if ':' in name else name}:{number}" for name, number in addresses]

    def tick(self) -> None:
        """Close connections that have been slow for too long. To be called once a second."""
        self._heads.clear()
        now = self.now()
        for connection in [c for c in self.connections if c.deadline < now or c.write_deadline < now]:
            connection.timed_out(now)
        self.application.keep_up()

    async def drain(self, within_s: float) -> bool:
        """Accept nothing more and answer what is in flight; return True if all was answered in time."""
        self.is_draining = True
        await asyncio.sleep(_LAST_CALL_S)
        for listener in self._listeners:
            listener.close()
        self._remove_socket()
        for connection in list(self.connections):
            connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.connections:
                    self._emptied.clear()
                    await self._emptied.wait()
        return not self.connections

    def _remove_socket(self) -> None:
        if self._unix_socket:
            Path(self._unix_socket).unlink(missing_ok=True)

    def forget(self, connection: Connection) -> None:
        """Forget a connection that was closed."""
        self.connections.discard(connection)
        if not self.connections:
            self._emptied.set()


def _check_unused(path: str) -> None:
    """Raise `OSError` if a program listens at a unix socket: the loop would take it over without a word."""
    with contextlib.suppress(FileNotFoundError, ConnectionRefusedError), socket.socket(socket.AF_UNIX) as asked:
        asked.connect(path)
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _most_connections() -> int:
    """Return how many connections the limit of open files leaves room for: one more could not even be refused."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else max(1, files - _OTHER_FILES)


def raise_file_limit() -> None:
    """Raise the limit of open files: a connection is one, and the usual limit of 1,024 is meant for other programs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
