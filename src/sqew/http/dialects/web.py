"""The page of recent messages, as hq has one: HTML that needs no script, behind the admin scope."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from sqew.errors import RouteNotFound, SqewError, Unauthorized
from sqew.http.dialects.hq import time_of
from sqew.http.docs.routes import GUARDED
from sqew.http.router import Dialect, Routes
from sqew.http.service import NO_STORE, Service
from sqew.http.statuses import headers_of, status_of
from sqew.http.wire.exchange import HTML, Headers, Request, Response
from sqew.ids import MessageUuids
from sqew.model import Recent
from sqew.operations import ListRecent

_LISTED = 100
_SHOWN_CHARACTERS = 200
_COLUMNS = ("queue", "id", "args", "attempts", "state", "created", "until")
_FRAME = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Sqew: recent messages</title>
  <link rel="icon" href="/docs/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/web/web.css">
</head>
<body>
<h1>Recent messages</h1>
{content}
</body>
</html>
"""
_TOKEN_FORM = """<form id="access"><label>Token <input id="token" type="password" autocomplete="off" required></label>
<button>Show</button></form>
<script type="module" src="/web/web.js"></script>"""


def _refuse(_request: Request, error: SqewError) -> Response:
    content = f"<p>{escape(error.public_text)}</p>"
    if isinstance(error, Unauthorized):
        # A browser can't send a token by itself.
        content += _TOKEN_FORM
    return _page(content, status_of(error), headers_of(error))


DIALECT = Dialect("Web", "A page for people.", lambda _error, _status: b"", None, _refuse, ("text/html",))
routes = Routes(DIALECT)


@routes.get("/web", scope="admin", answers={200: "text/html"})
async def recent(service: Service, _request: Request) -> Response:
    """Show a page of the newest messages of all queues."""
    # Beside the loop: bodies are read from all over the file.
    [found] = await service.broker.read(ListRecent(min(_LISTED, service.settings.max_batch)))
    rows = "\n".join(_row(message, service.uuids) for message in found)
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    heading = f"<p>The newest {len(found)} of all queues, in UTC.</p>" if found else "<p>There are no messages.</p>"
    return _page(f"{heading}\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>")


@routes.get("/web/{file}", scope="open", answers={200: "*/*"})
def part(_service: Service, request: Request) -> Response:
    """Serve the style sheet and the script of the page."""
    return _part(request.params[0])


def _part(name: str) -> Response:
    kind = {"web.css": b"text/css; charset=utf-8", "web.js": b"text/javascript; charset=utf-8"}.get(name)
    if kind is None:
        raise RouteNotFound(f"/web/{name[:60]}")
    return Response(200, (files("sqew.http.docs") / "pages" / name).read_bytes(), kind, GUARDED)


def _page(content: str, status: int = 200, headers: Headers = ()) -> Response:
    return Response(status, _FRAME.format(content=content).encode(), HTML, (*headers, *GUARDED, *NO_STORE))


def _row(message: Recent, uuids: MessageUuids) -> str:
    cells = (
        message.queue,
        uuids.text(message.id),
        _args(message),
        str(message.attempts),
        message.state,
        time_of(message.created_at),
        "" if message.until is None else time_of(message.until),
    )
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _args(message: Recent) -> str:
    """Return as much of a body as fits into a line."""
    if message.body is None:
        return f"({message.body_bytes:,} bytes)"
    text = message.body.decode(errors="replace")
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + " …"
