"""The route to a server, and the head of each request on it."""

from __future__ import annotations

import select
import ssl
from collections.abc import Mapping
from functools import cached_property
from urllib.parse import quote, urlsplit

from msgspec import Struct

from sqew.client.transport.failures import BadHost
from sqew.client.transport.proxies import DEFAULT_PORTS, Proxy, check_certificates, proxy_to, trusted

MOST_IDLE = 100
"""Most idle connections that are kept."""
IDLE_S = 30.0
"""Seconds that an idle connection is kept: fewer than on the server, so that none is used just as it is closed."""
PIECE = 262_144
"""Bytes that are sent at a time: each time the other side has the whole timeout to take them."""
LAST_CHUNK = b"0\r\n\r\n"
_IN_PATHS = "/%!$&'()*+,;=:@~"
_WITH_BODY = ("POST", "PUT", "PATCH")


class Timeouts(Struct, frozen=True):
    """The seconds that each part of an exchange may take: to connect, and for each piece that is sent or received."""

    connect: float
    write: float
    read: float


class ServerRoute:
    """The route to the server whose URL is ``base``: through its ``socket``, a proxy, or straight.

    ``tls``: the context for https; None: the default one. ``headers`` go with each request. Raises `BadValue` if the
    environment names proxies or certificates that can't be used.
    """

    def __init__(
        self, base: str, headers: Mapping[str, str], *, socket: str | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        server = urlsplit(base)
        self._server = server
        self._headers = headers
        self._port = DEFAULT_PORTS[server.scheme] if server.port is None else server.port
        self.socket = socket
        self.tls: ssl.SSLContext | None = None
        self._proxy: Proxy | None = None
        if socket is None:
            # A proxy is no way to a socket on this machine.
            self._proxy = proxy_to(server)
            if server.scheme == "https":
                self.tls = trusted() if tls is None else tls
            elif tls is None:
                check_certificates()

    @cached_property
    def host(self) -> str:
        """The name of the server, as certificates have it."""
        name = self._server.hostname or ""
        if name.isascii():
            return name
        import idna  # here, because it takes 20 ms and few names need it

        try:
            return idna.encode(name).decode()
        except idna.IDNAError as error:
            raise BadHost(str(error)) from error

    @property
    def endpoint(self) -> tuple[str, int]:
        """The host and the port to connect to."""
        return (self.host, self._port) if self._proxy is None else (self._proxy.host, self._proxy.port)

    @property
    def tunnel(self) -> bytes:
        """The request to a proxy before TLS with the server begins; empty if none."""
        if self._proxy is None or self.tls is None:
            return b""
        server = f"{_bracketed(self.host)}:{self._port}"
        return f"CONNECT {server} HTTP/1.1\r\nhost: {server}\r\n{self._proxy.headers}\r\n".encode()

    def head(self, method: str, target: str, headers: Mapping[str, str], body: object) -> bytes:
        """Return the head of a request to a path of the server. A body other than None or bytes is sent in chunks."""
        before, after = self._frame
        own = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if isinstance(body, bytes):
            own += f"content-length: {len(body)}\r\n"
        elif body is not None:
            own += "transfer-encoding: chunked\r\n"
        elif method in _WITH_BODY:
            own += "content-length: 0\r\n"
        return f"{method} {before}{target} HTTP/1.1\r\n{after}{own}\r\n".encode()

    @cached_property
    def _frame(self) -> tuple[str, str]:
        """The strings before the target, and between the first line and a request's own headers."""
        place = _bracketed(self.host)
        if self._port != DEFAULT_PORTS[self._server.scheme]:
            place += f":{self._port}"
        before = quote(self._server.path.rstrip("/"), safe=_IN_PATHS)
        after = "".join(f"{name}: {value}\r\n" for name, value in {"host": place, **self._headers}.items())
        if self._proxy is None or self.tls is not None:
            return before, after
        return f"http://{place}{before}", after + self._proxy.headers


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def chunk(data: bytes) -> bytes:
    """Return a piece of a body whose length is not known before."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Glance:
    """A check of an idle connection for anything that came: its end, or bytes that were not asked for."""

    __slots__ = ("_poll",)

    def __init__(self, fileno: int) -> None:
        self._poll = select.poll()
        self._poll.register(fileno, select.POLLIN)

    def sees_something(self) -> bool:
        return bool(self._poll.poll(0))
