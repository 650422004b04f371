"""Rules for the web pages that may call the server, and for the names it may be called by.

A page in a browser can send requests to any server that the browser reaches, its user's own machine included. So a
page is admitted only if its origin is allowed, or is the server itself. Browsers name the caller in three headers:
``Origin`` with whatever is posted or read by a script, ``Sec-Fetch-Site`` with pictures, frames and links too, and
``Host``, which a page can't choose. Other clients send only the last.
"""

from __future__ import annotations

import re

from sqew.errors import BadSetting, Forbidden
from sqew.http.security.hosts import Origin, is_loopback, is_same_server, read_host, read_origin
from sqew.http.wire.exchange import Headers, Request
from sqew.settings import Settings

_HEADER_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1000}")
_EXPOSED: Headers = (
    (b"access-control-expose-headers", b"retry-after, x-request-id, x-sqew-error, x-sqew-after, location"),
)
_VARY: Headers = ((b"vary", b"origin"),)
_OWN_PAGE = b"same-origin"
"""A page of the server itself. ``same-site`` may be another port."""
_NO_PAGE = b"none"
"""No page: an address that was typed or bookmarked, or a link in a program for mail, wherever that led."""
_PREFLIGHT_S = b"600"
_REMEMBERED = 1_000
_LONGEST_REMEMBERED = 256


class Origins:
    """The pages that may call, by the settings."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = _parse(settings.cors_origins)
        self._any = settings.cors_origins.strip() == "*"
        self.are_allowed = self._any or bool(self._allowed)
        """True if any pages but the server's own may call."""
        self._trusts_all = not settings.auth_token
        """True if there is no token: then every request that is admitted may do everything."""
        self._checks_signatures = bool(settings.aws_credentials.strip())
        self._host = settings.host.lower()
        self._checks_host = (
            self._trusts_all and not settings.insecure and not settings.unix_socket and is_loopback(settings.host)
        )
        self.hosts: set[bytes | None] = {None}
        """Names that were checked before. HTTP/1.0 needs none, and no browser speaks it."""

    def check(self, request: Request) -> None:
        """Raise `Forbidden` if a web page sent the request that may not."""
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
            self._check_site(request)

    def _check_host(self, host: bytes) -> None:
        """Raise `Forbidden` unless the name is the server's own: a foreign one can be pointed at this machine, and its
        page would then count as the server's own.
        """
        if not self._checks_host:
            return
        called = read_host(host)
        if called is None or not (is_loopback(called.name) or called.name == self._host):
            shown = host.decode("latin-1")[:100]
            raise Forbidden(
                f"This server has no token, so it answers only to this machine's own names, and not to '{shown}'. "
                "Call it as localhost, set auth_token, or start it with --insecure."
            )

    def _check_origin(self, given: bytes, host: bytes | None) -> None:
        origin, called = read_origin(given), read_host(host or b"")
        is_own = origin is not None and called is not None and is_same_server(origin, called)
        if not is_own and not self._allows(given):
            shown = given.decode("latin-1")[:100]
            raise Forbidden(f"Pages of {shown} may not call this server. Add that origin to cors_origins.")

    def _check_site(self, request: Request) -> None:
        """Raise `Forbidden` if another site's page asks: pictures, scripts and links have no origin, and some GETs take
        messages or delete.
        """
        site, route = request.headers.get(b"sec-fetch-site"), request.route
        if site is None or site == _OWN_PAGE or route is None:
            return
        if route.scope == "signed":
            if self._checks_signatures:
                return  # A page that can sign was given what it needs.
        elif site == _NO_PAGE and not _is_fetched_ahead(request):
            return
        if not (_is_followed_link(request) and route.by_link(request)):
            raise Forbidden(
                "A page of another site may not make this request. Send it from a program, or unless it is a call of "
                "SQS or SNS, type its address into the browser; a page that is meant to call this server is named in "
                "cors_origins."
            )

    def _allows(self, given: bytes) -> bool:
        return self._any or read_origin(given) in self._allowed

    def headers(self, request: Request) -> Headers:
        """Return the headers that tell a browser whether its page may see the response."""
        if self._any:
            # Without credentials: what any page may do must not depend on who is looking at it.
            return ((b"access-control-allow-origin", b"*"), *_EXPOSED)
        origin = request.headers.get(b"origin")
        if origin is None or not self._allows(origin):
            return _VARY
        allowed: Headers = ((b"access-control-allow-origin", origin), (b"access-control-allow-credentials", b"true"))
        return (*allowed, *_EXPOSED, *_VARY)

    def preflight(self, request: Request, methods: list[str]) -> Headers:
        """Return the headers that name what a page may send, if it may call."""
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


def _is_followed_link(request: Request) -> bool:
    """Return True if a person followed a link and sees the response by itself, not as a part of the page."""
    headers = request.headers
    if _is_fetched_ahead(request):
        return False
    is_whole = headers.get(b"sec-fetch-dest", b"document") == b"document"
    return request.method == b"GET" and is_whole and headers.get(b"sec-fetch-mode", b"navigate") == b"navigate"


def _is_fetched_ahead(request: Request) -> bool:
    """Return True if a browser fetches ahead of any click: on behalf of a page, though Chromium says that none asks."""
    return b"sec-purpose" in request.headers


def _parse(origins: str) -> frozenset[Origin]:
    given = [origin.strip() for origin in origins.split(",") if origin.strip()]
    if given == ["*"]:
        return frozenset()
    return frozenset(_parse_one(origin) for origin in given)


def _parse_one(given: str) -> Origin:
    origin = read_origin(given.encode())
    if origin is None:
        raise BadSetting(
            f"cors_origins can't hold '{given[:100]}': write origins as https://example.com, without a path, "
            "and commas between them, or * alone for every page."
        )
    return origin
