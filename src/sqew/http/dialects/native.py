"""The native dialect: ``/v1/queues…``, with times in seconds and receives by GET."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from sqew import operations as ops
from sqew.clock import timestamp
from sqew.engine import change, creation
from sqew.errors import MessageNotFound, SqewError
from sqew.http import transfer
from sqew.http.dialects.plain_sends import plain_sends
from sqew.http.dialects.sqew.looking import ArchiveParameters, message_id
from sqew.http.dialects.sqew.queues import ListParameters, policy_fields
from sqew.http.exchange import Call, Request, Response, next_page
from sqew.http.router import Dialect, Routes, harmful
from sqew.http.service import NO_STORE, Service, as_json, json_body, refuse_head
from sqew.http.statuses import headers_of, status_of
from sqew.model import (
    ArchivedMessage,
    Backoff,
    Extension,
    Keep,
    Message,
    NewMessage,
    Outcome,
    Policy,
    QueueInfo,
    Received,
    Ref,
    Sent,
    Settled,
)
from sqew.rules import FIFO_SUFFIX, seconds_as_ms
from sqew.staged import columns

encode = msgspec.json.Encoder().encode


class Failure(Struct):
    error: str


def _failure(error: SqewError, _status: int) -> bytes:
    return encode(Failure(error.told))


def _refused(error: SqewError) -> Response:
    status = status_of(error)
    return Response(status, _failure(error, status), headers=headers_of(error))


DIALECT = Dialect("Native", "Queues and messages under /v1, with times in seconds.", _failure, Failure)
routes = Routes(DIALECT)


# Queues


class Changes(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is to change of a queue's policy."""

    visibility_ms: int | UnsetType = UNSET
    max_attempts: int | UnsetType | None = UNSET
    dead_letter: str | UnsetType | None = UNSET
    backoff: Backoff | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET
    ttl_ms: int | UnsetType | None = UNSET
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


class NewQueue(Changes, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A queue to make. Of a FIFO queue the name ends in `.fifo`, which is added where it is missing.

    Paths under `/v1/queues` find it without the suffix, too.
    """

    name: str
    fifo: bool | UnsetType = UNSET


class QueueView(Struct):
    """A queue. There is one kind of storage, so it is neither partitioned nor unlogged."""

    name: str
    is_partitioned: bool
    is_unlogged: bool
    created_at: str


class QueueDetails(QueueView):
    """A queue and its policy."""

    policy: Policy


def _view(info: QueueInfo) -> QueueView:
    return QueueView(info.name, False, False, timestamp(info.created_at))


def _details(info: QueueInfo) -> QueueDetails:
    return QueueDetails(info.name, False, False, timestamp(info.created_at), info.policy)


@routes.post("/v1/queues", scope="admin", body=NewQueue, answers={201: QueueDetails})
def create_queue(service: Service, request: Request) -> Call:
    """Make a queue. It has a dead-letter queue, and a most number of attempts, only if they are given."""
    given: NewQueue = request.data
    fields = policy_fields(given)
    name, other = given.name, None
    if not name.endswith(FIFO_SUFFIX):
        # Of two queues that differ by the suffix alone, only the one without it is found by that name.
        other = name + FIFO_SUFFIX
        if given.fifo is True:
            name, other = other, name
    fields.setdefault("dead_letter", None)
    if fields["dead_letter"] is None:
        fields.setdefault("max_attempts", None)
    operation = replace(creation(service.settings, name, fields), apart_from=other)
    return Call(operation, lambda info: Response(201, encode(_details(info))))


@routes.get("/v1/queues", scope="admin", query=ListParameters, answers={200: list[QueueView]})
def list_queues(_service: Service, request: Request) -> Call:
    """All queues, by name."""
    given: ListParameters = request.options
    return Call(
        ops.ListQueues(given.prefix, given.after, given.limit),
        lambda found: Response(200, encode([_view(info) for info in found])),
    )


class Metrics(Struct):
    """How a queue is. Ages are since messages were sent, and null where there are none."""

    name: str
    queue_length: int
    queue_visible_length: int
    newest_msg_age_sec: int | None
    oldest_msg_age_sec: int | None
    total_messages: int
    """How many have ever been sent to it."""
    scrape_time: str
    policy: Policy


@routes.get("/v1/queues/{name}", scope="receive", answers={200: Metrics})
async def show_queue(service: Service, request: Request) -> Response:
    """A queue's figures, and its policy."""
    name = request.params[0]
    stats = await service.broker.stats(name)
    info, ages = await service.broker.look(ops.GetQueue(name), ops.Ages(name))
    now = service.broker.now()
    oldest, newest = (None, None) if ages is None else (max(now - at, 0) // 1000 for at in ages)
    depths = stats.depths
    metrics = Metrics(
        name,
        depths.total(),
        depths.total("ready"),
        newest,
        oldest,
        stats.totals.get("sent", 0),
        timestamp(now),
        info.policy,
    )
    return Response(200, encode(metrics))


@routes.patch("/v1/queues/{name}", scope="admin", body=Changes, answers={200: QueueDetails})
def update_queue(service: Service, request: Request) -> Call:
    """Change a queue's policy."""
    queue, fields = request.params[0], policy_fields(request.data)
    service.check_dead_letter(request, queue, fields)
    return Call(change(queue, fields), lambda info: Response(200, encode(_details(info))))


@routes.delete("/v1/queues/{name}", scope="admin", answers={204: None})
async def delete_queue(service: Service, request: Request) -> Response:
    """Delete a queue and its messages."""
    await service.broker.delete(request.params[0])
    return Response(204)


class Purged(Struct):
    deleted: int


@routes.post("/v1/queues/{name}/purge", scope="admin", answers={200: Purged}, long=True)
async def purge(service: Service, request: Request) -> Response:
    """Delete every message that is in the queue now."""
    return Response(200, encode(Purged(await service.broker.purge(request.params[0]))))


# Messages


class NewItem(Struct, forbid_unknown_fields=True):
    """A message to send: any JSON, and what else there is to say about it. Times are in seconds."""

    message: Raw
    headers: dict[str, Any] | None = None
    delay: float | None = None
    group_id: str | None = None
    priority: int = 0
    lane: str | None = None
    key: str | None = None
    """A repeated send with the same key stores nothing."""
    ttl: float | None = None
    sync_commit: bool | None = None


class SentOne(Struct):
    id: int


class SentMany(Struct):
    ids: list[int]


def _sent_view(one: Sent) -> bytes:
    return b'{"id":%d}' % one.id


@routes.post(
    "/v1/queues/{name}/messages",
    scope="send",
    body=NewItem | list[NewItem],
    answers={201: SentOne | SentMany},
    together=plain_sends("message", _sent_view),
)
def send(_service: Service, request: Request) -> Call:
    """Send one message, or an array of them, all or none."""
    given: NewItem | list[NewItem] = request.data
    if isinstance(given, list):
        request.rows = len(given)
        sync_commit = ops.sync_together(item.sync_commit for item in given)
        messages = columns([_new_message(item) for item in given])
        return Call(ops.Send(request.params[0], messages, sync_commit=sync_commit), _sent_many)
    request.rows = 1
    return Call(ops.Send(request.params[0], (_new_message(given),), sync_commit=given.sync_commit), _sent_one)


def _new_message(item: NewItem) -> NewMessage:
    return NewMessage(
        json_body(item.message),
        "json",
        item.headers,
        item.priority,
        item.lane,
        item.group_id,
        item.key,
        None if item.delay is None else seconds_as_ms("delay", item.delay),
        None if item.ttl is None else seconds_as_ms("ttl", item.ttl, at_least=1),
    )


def _sent_one(sent: list[Sent]) -> Response:
    return Response(201, _sent_view(sent[0]))


def _sent_many(sent: list[Sent]) -> Response:
    return Response(201, encode(SentMany([one.id for one in sent])))


class ReceiveParameters(Struct, frozen=True, forbid_unknown_fields=True):
    max: int | None = None
    vt: float | None = None
    """For how many seconds nobody else sees them. Left out: as the queue's policy says."""
    wait: float = 0
    """How many seconds to wait for a message when there is none."""
    fifo: bool = False
    """The FIFO queue of that name is meant. It is found without this, too, unless there is another queue so called."""
    lane: str | None = None
    consumer: str | None = None


class MessageView(Struct, omit_defaults=True):
    """A message that was received. It is seen again at `visible_at` unless it is deleted."""

    id: int
    message: Raw
    read_ct: int
    enqueued_at: str
    visible_at: str
    token: str
    headers: dict[str, Any] | None
    group_id: str | None = None
    priority: int = 0
    lane: str = ""
    key: str | None = None
    expires_at: str | None = None


@routes.get(
    "/v1/queues/{name}/messages",
    scope="receive",
    by_link=harmful,
    query=ReceiveParameters,
    answers={200: list[MessageView]},
)
def receive(service: Service, request: Request) -> Call:
    """Take up to `max` messages, which nobody else sees for `vt` seconds; wait for one for up to `wait` seconds."""
    refuse_head(request)
    given: ReceiveParameters = request.options
    name = request.params[0]
    if given.fifo and not name.endswith(FIFO_SUFFIX):
        name += FIFO_SUFFIX
    lease_ms = None if given.vt is None else seconds_as_ms("vt", given.vt)
    operation = ops.Receive(name, service.batch(given.max, "max"), given.lane, lease_ms, given.consumer)
    return Call(operation, _received, service.wait_ms(seconds_as_ms("wait", given.wait), "wait"))


def _received(received: Received) -> Response:
    return Response(200, encode([_message(message) for message in received.messages]), headers=NO_STORE)


def _message(message: Message) -> MessageView:
    lease = message.lease
    assert lease is not None
    return MessageView(
        message.id,
        as_json(message),
        message.attempts,
        timestamp(message.created_at),
        timestamp(lease.expires_at),
        lease.token,
        message.headers or None,
        message.group,
        message.priority,
        message.lane,
        message.key,
        None if message.expires_at is None else timestamp(message.expires_at),
    )


class Ids(Struct, forbid_unknown_fields=True):
    ids: list[int]


class Deleted(Struct):
    deleted: list[int]


@routes.delete("/v1/queues/{name}/messages", scope="receive", body=Ids, answers={200: Deleted})
def delete_messages(_service: Service, request: Request) -> Call:
    """The work is done: delete messages, whoever holds them. The answer names those that were there."""
    ids: list[int] = request.data.ids
    request.rows = len(ids)
    return Call(
        ops.Ack(request.params[0], [Ref(id) for id in ids]),
        lambda results: Response(200, encode(Deleted([done.id for done in results if isinstance(done, Settled)]))),
    )


class DeleteParameters(Struct, frozen=True, forbid_unknown_fields=True):
    token: str | None = None
    """Only if it is still held by this."""


@routes.delete(
    "/v1/queues/{name}/messages/{id}",
    scope="receive",
    path={"id": int},
    query=DeleteParameters,
    answers={204: None},
)
def delete_message(_service: Service, request: Request) -> Call:
    """The work is done: delete a message, whoever holds it; with `token`, only if that is still good."""
    name, id = request.params
    request.rows = 1
    return Call(ops.Ack(name, (Ref(message_id(id), request.options.token),)), _deleted)


def _deleted(results: list[Settled | SqewError]) -> Response:
    (result,) = results
    return _refused(result) if isinstance(result, SqewError) else Response(204)


class NewVisibility(Struct, forbid_unknown_fields=True):
    """In how many seconds from now a message is to be seen again."""

    vt: float
    token: str | None = None


class Visibility(Struct):
    id: int
    visible_at: str


@routes.patch(
    "/v1/queues/{name}/messages/{id}",
    scope="receive",
    path={"id": int},
    body=NewVisibility,
    answers={200: Visibility},
)
def change_visibility(_service: Service, request: Request) -> Call:
    """Have a message seen again `vt` seconds from now, be that sooner or later than it would have been."""
    name, id = request.params
    given: NewVisibility = request.data
    extension = Extension(Ref(message_id(id), given.token), seconds_as_ms("vt", given.vt))
    return Call(ops.Extend(name, (extension,)), _changed)


def _changed(results: list[Settled | SqewError]) -> Response:
    (result,) = results
    if isinstance(result, SqewError):
        return _refused(result)
    if result.due_at is None:
        return _refused(MessageNotFound(result.id))
    return Response(200, encode(Visibility(result.id, timestamp(result.due_at))))


# Many at once, and what is over


class ArchivedView(Struct, omit_defaults=True):
    """A finished message: what became of it, when, and why if it died."""

    id: int
    message: Raw
    read_ct: int
    enqueued_at: str
    archived_at: str
    outcome: Outcome
    headers: dict[str, Any] | None
    reason: str = ""
    group_id: str | None = None
    priority: int = 0
    lane: str = ""
    key: str | None = None


@routes.get("/v1/queues/{name}/archive", scope="receive", query=ArchiveParameters, answers={200: list[ArchivedView]})
def list_archive(service: Service, request: Request) -> Call:
    """Finished messages by id, those after `after`: all, or those that ended as `outcome` says."""
    given: ArchiveParameters = request.options
    limit = service.batch(given.limit, "limit")
    return Call(
        ops.ListArchive(request.params[0], limit, given.after, given.outcome),
        lambda page: Response(
            200, encode([_archived(archived) for archived in page.messages]), headers=next_page(page.after)
        ),
    )


def _archived(archived: ArchivedMessage) -> ArchivedView:
    message = archived.message
    return ArchivedView(
        message.id,
        as_json(message),
        message.attempts,
        timestamp(message.created_at),
        timestamp(archived.finished_at),
        archived.outcome,
        message.headers or None,
        archived.reason,
        message.group,
        message.priority,
        message.lane,
        message.key,
    )


@routes.post("/v1/queues/{name}/bulk", scope="send", streams=True, answers={200: transfer.Imported}, long=True)
async def bulk(service: Service, request: Request) -> Response:
    """Send messages by the thousand: lines of JSON, as `export` writes them, or each with its `message` alone."""
    return await transfer.import_lines(service, request)
