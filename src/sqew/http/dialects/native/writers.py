"""Sending in whole epochs, each exactly once, in the native dialect: stage messages in parts, then promote them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from sqew import operations as ops
from sqew.core.flows import writers
from sqew.errors import BadValue
from sqew.formats.columns import LARGEST_EPOCH, StagedMessage, read
from sqew.http.bulk.import_lines import check_type
from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.router import Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import Call, Request, Response
from sqew.model import Promotion, Staged, WriterInfo
from sqew.rules.values import LARGEST_ID, LONGEST_NAME

routes = Routes(DIALECT)

_Count = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LARGEST_ID})]
_Epoch = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LARGEST_EPOCH})]
_LONGEST_NUMBER = len(str(LARGEST_EPOCH))


class StageParameters(Struct, frozen=True, forbid_unknown_fields=True):
    offset: int | None = None
    """The number of messages of the part that were staged before. With it, a request that is repeated because no answer
    came adds nothing."""


@routes.post(
    "/v1/queues/{name}/writers/{writer}/epochs/{epoch}/parts/{part}",
    scope="send",
    path={"epoch": _Epoch},
    query=StageParameters,
    body=list[StagedMessage],
    reads_body=True,
    answers={200: Staged},
)
def stage(_service: Service, request: Request) -> Call:
    """Stage messages, as an array or as lines of JSON: they can't be received before their epoch is promoted.

    Either all are taken or none. Use another `part` for each attempt of each task: then failed ones are not promoted.
    """
    check_type(request)
    queue, writer, epoch, part = request.params
    messages = read(request.body)
    request.rows = len(messages)
    return Call(ops.Stage(queue, writer, _epoch(epoch), part, messages, request.options.offset), _staged)


def _staged(staged: Staged) -> Response:
    return Response(200, encode(staged))


class Parts(Struct, forbid_unknown_fields=True):
    """The parts to promote."""

    parts: Annotated[dict[str, _Count], Meta(extra_json_schema={"propertyNames": {"maxLength": LONGEST_NAME}})]
    """The number of messages that were staged of each part. The messages of other parts are dropped."""


class Promoted(Struct):
    """The outcome of promoting an epoch."""

    promoted: int | None
    """The number of its messages that are in the queue; null: not remembered, as of any epoch but the writer's last."""
    duplicates: int | None
    """The number of its messages that were not added, since their keys were known."""
    repeated: bool
    """True if it was promoted before: then nothing was added."""


@routes.post(
    "/v1/queues/{name}/writers/{writer}/epochs/{epoch}/promote",
    scope="send",
    path={"epoch": _Epoch},
    body=Parts,
    answers={200: Promoted},
    long=True,
)
async def promote(service: Service, request: Request) -> Response:
    """Put all staged messages of an epoch into the queue, once, however often this is requested.

    If a part does not hold as many messages as it should, nothing is done. If the client leaves, or the server is
    stopped in the middle, the rest follows later.
    """
    queue, writer, epoch = request.params
    promotion = await service.broker.run_flow(
        writers.promote(ops.Promote(queue, writer, _epoch(epoch), request.data.parts))
    )
    request.rows = promotion.promoted or 0
    return Response(200, encode(_promoted(promotion)))


def _promoted(promotion: Promotion) -> Promoted:
    return Promoted(promotion.promoted, promotion.duplicates, promotion.repeated)


@routes.delete(
    "/v1/queues/{name}/writers/{writer}/epochs/{epoch}",
    scope="send",
    path={"epoch": _Epoch},
    answers={204: None},
)
def abort(_service: Service, request: Request) -> Call:
    """Drop the staged messages of an epoch, if there are any. A promoted epoch can't be aborted."""
    queue, writer, epoch = request.params
    return Call(ops.AbortStaging(queue, writer, _epoch(epoch)), lambda _: Response(204))


class WritersParameters(Struct, frozen=True, forbid_unknown_fields=True):
    after: str = ""
    """The writer to continue after: the last of the page before."""
    limit: int | None = None


@routes.get("/v1/queues/{name}/writers", scope="send", query=WritersParameters, answers={200: list[WriterInfo]})
def list_writers(service: Service, request: Request) -> Call:
    """List the writers of a queue, by name."""
    given: WritersParameters = request.options
    limit = service.batch(given.limit, "limit", default=100)
    return Call(ops.ListWriters(request.params[0], given.after, limit), lambda found: Response(200, encode(found)))


@routes.get("/v1/queues/{name}/writers/{writer}", scope="send", answers={200: WriterInfo})
def show_writer(_service: Service, request: Request) -> Call:
    """Show a writer: the last of its epochs that was promoted, and what is staged."""
    queue, writer = request.params
    return Call(ops.GetWriter(queue, writer), lambda info: Response(200, encode(info)))


def _epoch(given: str) -> int:
    if not given.isascii() or not given.isdigit() or len(given) > _LONGEST_NUMBER:
        raise BadValue(f"An epoch can't be '{given[:40]}': it must be a whole number, 0 or more.")
    return int(given)
