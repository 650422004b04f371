"""Receiving under a lease, and the actions of its holder: ack, nack, extend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct, json

from sqew import operations as ops
from sqew.errors import SqewError
from sqew.http.dialects.sqew.dialect import Trouble, encode, failure, routes
from sqew.http.router import Batched, plain_kind
from sqew.http.service import Service, as_json
from sqew.http.statuses import headers_of, status_of
from sqew.http.wire.duplicate_fields import required_name, stands_once
from sqew.http.wire.exchange import Call, Request, Response, SharedCall
from sqew.model import (
    Extension,
    Format,
    Message,
    Received,
    Ref,
    Release,
    Settled,
)
from sqew.rules.values import check_right


class PollParameters(Struct, frozen=True, forbid_unknown_fields=True):
    batch: int | None = None
    wait_ms: int = 0
    lane: str | None = None
    visibility_ms: int | None = None
    consumer: str | None = None
    finish: bool = False
    """Take messages for good: they are acknowledged as they are received, at most once."""


class SqewMessageView(Struct, omit_defaults=True):
    """A message that was received."""

    id: int
    payload: Raw
    attempts: int
    lease_expires_at: int
    token: str
    created_at: int
    available_at: int
    priority: int = 0
    lane: str = ""
    group: str | None = None
    idempotency_key: str | None = None
    headers: dict[str, Any] = {}
    expires_at: int | None = None
    format: Format = "json"


class Polled(Struct, omit_defaults=True):
    messages: list[SqewMessageView]
    lease_ms: int = 0
    """Milliseconds that their leases last, for clients with another clock. Left out if there are no messages."""


@routes.post("/queues/{queue}/poll", scope="receive", query=PollParameters, answers={200: Polled}, is_all_head=True)
def poll(service: Service, request: Request) -> Call:
    """Take up to `batch` messages under a lease; if there are none, wait for one for up to `wait_ms`."""
    given: PollParameters = request.options
    operation = ops.Receive(
        request.params[0], service.batch(given.batch), given.lane, given.visibility_ms, given.consumer, given.finish
    )
    return Call(operation, _polled, service.wait_ms(given.wait_ms) if given.wait_ms else 0)


def _polled(received: Received) -> Response:
    return Response(200, encode(Polled([_received(message) for message in received.messages], received.lease_ms)))


def _received(message: Message) -> SqewMessageView:
    lease = message.lease
    assert lease is not None
    return SqewMessageView(
        message.id, as_json(message), message.attempts, lease.expires_at, lease.token, message.created_at,
        message.available_at, message.priority, message.lane, message.group, message.key, message.headers,
        message.expires_at, message.format,
    )  # fmt: skip


class SqewAckItem(Struct, forbid_unknown_fields=True):
    """A message to ack, and the right to it: the token that it was received with, or the name of its consumer."""

    id: int
    token: str | None = None
    consumer: str | None = None


class NackItem(Struct, forbid_unknown_fields=True):
    """A message to nack, the right to it (as for ack), and the delay before it is tried again; `dead`: it never is."""

    id: int
    token: str | None = None
    consumer: str | None = None
    delay_ms: int | None = None
    dead: bool = False
    reason: str = ""


class ExtendItem(Struct, forbid_unknown_fields=True):
    """A message, the right to it (as for ack), and the milliseconds from now that its lease is to last."""

    id: int
    ms: int
    token: str | None = None
    consumer: str | None = None


class SettledView(Struct, omit_defaults=True):
    """The outcome for a message of a batch: done, or the reason why not."""

    id: int
    ok: bool
    due_at: int | None = None
    dead: bool = False
    error: Trouble | None = None


class SettledBatch(Struct):
    results: list[SettledView]


_SETTLED = {200: SettledView | SettledBatch}


_decode_ack = json.Decoder(SqewAckItem).decode
_NAME = required_name(SqewAckItem)


def _ack_batch(_service: Service, requests: Sequence[Request]) -> SharedCall | None:
    bodies = [request.body for request in requests]
    if not stands_once(_NAME, bodies):
        return None
    items = [_decode_ack(body) for body in bodies]
    if any(item.token is None is item.consumer for item in items):
        return None
    refs = [Ref(item.id, item.token, item.consumer) for item in items]
    return SharedCall(ops.Ack(requests[0].params[0], refs), _settled_batch)


def _settled_batch(results: list[Settled | SqewError], _requests: Sequence[Request]) -> list[Response]:
    return [_settled_one((result,)) for result in results]


@routes.post(
    "/queues/{queue}/ack",
    scope="receive",
    body=SqewAckItem | list[SqewAckItem],
    answers=_SETTLED,
    batched=Batched(plain_kind, _ack_batch),
)
def ack(_service: Service, request: Request) -> Call:
    """Ack messages, one or an array: the work is done. They are gone, or archived, as the policy says."""
    items = _items(request)
    return Call(
        ops.Ack(request.params[0], [Ref(item.id, item.token, item.consumer) for item in items]),
        _settler(request, items),
    )


@routes.post("/queues/{queue}/nack", scope="receive", body=NackItem | list[NackItem], answers=_SETTLED)
def nack(_service: Service, request: Request) -> Call:
    """Nack messages, to try them again after the queue's backoff, or after `delay_ms`, or never if `dead`."""
    items = _items(request)
    releases = [
        Release(Ref(item.id, item.token, item.consumer), item.delay_ms, item.dead, item.reason) for item in items
    ]
    return Call(ops.Nack(request.params[0], releases), _settler(request, items))


@routes.post("/queues/{queue}/extend", scope="receive", body=ExtendItem | list[ExtendItem], answers=_SETTLED)
def extend(_service: Service, request: Request) -> Call:
    """Extend leases when the work takes longer: they now end `ms` from now."""
    items = _items(request)
    extensions = [Extension(Ref(item.id, item.token, item.consumer), item.ms) for item in items]
    return Call(ops.Extend(request.params[0], extensions), _settler(request, items))


def _items(request: Request) -> Sequence[Any]:
    items = request.data if isinstance(request.data, list) else (request.data,)
    for item in items:
        check_right(item.id, item.token, item.consumer)
    request.rows = len(items)
    return items


def _settler(request: Request, items: Sequence[Any]) -> Any:
    if isinstance(request.data, list):
        return lambda results: Response(
            200, encode(SettledBatch([_settled(item.id, result) for item, result in zip(items, results, strict=True)]))
        )
    return _settled_one


def _settled_one(results: Sequence[Settled | SqewError]) -> Response:
    (result,) = results
    if isinstance(result, SqewError):
        status = status_of(result)
        return Response(status, failure(result, status), headers=headers_of(result))
    return Response(200, encode(_settled(result.id, result)))


def _settled(id: int, result: Settled | SqewError) -> SettledView:
    if isinstance(result, SqewError):
        return SettledView(id, ok=False, error=Trouble(result.code, result.public_text))
    return SettledView(id, ok=True, due_at=result.due_at, dead=result.dead)
