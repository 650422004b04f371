"""Inspection of messages and figures without taking anything, and removal of what should not be there."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from sqew import operations as ops
from sqew.errors import BadValue, MessageNotFound
from sqew.http.dialects.sqew.dialect import encode, failure, routes
from sqew.http.service import Service, as_json
from sqew.http.statuses import headers_of
from sqew.http.wire.exchange import Call, Request, Response
from sqew.model import (
    ArchivedMessage,
    Depths,
    Format,
    Latency,
    Message,
    Outcome,
)


class StoredView(Struct, omit_defaults=True):
    """A message as it stands in its queue. The token of its lease is a secret of its holder, and not shown."""

    id: int
    payload: Raw
    attempts: int
    state: str
    created_at: int
    available_at: int
    priority: int = 0
    lane: str = ""
    group: str | None = None
    idempotency_key: str | None = None
    headers: dict[str, Any] = {}
    expires_at: int | None = None
    lease_expires_at: int | None = None
    leased_by: str | None = None
    died_in: str | None = None
    reason: str | None = None
    died_at: int | None = None
    damaged: bool = False
    queue: str = ""
    format: Format = "json"


def stored_view(message: Message) -> StoredView:
    lease, death = message.lease, message.death
    return StoredView(
        message.id,
        as_json(message),
        message.attempts,
        message.state,
        message.created_at,
        message.available_at,
        message.priority,
        message.lane,
        message.group,
        message.key,
        message.headers,
        message.expires_at,
        None if lease is None else lease.expires_at,
        None if lease is None else lease.by,
        None if death is None else death.queue,
        None if death is None else death.reason,
        None if death is None else death.at,
        message.damaged,
        message.queue,
        message.format,
    )


class Messages(Struct):
    messages: list[StoredView]


class MessagePage(Struct):
    messages: list[StoredView]
    after: int | None


class PeekParameters(Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 10
    lane: str | None = None


@routes.get("/queues/{queue}/peek", scope="receive", query=PeekParameters, answers={200: Messages})
async def peek(service: Service, request: Request) -> Response:
    """Show the next messages, without taking them."""
    given: PeekParameters = request.options
    limit = service.batch(given.limit, "limit")
    found = await service.broker.inspect(ops.Peek(request.params[0], limit, given.lane))
    return Response(200, encode(Messages([stored_view(message) for message in found])))


class ListedView(Struct):
    """A message as it stands in its queue; `payload` is its JSON as a string."""

    id: int
    queue_id: int
    payload: str
    attempts: int
    available_at: int
    """The time when it can be received; if it is leased, when the lease ends."""
    created_at: int
    state: str


class InspectParameters(Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 1


@routes.get("/queues/{queue}/messages", scope="receive", query=InspectParameters, answers={200: list[ListedView]})
async def list_messages(service: Service, request: Request) -> Response:
    """List the next messages as a bare array with their payloads as strings, without taking them. See `peek`."""
    given: InspectParameters = request.options
    limit = service.batch(given.limit, "limit")
    info = await service.broker.run(ops.GetQueue(request.params[0]))
    found = await service.broker.inspect(ops.Peek(info.name, limit))
    return Response(200, encode([_listed_view(message, info.id) for message in found]))


def _listed_view(message: Message, queue_id: int) -> ListedView:
    return ListedView(
        message.id,
        queue_id,
        bytes(as_json(message)).decode(),
        message.attempts,
        message.available_at if message.lease is None else message.lease.expires_at,
        message.created_at,
        message.state,
    )


class DeletedCount(Struct):
    deleted: int


@routes.delete("/queues/{queue}/messages", scope="admin", answers={200: DeletedCount}, long=True)
async def delete_messages(service: Service, request: Request) -> Response:
    """Delete every message that is in the queue now, as `purge` does."""
    return Response(200, encode(DeletedCount(await service.broker.purge(request.params[0]))))


@routes.get("/messages/{id}", scope="receive", keeps_to_queue=True, path={"id": int}, answers={200: StoredView})
async def find_message(service: Service, request: Request) -> Response:
    """Find a message in whichever queue it is, without taking it."""
    message = await service.broker.inspect(ops.Get(request.only_queue, message_id(request.params[0])))
    return Response(200, encode(stored_view(message)))


@routes.get("/queues/{queue}/messages/{id}", scope="receive", path={"id": int}, answers={200: StoredView})
async def show_message(service: Service, request: Request) -> Response:
    """Show a message, without taking it."""
    queue, id = request.params
    return Response(200, encode(stored_view(await service.broker.inspect(ops.Get(queue, message_id(id))))))


@routes.delete("/queues/{queue}/messages/{id}", scope="admin", path={"id": int}, answers={204: None})
def remove_message(_service: Service, request: Request) -> Call:
    """Delete one message, whoever holds it."""
    queue, id = request.params
    number = message_id(id)

    def render(removed: list[bool]) -> Response:
        if not removed[0]:
            error = MessageNotFound(number, queue)
            return Response(404, failure(error, 404), headers=headers_of(error))
        return Response(204)

    return Call(ops.Remove(queue, [number]), render)


def message_id(text: str) -> int:
    """Parse a message's id in a path; raise unless it is a whole number."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise BadValue(f"'{text[:60]}' is not a message's id: that is a whole number.")
    return int(text)


class Count(Struct):
    count: int


@routes.post("/queues/{queue}/purge", scope="admin", answers={200: Count}, long=True)
async def purge(service: Service, request: Request) -> Response:
    """Delete every message that is in the queue now."""
    return Response(200, encode(Count(await service.broker.purge(request.params[0]))))


class StatsView(Struct):
    """The state of a queue: its messages by state, and everything in detail."""

    ready: int
    leased: int
    delayed: int
    blocked: int
    dlq: int
    oldest_age_ms: int | None
    queue: str
    depths: Depths
    totals: dict[str, int]
    rates: dict[str, float]
    wait: dict[str, Latency]
    work: dict[str, Latency]


@routes.get("/queues/{queue}/stats", scope="receive", answers={200: StatsView})
async def stats(service: Service, request: Request) -> Response:
    """Show the depths of a queue by lane and state, its totals, rates and latencies."""
    found = await service.broker.stats(request.params[0])
    depths = found.depths
    oldest = depths.oldest_ready_at
    view = StatsView(
        depths.total("ready"),
        depths.total("leased"),
        depths.total("delayed"),
        depths.total("blocked"),
        depths.dead,
        None if oldest is None else max(service.broker.now() - oldest, 0),
        found.queue,
        depths,
        found.totals,
        found.rates,
        found.wait,
        found.work,
    )
    return Response(200, encode(view))


class ArchiveParameters(Struct, frozen=True, forbid_unknown_fields=True):
    after: int = 0
    limit: int = 100
    outcome: Outcome | None = None


class SqewArchivedView(Struct, omit_defaults=True):
    """A finished message: its outcome, when it finished, and the reason if it died."""

    id: int
    payload: Raw
    attempts: int
    outcome: Outcome
    finished_at: int
    created_at: int
    available_at: int
    reason: str = ""
    priority: int = 0
    lane: str = ""
    group: str | None = None
    idempotency_key: str | None = None
    headers: dict[str, Any] = {}
    damaged: bool = False
    format: Format = "json"


class Archive(Struct):
    messages: list[SqewArchivedView]
    after: int | None


@routes.get("/queues/{queue}/archive", scope="receive", query=ArchiveParameters, answers={200: Archive})
def list_archive(service: Service, request: Request) -> Call:
    """List finished messages by id, those after `after`: all, or those that ended as `outcome` says."""
    given: ArchiveParameters = request.options
    limit = service.batch(given.limit, "limit")
    return Call(
        ops.ListArchive(request.params[0], limit, given.after, given.outcome),
        lambda page: Response(200, encode(Archive([_archived(archived) for archived in page.messages], page.after))),
    )


def _archived(archived: ArchivedMessage) -> SqewArchivedView:
    message = archived.message
    return SqewArchivedView(
        message.id,
        as_json(message),
        message.attempts,
        archived.outcome,
        archived.finished_at,
        message.created_at,
        message.available_at,
        archived.reason,
        message.priority,
        message.lane,
        message.group,
        message.key,
        message.headers,
        message.damaged,
        message.format,
    )
