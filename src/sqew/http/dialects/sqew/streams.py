"""Streams: export and import of messages, and server-sent events of a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import Struct

from sqew import operations as ops
from sqew.errors import QueueNotFound
from sqew.http.bulk import export as exporting
from sqew.http.bulk import import_lines
from sqew.http.dialects.sqew.dialect import encode, routes
from sqew.http.service import NO_STORE, Service, refuse_head
from sqew.http.wire.exchange import EVENTS, Request, Response, Stream

_HEARTBEAT_MS = 15_000
"""Milliseconds after which an event stream without events shows that it is alive."""
_HEARTBEAT = b": still here\n\n"


class SqewExportParameters(Struct, frozen=True, forbid_unknown_fields=True):
    archive: bool = False


@routes.get(
    "/queues/{queue}/export",
    scope="receive",
    query=SqewExportParameters,
    answers={200: "application/x-ndjson"},
    long=True,
)
async def export(service: Service, request: Request) -> Stream:
    """Export the messages of a queue (or of its archive) as lines of JSON, which `import` takes."""
    return await exporting.export(
        service, request, exporting.ExportRange(request.params[0], archive=request.options.archive)
    )


@routes.post("/queues/{queue}/import", scope="send", streams=True, answers={200: import_lines.Imported}, long=True)
async def import_(service: Service, request: Request) -> Response:
    """Send messages by the thousand: lines of JSON, as `export` writes them, or each with its `payload` alone.

    They are sent while they arrive, so a bad line leaves those before it sent; the answer says how many.
    """
    return await import_lines.import_lines(service, request)


@routes.get("/queues/{queue}/notify", scope="receive", answers={200: "text/event-stream"}, long=True)
async def notify(service: Service, request: Request) -> Stream:
    """Stream server-sent events: `ready` whenever there is something to poll for. No message is taken."""
    refuse_head(request)
    queue = request.params[0]
    # An unknown queue is refused before the answer begins.
    await service.broker.run(ops.GetQueue(queue))
    # So that it ends when its client leaves, and not at the next heartbeat.
    request.waits = True
    return Stream(_news(service, queue), EVENTS, headers=(*NO_STORE, (b"x-accel-buffering", b"no")))


async def _news(service: Service, queue: str) -> AsyncIterator[bytes]:
    ready = b"event: ready\ndata: %b\n\n" % encode({"queue": queue})
    # So that the client, and whoever stands in between, sees at once that it works.
    yield _HEARTBEAT
    try:
        async for is_news in service.broker.watch(queue, _HEARTBEAT_MS):
            yield ready if is_news else _HEARTBEAT
    except QueueNotFound:
        # It was deleted, and there will be no news of it.
        return
