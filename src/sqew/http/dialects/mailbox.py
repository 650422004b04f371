"""The mailbox dialect: text in, text out, taken once and archived. Topics are queues, made when they are first used.

A message is delivered at most once, for the GET that answers with it also archives it. With ``ack=true`` it is leased
instead, and archived when its receiver acks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from sqew import operations as ops
from sqew.clock import timestamp
from sqew.core.checks import check_operation
from sqew.errors import BadValue, Forbidden, MessageNotFound, QueueNotFound, SqewError, StoreBusy
from sqew.http.router import Dialect, Routes, harmful
from sqew.http.service import NO_STORE, Service, in_seconds, refuse_head
from sqew.http.statuses import COME_BACK, headers_of, status_of
from sqew.http.wire.exchange import Call, Request, Response
from sqew.model import Message, NewMessage, QueueInfo, Received, Ref, Sent, Settled
from sqew.rules.values import check_right, seconds_as_ms

encode = msgspec.json.Encoder().encode

DEFAULT_TOPIC = "mailbox"
_POLICY = {"keep": "archive", "max_attempts": None, "dead_letter": None}
"""A topic's policy: finished messages are archived, and none ever becomes a dead letter."""


class MailboxFailure(Struct):
    error: str
    code: str


def _failure(error: SqewError, _status: int) -> bytes:
    return encode(MailboxFailure(error.public_text, error.code))


DIALECT = Dialect("Mailbox", "Text messages, taken once and archived.", _failure, MailboxFailure)
routes = Routes(DIALECT)


def _topic(request: Request, given: str | None) -> str:
    """Return the queue that is meant; raise if the request's key is for another one."""
    topic = DEFAULT_TOPIC if given is None else given
    if request.only_queue not in (None, topic):
        raise Forbidden(f"This key is for the topic '{request.only_queue}' alone. Name that, or use another key.")
    request.queue = topic
    return topic


def _call(
    service: Service, operation: ops.Send | ops.Receive, render: Callable[[Any], Response], wait_ms: int = 0
) -> Call:
    """Return a call on a topic that makes the topic and tries again if there is none of that name."""

    async def made() -> Call:
        await service.ensure_queue(operation.queue, **_POLICY)
        return Call(operation, render, wait_ms)

    def otherwise(error: SqewError) -> Awaitable[Call] | None:
        return made() if isinstance(error, QueueNotFound) else None

    return Call(operation, render, wait_ms, otherwise)


# Sending


class NewText(Struct, forbid_unknown_fields=True):
    """A message to send. One with a `dedupe_key` that was sent before is not stored again."""

    body: str
    topic: str | None = None
    dedupe_key: str | None = None


class Text(Struct, omit_defaults=True):
    """A message. `token` is the proof of its lease for a receiver in ack mode."""

    id: int
    timestamp: str
    body: str
    token: str | None = None


@routes.post("/v1/messages", scope="send", keeps_to_queue=True, body=NewText, answers={201: Text})
def send(service: Service, request: Request) -> Call | Awaitable[Response]:
    """Send a message. If its `dedupe_key` was sent before, the answer is the message of that time."""
    given: NewText = request.data
    topic = _topic(request, given.topic)
    request.rows = 1
    operation = ops.Send(topic, (NewMessage(given.body.encode(), "text", key=given.dedupe_key),))

    def render(sent: list[Sent]) -> Response:
        return Response(201, encode(Text(sent[0].id, timestamp(service.broker.ran_at), given.body)))

    if given.dedupe_key is not None:
        return _send_once(service, operation, given.body)
    return _call(service, operation, render)


async def _send_once(service: Service, operation: ops.Send, body: str) -> Response:
    """Send, and answer with what is stored: the message itself, or the first one of its key."""
    topic = operation.queue
    # What is refused makes no topic.
    check_operation(operation, service.broker.limits)
    await service.ensure_queue(topic, **_POLICY)
    (sent,) = await service.broker.run(operation)
    try:
        stored = await _find(service, topic, sent.id)
    except StoreBusy:
        if sent.duplicate:
            raise
        # It is stored, and must not be refused because it can't be read again.
        stored = None
    if stored is None:
        return Response(201, encode(Text(sent.id, timestamp(service.broker.now()), body)))
    return Response(201, encode(_text(stored)))


async def _find(service: Service, topic: str, id: int) -> Message | None:
    """Find a message that was sent before, in the queue or in the archive; None: it is no longer kept."""
    try:
        return await service.broker.run(ops.Get(topic, id))
    except MessageNotFound:
        found = (await service.broker.run(ops.ListArchive(topic, 1, id - 1))).messages
        return found[0].message if found and found[0].message.id == id else None


# Receiving


class MailboxReceiveParameters(Struct, frozen=True, forbid_unknown_fields=True):
    limit: int | None = None
    topic: str | None = None
    wait: float = 0
    """Seconds to wait for a message when there is none."""
    ack: bool = False
    """Lease the messages, to be archived by `/v1/acks`, instead of archiving them now."""
    visibility_timeout: float | None = None
    """Seconds that the leases last. Only with `ack`."""


@routes.get(
    "/v1/messages",
    scope="receive",
    keeps_to_queue=True,
    by_link=harmful,
    query=MailboxReceiveParameters,
    answers={200: list[Text]},
)
def receive(service: Service, request: Request) -> Call:
    """Take the oldest messages and archive them; or, with `ack=true`, lease them until they are acked."""
    refuse_head(request)
    given: MailboxReceiveParameters = request.options
    limit = service.batch(given.limit, "limit", min(service.settings.get_limit_default, service.settings.max_batch))
    lease_ms = None
    if given.visibility_timeout is not None:
        if not given.ack:
            raise BadValue("visibility_timeout is for messages that are acked: add ack=true, or leave it out.")
        lease_ms = seconds_as_ms("visibility_timeout", given.visibility_timeout)
    operation = ops.Receive(_topic(request, given.topic), limit, lease_ms=lease_ms, finish=not given.ack)
    wait_ms = service.wait_ms(seconds_as_ms("wait", given.wait), "wait")
    return _call(service, operation, _leased if given.ack else _taken, wait_ms)


def _taken(received: Received) -> Response:
    return Response(200, encode([_text(message) for message in _by_age(received)]), headers=NO_STORE)


def _leased(received: Received) -> Response:
    texts = []
    for message in _by_age(received):
        assert message.lease is not None
        texts.append(_text(message, message.lease.token))
    return Response(200, encode(texts), headers=NO_STORE)


def _by_age(received: Received) -> list[Message]:
    return sorted(received.messages, key=lambda message: (message.created_at, message.id))


def _text(message: Message, token: str | None = None) -> Text:
    return Text(message.id, timestamp(message.created_at), message.body.decode(), token)


class MailboxAckItem(Struct, forbid_unknown_fields=True):
    """A message to ack, with the token that it was received with."""

    id: int
    token: str | None = None
    topic: str | None = None


class AckView(Struct, omit_defaults=True):
    """The outcome for a message: archived, or the reason why not."""

    id: int
    ok: bool
    error: str | None = None
    code: str | None = None


class AckBatch(Struct):
    results: list[AckView]


@routes.post(
    "/v1/acks",
    scope="receive",
    keeps_to_queue=True,
    body=MailboxAckItem | list[MailboxAckItem],
    answers={200: AckView | AckBatch},
)
async def ack(service: Service, request: Request) -> Response:
    """Ack messages that were received with `ack=true`, one or an array: they are archived."""
    items: Sequence[MailboxAckItem] = request.data if isinstance(request.data, list) else (request.data,)
    request.rows = len(items)
    by_topic: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        check_right(item.id, item.token, None)
        by_topic.setdefault(_topic(request, item.topic), []).append(place)
    operations = [
        ops.Ack(topic, [Ref(items[place].id, items[place].token) for place in places])
        for topic, places in by_topic.items()
    ]
    for operation in operations:
        # All of them before any is carried out.
        check_operation(operation, service.broker.limits)
    calls = [_attempt(service, operation) for operation in operations]
    results: dict[int, Settled | SqewError] = {}
    # All in the transaction of this tick.
    for places, outcome in zip(by_topic.values(), await asyncio.gather(*calls), strict=True):
        each = [outcome] * len(places) if isinstance(outcome, SqewError) else outcome
        results.update(zip(places, each, strict=True))
    if isinstance(request.data, list):
        return Response(200, encode(AckBatch([_acked(item.id, results[at]) for at, item in enumerate(items)])))
    result = results[0]
    if isinstance(result, SqewError):
        status = status_of(result)
        return Response(status, _failure(result, status), headers=headers_of(result))
    return Response(200, encode(_acked(result.id, result)))


async def _attempt(service: Service, operation: ops.Ack) -> list[Settled | SqewError] | SqewError:
    """Ack messages; return the error if their topic does not exist: those of other topics are acked all the same."""
    try:
        return await service.broker.run(operation)
    except QueueNotFound as error:
        return error


def _acked(id: int, result: Settled | SqewError) -> AckView:
    if isinstance(result, SqewError):
        return AckView(id, ok=False, error=result.public_text, code=result.code)
    return AckView(id, ok=True)


# What is kept, and how it is


class TopicParameters(Struct, frozen=True, forbid_unknown_fields=True):
    topic: str | None = None


class NewRetention(Struct, forbid_unknown_fields=True):
    """A retention: the seconds that a topic's archived messages are kept; null: for ever."""

    seconds: float | None
    topic: str | None = None


class Retention(Struct):
    topic: str
    seconds: float | None


@routes.get("/v1/retention", scope="receive", keeps_to_queue=True, query=TopicParameters, answers={200: Retention})
def show_retention(_service: Service, request: Request) -> Call:
    """Show for how many seconds a topic's archived messages are kept; null: for ever."""
    return Call(ops.GetQueue(_topic(request, request.options.topic)), _retention)


@routes.put("/v1/retention", scope="admin", keeps_to_queue=True, body=NewRetention, answers={200: Retention})
async def set_retention(service: Service, request: Request) -> Response:
    """Set how long a topic's archived messages are kept. It applies to messages archived from now on."""
    given: NewRetention = request.data
    topic = _topic(request, given.topic)
    kept_ms = None if given.seconds is None else seconds_as_ms("seconds", given.seconds)
    await service.ensure_queue(topic, **_POLICY)
    return _retention(await service.broker.run(ops.UpdateQueue(topic, {"archive_retention_ms": kept_ms})))


def _retention(info: QueueInfo) -> Response:
    kept_ms = info.policy.archive_retention_ms
    return Response(200, encode(Retention(info.name, None if kept_ms is None else in_seconds(kept_ms))))


class Stats(Struct):
    """Counts of a topic's messages by state."""

    topic: str
    new: int
    claimed: int
    archived: int


@routes.get("/v1/stats", scope="receive", keeps_to_queue=True, query=TopicParameters, answers={200: Stats})
async def stats(service: Service, request: Request) -> Response:
    """Count a topic's messages: new, claimed (received, and not acked yet) and archived."""
    given: TopicParameters = request.options
    topic = _topic(request, given.topic)
    try:
        (depths,) = await service.broker.read(ops.Measure(topic))
    except QueueNotFound:
        if given.topic is not None:
            raise
        # Nobody has used it yet.
        return Response(200, encode(Stats(topic, 0, 0, 0)))
    claimed = depths.total("leased")
    return Response(200, encode(Stats(topic, depths.total() - claimed, claimed, depths.archived)))


class MailboxHealth(Struct):
    status: str


@routes.get("/health", scope="receive", keeps_to_queue=True, answers={200: MailboxHealth, 503: MailboxFailure})
async def health(service: Service, _request: Request) -> Response:
    """Check that the store can be read."""
    try:
        await service.check_store()
    except SqewError as error:
        return Response(503, _failure(error, 503), headers=(*NO_STORE, *COME_BACK))
    return Response(200, encode(MailboxHealth("ok")), headers=NO_STORE)
