"""How connections are made."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2

from sqew import __version__
from sqew.client.address import Address
from sqew.errors import BadValue
from sqew.keys import signature
from sqew.rules import check_int, seconds_as_ms, shown

_IDLE_S = 30.0
"""Shorter than the server keeps an idle connection, so that none is used at the moment when it is closed."""


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


@contextmanager
def environment_explained() -> Iterator[None]:
    """Say which variable of the environment is wrong when no connection can be prepared because of one."""
    try:
        yield
    except ImportError as error:
        raise BadValue(
            "The proxy that the environment names (ALL_PROXY, HTTP_PROXY, HTTPS_PROXY) speaks SOCKS, which needs the "
            "package socksio. Install it, or name the server in NO_PROXY."
        ) from error
    except OSError as error:
        raise BadValue(
            f"The certificates that SSL_CERT_FILE or SSL_CERT_DIR name can't be read ({error.strerror or error}). "
            "Correct the variable, or unset it."
        ) from error
    except (ValueError, httpx2.InvalidURL) as error:
        raise BadValue(
            f"A proxy that the environment names (ALL_PROXY, HTTP_PROXY, HTTPS_PROXY) can't be used ({error}). "
            "Correct the variable, or name the server in NO_PROXY."
        ) from error


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
