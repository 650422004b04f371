"""How connections are made."""

from __future__ import annotations

import ssl
import time
from typing import Any
from urllib.parse import urlsplit

import httpx2

from sqew import __version__
from sqew.client.address import Address
from sqew.errors import BadValue
from sqew.keys import signature

_IDLE_S = 30.0
"""Shorter than the server keeps an idle connection, so that none is used at the moment when it is closed."""


def connection_options(address: Address, token: str, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """What both kinds of connection are told."""
    headers = {"user-agent": f"sqew/{__version__}", "accept-encoding": "identity"}
    if token:
        if not (token.isascii() and token.isprintable()):
            raise BadValue("The token has characters that can't stand in a header. Give it as the server was given it.")
        headers["authorization"] = f"Bearer {token}"
    return {
        "headers": headers,
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=_IDLE_S),
        "verify": True if tls is None else tls,
        # A proxy is no way to a socket on this machine.
        "trust_env": address.socket is None,
    }


def sign(request: httpx2.Request, address: Address, secret: str, body: bytes) -> None:
    """Say that the request comes from who has the secret."""
    # What stands before the routes in the URL is for a proxy, and does not reach the server.
    target = request.url.raw_path.decode("ascii").removeprefix(urlsplit(address.base).path)
    request.headers["x-sqew-signature"] = signature(secret, time.time(), request.method, target, body)
