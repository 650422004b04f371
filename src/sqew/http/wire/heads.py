"""Checks on the head of a request, where llhttp is content with less; and the cache entry of a parsed head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import httptools
from msgspec import Struct

from sqew.errors import BadRequest

if TYPE_CHECKING:
    from sqew.http.wire.exchange import Request


class HeadHandler(Protocol):
    """A handler of complete requests with the same head, which may batch them."""

    def take(self, request: Request) -> None:
        """Handle a request that has arrived in full."""


class KnownHead(Struct, frozen=True):
    """A head that was parsed before: the same bytes mean the same again.

    Clients send the same head over and over. To look it up takes 0.3 µs, to parse it 5.
    """

    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    length: int
    """Bytes of the body."""
    handler: HeadHandler | None = None
    """The lane that coalesces requests with this head; None: each is handled by itself."""


def size_of(target: bytes, headers: dict[bytes, bytes]) -> int:
    """Return the bytes that the head of a request takes."""
    return len(target) + sum(len(name) + len(value) + 4 for name, value in headers.items())


def check_http10(version: str, headers: dict[bytes, bytes]) -> None:
    """Raise unless a request that is not HTTP/1.1 is a sound HTTP/1.0 one."""
    if version != "1.0":
        raise BadRequest(f"This server speaks HTTP/1.1 and HTTP/1.0, and not HTTP/{version}. Use one of them.")
    if b"transfer-encoding" in headers:
        raise BadRequest("HTTP/1.0 has no Transfer-Encoding. Send a Content-Length, or HTTP/1.1.")


def check_encoding(given: bytes) -> None:
    """Raise unless a body comes in chunks and has no other encoding."""
    # Only the last one need be 'chunked' for llhttp; what else was done to the body would be taken for the body.
    if given.strip().lower() != b"chunked":
        raise BadRequest("The only Transfer-Encoding that is understood is 'chunked'. Send the body as it is.")


def origin_form(target: bytes, method: bytes) -> tuple[bytes, bytes]:
    """Return the path and query of a target that is not a path: a proxy's absolute form, or ``OPTIONS *``."""
    if method == b"OPTIONS" and target == b"*":
        return b"/", b""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError as error:
        raise BadRequest("The request target is not a path. Send one that begins with '/'.") from error
    if url.schema not in (b"http", b"https") or not url.host:
        raise BadRequest("The request target is not a path. Send one that begins with '/'.")
    return url.path or b"/", url.query or b""
