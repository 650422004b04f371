"""The hq dialect: a job queue with receive, complete and fail; parameters in the URL, ids as UUIDs."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from sqew import operations as ops
from sqew.core.engine import creation
from sqew.errors import BadValue, MessageNotFound, QueueNotFound, SqewError
from sqew.http.router import Batched, Dialect, NoParameters, Routes, harmful
from sqew.http.service import NO_STORE, Service, as_json, refuse_head
from sqew.http.statuses import headers_of
from sqew.http.wire.exchange import Call, Request, Response, SharedCall
from sqew.ids import MessageUuids
from sqew.model import NewMessage, NewMessages, Policy, Received, Ref, Release, Sent, Settled
from sqew.rules.values import seconds_as_ms

encode = msgspec.json.Encoder().encode


class HqFailure(Struct):
    error: str
    code: str


def failure(error: SqewError, _status: int) -> bytes:
    return encode(HqFailure(error.public_text, error.code))


DIALECT = Dialect("hq", "A job queue: enqueue, receive, complete, fail.", failure, HqFailure, exact=True)
routes = Routes(DIALECT)

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (hq writes UTC without saying so)


NO_LIMIT = (1 << 31) - 1
"""The number that stands for no limit on attempts: the largest that every client has room for."""


class QueueParameters(Struct, frozen=True):
    """The settings of a queue that hq knows. Other parameters mean nothing to it, and are ignored."""

    name: str | None = None
    max_attempts: int | None = None
    visibility_timeout_seconds: int | None = None

    def policy(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.max_attempts is not None:
            fields["max_attempts"] = None if self.max_attempts == NO_LIMIT else self.max_attempts
        if self.visibility_timeout_seconds is not None:
            fields["visibility_ms"] = seconds_as_ms("visibility_timeout_seconds", self.visibility_timeout_seconds)
        return fields

    def below_one(self) -> Response | None:
        """Return a refusal if a number is below 1, otherwise None."""
        for name in _REQUIRED[1:]:
            value = getattr(self, name)
            if value is not None and value < 1:
                error = BadValue(f"{name} can't be {value}: it must be 1 or more.")
                return Response(422, failure(error, 422), headers=headers_of(error))
        return None


_REQUIRED = ("name", "max_attempts", "visibility_timeout_seconds")

DONE = Response(200, content_type=b"")
"""The empty answer: hq says no more about what it has done, or had no need to do."""


def done_without(error: SqewError) -> Response:
    """Return an answer like `DONE` if there was nothing to act on: only a header names the error."""
    return Response(200, content_type=b"", headers=headers_of(error))


def null_if_missing(error: SqewError) -> Awaitable[Response] | None:
    """Answer null about a queue that does not exist, as hq does. Return None for any other error: it stays an error."""
    if not isinstance(error, QueueNotFound):
        return None
    return _answer(Response(200, b"null", headers=(*NO_STORE, *headers_of(error))))


async def _answer(response: Response) -> Response:
    return response


def time_of(ms: int) -> str:
    """Return a time as hq writes it.

    >>> time_of(1_763_502_147_948)
    '2025-11-18 21:42:27.948'
    """
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(" ", "milliseconds")


def create_queue(service: Service, given: QueueParameters) -> Call | Response:
    """Make a queue from the URL's parameters, all of which are needed: ``POST /queues`` with a name in the URL.

    The queue has no dead-letter queue: a list shows the queue that was made, and nothing else.
    """
    missing = [name for name in _REQUIRED if getattr(given, name) is None]
    if missing:
        raise BadValue(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: a queue that is made in the URL "
            f"needs {', '.join(_REQUIRED)}. Add what is missing, or describe the queue as JSON."
        )
    assert given.name is not None
    if (refusal := given.below_one()) is not None:
        return refusal
    policy = {**given.policy(), "dead_letter": None}
    return Call(creation(service.settings, given.name, policy, new=True, any_name=True), lambda _: DONE)


@routes.put("/queues/{queue}", scope="admin", query=QueueParameters, answers={200: None}, long=True)
async def update_queue(service: Service, request: Request) -> Response:
    """Change a queue's max_attempts or visibility_timeout_seconds. Without either, or without the queue: nothing.

    Messages that ran out of attempts come back if the queue now allows more and has no dead-letter queue.
    """
    given: QueueParameters = request.options
    queue = request.params[0]
    if given.name not in (None, queue):
        raise BadValue("A queue can't be renamed. Make another, and leave name out of the URL's parameters.")
    if (refusal := given.below_one()) is not None:
        return refusal
    try:
        before = await service.broker.run(ops.GetQueue(queue))
        after = await service.broker.run(ops.UpdateQueue(queue, given.policy()))
        if _allows_more(after.policy, before.policy):
            await service.broker.in_steps(ops.RequeueDead(queue, unspent=True))
    except QueueNotFound as error:
        return done_without(error)
    return DONE


def _allows_more(after: Policy, before: Policy) -> bool:
    if before.max_attempts is None:
        return False
    return after.max_attempts is None or after.max_attempts > before.max_attempts


class Enqueued(Struct):
    message_id: UUID


def _enqueue_batch(service: Service, requests: Sequence[Request]) -> SharedCall:
    messages = NewMessages([request.body for request in requests])
    send = ops.Send(requests[0].params[0], messages, apart=True, is_job=True)
    return SharedCall(send, lambda sent, _requests: [_enqueued(service.uuids, [one]) for one in sent])


@routes.post(
    "/queues/{queue}/enqueue",
    scope="send",
    query=NoParameters,
    body=Raw,
    any_type=True,
    answers={200: Enqueued},
    # Of its head nothing matters but the path.
    batched=Batched(lambda _service, request: True if not request.query else None, _enqueue_batch),
)
def enqueue(service: Service, request: Request) -> Call:
    """Send a message: the whole body, any JSON, is its arguments. Its Content-Type does not matter."""
    request.rows = 1
    message = NewMessage(request.body)
    return Call(ops.Send(request.params[0], (message,), is_job=True), partial(_enqueued, service.uuids))


def _enqueued(uuids: MessageUuids, sent: list[Sent]) -> Response:
    return Response(200, b'{"message_id":"%b"}' % uuids.text(sent[0].id).encode())


class Job(Struct):
    id: Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
    args: Raw
    queue: str
    attempts: int


@routes.get(
    "/queues/{queue}/receive",
    scope="receive",
    query=NoParameters,
    by_link=harmful,
    answers={200: Job | None},
    is_all_head=True,
)
def receive(service: Service, request: Request) -> Call:
    """Take the next message for the queue's visibility timeout; null if there is none, or no such queue."""
    refuse_head(request)
    return Call(ops.Receive(request.params[0]), partial(_received, service.uuids), otherwise=null_if_missing)


def _received(uuids: MessageUuids, received: Received) -> Response:
    if not received.messages:
        return Response(200, b"null", headers=NO_STORE)
    message = received.messages[0]
    job = Job(uuids.text(message.id), as_json(message), message.queue, message.attempts)
    return Response(200, encode(job), headers=NO_STORE)


def _kind_of_complete(_service: Service, request: Request) -> bool | None:
    return None if request.body or request.query else True


def _complete_batch(service: Service, requests: Sequence[Request]) -> SharedCall:
    named = [_id_in(service.uuids, request.params[0]) for request in requests]
    refs = [Ref(id) for id in dict.fromkeys(named) if id is not None]
    # They came with the same key, or without.
    ack = ops.Ack(requests[0].only_queue, refs, in_time=True)
    return SharedCall(ack, lambda _, requests: [DONE] * len(requests))


@routes.put(
    "/messages/{id}/complete",
    scope="receive",
    keeps_to_queue=True,
    path={"id": UUID},
    query=NoParameters,
    ignores_body=True,
    answers={200: None},
    batched=Batched(_kind_of_complete, _complete_batch, differ_in_path=True),
)
def complete(service: Service, request: Request) -> Call | Response:
    """Complete a message: the work is done, and the message is gone. A message that is not leased stays as it is."""
    id = _id_in(service.uuids, request.params[0])
    if id is None:
        return DONE
    return Call(ops.Ack(request.only_queue, (Ref(id),), in_time=True), _done, otherwise=_done_if)


@routes.put(
    "/messages/{id}/fail",
    scope="receive",
    keeps_to_queue=True,
    path={"id": UUID},
    query=NoParameters,
    ignores_body=True,
    answers={200: None},
)
def fail(service: Service, request: Request) -> Call | Response:
    """Fail a message for good: it is dead, and not received again. A message that is not leased stays as it is."""
    id = _id_in(service.uuids, request.params[0])
    if id is None:
        return DONE
    release = Release(Ref(id), dead=True, reason="failed by its consumer")
    return Call(ops.Nack(request.only_queue, (release,), in_time=True), _done, otherwise=_done_if)


def _done(_settled: Sequence[Settled | SqewError]) -> Response:
    """Return `DONE` in any case: hq does not say whether the message existed, or was leased."""
    return DONE


def _done_if(error: SqewError) -> Awaitable[Response] | None:
    """Answer `DONE` if the queue of the caller's key is gone: the message is gone with it."""
    return _answer(DONE) if isinstance(error, QueueNotFound) else None


def _id_in(uuids: MessageUuids, text: str) -> int | None:
    """Return the id of the message that a path names, or None if no message of this store has that name."""
    try:
        return uuids.id_in(text)
    except MessageNotFound:
        return None
    except ValueError as error:
        raise BadValue(
            f"'{text[:60]}' is not a message's id: that is a UUID, as enqueue and receive give it."
        ) from error
