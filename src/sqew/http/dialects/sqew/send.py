"""Sending."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from sqew import operations as ops
from sqew.errors import BadValue
from sqew.formats.columns import columns
from sqew.http.dialects.plain_sends import plain_sends
from sqew.http.dialects.sqew.dialect import encode, routes
from sqew.http.router import plain_kind
from sqew.http.service import Service, body_in
from sqew.http.wire.exchange import Call, Request, Response
from sqew.model import (
    Format,
    NewMessage,
    Sent,
)


class SqewNewItem(Struct, forbid_unknown_fields=True):
    """A message to send."""

    payload: Raw
    priority: int = 0
    delay_ms: int | None = None
    ttl_ms: int | None = None
    idempotency_key: str | None = None
    lane: str | None = None
    group: str | None = None
    headers: dict[str, Any] | None = None
    format: Format = "json"
    """`text`: the payload is a JSON string, and its contents are the body."""
    sync_commit: bool | None = None


class SentView(Struct):
    """A sent message: its id, under two names. Of a duplicate nothing else is said."""

    message_id: int
    duplicate: bool
    id: int
    available_at: int | UnsetType = UNSET


class SentBatch(Struct):
    messages: list[SentView]


def _kind(service: Service, request: Request) -> bool | None:
    return None if b"idempotency-key" in request.headers else plain_kind(service, request)


def _sent_view(one: Sent) -> bytes:
    # As `SentView`, in a third of the time.
    if one.duplicate:
        return b'{"message_id":%d,"duplicate":true,"id":%d}' % (one.id, one.id)
    return b'{"message_id":%d,"duplicate":false,"id":%d,"available_at":%d}' % (one.id, one.id, one.available_at)


@routes.post(
    "/queues/{queue}/messages",
    scope="send",
    headers={"Idempotency-Key": "The key of a single message that brings none: a repeated send stores nothing."},
    body=SqewNewItem | list[SqewNewItem],
    answers={201: SentView | SentBatch},
    batched=plain_sends("payload", _sent_view, _kind),
)
def send(_service: Service, request: Request) -> Call:
    """Send one message, or an array of them, all or none. `Idempotency-Key` is the key of a single one."""
    given: SqewNewItem | list[SqewNewItem] = request.data
    queue = request.params[0]
    if type(given) is SqewNewItem:
        request.rows = 1
        key = given.idempotency_key
        if b"idempotency-key" in request.headers:
            named = request.header(b"idempotency-key")
            if key is not None and key != named:
                raise BadValue("Idempotency-Key and idempotency_key differ. Give one of the two.")
            key = named
        return Call(ops.Send(queue, (_new_message(given, key),), sync_commit=given.sync_commit), _sent_one)
    assert isinstance(given, list)
    if b"idempotency-key" in request.headers:
        raise BadValue("Idempotency-Key is for a single message. Give each message of an array its idempotency_key.")
    request.rows = len(given)
    sync_commit = ops.sync_commit_of_all(item.sync_commit for item in given)
    messages = columns([_new_message(item, item.idempotency_key) for item in given])
    return Call(ops.Send(queue, messages, sync_commit=sync_commit), _sent_many)


def _new_message(item: SqewNewItem, key: str | None) -> NewMessage:
    body = body_in(item.payload, item.format)
    return NewMessage(
        body, item.format, item.headers, item.priority, item.lane, item.group, key, item.delay_ms, item.ttl_ms
    )


def _sent_one(sent: list[Sent]) -> Response:
    return Response(201, _sent_view(sent[0]))


def _sent_many(sent: list[Sent]) -> Response:
    views = [SentView(one.id, one.duplicate, one.id, one.available_at or UNSET) for one in sent]
    return Response(201, encode(SentBatch(views)))
