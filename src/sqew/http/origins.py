"""Which web pages may call the server, and under which names it may be called.

A page in a browser can send requests to any server that the browser reaches, its user's own machine included. So a
page is let in only where its origin is allowed, or is the server itself.
"""

from __future__ import annotations

import ipaddress
import re

from sqew.errors import BadSetting, Forbidden
from sqew.http.exchange import Headers, Request
from sqew.settings import Settings

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@?#,*]+")
_HEADER_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1000}")
_EXPOSED: Headers = ((b"access-control-expose-headers", b"retry-after, x-request-id, x-sqew-error, location"),)
_VARY: Headers = ((b"vary", b"origin"),)
_PREFLIGHT_S = b"600"
_REMEMBERED = 1_000
_LONGEST_REMEMBERED = 256


class Origins:
    """The pages that may call, by the settings."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = _parse(settings.cors_origins)
        self._any = settings.cors_origins.strip() == "*"
        self.are_allowed = self._any or bool(self._allowed)
        """Whether any pages but the server's own may call."""
        self._trusts_all = not settings.auth_token
        """Whoever gets through may do everything."""
        self._host = settings.host.lower()
        self._checks_host = (
            self._trusts_all and not settings.insecure and not settings.unix_socket and is_loopback(settings.host)
        )
        self.hosts: set[bytes | None] = {None}
        """Names that were checked before. HTTP/1.0 needs none, and no browser speaks it."""

    def check(self, request: Request) -> None:
        """Raise `Forbidden` if a web page sent it that may not."""
        host = request.headers.get(b"host")
        if host not in self.hosts:
            self._check_host(host or b"")
            if len(self.hosts) >= _REMEMBERED:
                self.hosts = {None}
            if host is None or len(host) <= _LONGEST_REMEMBERED:
                self.hosts.add(host)
        origin = request.headers.get(b"origin")
        if origin is not None:
            self._check_origin(origin, host)
        elif self._trusts_all and not self._any:
            self._check_embedded(request)

    def _check_host(self, host: bytes) -> None:
        """A name of somebody else's may be made to mean this machine, and then their page is the server's own."""
        if not self._checks_host:
            return
        name = _name_in(host)
        if not is_loopback(name) and name != self._host:
            raise Forbidden(
                f"This server has no token, so it answers only to this machine's own names, and not to '{name[:100]}'. "
                "Call it as localhost, set auth_token, or start it with --insecure."
            )

    def _check_origin(self, origin: bytes, host: bytes | None) -> None:
        is_own = host is not None and origin.lower().partition(b"://")[2] == host.lower()
        if not is_own and not self._allows(origin):
            shown = origin.decode("latin-1")[:100]
            raise Forbidden(f"Pages of {shown} may not call this server. Add that origin to cors_origins.")

    def _check_embedded(self, request: Request) -> None:
        """Pictures and frames come without an origin, and there are GETs that take messages; browsers tell of them."""
        site = request.headers.get(b"sec-fetch-site", b"none")
        is_open = request.route is None or request.route.scope == "open"
        if site not in (b"none", b"same-origin") and not is_open:
            raise Forbidden("A page of another site may not call this server. Open the address by itself.")

    def _allows(self, origin: bytes) -> bool:
        return self._any or origin.lower() in self._allowed

    def headers(self, request: Request) -> Headers:
        """What tells a browser whether its page may see the answer."""
        if self._any:
            # Without credentials: what any page may do must not depend on who is looking at it.
            return ((b"access-control-allow-origin", b"*"), *_EXPOSED)
        origin = request.headers.get(b"origin")
        if origin is None or not self._allows(origin):
            return _VARY
        allowed: Headers = ((b"access-control-allow-origin", origin), (b"access-control-allow-credentials", b"true"))
        return (*allowed, *_EXPOSED, *_VARY)

    def preflight(self, request: Request, methods: list[str]) -> Headers:
        """What a page that may call may send."""
        headers = request.headers
        asks = b"origin" in headers and b"access-control-request-method" in headers
        if not self.are_allowed or not asks or not self._allows(headers[b"origin"]):
            return ()
        wanted = headers.get(b"access-control-request-headers", b"")
        names: Headers = ((b"access-control-allow-headers", wanted),) if _HEADER_NAMES.fullmatch(wanted) else ()
        return (
            (b"access-control-allow-methods", ", ".join(methods).encode()),
            *names,
            (b"access-control-max-age", _PREFLIGHT_S),
        )


def is_loopback(host: str) -> bool:
    """Whether an address (or ``localhost``) reaches this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _name_in(host: bytes) -> str:
    """The name in a Host header, without its port."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0].removesuffix(".")


def _parse(origins: str) -> frozenset[bytes]:
    given = [origin.strip() for origin in origins.split(",") if origin.strip()]
    if given == ["*"]:
        return frozenset()
    for origin in given:
        if not _ORIGIN.fullmatch(origin.lower()):
            raise BadSetting(
                f"cors_origins can't hold '{origin[:100]}': write origins as https://example.com, without a path, "
                "and commas between them, or * alone for every page."
            )
    return frozenset(origin.lower().encode() for origin in given)
