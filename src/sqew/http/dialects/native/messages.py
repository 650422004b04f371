"""Messages in the native dialect, with times in seconds and receives by GET."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Raw, Struct

from sqew import operations as ops
from sqew.clock import timestamp
from sqew.errors import BadBody, BodyMisfit, MessageNotFound, SqewError
from sqew.formats.columns import columns
from sqew.http.bulk import import_lines
from sqew.http.dialects.native.dialect import DIALECT, encode, refused
from sqew.http.dialects.plain_sends import plain_sends
from sqew.http.dialects.sqew.inspect import ArchiveParameters, message_id
from sqew.http.router import Batched, NoParameters, Routes, harmful
from sqew.http.service import NO_STORE, Service, as_json, json_body, refuse_head
from sqew.http.wire.exchange import Call, Request, Response, SharedCall, next_page
from sqew.model import ArchivedMessage, Extension, Message, NewMessage, Outcome, Received, Ref, Sent, Settled
from sqew.rules.names import FIFO_SUFFIX
from sqew.rules.values import LARGEST_ID, seconds_as_ms

routes = Routes(DIALECT)


class NativeNewItem(Struct):
    """A message to send: any JSON, and its options. Times are in seconds.

    Unknown fields are ignored.
    """

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


class SendParameters(Struct, frozen=True):
    async_commit: bool = False
    """Answer without waiting for the disk: a crash of the machine may lose messages that were just answered. A
    message's own `sync_commit` takes precedence."""


class SentOne(Struct):
    id: int


class SentMany(Struct):
    ids: list[int]


def _sent_view(one: Sent) -> bytes:
    return b'{"id":%d}' % one.id


@routes.post(
    "/v1/queues/{name}/messages",
    scope="send",
    query=SendParameters,
    body=NativeNewItem | list[NativeNewItem],
    misfit=BodyMisfit,
    answers={201: SentOne | SentMany},
    # beyond-queue's clients say of every message that it has no delay and no headers.
    batched=plain_sends("message", _sent_view, also=[("delay", Literal[0] | None, None), ("headers", None, None)]),
)
def send(_service: Service, request: Request) -> Call:
    """Send one message, or an array of them, all or none."""
    given: NativeNewItem | list[NativeNewItem] = request.data
    items = given if isinstance(given, list) else [given]
    if not items:
        raise BadBody("The array holds no message. Send at least one.")
    request.rows = len(items)
    unsaid = False if request.options.async_commit else None
    sync_commit = ops.sync_commit_of_all(unsaid if item.sync_commit is None else item.sync_commit for item in items)
    if items is given:
        messages = columns([_new_message(item) for item in items])
        return Call(ops.Send(request.params[0], messages, sync_commit=sync_commit), _sent_many)
    return Call(ops.Send(request.params[0], (_new_message(items[0]),), sync_commit=sync_commit), _sent_one)


def _new_message(item: NativeNewItem) -> NewMessage:
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


class NativeReceiveParameters(Struct, frozen=True):
    """Parameters of a receive. Unknown parameters are ignored."""

    max: int | None = None
    """The most messages to receive, and no more than max_batch allows; with 0, none are."""
    vt: float | None = None
    """Seconds for which the messages are invisible to others; below 0 is 0. Left out: as the queue's policy says."""
    wait: float = 0
    """Seconds to wait for a message when there is none."""
    fifo: bool = False
    """Receive from the FIFO queue of that name. It is found without this, too, unless a plain queue has the name."""
    lane: str | None = None
    consumer: str | None = None


class NativeMessageView(Struct, omit_defaults=True):
    """A message that was received. It is visible again at `visible_at` unless it is deleted."""

    id: int
    message: Raw
    read_ct: int
    read_count: int
    """The same as `read_ct`."""
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
    query=NativeReceiveParameters,
    answers={200: list[NativeMessageView]},
    is_all_head=True,
)
def receive(service: Service, request: Request) -> Call:
    """Take up to `max` messages, invisible to others for `vt` seconds; wait for one for up to `wait` seconds."""
    refuse_head(request)
    given: NativeReceiveParameters = request.options
    name = request.params[0]
    if given.fifo and not name.endswith(FIFO_SUFFIX):
        name += FIFO_SUFFIX
    wait_ms = service.wait_ms(seconds_as_ms("wait", given.wait), "wait")
    lease_ms = None if given.vt is None else seconds_as_ms("vt", max(given.vt, 0))
    if given.max == 0:
        return Call(ops.GetQueue(name), lambda _: Response(200, b"[]", headers=NO_STORE))
    most = None if given.max is None else min(given.max, service.settings.max_batch)
    return Call(ops.Receive(name, service.batch(most, "max"), given.lane, lease_ms, given.consumer), _received, wait_ms)


def _received(received: Received) -> Response:
    return Response(200, encode([_message(message) for message in received.messages]), headers=NO_STORE)


def _message(message: Message) -> NativeMessageView:
    lease = message.lease
    assert lease is not None
    return NativeMessageView(
        message.id,
        as_json(message),
        message.attempts,
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


class NativeIds(Struct):
    """Ids of messages. Unknown fields are ignored."""

    ids: list[int]


class Deleted(Struct):
    deleted: list[int]


@routes.delete("/v1/queues/{name}/messages", scope="receive", body=NativeIds, misfit=BodyMisfit, answers={200: Deleted})
def delete_messages(_service: Service, request: Request) -> Call:
    """Delete messages when their work is done, whoever holds them. The answer names those that were there."""
    # An id that no message can have is one of those that are not there.
    ids = [id for id in request.data.ids if 1 <= id <= LARGEST_ID]
    request.rows = len(ids)
    return Call(
        ops.Ack(request.params[0], [Ref(id) for id in ids]),
        lambda results: Response(200, encode(Deleted([done.id for done in results if isinstance(done, Settled)]))),
    )


class DeleteParameters(Struct, frozen=True, forbid_unknown_fields=True):
    token: str | None = None
    """Delete the message only if this token still holds it."""


_TOKEN = re.compile(rb"token=([0-9a-f]{32})")


def _ref_kind(_service: Service, request: Request) -> bool | None:
    """Return True for a request that names a message, perhaps with its token, and nothing else: those are coalesced."""
    return None if request.body or (request.query and not _TOKEN.fullmatch(request.query)) else True


def _ref(request: Request) -> Ref:
    token = _TOKEN.fullmatch(request.query)
    return Ref(message_id(request.params[1]), None if token is None else token[1].decode())


def _delete_batch(_service: Service, requests: Sequence[Request]) -> SharedCall:
    refs = [_ref(request) for request in requests]
    return SharedCall(ops.Ack(requests[0].params[0], refs), lambda results, _: [_deleted((one,)) for one in results])


@routes.delete(
    "/v1/queues/{name}/messages/{id}",
    scope="receive",
    path={"id": int},
    query=DeleteParameters,
    answers={204: None},
    batched=Batched(_ref_kind, _delete_batch, differ_in_path=True),
)
def delete_message(_service: Service, request: Request) -> Call:
    """Delete a message when its work is done, whoever holds it; with `token`, only if that is still good."""
    name, id = request.params
    request.rows = 1
    return Call(ops.Ack(name, (Ref(message_id(id), request.options.token),)), _deleted)


def _deleted(results: Sequence[Settled | SqewError]) -> Response:
    (result,) = results
    return refused(result) if isinstance(result, SqewError) else Response(204)


class NewVisibility(Struct):
    """The seconds from now until a message is visible again; below 0 is 0. Unknown fields are ignored."""

    vt: float
    token: str | None = None


class Visibility(Struct):
    id: int
    visible_at: str


@routes.patch(
    "/v1/queues/{name}/messages/{id}",
    scope="receive",
    path={"id": int},
    query=NoParameters,
    body=NewVisibility,
    misfit=BodyMisfit,
    answers={200: Visibility},
)
def change_visibility(_service: Service, request: Request) -> Call:
    """Make a message visible again `vt` seconds from now, be that sooner or later than it would have been."""
    name, id = request.params
    given: NewVisibility = request.data
    extension = Extension(Ref(message_id(id), given.token), seconds_as_ms("vt", max(given.vt, 0)))
    return Call(ops.Extend(name, (extension,)), _changed)


def _changed(results: list[Settled | SqewError]) -> Response:
    (result,) = results
    if isinstance(result, SqewError):
        return refused(result)
    if result.due_at is None:
        return refused(MessageNotFound(result.id))
    return Response(200, encode(Visibility(result.id, timestamp(result.due_at))))


# Many at once, and what is over


class NativeArchivedView(Struct, omit_defaults=True):
    """A finished message: its outcome, when it finished, and the reason if it died."""

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


@routes.get(
    "/v1/queues/{name}/archive", scope="receive", query=ArchiveParameters, answers={200: list[NativeArchivedView]}
)
def list_archive(service: Service, request: Request) -> Call:
    """List finished messages by id, those after `after`: all, or those that ended as `outcome` says."""
    given: ArchiveParameters = request.options
    limit = service.batch(given.limit, "limit")
    return Call(
        ops.ListArchive(request.params[0], limit, given.after, given.outcome),
        lambda page: Response(
            200, encode([_archived(archived) for archived in page.messages]), headers=next_page(page.after)
        ),
    )


def _archived(archived: ArchivedMessage) -> NativeArchivedView:
    message = archived.message
    return NativeArchivedView(
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


@routes.post("/v1/queues/{name}/bulk", scope="send", streams=True, answers={200: import_lines.Imported}, long=True)
async def bulk(service: Service, request: Request) -> Response:
    """Send messages by the thousand: lines of JSON, as `export` writes them, or each with its `message` alone."""
    return await import_lines.import_lines(service, request)
