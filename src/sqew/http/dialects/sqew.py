"""The Sqew dialect: ``/queues…`` in JSON, the whole of what a queue can do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sqew import operations as ops
from sqew.engine import creation
from sqew.errors import BadValue, MessageNotFound, QueueNotFound, SqewError
from sqew.http import transfer
from sqew.http.dialects import hq
from sqew.http.exchange import EVENTS, Call, Request, Response, Stream
from sqew.http.router import Dialect, Routes
from sqew.http.service import NO_STORE, Service, as_json, json_body, refuse_head, text_in
from sqew.http.statuses import status_of
from sqew.model import (
    ArchivedMessage,
    Backoff,
    Depths,
    Extension,
    Format,
    Keep,
    Latency,
    Message,
    NewMessage,
    Outcome,
    QueueInfo,
    Received,
    Ref,
    Release,
    Sent,
    Settled,
)

encode = msgspec.json.Encoder().encode

_HEARTBEAT_MS = 15_000
"""How often an event stream without events shows that it is alive."""
_HEARTBEAT = b": still here\n\n"


class Trouble(Struct):
    """What is wrong: a word for machines, and a sentence that says what to do."""

    code: str
    message: str
    """What went wrong, and what to do about it."""


class Failure(Struct):
    error: Trouble


def _failure(error: SqewError, _status: int) -> bytes:
    return encode(Failure(Trouble(error.code, str(error))))


DIALECT = Dialect("Sqew", "Queues, messages, leases and dead letters, in JSON.", _failure, Failure)
routes = Routes(DIALECT)


# Queues


class NewQueue(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A queue to make: its name, and whatever of its policy differs from the defaults."""

    name: str
    dlq: str | UnsetType | None = UNSET
    """Its dead-letter queue: a name, or null for none. Left out, it gets one."""
    max_attempts: int | UnsetType | None = UNSET
    visibility_ms: int | UnsetType = UNSET
    backoff: Backoff | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET
    ttl_ms: int | UnsetType | None = UNSET
    fifo: bool | UnsetType = UNSET
    deduplicate: str | UnsetType = UNSET
    key_retention_ms: int | UnsetType = UNSET
    lanes: dict[str, int] | list[str] | UnsetType = UNSET
    keep: Keep | UnsetType = UNSET
    archive_retention_ms: int | UnsetType | None = UNSET
    rate_limit: float | UnsetType | None = UNSET
    quota: int | UnsetType | None = UNSET


class Changes(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is to change of a queue's policy."""

    dlq: str | UnsetType | None = UNSET
    max_attempts: int | UnsetType | None = UNSET
    visibility_ms: int | UnsetType = UNSET
    backoff: Backoff | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET
    ttl_ms: int | UnsetType | None = UNSET
    deduplicate: str | UnsetType = UNSET
    key_retention_ms: int | UnsetType = UNSET
    lanes: dict[str, int] | list[str] | UnsetType = UNSET
    keep: Keep | UnsetType = UNSET
    archive_retention_ms: int | UnsetType | None = UNSET
    rate_limit: float | UnsetType | None = UNSET
    quota: int | UnsetType | None = UNSET


class QueueView(Struct):
    """A queue and its policy."""

    name: str
    max_attempts: int | None
    visibility_ms: int
    visibility_timeout_seconds: float
    dlq: str | None
    fifo: bool
    backoff: Backoff
    delay_ms: int
    ttl_ms: int | None
    deduplicate: str
    key_retention_ms: int
    lanes: dict[str, int]
    keep: Keep
    archive_retention_ms: int | None
    rate_limit: float | None
    quota: int | None
    created_at: int


def queue_view(info: QueueInfo) -> QueueView:
    policy = info.policy
    seconds = policy.visibility_ms / 1000
    return QueueView(
        info.name,
        policy.max_attempts,
        policy.visibility_ms,
        int(seconds) if seconds.is_integer() else seconds,
        policy.dead_letter,
        policy.fifo,
        policy.backoff,
        policy.delay_ms,
        policy.ttl_ms,
        policy.deduplicate,
        policy.key_retention_ms,
        policy.lanes,
        policy.keep,
        policy.archive_retention_ms,
        policy.rate_limit,
        policy.quota,
        info.created_at,
    )


def policy_fields(given: Struct) -> dict[str, Any]:
    """What was given of a policy, under the policy's own names."""
    fields: dict[str, Any] = {
        name: value
        for name in given.__struct_fields__
        if name != "name" and not isinstance(value := getattr(given, name), UnsetType)
    }
    if "dlq" in fields:
        fields["dead_letter"] = fields.pop("dlq")
    return fields


@routes.post(
    "/queues",
    scope="admin",
    query=hq.QueueParameters,
    body=NewQueue,
    body_optional=True,
    answers={201: QueueView, 200: None},
)
def create_queue(service: Service, request: Request) -> Call:
    """Make a queue. With `name` in the URL it is made as hq does, and answered without a body."""
    parameters: hq.QueueParameters = request.options
    given: NewQueue | None = request.data
    if parameters.name is not None:
        if given is not None:
            raise BadValue("The queue is described in the URL and in the body. Leave one of them out.")
        return hq.create_queue(service, parameters)
    if given is None:
        raise BadValue('A queue needs a name: send {"name": "orders"} as JSON, or ?name=orders in the URL.')
    if parameters.policy():
        raise BadValue("The URL's parameters go with a name there. Put max_attempts and visibility_ms into the JSON.")
    return Call(
        creation(service.settings, given.name, policy_fields(given)),
        lambda info: Response(201, encode(queue_view(info))),
    )


class ListParameters(Struct, frozen=True, forbid_unknown_fields=True):
    prefix: str = ""
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=100_000)] | None = None


@routes.get("/queues", scope="admin", query=ListParameters, answers={200: list[QueueView]})
def list_queues(_service: Service, request: Request) -> Call:
    """All queues and their policies, by name."""
    given: ListParameters = request.options
    return Call(
        ops.ListQueues(given.prefix, given.after, given.limit),
        lambda found: Response(200, encode([queue_view(info) for info in found])),
    )


@routes.get("/queues/{queue}", scope="receive", answers={200: QueueView})
def show_queue(_service: Service, request: Request) -> Call:
    """A queue and its policy."""
    return Call(ops.GetQueue(request.params[0]), lambda info: Response(200, encode(queue_view(info))))


@routes.patch("/queues/{queue}", scope="admin", body=Changes, answers={200: QueueView})
def update_queue(_service: Service, request: Request) -> Call:
    """Change a queue's policy."""
    return Call(
        ops.UpdateQueue(request.params[0], policy_fields(request.data)),
        lambda info: Response(200, encode(queue_view(info))),
    )


@routes.delete("/queues/{queue}", scope="admin", answers={204: None})
async def delete_queue(service: Service, request: Request) -> Response:
    """Delete a queue and its messages. Its dead-letter queue stays."""
    await service.broker.delete(request.params[0])
    return Response(204)


# Sending


class NewItem(Struct, forbid_unknown_fields=True):
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
    """`text`: the payload is a JSON string, and the text in it is the body."""


class SentView(Struct):
    message_id: int
    duplicate: bool = False


class SentBatch(Struct):
    messages: list[SentView]


@routes.post(
    "/queues/{queue}/messages",
    scope="send",
    headers={"Idempotency-Key": "The key of a single message that brings none: a repeated send stores nothing."},
    body=NewItem | list[NewItem],
    answers={201: SentView | SentBatch},
)
def send(_service: Service, request: Request) -> Call:
    """Send one message, or an array of them, all or none. `Idempotency-Key` is the key of a single one."""
    given: NewItem | list[NewItem] = request.data
    queue = request.params[0]
    if type(given) is NewItem:
        request.rows = 1
        key = given.idempotency_key
        if key is None and b"idempotency-key" in request.headers:
            key = request.header(b"idempotency-key")
        return Call(ops.Send(queue, (_new_message(given, key),)), _sent_one)
    assert isinstance(given, list)
    if b"idempotency-key" in request.headers:
        raise BadValue("Idempotency-Key is for a single message. Give each message of an array its idempotency_key.")
    request.rows = len(given)
    return Call(ops.Send(queue, [_new_message(item, item.idempotency_key) for item in given]), _sent_many)


def _body(item: NewItem) -> bytes:
    body = json_body(item.payload)
    return body if item.format == "json" else text_in(body)


def _new_message(item: NewItem, key: str | None) -> NewMessage:
    return NewMessage(
        _body(item), item.format, item.headers, item.priority, item.lane, item.group, key, item.delay_ms, item.ttl_ms
    )


def _sent_one(sent: list[Sent]) -> Response:
    one = sent[0]
    return Response(201, b'{"message_id":%d,"duplicate":%b}' % (one.id, b"true" if one.duplicate else b"false"))


def _sent_many(sent: list[Sent]) -> Response:
    return Response(201, encode(SentBatch([SentView(one.id, one.duplicate) for one in sent])))


# Receiving and settling


class PollParameters(Struct, frozen=True, forbid_unknown_fields=True):
    batch: int | None = None
    wait_ms: int = 0
    lane: str | None = None
    visibility_ms: int | None = None
    consumer: str | None = None
    finish: bool = False
    """Take them for good: they are acknowledged as they are received, at most once."""


class MessageView(Struct, omit_defaults=True):
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


class Polled(Struct):
    messages: list[MessageView]


@routes.post("/queues/{queue}/poll", scope="receive", query=PollParameters, answers={200: Polled})
def poll(service: Service, request: Request) -> Call:
    """Take up to `batch` messages under a lease; when there are none, wait for one for up to `wait_ms`."""
    given: PollParameters = request.options
    operation = ops.Receive(
        request.params[0], service.batch(given.batch), given.lane, given.visibility_ms, given.consumer, given.finish
    )
    return Call(operation, _polled, service.wait_ms(given.wait_ms) if given.wait_ms else 0)


def _polled(received: Received) -> Response:
    return Response(200, encode(Polled([_received(message) for message in received.messages])))


def _received(message: Message) -> MessageView:
    lease = message.lease
    assert lease is not None
    return MessageView(
        message.id, as_json(message), message.attempts, lease.expires_at, lease.token, message.created_at,
        message.available_at, message.priority, message.lane, message.group, message.key, message.headers,
        message.expires_at, message.format,
    )  # fmt: skip


class AckItem(Struct, forbid_unknown_fields=True):
    """Which message. Without a token, or the consumer's name, it is acked whoever holds it."""

    id: int
    token: str | None = None
    consumer: str | None = None


class NackItem(Struct, forbid_unknown_fields=True):
    """Which message, and when it may be tried again; `dead`: never."""

    id: int
    token: str | None = None
    consumer: str | None = None
    delay_ms: int | None = None
    dead: bool = False
    reason: str = ""


class ExtendItem(Struct, forbid_unknown_fields=True):
    """Which message, and for how long from now its lease is to last."""

    id: int
    ms: int
    token: str | None = None
    consumer: str | None = None


class SettledView(Struct, omit_defaults=True):
    """One message of a batch: done, or why not."""

    id: int
    ok: bool
    due_at: int | None = None
    dead: bool = False
    error: Trouble | None = None


class SettledBatch(Struct):
    results: list[SettledView]


_SETTLED = {200: SettledView | SettledBatch}


@routes.post("/queues/{queue}/ack", scope="receive", body=AckItem | list[AckItem], answers=_SETTLED)
def ack(_service: Service, request: Request) -> Call:
    """The work is done: the messages are gone (or archived, as the policy says). One, or an array."""
    items = _items(request)
    return Call(
        ops.Ack(request.params[0], [Ref(item.id, item.token, item.consumer) for item in items]),
        _settler(request, items),
    )


@routes.post("/queues/{queue}/nack", scope="receive", body=NackItem | list[NackItem], answers=_SETTLED)
def nack(_service: Service, request: Request) -> Call:
    """The work failed: try again after the queue's backoff, or after `delay_ms`, or never if `dead`."""
    items = _items(request)
    releases = [
        Release(Ref(item.id, item.token, item.consumer), item.delay_ms, item.dead, item.reason) for item in items
    ]
    return Call(ops.Nack(request.params[0], releases), _settler(request, items))


@routes.post("/queues/{queue}/extend", scope="receive", body=ExtendItem | list[ExtendItem], answers=_SETTLED)
def extend(_service: Service, request: Request) -> Call:
    """The work takes longer: the lease now ends `ms` from now."""
    items = _items(request)
    extensions = [Extension(Ref(item.id, item.token, item.consumer), item.ms) for item in items]
    return Call(ops.Extend(request.params[0], extensions), _settler(request, items))


def _items(request: Request) -> Sequence[Any]:
    items = request.data if isinstance(request.data, list) else (request.data,)
    request.rows = len(items)
    return items


def _settler(request: Request, items: Sequence[Any]) -> Any:
    if isinstance(request.data, list):
        return lambda results: Response(
            200, encode(SettledBatch([_settled(item.id, result) for item, result in zip(items, results, strict=True)]))
        )
    return _settled_one


def _settled_one(results: list[Settled | SqewError]) -> Response:
    (result,) = results
    if isinstance(result, SqewError):
        status = status_of(result)
        return Response(status, _failure(result, status))
    return Response(200, encode(_settled(result.id, result)))


def _settled(id: int, result: Settled | SqewError) -> SettledView:
    if isinstance(result, SqewError):
        return SettledView(id, ok=False, error=Trouble(result.code, str(result)))
    return SettledView(id, ok=True, due_at=result.due_at, dead=result.dead)


# Looking, and cleaning up


class StoredView(Struct, omit_defaults=True):
    """A message as it stands in its queue. Its lease's token is a secret of its holder."""

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


class PeekParameters(Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 10
    lane: str | None = None


@routes.get("/queues/{queue}/peek", scope="receive", query=PeekParameters, answers={200: Messages})
def peek(service: Service, request: Request) -> Call:
    """The next messages, without taking them."""
    given: PeekParameters = request.options
    limit = service.batch(given.limit, "limit")
    return Call(
        ops.Peek(request.params[0], limit, given.lane),
        lambda found: Response(200, encode(Messages([stored_view(message) for message in found]))),
    )


@routes.get("/queues/{queue}/messages/{id}", scope="receive", path={"id": int}, answers={200: StoredView})
def show_message(_service: Service, request: Request) -> Call:
    """One message, without taking it."""
    queue, id = request.params
    return Call(ops.Get(queue, message_id(id)), lambda message: Response(200, encode(stored_view(message))))


@routes.delete("/queues/{queue}/messages/{id}", scope="admin", path={"id": int}, answers={204: None})
def remove_message(_service: Service, request: Request) -> Call:
    """Delete one message, whoever holds it."""
    queue, id = request.params
    number = message_id(id)

    def render(removed: list[bool]) -> Response:
        if not removed[0]:
            error = MessageNotFound(number, queue)
            return Response(404, _failure(error, 404))
        return Response(204)

    return Call(ops.Remove(queue, [number]), render)


def message_id(text: str) -> int:
    """A message's id in a path."""
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
    """How a queue is doing: its messages by state, and everything in detail."""

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
    """Depths by lane and state, totals, rates and latencies."""
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


# Dead letters


class DeadParameters(Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 100
    after: int = 0


@routes.get("/queues/{queue}/dlq", scope="receive", query=DeadParameters, answers={200: Messages})
def list_dead(service: Service, request: Request) -> Call:
    """The dead letters of a queue, by id, those after `after`."""
    given: DeadParameters = request.options
    return Call(
        ops.ListDead(request.params[0], service.batch(given.limit, "limit"), given.after),
        lambda found: Response(200, encode(Messages([stored_view(message) for message in found]))),
    )


class Ids(Struct, forbid_unknown_fields=True):
    """Some messages; without ids, all of them."""

    ids: list[int] | None = None


@routes.delete("/queues/{queue}/dlq", scope="admin", body=Ids, body_optional=True, answers={200: Count}, long=True)
async def purge_dead(service: Service, request: Request) -> Response:
    """Delete the dead letters of a queue: all, or those given."""
    ids = request.data.ids if request.data is not None else None
    return Response(200, encode(Count(await service.broker.in_steps(ops.PurgeDead(request.params[0], ids)))))


@routes.post(
    "/queues/{queue}/dlq/requeue", scope="admin", body=Ids, body_optional=True, answers={200: Count}, long=True
)
async def requeue_dead(service: Service, request: Request) -> Response:
    """Bring dead letters back to the queue with attempts 0: all, or those given."""
    ids = request.data.ids if request.data is not None else None
    return Response(200, encode(Count(await service.broker.in_steps(ops.RequeueDead(request.params[0], ids)))))


# Many at once


class ExportParameters(Struct, frozen=True, forbid_unknown_fields=True):
    archive: bool = False


@routes.get(
    "/queues/{queue}/export", scope="receive", query=ExportParameters, answers={200: "application/x-ndjson"}, long=True
)
async def export(service: Service, request: Request) -> Stream:
    """The messages of a queue (or of its archive) as lines of JSON, which `import` takes."""
    return await transfer.export(service, request.params[0], archive=request.options.archive)


@routes.post("/queues/{queue}/import", scope="send", streams=True, answers={200: transfer.Imported}, long=True)
async def import_(service: Service, request: Request) -> Response:
    """Send messages by the thousand: lines of JSON, as `export` writes them, or each with its `payload` alone.

    They are sent while they arrive, so that a bad line leaves those before it sent; the answer says how many.
    """
    return await transfer.import_lines(service, request)


# Around the queue


class ArchiveParameters(Struct, frozen=True, forbid_unknown_fields=True):
    after: int = 0
    limit: int = 100
    outcome: Outcome | None = None


class ArchivedView(Struct, omit_defaults=True):
    """A finished message: how it ended and when, and why if it died."""

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
    messages: list[ArchivedView]


@routes.get("/queues/{queue}/archive", scope="receive", query=ArchiveParameters, answers={200: Archive})
def list_archive(service: Service, request: Request) -> Call:
    """Finished messages by id, those after `after`: all, or those that ended as `outcome` says."""
    given: ArchiveParameters = request.options
    limit = service.batch(given.limit, "limit")
    return Call(
        ops.ListArchive(request.params[0], limit, given.after, given.outcome),
        lambda found: Response(200, encode(Archive([_archived(archived) for archived in found]))),
    )


def _archived(archived: ArchivedMessage) -> ArchivedView:
    message = archived.message
    return ArchivedView(
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


@routes.get("/queues/{queue}/notify", scope="receive", answers={200: "text/event-stream"}, long=True)
async def notify(service: Service, request: Request) -> Stream:
    """Server-sent events: `ready` whenever there is something to poll for. It takes nothing."""
    refuse_head(request)
    queue = request.params[0]
    # An unknown queue is refused before the answer begins.
    await service.broker.run(ops.GetQueue(queue))
    # So that it ends when its client leaves, and not at the next heartbeat.
    request.waits = True
    return Stream(_news(service, queue), EVENTS, headers=(*NO_STORE, (b"x-accel-buffering", b"no")))


async def _news(service: Service, queue: str) -> AsyncIterator[bytes]:
    ready = b"event: ready\ndata: %b\n\n" % encode({"queue": queue})
    # So that the client, and whoever stands in between, sees at once that it works.
    yield _HEARTBEAT
    try:
        async for is_news in service.broker.watch(queue, _HEARTBEAT_MS):
            yield ready if is_news else _HEARTBEAT
    except QueueNotFound:
        # It was deleted, and there will be no news of it.
        return


class Compacted(Struct):
    """How many bytes the file that holds the queues had before, and has now."""

    name: str
    bytes_before: int
    bytes_after: int


@routes.post("/queues/{queue}/compact", scope="admin", answers={200: Compacted}, long=True)
async def compact(service: Service, request: Request) -> Response:
    """Give free space back to the disk. It is the file's, so all its queues gain; nobody is held up meanwhile."""
    info = await service.broker.run(ops.GetQueue(request.params[0]))
    return Response(200, encode(Compacted(info.name, *await service.broker.compact())))
