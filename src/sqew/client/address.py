"""Addresses of servers: the forms that a user may write, and their meaning."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

from sqew.errors import BadValue
from sqew.rules.values import shown

DEFAULT_URL = "http://127.0.0.1:8888"
URL_VARIABLE = "SQEW_URL"
TOKEN_VARIABLE = "SQEW_AUTH_TOKEN"
UNIX = "unix:"


class ServerAddress(Struct, frozen=True):
    """The address of a server: its name for people, the URL that paths are added to, and its unix socket, if any."""

    name: str
    base: str
    socket: str | None = None


def address_of(url: object) -> ServerAddress:
    """Return the address that a URL means.

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
    if "@" in full.partition("://")[2]:
        # Not shown: there may be a password in it.
        raise BadValue(
            "A server's URL holds no user and no password, and no '@'. "
            f"Write it like {DEFAULT_URL}, and give the token in {TOKEN_VARIABLE}."
        )
    try:
        parts = urlsplit(full)
        port = parts.port
        host = _host_of(parts.hostname or "")
    except ValueError as error:
        raise BadValue(f"{shown(given)} is not a URL ({error}). Write it like {DEFAULT_URL}.") from error
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise BadValue(f"{shown(given)} can't be a server's URL. Write it like {DEFAULT_URL}, or unix:/path/to/socket.")
    base = f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "") + parts.path.rstrip("/")
    return ServerAddress(base, base)


def _host_of(name: str) -> str:
    """Return the host as it stands in a URL; raise ValueError for a name that no host can have."""
    if ":" in name:
        return f"[{name}]"
    try:
        name.encode("idna")
    except UnicodeError as error:
        raise ValueError("no host can have that name") from error
    if not all(character.isalnum() or character in "-._" for character in name):
        raise ValueError("no host can have that name")
    return name


def _at_socket(given: str) -> ServerAddress:
    path = given.removeprefix(UNIX)
    path = path.removeprefix("//") if path.startswith("///") else path
    if not path or "\0" in path:
        raise BadValue(f"{shown(given)} names no socket. Write it like unix:/path/to/socket.")
    return ServerAddress(UNIX + path, "http://localhost", path)
