"""Consumers in the native dialect: reading a queue in claims that outlast the reader, each at least once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta, Struct

from sqew import operations as ops
from sqew.core.flows import consumers
from sqew.core.loop_executors import Unwanted
from sqew.errors import BadValue, ClaimNotFound
from sqew.formats import arrow, ndjson
from sqew.http.bulk.export import check_columns, columns_named, pieces, read_batch, wants_arrow
from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.dialects.native.export import ACCEPT, FORMS
from sqew.http.router import Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import NDJSON, Call, Request, Response, Stream
from sqew.model import CHUNKS_IN_PART, MESSAGE_COLUMNS, Claim, ConsumerInfo, OpenedConsumer
from sqew.rules.values import LARGEST_ID, MOST_CLAIMED, shown

routes = Routes(DIALECT)

_Number = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LARGEST_ID})]


class Opening(Struct, forbid_unknown_fields=True):
    """A request to open a consumer: its owner, and the milliseconds for which no other owner can open it."""

    owner: str
    hold_ms: int = 30_000


@routes.post(
    "/v1/queues/{name}/consumers/{consumer}/open", scope="receive", body=Opening, answers={200: OpenedConsumer}
)
def open_consumer(_service: Service, request: Request) -> Call:
    """Open a consumer, which is made if there is none of that name. Its reader before is fenced off.

    While another owner holds it, the request is refused, and `Retry-After` says for how long.
    """
    queue, consumer = request.params
    given: Opening = request.data
    operation = ops.OpenConsumer(queue, consumer, given.owner, given.hold_ms)
    return Call(operation, lambda opened: Response(200, encode(opened)))


class Claiming(Struct, forbid_unknown_fields=True):
    """A request for a claim: the claims that the consumer is done with, and how much it wants next."""

    epoch: _Number
    """The epoch that opening the consumer was answered with."""
    after: _Number
    """The number of the claim before the wanted one. The claims up to it are done, unless `done` says less."""
    limit: Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MOST_CLAIMED})] = 10_000
    """The most messages in the next claim. 0: none is made, and one that is open is answered all the same."""
    lease_ms: int = 3_600_000
    """Milliseconds that the claim is kept for the consumer."""
    done: _Number | None = None
    """The claims up to this number are done: their messages are acked. Left out: those up to `after`.

    With less than `after`, the next claim is made while the ones before it are still worked on.
    """


@routes.post(
    "/v1/queues/{name}/consumers/{consumer}/claims", scope="receive", body=Claiming, answers={200: Claim}, long=True
)
async def claim(service: Service, request: Request) -> Response:
    """Ack the claims up to `after`, or only up to `done`, and claim what is ready under the number after `after`.

    If that claim is open already, it is answered as it is. A `count` of 0: nothing is ready, and there is no claim.
    """
    queue, consumer = request.params
    given: Claiming = request.data
    broker = service.broker
    if request.is_gone:
        raise Unwanted
    claiming = consumers.claim(
        queue,
        consumer,
        given.epoch,
        after=given.after,
        limit=given.limit,
        lease_ms=given.lease_ms,
        done=given.done,
        limits=broker.limits,
    )
    made = await broker.run_flow(claiming, request.is_wanted)
    request.rows = made.count
    return Response(200, encode(made))


class PartParameters(Struct, frozen=True, forbid_unknown_fields=True):
    columns: str | None = None


@routes.get(
    "/v1/queues/{name}/consumers/{consumer}/claims/{number}/parts/{part}",
    scope="receive",
    path={"number": int, "part": int},
    query=PartParameters,
    headers=ACCEPT,
    answers={200: FORMS},
    long=True,
)
async def read_part(service: Service, request: Request) -> Stream:
    """Read the messages of a part of a claim, in the order of their receipt: as lines of JSON, or as Arrow."""
    queue, consumer, number, part = request.params
    columns = columns_named(request.options.columns)
    check_columns(columns, MESSAGE_COLUMNS)
    wanted = _Part(queue, consumer, _position(number, "number"), _position(part, "part"))
    pieces = (
        _record_batches(service, request, wanted, columns or MESSAGE_COLUMNS)
        if wants_arrow(request)
        else _lines(service, request, wanted, columns)
    )
    # What is wrong is said before the answer begins.
    begin = await anext(pieces)
    return Stream(_going_on(begin, pieces), arrow.CONTENT_TYPE if wants_arrow(request) else NDJSON)


def _position(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadValue(f"{what} can't be {shown(text)}: it must be a whole number.")
    return int(text)


class _Part(Struct, frozen=True):
    """A part of a claim."""

    queue: str
    consumer: str
    number: int
    part: int

    @property
    def chunks(self) -> range:
        first = self.part * CHUNKS_IN_PART
        return range(first, first + CHUNKS_IN_PART)

    def check(self, chunk: int) -> None:
        """Raise if the missing chunk is the first one of the part: then there is no such part."""
        if chunk == self.chunks[0]:
            raise ClaimNotFound(self.queue, self.consumer, self.number, self.part)


async def _going_on(begin: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begin
    async for piece in pieces:
        yield piece


async def _record_batches(
    service: Service, request: Request, wanted: _Part, columns: tuple[str, ...]
) -> AsyncIterator[bytes]:
    head = arrow.schema(columns)
    for chunk in wanted.chunks:
        step = ops.ReadClaimColumns(wanted.queue, wanted.consumer, wanted.number, chunk)
        part, piece = await read_batch(service, step, columns)
        if part.after is None:
            wanted.check(chunk)
            break
        request.rows += part.count
        # A client that does not read must not keep both: they are 8 MiB each.
        del part
        yield head + piece
        head = b""
    yield arrow.END


async def _lines(
    service: Service, request: Request, wanted: _Part, columns: tuple[str, ...] | None
) -> AsyncIterator[bytes]:
    for chunk in wanted.chunks:
        (found,) = await service.broker.read(ops.ReadClaim(wanted.queue, wanted.consumer, wanted.number, chunk))
        if found is None:
            wanted.check(chunk)
            return
        request.rows += len(found)
        for piece in pieces(ndjson.line(message, columns) for message in found):
            yield piece


class Renewal(Struct, forbid_unknown_fields=True):
    """A request to hold a consumer, and what it has claimed, for longer."""

    epoch: _Number
    hold_ms: int | None = None
    """Milliseconds to hold the consumer. Left out: as long as it was opened for."""
    lease_ms: int = 3_600_000


@routes.post("/v1/queues/{name}/consumers/{consumer}/renew", scope="receive", body=Renewal, answers={204: None})
def renew(_service: Service, request: Request) -> Call:
    """Hold a consumer, and all that it has claimed, for longer."""
    queue, consumer = request.params
    given: Renewal = request.data
    operation = ops.RenewConsumer(queue, consumer, given.epoch, given.hold_ms, given.lease_ms)
    return Call(operation, lambda _: Response(204))


class ConsumersParameters(Struct, frozen=True, forbid_unknown_fields=True):
    after: str = ""
    """The consumer to continue after: the last of the page before."""
    limit: int | None = None


@routes.get(
    "/v1/queues/{name}/consumers", scope="receive", query=ConsumersParameters, answers={200: list[ConsumerInfo]}
)
def list_consumers(service: Service, request: Request) -> Call:
    """List the consumers of a queue by name, with what each has claimed."""
    given: ConsumersParameters = request.options
    limit = service.batch(given.limit, "limit", service.settings.max_batch)
    return Call(
        ops.ListConsumers(request.params[0], given.after, limit),
        lambda found: Response(200, encode(found)),
    )


class ReleaseParameters(Struct, frozen=True, forbid_unknown_fields=True):
    force: bool = False


@routes.delete(
    "/v1/queues/{name}/consumers/{consumer}",
    scope="receive",
    query=ReleaseParameters,
    answers={204: None},
    long=True,
)
async def release_consumer(service: Service, request: Request) -> Response:
    """Forget a consumer, and give back what it has claimed. With `force`, even while its owner holds it."""
    queue, consumer = request.params
    broker = service.broker
    await broker.run_flow(consumers.release(queue, consumer, broker.limits, force=request.options.force))
    return Response(204)
