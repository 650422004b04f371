"""Making, changing, compacting and deleting queues."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from sqew import operations as ops
from sqew.core.engine import change, creation
from sqew.errors import BadValue, MethodNotAllowed, QueueNotFound
from sqew.http.dialects import hq
from sqew.http.dialects.sqew.dialect import encode, routes
from sqew.http.service import Service
from sqew.http.wire.exchange import Call, Request, Response
from sqew.model import (
    Backoff,
    Keep,
    QueueInfo,
)

_METHODS = ("DELETE", "GET", "HEAD", "PATCH with a JSON body", "PUT")


class SqewChanges(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Changes to a queue's policy."""

    dlq: str | UnsetType | None = UNSET
    """The dead-letter queue: a name, or null for none. Left out, a new queue gets one. It is made if there is none."""
    max_attempts: int | UnsetType | None = UNSET
    visibility_ms: int | UnsetType = UNSET
    backoff: Backoff | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET
    ttl_ms: int | UnsetType | None = UNSET
    fifo: bool | UnsetType = UNSET
    deduplicate: str | UnsetType = UNSET
    deduplicate_within: str | UnsetType = UNSET
    key_retention_ms: int | UnsetType = UNSET
    key_retention_from: str | UnsetType = UNSET
    lanes: dict[str, int] | list[str] | UnsetType = UNSET
    keep: Keep | UnsetType = UNSET
    archive_retention_ms: int | UnsetType | None = UNSET
    rate_limit: float | UnsetType | None = UNSET
    quota: int | UnsetType | None = UNSET
    max_body_bytes: int | UnsetType | None = UNSET
    receive_wait_ms: int | UnsetType = UNSET


class SqewNewQueue(SqewChanges, kw_only=True):
    """A queue to make: its name, and the fields of its policy that differ from the defaults."""

    name: str


class SqewQueueView(Struct):
    """A queue and its policy. The fields that hq's clients read are numbers or strings, and never null."""

    name: str
    max_attempts: int
    """The deliveries in vain after which a message is dead; 2147483647: no limit."""
    visibility_ms: int
    visibility_timeout_seconds: int
    """The same in seconds, rounded up."""
    dlq: str | None
    fifo: bool
    backoff: Backoff
    delay_ms: int
    ttl_ms: int | None
    deduplicate: str
    deduplicate_within: str
    key_retention_ms: int
    key_retention_from: str
    lanes: dict[str, int]
    keep: Keep
    archive_retention_ms: int | None
    rate_limit: float | None
    quota: int | None
    max_body_bytes: int | None
    receive_wait_ms: int
    id: int
    created_at: int
    inserted_at: str
    """The time when it was made, as hq writes it."""
    updated_at: str
    """The time when its policy was last changed, as hq writes it."""


def queue_view(info: QueueInfo) -> SqewQueueView:
    policy = info.policy
    return SqewQueueView(
        info.name,
        hq.NO_LIMIT if policy.max_attempts is None else policy.max_attempts,
        policy.visibility_ms,
        -(-policy.visibility_ms // 1000),
        policy.dead_letter,
        policy.fifo,
        policy.backoff,
        policy.delay_ms,
        policy.ttl_ms,
        policy.deduplicate,
        policy.deduplicate_within,
        policy.key_retention_ms,
        policy.key_retention_from,
        policy.lanes,
        policy.keep,
        policy.archive_retention_ms,
        policy.rate_limit,
        policy.quota,
        policy.max_body_bytes,
        policy.receive_wait_ms,
        info.id,
        info.created_at,
        hq.time_of(info.created_at),
        hq.time_of(info.updated_at),
    )


def policy_fields(given: Struct) -> dict[str, Any]:
    """Return the policy fields that were given, under the policy's own names."""
    fields: dict[str, Any] = {
        name: value
        for name in given.__struct_fields__
        if name != "name" and not isinstance(value := getattr(given, name), UnsetType)
    }
    if "dlq" in fields:
        fields["dead_letter"] = fields.pop("dlq")
    if fields.get("max_attempts") == hq.NO_LIMIT:
        fields["max_attempts"] = None
    return fields


@routes.post(
    "/queues",
    scope="admin",
    query=hq.QueueParameters,
    body=SqewNewQueue,
    body_optional=True,
    guest=hq.DIALECT,
    is_guest=lambda request: b"name=" in request.query,
    guest_summary="Make a queue from the URL's parameters, all of which are needed. It is answered without a body.",
    guest_answers=(200,),
    answers={201: SqewQueueView, 200: None},
)
def create_queue(service: Service, request: Request) -> Call | Response:
    """Make a queue from the policy in the body, and answer with it. (With `name` in the URL: as hq does.)"""
    parameters: hq.QueueParameters = request.options
    given: SqewNewQueue | None = request.data
    if parameters.name is not None:
        if given is not None:
            raise BadValue("The queue is described in the URL and in the body. Leave one of them out.")
        return hq.create_queue(service, parameters)
    if given is None:
        raise BadValue(
            'A queue needs a name: send {"name": "orders"} as JSON; or, as hq does, all of '
            "?name=orders&max_attempts=5&visibility_timeout_seconds=30 in the URL."
        )
    if request.query:
        raise BadValue("The URL's parameters go with a name there. Put max_attempts and visibility_ms into the JSON.")
    return Call(
        creation(service.settings, given.name, policy_fields(given)),
        lambda info: Response(201, encode(queue_view(info))),
    )


class ListParameters(Struct, frozen=True, forbid_unknown_fields=True):
    prefix: str = ""
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=100_000)] | None = None


@routes.get("/queues", scope="admin", query=ListParameters, answers={200: list[SqewQueueView]})
def list_queues(_service: Service, request: Request) -> Call:
    """List all queues and their policies, by name."""
    given: ListParameters = request.options
    return Call(
        ops.ListQueues(given.prefix, given.after, given.limit),
        lambda found: Response(200, encode([queue_view(info) for info in found])),
    )


@routes.get("/queues/{queue}", scope="receive", answers={200: SqewQueueView | None})
def show_queue(_service: Service, request: Request) -> Call:
    """Show a queue and its policy; `null`, as in hq, if there is none of that name."""
    operation = ops.GetQueue(request.params[0])
    return Call(operation, lambda info: Response(200, encode(queue_view(info))), otherwise=hq.null_if_missing)


@routes.patch("/queues/{queue}", scope="admin", body=SqewChanges, body_optional=True, answers={200: SqewQueueView})
def update_queue(service: Service, request: Request) -> Call:
    """Change a queue's policy. A dead-letter queue that it names is made if there is none."""
    if request.data is None:
        # hq takes no PATCH at all, so its clients get what they get there.
        raise MethodNotAllowed("PATCH without a JSON body", f"/queues/{request.params[0][:80]}", _METHODS)
    queue, fields = request.params[0], policy_fields(request.data)
    service.check_dead_letter(request, queue, fields)
    return Call(change(queue, fields), lambda info: Response(200, encode(queue_view(info))))


@routes.delete("/queues/{queue}", scope="admin", answers={200: None})
async def delete_queue(service: Service, request: Request) -> Response:
    """Delete a queue and its messages. Its dead-letter queue stays.

    If there is no such queue, the answer is the same, as in hq, with the header `X-Sqew-Error: queue_not_found`.
    """
    try:
        await service.broker.delete(request.params[0])
    except QueueNotFound as error:
        return hq.done_without(error)
    return hq.DONE


class Compacted(Struct):
    """The size in bytes of the file that holds the queues, before and after."""

    name: str
    bytes_before: int
    bytes_after: int


@routes.post("/queues/{queue}/compact", scope="admin", answers={200: Compacted}, long=True)
async def compact(service: Service, request: Request) -> Response:
    """Give free space back to the disk. It is the file's, so all its queues gain; other requests are not held up."""
    info = await service.broker.run(ops.GetQueue(request.params[0]))
    return Response(200, encode(Compacted(info.name, *await service.broker.compact())))
