"""Reading messages by the million, in the native dialect: the bounds of their ids, and the messages of a range."""

from __future__ import annotations

from msgspec import Struct

from sqew import operations as ops
from sqew.http.bulk.export import ExportRange, columns_named, export
from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.router import Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import Request, Response, Stream
from sqew.model import Bounds, State

routes = Routes(DIALECT)

FORMS = ("application/x-ndjson", "application/vnd.apache.arrow.stream")
"""The content types that many messages can be answered as."""
ACCEPT = {"Accept": "application/vnd.apache.arrow.stream: as an Arrow IPC stream. Otherwise as lines of JSON."}


class BoundsParameters(Struct, frozen=True, forbid_unknown_fields=True):
    archive: bool = False


@routes.get("/v1/queues/{name}/bounds", scope="receive", query=BoundsParameters, answers={200: Bounds}, long=True)
async def bounds(service: Service, request: Request) -> Response:
    """Show the first and the last id of the messages of a queue (or of its archive), and how many there are."""
    (found,) = await service.broker.read(ops.ReadBounds(request.params[0], request.options.archive))
    return Response(200, encode(found))


class NativeExportParameters(Struct, frozen=True, forbid_unknown_fields=True):
    after: int = 0
    up_to: int | None = None
    archive: bool = False
    columns: str | None = None
    lane: str | None = None
    state: State | None = None
    """Only messages in this state."""


@routes.get(
    "/v1/queues/{name}/export",
    scope="receive",
    query=NativeExportParameters,
    headers=ACCEPT,
    answers={200: FORMS},
    long=True,
)
async def export_range(service: Service, request: Request) -> Stream:
    """Export the messages of a queue (or of its archive) by id: as lines of JSON, which `bulk` takes, or as Arrow.

    They are those with ids above `after` and up to `up_to`, in every state unless `state` is given. Messages sent
    meanwhile are not among them.
    """
    given: NativeExportParameters = request.options
    columns = columns_named(given.columns)
    wanted = ExportRange(request.params[0], given.after, given.up_to, given.archive, columns, given.lane, given.state)
    return await export(service, request, wanted)
