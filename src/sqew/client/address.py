"""Where a server is: what a user writes, and what that means."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

from sqew.errors import BadValue
from sqew.rules import shown

DEFAULT_URL = "http://127.0.0.1:8888"
URL_VARIABLE = "SQEW_URL"
TOKEN_VARIABLE = "SQEW_AUTH_TOKEN"
UNIX = "unix:"


class Address(Struct, frozen=True):
    """A server: how people know it, the URL that its paths are added to, and its socket if it listens at one."""

    name: str
    base: str
    socket: str | None = None


def address_of(url: object) -> Address:
    """The server that is meant.

    >>> address_of("localhost:8888").base
    'http://localhost:8888'
    >>> address_of("unix:/run/sqew.sock").socket
    '/run/sqew.sock'
    """
    if not isinstance(url, str) or not url.strip():
        raise BadValue(f"The server's URL can't be {shown(url)}. Write it like {DEFAULT_URL}, or unix:/path/to/socket.")
    given = url.strip()
    if given.startswith(UNIX):
        return _at_socket(given)
    full = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(full)
        port = parts.port
    except ValueError as error:
        raise BadValue(f"{shown(given)} is not a URL ({error}). Write it like {DEFAULT_URL}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise BadValue(f"{shown(given)} can't be a server's URL. Write it like {DEFAULT_URL}, or unix:/path/to/socket.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    base = f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "") + parts.path.rstrip("/")
    return Address(base, base)


def _at_socket(given: str) -> Address:
    path = given.removeprefix(UNIX)
    path = path.removeprefix("//") if path.startswith("///") else path
    if not path or "\0" in path:
        raise BadValue(f"{shown(given)} names no socket. Write it like unix:/path/to/socket.")
    return Address(UNIX + path, "http://localhost", path)
