"""Requests and answers, without the network between them: the part that both clients share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from sqew import operations as ops
from sqew.client import wire
from sqew.client.native import path as native_path
from sqew.client.native import path_of
from sqew.errors import BadBody, BadValue, NotSqew, QueueNotFound, ServerError, SqewError
from sqew.model import (
    ArchivePage,
    Finished,
    KeyInfo,
    KeyScope,
    Message,
    NewMessage,
    Outcome,
    Page,
    QueueInfo,
    QueueStats,
    Ref,
    Sent,
    Settled,
)
from sqew.model import Received as Taken
from sqew.rules.bodies import encode_body, encode_json
from sqew.rules.limits import Limits
from sqew.rules.messages import check_new_message
from sqew.rules.names import check_new_queue_name, check_queue_name
from sqew.rules.policies import in_milliseconds
from sqew.rules.values import (
    check_collection,
    check_id,
    check_int,
    check_iterable,
    check_right,
    check_text,
    check_unicode,
    seconds_as_ms,
    shown,
)

R = TypeVar("R")
T = TypeVar("T")
Held = Message | int
"""A message that was claimed; or its id, together with the name of its queue."""

NDJSON = "application/x-ndjson"
_CODE_HEADER = "x-sqew-error"
"""The header in which the server names its error. Of the dialects that are spoken here, only one names it in the body
as well.
"""
SENDABLE = Limits(max_body_bytes=1 << 31, max_headers_bytes=1 << 31, max_batch=1 << 31, max_depth=500)
"""Limits of what can be sent at all: more is refused here, and the server knows its own limits."""


class ApiCall(Struct, Generic[R], frozen=True):
    """A request, and the way its answer is read."""

    method: str
    path: str
    parse: Callable[[bytes], R]
    query: Mapping[str, str] = {}
    body: bytes | None = None
    repeatable: bool = False
    """True if doing it twice is as good as doing it once: it may be sent again if there was no answer."""
    wait_ms: int = 0
    """Milliseconds that the server may wait before it answers."""
    long: bool = False
    """True if it takes as long as there is work."""
    about: Mapping[str, Any] = {}
    """The attributes of its errors, such as the queue's name."""


class Listed(list[T]):
    """A list that may not be the whole."""

    after: str | None = None
    """The entry after which there may be more, as the server says; None: there are no more."""


class ServerAnswer(Struct, frozen=True):
    """The answer to a request."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    """The headers by their names in lower case."""


def read(call: ApiCall[R], answer: ServerAnswer, where: str) -> R:
    """Return the result, or raise the server's error."""
    if not 200 <= answer.status < 300:
        raise refusal(call, answer, where)
    if answer.headers.get(_CODE_HEADER) == QueueNotFound.code:
        # Where hq's clients want to know nothing of it.
        raise QueueNotFound(call.about["queue"])
    try:
        result = call.parse(answer.body)
    except (msgspec.DecodeError, ValueError) as error:
        raise NotSqew(where, answer.status) from error
    if isinstance(result, Listed):
        result.after = answer.headers.get("x-sqew-after")
    return result


def refusal(call: ApiCall[Any], answer: ServerAnswer, where: str) -> SqewError:
    """Return the error that the server answered with."""
    try:
        document = msgspec.json.decode(answer.body, type=wire.FailureDocument).error
    except (msgspec.DecodeError, UnicodeError):
        return NotSqew(where, answer.status)
    if isinstance(document, str):
        code = answer.headers.get(_CODE_HEADER)
        if code is None:
            is_ours = answer.status == 503
            return ServerError(f"{where} is not ready: {document}") if is_ours else NotSqew(where, answer.status)
        document = wire.ErrorDocument(code, document)
    known = dict(call.about)
    retry_after = answer.headers.get("retry-after", "")
    if retry_after.isascii() and retry_after.isdigit():
        known["retry_after_ms"] = int(retry_after) * 1000
    elif answer.status == 429:
        known["retry_after_ms"] = 1000
    return wire.error_of(document, known)


def _path(queue: str, *rest: object) -> str:
    check_queue_name(queue)
    return path_of("/queues", queue, *rest)


def query_of(**given: Any) -> dict[str, str]:
    return {name: str(value) for name, value in given.items() if value is not None}


def reads(kind: type[R]) -> Callable[[bytes], R]:
    return msgspec.json.Decoder(kind).decode


def _all_of(count: int, entries: list[R]) -> list[R]:
    """Return the entries of an answer, if there is one for each that was asked about."""
    if len(entries) != count:
        raise msgspec.ValidationError(f"{len(entries)} entries instead of {count}")
    return entries


def nothing(_body: bytes) -> None:
    return None


# Queues

_queue_document = reads(wire.QueueDocument)
_queue_documents = reads(list[wire.QueueDocument])


def _info(body: bytes) -> QueueInfo:
    return _queue_document(body).info()


def _infos(body: bytes) -> list[QueueInfo]:
    return [document.info() for document in _queue_documents(body)]


def create(name: str, policy: Mapping[str, Any]) -> ApiCall[QueueInfo]:
    check_new_queue_name(name)
    body = written({"name": name, **_policy(policy)}, "policy")
    return ApiCall("POST", "/queues", _info, body=body, repeatable=True, about={"queue": name})


def update(name: str, changes: Mapping[str, Any]) -> ApiCall[QueueInfo]:
    body = written(_policy(changes), "policy")
    return ApiCall("PATCH", _path(name), _info, body=body, repeatable=True, about={"queue": name})


def _policy(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a policy under the names of the dialect."""
    fields = in_milliseconds(given)
    if "name" in fields:
        raise BadValue("A policy has no 'name'. A queue keeps the name that it was made with.")
    if "dead_letter" in fields:
        fields["dlq"] = fields.pop("dead_letter")
    base_backoff_ms = fields.pop("base_backoff_ms", None)
    if base_backoff_ms is not None:
        if "backoff" in fields:
            raise BadValue("base_backoff_ms is short for backoff. Give one of the two.")
        fields["backoff"] = {"base_ms": base_backoff_ms}
    return fields


def written(value: Any, what: str) -> bytes:
    """Encode as `as_json`, but refuse NaN and infinity, which JSON would write as null: null switches a limit off."""
    encoded = as_json(value)
    try:
        encode_json(value, what, SENDABLE.max_depth)
    except BadBody as error:
        raise BadValue(f"The {what} holds NaN or infinity. Give a number, or None for no limit.") from error
    return encoded


def as_json(value: Any) -> bytes:
    try:
        return wire.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise BadValue(f"That can't be written as JSON: {error}.") from error


def delete(name: str) -> ApiCall[None]:
    return ApiCall("DELETE", _path(name), nothing, about={"queue": name})


def info(name: str) -> ApiCall[QueueInfo]:
    return ApiCall("GET", _path(name), _info, repeatable=True, about={"queue": name})


def queues(prefix: str) -> ApiCall[list[QueueInfo]]:
    check_unicode("prefix", prefix)
    return ApiCall("GET", "/queues", _infos, query_of(prefix=prefix or None), repeatable=True)


# The life of a message

_sent_batch = reads(wire.SentBatchDocument)
_received_batch = reads(wire.ReceivedBatch)
_settled_batch = reads(wire.SettledBatchDocument)


def message_of(
    body: Any,
    lane: str | None,
    priority: int,
    headers: dict[str, Any] | None,
    key: str | None,
    group: str | None,
    delay_seconds: float | None,
    ttl_seconds: float | None,
) -> NewMessage:
    """Return the arguments of `enqueue` as a message."""
    if type(body) is NewMessage:
        raise BadValue("A NewMessage says everything of itself. Send it with enqueue_many, in a list.")
    encoded, format = encode_body(body, SENDABLE)
    return NewMessage(
        encoded,
        format,
        headers,
        priority,
        lane,
        group,
        key,
        None if delay_seconds is None else seconds_as_ms("delay_seconds", delay_seconds),
        None if ttl_seconds is None else seconds_as_ms("ttl_seconds", ttl_seconds, at_least=1),
    )


def messages_of(bodies: Iterable[Any]) -> list[NewMessage]:
    """Return the arguments of `enqueue_many` as messages."""
    check_iterable("bodies", bodies)
    return [body if isinstance(body, NewMessage) else NewMessage(*encode_body(body, SENDABLE)) for body in bodies]


def send(operation: ops.Send) -> ApiCall[list[Sent]]:
    for message in operation.messages:
        check_new_message(message, SENDABLE)

    def parse(body: bytes) -> list[Sent]:
        return [
            Sent(one.message_id, one.duplicate) for one in _all_of(len(operation.messages), _sent_batch(body).messages)
        ]

    return ApiCall(
        "POST",
        _path(operation.queue, "messages"),
        parse,
        body=as_json([wire.item_of(message, operation.sync_commit) for message in operation.messages]),
        # Without a key a message that is sent twice is there twice.
        repeatable=all(message.key is not None for message in operation.messages),
        about={"queue": operation.queue},
    )


def claim(queue: str, limit: int, lane: str | None, lease_seconds: float | None, consumer: str | None) -> ops.Receive:
    """Return the arguments of `claim` as an operation."""
    check_int("limit", limit, 1, SENDABLE.max_batch)
    lease_ms = None if lease_seconds is None else seconds_as_ms("lease_seconds", lease_seconds)
    return ops.Receive(queue, limit, lane, lease_ms, consumer)


def receive(operation: ops.Receive, wait_ms: int = 0) -> ApiCall[Taken]:
    queue, by = operation.queue, operation.by

    def parse(body: bytes) -> Taken:
        batch = _received_batch(body)
        return Taken([one.message(queue, by) for one in batch.messages], lease_ms=batch.lease_ms)

    return ApiCall(
        "POST",
        _path(queue, "poll"),
        parse,
        query_of(
            batch=operation.limit,
            wait_ms=wait_ms or None,
            lane=operation.lane,
            visibility_ms=operation.lease_ms,
            consumer=by,
            finish="true" if operation.finish else None,
        ),
        # A lost answer leaves its messages leased for a while, and no more. What was taken for good is gone with it,
        # and whoever asked must hear of that.
        repeatable=not operation.finish,
        wait_ms=wait_ms,
        about={"queue": queue},
    )


def ack(operation: ops.Ack) -> ApiCall[list[Settled | SqewError]]:
    return _settle("ack", operation.queue, [_settling(ref) for ref in operation.refs])


def nack(operation: ops.Nack) -> ApiCall[list[Settled | SqewError]]:
    items = []
    for release in operation.releases:
        item = _settling(release.ref)
        item.delay_ms, item.dead, item.reason = release.delay_ms, release.dead, release.reason
        items.append(item)
    return _settle("nack", operation.queue, items)


def extend(operation: ops.Extend) -> ApiCall[list[Settled | SqewError]]:
    items = []
    for extension in operation.extensions:
        item = _settling(extension.ref)
        item.ms = extension.lease_ms
        items.append(item)
    return _settle("extend", operation.queue, items, repeatable=True)


def _settling(ref: Ref) -> wire.Settling:
    return wire.Settling(ref.id, ref.token, ref.by)


def _settle(
    verb: str, queue: str | None, items: list[wire.Settling], *, repeatable: bool = False
) -> ApiCall[list[Settled | SqewError]]:
    if queue is None:
        raise BadValue("A server must be told in which queue a message is. Add queue='NAME', or give the message.")

    def parse(body: bytes) -> list[Settled | SqewError]:
        return [one.result(queue) for one in _all_of(len(items), _settled_batch(body).results)]

    return ApiCall(
        "POST",
        _path(queue, verb),
        parse,
        body=written(items, "request"),
        # An ack that is repeated finds its message gone, and would be taken for one that came too late.
        repeatable=repeatable,
        about={"queue": queue},
    )


def held(message: Held, consumer: str | None, queue: str | None) -> tuple[str | None, Ref]:
    """Return the queue of a message, and a reference with the right to settle it."""
    if isinstance(message, Message):
        lease = message.lease
        if lease is None or not lease.token:
            raise BadValue(f"Message {message.id} was looked at, not claimed: only its holder can settle it.")
        return message.queue, Ref(message.id, lease.token)
    check_id(message)
    check_right(message, None, consumer)
    check_text("consumer", consumer)
    return queue, Ref(message, by=consumer)


def settlements(
    messages: Sequence[Held],
    consumer: str | None,
    queue: str | None,
    operation: Callable[[str | None, list[Ref]], ops.Operation[list[Settled | SqewError]]],
) -> list[tuple[list[int], ApiCall[list[Settled | SqewError]]]]:
    """Make a call for the messages of each queue; return it with their positions.

    All are made before the first is sent: what is wrong with one of them must be refused while nothing is settled.
    """
    check_collection("messages", messages)
    groups: dict[str | None, tuple[list[int], list[Ref]]] = {}
    for place, message in enumerate(messages):
        name, ref = held(message, consumer, queue)
        places, refs = groups.setdefault(name, ([], []))
        places.append(place)
        refs.append(ref)
    return [(places, of(operation(name, refs))) for name, (places, refs) in groups.items()]


def raise_refusal(results: list[Settled | SqewError]) -> None:
    """Raise the first error among results."""
    for result in results:
        if isinstance(result, SqewError):
            raise result


# Looking, and cleaning up

_stored = reads(wire.Stored)
_stored_batch = reads(wire.StoredBatch)
_archived_batch = reads(wire.ArchivedBatch)
_count_document = reads(wire.CountDocument)
_imported_document = reads(wire.ImportedDocument)
_purged_document = reads(wire.PurgedDocument)
_stats = reads(QueueStats)
_document = reads(dict[str, Any])


def _count(body: bytes) -> int:
    return _count_document(body).count


def _imported(body: bytes) -> int:
    return _imported_document(body).imported


def _stored_in(queue: str) -> Callable[[bytes], list[Message]]:
    return lambda body: [one.message(queue) for one in _stored_batch(body).messages]


def peek(queue: str, limit: int, lane: str | None) -> ApiCall[list[Message]]:
    query = query_of(limit=limit, lane=lane)
    return ApiCall("GET", _path(queue, "peek"), _stored_in(queue), query, repeatable=True, about={"queue": queue})


def get(queue: str | None, id: int) -> ApiCall[Message]:
    """Return the call for a message by its id; ``queue`` None: whichever it is in."""
    check_id(id)
    return ApiCall(
        "GET",
        f"/messages/{id}" if queue is None else _path(queue, "messages", id),
        lambda body: _stored(body).message(queue or ""),
        repeatable=True,
        about={"queue": queue, "id": id},
    )


def remove(queue: str, id: int) -> ApiCall[None]:
    check_id(id)
    return ApiCall("DELETE", _path(queue, "messages", id), nothing, about={"queue": queue, "id": id})


def removals(queue: str, ids: Sequence[int]) -> list[ApiCall[None]]:
    """Make a call for each id, so that a bad one is refused before the first message is gone."""
    check_collection("ids", ids)
    return [remove(queue, id) for id in ids]


def purge(queue: str) -> ApiCall[int]:
    return ApiCall("POST", _path(queue, "purge"), _count, long=True, about={"queue": queue})


def stats(queue: str) -> ApiCall[QueueStats]:
    return ApiCall("GET", _path(queue, "stats"), _stats, repeatable=True, about={"queue": queue})


def dead_letters(queue: str, limit: int, after: int) -> ApiCall[Page]:
    def read(body: bytes) -> Page:
        batch = _stored_batch(body)
        return Page([one.message(queue) for one in batch.messages], batch.after)

    query = query_of(limit=limit, after=after)
    return ApiCall("GET", _path(queue, "dlq"), read, query, repeatable=True, about={"queue": queue})


def requeue(queue: str, ids: Sequence[int] | None) -> ApiCall[int]:
    return ApiCall("POST", _path(queue, "dlq", "requeue"), _count, body=_ids(ids), long=True, about={"queue": queue})


def purge_dead(queue: str, ids: Sequence[int] | None) -> ApiCall[int]:
    return ApiCall("DELETE", _path(queue, "dlq"), _count, body=_ids(ids), long=True, about={"queue": queue})


def _ids(ids: Sequence[int] | None) -> bytes | None:
    if ids is None:
        return None
    check_collection("ids", ids)
    for id in ids:
        check_id(id)
    return wire.encode({"ids": list(ids)})


def archive(queue: str, limit: int, after: int, outcome: Outcome | None) -> ApiCall[ArchivePage]:
    def read(body: bytes) -> ArchivePage:
        batch = _archived_batch(body)
        return ArchivePage([one.archived(queue) for one in batch.messages], batch.after)

    return ApiCall(
        "GET",
        _path(queue, "archive"),
        read,
        query_of(limit=limit, after=after, outcome=outcome),
        repeatable=True,
        about={"queue": queue},
    )


def delete_archived(queue: str, finished: Sequence[Finished]) -> ApiCall[int]:
    check_collection("finished", finished)
    for one in finished:
        check_id(one.id)
    return ApiCall(
        "DELETE",
        native_path("queues", queue, "archive"),
        lambda body: _purged_document(body).deleted,
        body=wire.encode({"messages": finished}),
        repeatable=True,
        about={"queue": queue},
    )


# Keys


def create_key(
    queue: str, scopes: Sequence[KeyScope], label: str, signing: bool
) -> ApiCall[tuple[KeyInfo, str, str | None]]:
    body = as_json({"scopes": list(scopes), "label": label, "signing": signing})
    return ApiCall(
        "POST", _path(queue, "keys"), lambda answer: _created_key(answer).made(), body=body, about={"queue": queue}
    )


def keys(queue: str | None) -> ApiCall[list[KeyInfo]]:
    if queue is None:
        raise BadValue("A server lists the keys of one queue at a time. Name the queue.")
    return ApiCall("GET", _path(queue, "keys"), lambda body: _keys(body).keys, repeatable=True, about={"queue": queue})


def delete_key(queue: str, id: str) -> ApiCall[None]:
    return ApiCall("DELETE", _path(queue, "keys", id), nothing, about={"queue": queue, "id": id})


_created_key = reads(wire.CreatedKeyDocument)
_keys = reads(wire.KeysDocument)


# Upkeep


def compact(queue: str) -> ApiCall[wire.CompactedDocument]:
    return ApiCall("POST", _path(queue, "compact"), reads(wire.CompactedDocument), long=True, about={"queue": queue})


def health() -> ApiCall[dict[str, Any]]:
    return ApiCall("GET", "/readyz", _document, repeatable=True)


def metrics() -> ApiCall[str]:
    return ApiCall("GET", "/metrics", bytes.decode, repeatable=True)


def export(queue: str, archive: bool) -> ApiCall[None]:
    query = query_of(archive="true" if archive else None)
    return ApiCall("GET", _path(queue, "export"), nothing, query, long=True, about={"queue": queue})


def import_lines(queue: str) -> ApiCall[int]:
    return ApiCall("POST", _path(queue, "import"), _imported, long=True, about={"queue": queue})


_BY_OPERATION: dict[type[ops.Operation[Any]], Callable[[Any], ApiCall[Any]]] = {
    ops.Send: send,
    ops.Receive: receive,
    ops.Ack: ack,
    ops.Nack: nack,
    ops.Extend: extend,
    ops.GetQueue: lambda operation: info(operation.name),
    ops.UpdateQueue: lambda operation: update(operation.name, operation.changes),
    ops.DeleteQueue: lambda operation: delete(operation.name),
    ops.Peek: lambda operation: peek(operation.queue, operation.limit, operation.lane),
    ops.Get: lambda operation: get(operation.queue, operation.id),
    ops.ListDead: lambda operation: dead_letters(operation.queue, operation.limit, operation.after),
    ops.ListKeys: lambda operation: keys(operation.queue),
    ops.DeleteKey: lambda operation: delete_key(operation.queue, operation.id),
    ops.ListArchive: lambda operation: archive(operation.queue, operation.limit, operation.after, operation.outcome),
}


def of(operation: ops.Operation[R]) -> ApiCall[R]:
    """Return the call that has a server execute an operation."""
    make = _BY_OPERATION.get(type(operation))
    if make is None:
        raise BadValue(f"A server can't be asked for {shown(operation)}. Use a method of the client.")
    return cast("ApiCall[R]", make(operation))
