"""Settings of the environment for the way to a server: certificates, and proxies."""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from sqew.errors import BadValue

DEFAULT_PORTS = {"http": 80, "https": 443}
_VARIABLES = "ALL_PROXY, HTTP_PROXY, HTTPS_PROXY"
_OTHERWISE = "Name one that begins with http://, or name the server in NO_PROXY."


class Proxy(Struct, frozen=True):
    """A proxy that passes requests on, and the headers that it needs."""

    host: str
    port: int
    headers: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.host}:{self.port})"


def trusted() -> ssl.SSLContext:
    """Return a TLS context that trusts SSL_CERT_FILE or SSL_CERT_DIR; without them, what the system trusts."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    with _certificates_explained():
        context = ssl.create_default_context(cafile=file or None, capath=None if file else folder or None)
    context.set_alpn_protocols(["http/1.1"])
    return context


def check_certificates() -> None:
    """Raise if certificates are named that are not there. They are not read: that takes 40 ms."""
    with _certificates_explained():
        if file := os.environ.get("SSL_CERT_FILE"):
            Path(file).open("rb").close()


@contextmanager
def _certificates_explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadValue(
            f"The certificates that SSL_CERT_FILE or SSL_CERT_DIR name can't be read ({error.strerror or error}). "
            "Correct the variable, or unset it."
        ) from error


def proxy_to(server: SplitResult) -> Proxy | None:
    """Return the proxy on the way to a server, if there is one."""
    if _is_direct(server):
        return None
    for scheme in (server.scheme, "all"):
        if given := _said(f"{scheme}_proxy"):
            return _proxy(given)
    return None


def _said(name: str) -> str:
    """Return the value of a variable; its name in lower case comes before the one in capitals."""
    if name == "http_proxy" and "REQUEST_METHOD" in os.environ:
        # In a CGI script HTTP_PROXY is what a request's header "Proxy" says, so anybody may set it.
        return os.environ.get(name, "")
    return os.environ.get(name, os.environ.get(name.upper(), ""))


def _proxy(given: str) -> Proxy:
    # Never shown: there may be a password in it.
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        host, port = parts.hostname, parts.port or DEFAULT_PORTS["http"]
    except ValueError:
        raise BadValue(f"A proxy that the environment names ({_VARIABLES}) has no proper URL. {_OTHERWISE}") from None
    if parts.scheme.startswith("socks"):
        raise BadValue(
            f"The proxy that the environment names ({_VARIABLES}) speaks SOCKS, which Sqew does not. {_OTHERWISE}"
        )
    if parts.scheme != "http" or not host:
        raise BadValue(f"A proxy that the environment names ({_VARIABLES}) is not one for HTTP. {_OTHERWISE}")
    headers = ""
    if parts.username or parts.password:
        secret = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
        headers = f"proxy-authorization: Basic {b64encode(secret).decode()}\r\n"
    return Proxy(host, port, headers)


def _is_direct(server: SplitResult) -> bool:
    """Return True if NO_PROXY names the server."""
    return any(_names(entry.strip().lower(), server) for entry in _said("no_proxy").split(","))


def _names(entry: str, server: SplitResult) -> bool:
    """Return True if an entry of NO_PROXY matches a server: all (*), a host, a domain, an address or a network."""
    scheme, _, entry = entry.rpartition("://")
    host = server.hostname or ""
    if scheme not in ("", "all", server.scheme) or not entry:
        return False
    if entry in ("*", host, f"[{host}]"):
        return True
    if "/" in entry:
        return _is_within(host, entry)
    name, colon, port = entry.rpartition(":")
    if colon and port.isdecimal() and (":" not in name or name.endswith("]")):
        if int(port) != (server.port or DEFAULT_PORTS[server.scheme]):
            return False
        entry = name
    return entry.strip("[]") == host or host.endswith("." + entry.removeprefix("."))


def _is_within(host: str, network: str) -> bool:
    import ipaddress  # here, because few need it

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
