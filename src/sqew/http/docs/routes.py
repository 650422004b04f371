"""The server's documentation of itself: the OpenAPI document, and a page for people made from it."""

from __future__ import annotations

import asyncio
import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from sqew.errors import RouteNotFound
from sqew.http.dialects import sqew
from sqew.http.docs.openapi import document
from sqew.http.router import Dialect, Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import HTML, JSON, Headers, Request, Response

DIALECT = Dialect(
    "Reference", "What this server can do, for people and for programs.", sqew.DIALECT.failure, sqew.DIALECT.shape
)
routes = Routes(DIALECT)

_SCRIPT = b"text/javascript; charset=utf-8"
_PAGE = {
    "docs.html": HTML,
    "docs.css": b"text/css; charset=utf-8",
    "docs.js": _SCRIPT,
    "schema.js": _SCRIPT,
    "request.js": _SCRIPT,
    "icon.svg": b"image/svg+xml",
}
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
GUARDED: Headers = (
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of pages for people: nothing from elsewhere is loaded into them, and no page may frame them."""


class File(Struct, frozen=True):
    """A file that stays the same while the server runs."""

    body: bytes
    content_type: bytes
    tag: bytes
    """The entity tag, which changes when the body does."""

    def answer(self, request: Request) -> Response:
        """Return the file, or 304 if the client has it already."""
        kept: Headers = ((b"etag", self.tag), (b"cache-control", b"no-cache"))
        if self.tag in [tag.strip().removeprefix(b"W/") for tag in _known_tags(request)]:
            return Response(304, content_type=self.content_type, headers=kept)
        return Response(200, self.body, self.content_type, kept + GUARDED)


def _known_tags(request: Request) -> list[bytes]:
    return request.headers.get(b"if-none-match", b"").split(b",")


def _file(body: bytes, content_type: bytes) -> File:
    return File(body, content_type, b'"%b"' % hashlib.sha256(body).hexdigest()[:24].encode())


@lru_cache(maxsize=1)
def _document(service: Service) -> File:
    return _file(msgspec.json.encode(document(service.router.routes, service.settings)), JSON)


@lru_cache
def _page(name: str) -> File:
    return _file((files("sqew.http.docs") / "pages" / name).read_bytes(), _PAGE[name])


@routes.get("/v1/openapi.json", scope="open", answers={200: dict[str, Any], 304: None})
async def openapi(service: Service, request: Request) -> Response:
    """Return this document: every route of this server, in OpenAPI 3.1."""
    # Made when somebody asks, and beside the loop: it takes tens of milliseconds.
    made = await asyncio.to_thread(_document, service)
    return made.answer(request)


@routes.get("/docs", scope="open", answers={200: "text/html", 304: None})
def docs(_service: Service, request: Request) -> Response:
    """Show the same to people: a page with every route, its fields, and a form to try it."""
    return _page("docs.html").answer(request)


@routes.get("/docs/{file}", scope="open", answers={200: "*/*", 304: None})
def docs_part(_service: Service, request: Request) -> Response:
    """Return a part of that page: a script, a style sheet or the icon."""
    name = request.params[0]
    if name not in _PAGE:
        raise RouteNotFound(f"/docs/{name[:60]}")
    return _page(name).answer(request)
