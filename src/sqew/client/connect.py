"""Connections: the check of a client's options, and the headers of its requests."""

from __future__ import annotations

import ssl
import time
from typing import Any
from urllib.parse import urlencode

from sqew import __version__
from sqew.client.address import ServerAddress
from sqew.client.calls import ApiCall
from sqew.client.transport.route import ServerRoute
from sqew.envelopes.request_signature import signature
from sqew.errors import BadValue
from sqew.rules.values import check_int, seconds_as_ms, shown

USER_AGENT = f"sqew/{__version__}"


def check_options(token: object, signing_secret: object, timeout_seconds: object, retries: object, tls: object) -> None:
    """Raise `BadValue` unless a client can be made with these."""
    for name, value in (("token", token), ("signing_secret", signing_secret)):
        if not isinstance(value, str):
            # Not shown: it may be a secret all the same.
            raise BadValue(f"{name} must be a text, not of type {type(value).__name__}.")
    seconds_as_ms("timeout_seconds", timeout_seconds, at_least=1)
    check_int("retries", retries, 0, 1_000_000)
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise BadValue(f"tls can't be {shown(tls)}: it must be an ssl.SSLContext, or None.")


def route_to(address: ServerAddress, token: str, tls: ssl.SSLContext | None) -> ServerRoute:
    """Return the route to a server for a client with this token."""
    headers = {"user-agent": USER_AGENT, "accept-encoding": "identity"}
    if token:
        if not (token.isascii() and token.isprintable()):
            raise BadValue("The token has characters that can't stand in a header. Give it as the server was given it.")
        headers["authorization"] = f"Bearer {token}"
    return ServerRoute(address.base, headers, socket=address.socket, tls=tls)


def target_of(call: ApiCall[Any]) -> str:
    """Return the request target. The path in the server's URL is for a proxy, and does not reach the server."""
    return f"{call.path}?{urlencode(call.query)}" if call.query else call.path


def signed(headers: dict[str, str], call: ApiCall[Any], secret: str) -> dict[str, str]:
    """Return the headers of a request, with a signature by the secret."""
    said = signature(secret, time.time(), call.method, target_of(call), call.body or b"")
    return {**headers, "x-sqew-signature": said}
