"""Posting to endpoints: one request at a time, to addresses that were checked, within a time that covers everything."""

from __future__ import annotations

import asyncio
import functools
import re
import ssl
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from msgspec import Struct

import sqew
from sqew.background.webhooks.connection import EndpointConnection, EndpointGone
from sqew.background.webhooks.connection_pool import IdleConnections
from sqew.errors import BadEndpoint, DeliveryFailed
from sqew.rules.addresses import Address
from sqew.rules.endpoints import Endpoint
from sqew.rules.webhook_addresses import WebhookAddresses

IDLE_S = 15.0
"""Seconds that a connection is kept for the next request. Most servers close theirs after a minute or more."""
OLDEST_S = 300.0
"""Seconds that a connection is used at most. Then its name is resolved again, in case the endpoint has moved."""
MOST_IDLE = 128
"""Most connections that are kept, to all endpoints together."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_OURS = frozenset({"host", "content-length", "connection", "transfer-encoding"})
_AGENT = f"user-agent: sqew/{sqew.__version__}\r\n"


class EndpointAnswer(Struct, frozen=True):
    """An endpoint's answer, and the seconds that it took to get there, ask and read it."""

    status: int
    took_s: float


class Poster:
    """An HTTP client that posts to endpoints, and keeps connections to them open for a while.

    It goes where ``webhook_addresses`` lets it: it follows no redirects, uses no proxies and keeps no cookies.
    """

    def __init__(
        self,
        webhook_addresses: WebhookAddresses,
        timeout_s: float,
        *,
        idle_s: float = IDLE_S,
        oldest_s: float = OLDEST_S,
        most_idle: int = MOST_IDLE,
    ) -> None:
        self._addresses = webhook_addresses
        self._timeout_s = timeout_s
        self._kept = IdleConnections(idle_s, oldest_s, most_idle)
        self._open: set[EndpointConnection] = set()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        await self.close()

    async def post(self, endpoint_url: str, body: bytes, headers: Mapping[str, str]) -> EndpointAnswer:
        """Post a body, and return how it was answered; raise DeliveryFailed when it was not, with a sentence why.

        A connection that was kept may turn out to be dead: then the same goes out again on a new one. So an endpoint
        may see a request twice.
        """
        started = time.perf_counter()  # some loops count milliseconds
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        try:
            endpoint = self._addresses.check_url(endpoint_url)
        except BadEndpoint as error:
            raise DeliveryFailed(str(error)) from None
        request = _request(endpoint, body, headers)
        status = await self._exchange(endpoint, request, deadline)
        return EndpointAnswer(status, time.perf_counter() - started)

    async def close(self) -> None:
        """Close every connection. What is being posted fails."""
        self._is_closed = True
        self._kept.close()
        connections = list(self._open)
        for connection in connections:
            connection.abort()
        await asyncio.gather(*(connection.lost for connection in connections))

    async def _exchange(self, endpoint: Endpoint, request: bytes, deadline: float) -> int:
        kept = self._kept.take((endpoint.scheme, endpoint.host, endpoint.port))
        try:
            if kept is not None:
                try:
                    return await self._use(kept, request, deadline)
                except EndpointGone as broken:
                    if not broken.is_untouched:
                        raise
            return await self._use(await self._connect(endpoint, deadline), request, deadline)
        except EndpointGone as broken:
            raise DeliveryFailed(f"{endpoint.authority} {broken}. Check its log.") from None
        except TimeoutError:
            raise DeliveryFailed(
                f"{endpoint.authority} did not answer within {self._timeout_s:g} s. "
                "Have it answer first and do its work afterwards."
            ) from None

    async def _use(self, connection: EndpointConnection, request: bytes, deadline: float) -> int:
        try:
            async with asyncio.timeout_at(deadline):
                status = await connection.exchange(request)
        except TimeoutError:
            connection.abort()
            if connection.status:
                # It has answered; only the rest of what it has to say is still to come.
                return connection.status
            raise
        except BaseException:
            connection.abort()
            raise
        self._kept.put(connection)
        return status

    async def _connect(self, endpoint: Endpoint, deadline: float) -> EndpointConnection:
        """Return a new connection to one of the endpoint's addresses, which are resolved and checked for it."""
        if self._is_closed:
            raise DeliveryFailed("The server is stopping. It posts again when it is back.")
        failure: OSError = TimeoutError()
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._addresses.resolve(endpoint)
                for tried, address in enumerate(addresses):
                    try:
                        # One that does not answer leaves its share of the time to those after it.
                        async with asyncio.timeout_at(_share(deadline, len(addresses) - tried)):
                            return await self._connect_to(address, endpoint)
                    except OSError as error:
                        failure = error
        except TimeoutError:
            failure = TimeoutError()
        raise DeliveryFailed(_reason(endpoint, self._timeout_s, failure)) from None

    async def _connect_to(self, address: Address, endpoint: Endpoint) -> EndpointConnection:
        is_encrypted = endpoint.scheme == "https"
        origin = (endpoint.scheme, endpoint.host, endpoint.port)
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: EndpointConnection(origin, self._forget),
            str(address),
            endpoint.port,
            ssl=self._trust if is_encrypted else None,
            server_hostname=endpoint.host if is_encrypted else None,
        )
        if not connection.lost.done():
            self._open.add(connection)
        if self._is_closed:
            connection.abort()
        return connection

    def _forget(self, connection: EndpointConnection) -> None:
        self._open.discard(connection)
        self._kept.forget(connection)

    @functools.cached_property
    def _trust(self) -> ssl.SSLContext:
        # The authorities that the system trusts, or those of SSL_CERT_FILE.
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


def _reason(endpoint: Endpoint, timeout_s: float, failure: OSError) -> str:
    """Return why there is no connection."""
    where = endpoint.authority
    match failure:
        case TimeoutError():
            return f"{where} could not be reached within {timeout_s:g} s. Check that it is up."
        case ConnectionRefusedError():
            return f"{where} refused the connection. Check that it is up, and the port."
        case ssl.SSLCertVerificationError():
            why = failure.verify_message.rstrip(".")
            return f"The certificate of {where} is not trusted ({why}). Renew it, or have its issuer trusted."
        case ssl.SSLError():
            return f"{where} does not speak TLS ({failure.reason or failure}). Check whether it is http or https."
        case ConnectionError():
            return f"{where} broke off while the connection was made. Check that it is up."
        case _:
            return f"{where} could not be reached ({failure.strerror or failure}). Check that it is up."


def _share(deadline: float, shares: int) -> float:
    now = asyncio.get_running_loop().time()
    return now + (deadline - now) / shares


def _request(endpoint: Endpoint, body: bytes, headers: Mapping[str, str]) -> bytes:
    head = f"POST {endpoint.target} HTTP/1.1\r\nhost: {endpoint.authority}\r\ncontent-length: {len(body)}\r\n"
    has_agent = False
    for name, value in headers.items():
        lowered = name.lower()
        if lowered in _OURS:
            raise DeliveryFailed(f"The header '{name}' belongs to the connection. Leave it out.")
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise DeliveryFailed(f"The header {name!r} has a character that HTTP can't carry. Take it out.")
        has_agent = has_agent or lowered == "user-agent"
        head += f"{name}: {value}\r\n"
    return b"%b\r\n%b" % ((head if has_agent else head + _AGENT).encode("latin-1"), body)
