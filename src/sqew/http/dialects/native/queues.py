"""Queues in the native dialect: ``/v1/queues``, and a queue's policy and figures."""

from __future__ import annotations

import contextlib
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from sqew import operations as ops
from sqew.clock import timestamp
from sqew.core.engine import change, creation
from sqew.errors import BodyMisfit, QueueNotFound
from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.dialects.native.fifo_names import bare_names, name_after, policy_shown, shown_names
from sqew.http.dialects.sqew.queues import ListParameters, policy_fields
from sqew.http.router import NoParameters, Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import Request, Response
from sqew.model import Backoff, Keep, Policy, QueueInfo
from sqew.rules.names import FIFO_SUFFIX

routes = Routes(DIALECT)


class NativeChanges(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Changes to a queue's policy."""

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


class NativeNewQueue(NativeChanges, kw_only=True, forbid_unknown_fields=False, omit_defaults=True):
    """A queue to make. Unknown fields are ignored.

    A FIFO queue is known by its bare name here, and by that with `.fifo` at its end in other dialects.
    """

    name: str
    fifo: bool | UnsetType = UNSET


class NativeQueueView(Struct):
    """A queue. There is one kind of storage, so it is neither partitioned nor unlogged."""

    name: str
    is_partitioned: bool
    is_unlogged: bool
    created_at: str


class QueueDetails(NativeQueueView):
    """A queue and its policy."""

    policy: Policy


def _view(name: str, info: QueueInfo) -> NativeQueueView:
    return NativeQueueView(name, False, False, timestamp(info.created_at))


async def _details(service: Service, info: QueueInfo) -> QueueDetails:
    bare = await bare_names(service, [info.name, info.policy.dead_letter])
    name = bare.get(info.name, info.name)
    return QueueDetails(name, False, False, timestamp(info.created_at), policy_shown(info.policy, bare))


@routes.post(
    "/v1/queues", scope="admin", query=NoParameters, body=NativeNewQueue, misfit=BodyMisfit, answers={201: QueueDetails}
)
async def create_queue(service: Service, request: Request) -> Response:
    """Make a queue. It has a dead-letter queue, and a limit on attempts, only if they are given.

    A queue that exists is answered as it is; the request is refused if the queue differs from what is given.
    """
    given: NativeNewQueue = request.data
    fields = await _policy_fields(service, given)
    name, other = given.name, None
    if not name.endswith(FIFO_SUFFIX):
        # Of two queues that differ by the suffix alone, only the one without it is found by that name.
        other = name + FIFO_SUFFIX
        if given.fifo is True:
            name, other = other, name
    if other is not None and fields.get("dead_letter") == other:
        fields["dead_letter"] = name  # By either name it is this queue, which is refused.
    assumed = tuple(field for field in Policy.__struct_fields__ if field not in fields)
    fields.setdefault("dead_letter", None)
    if fields["dead_letter"] is None:
        fields.setdefault("max_attempts", None)
    operation = replace(creation(service.settings, name, fields), apart_from=other, assumed=assumed)
    info = await service.broker.run(operation)
    return Response(201, encode(await _details(service, info)))


class QueuesParameters(ListParameters, frozen=True, forbid_unknown_fields=False):
    """Parameters of the list of queues. Unknown parameters are ignored."""


@routes.get("/v1/queues", scope="admin", query=QueuesParameters, answers={200: list[NativeQueueView]})
async def list_queues(service: Service, request: Request) -> Response:
    """List all queues, by name."""
    given: QueuesParameters = request.options
    after = await name_after(service, given.after)
    found = await service.broker.run(ops.ListQueues(given.prefix, after, given.limit))
    names = await shown_names(service, [info.name for info in found], given.prefix, after)
    return Response(200, encode([_view(name, info) for name, info in zip(names, found, strict=True)]))


async def _policy_fields(service: Service, given: NativeChanges) -> dict[str, Any]:
    """Return the policy fields that were given, with the whole name of a FIFO queue for dead letters.

    That queue may be called by its bare name, as in a path. Taken as it is, the bare name would make a plain queue,
    which hides the FIFO queue from then on.
    """
    fields = policy_fields(given)
    if fields.get("dead_letter") is not None:
        fields["dead_letter"] = await service.meant(fields["dead_letter"])
    return fields


class Metrics(Struct):
    """Figures of a queue. Ages are since messages were sent, and null if there are none."""

    name: str
    queue_length: int
    queue_visible_length: int
    newest_msg_age_sec: int | None
    oldest_msg_age_sec: int | None
    total_messages: int
    """The number of messages ever sent to the queue."""
    scrape_time: str
    policy: Policy


@routes.get("/v1/queues/{name}", scope="receive", query=NoParameters, answers={200: Metrics})
async def show_queue(service: Service, request: Request) -> Response:
    """Show a queue's figures, and its policy."""
    name = request.params[0]
    stats = await service.broker.stats(name)
    info, ages = await service.broker.read(ops.GetQueue(name), ops.Ages(name))
    now = service.broker.now()
    oldest, newest = (None, None) if ages is None else (max(now - at, 0) // 1000 for at in ages)
    depths = stats.depths
    bare = await bare_names(service, [name, info.policy.dead_letter])
    metrics = Metrics(
        bare.get(name, name),
        depths.total(),
        depths.total("ready"),
        newest,
        oldest,
        stats.totals.get("sent", 0),
        timestamp(now),
        policy_shown(info.policy, bare),
    )
    return Response(200, encode(metrics))


@routes.patch("/v1/queues/{name}", scope="admin", body=NativeChanges, answers={200: QueueDetails})
async def update_queue(service: Service, request: Request) -> Response:
    """Change a queue's policy."""
    queue, fields = request.params[0], await _policy_fields(service, request.data)
    service.check_dead_letter(request, queue, fields)
    info = await service.broker.run(change(queue, fields))
    return Response(200, encode(await _details(service, info)))


@routes.delete("/v1/queues/{name}", scope="admin", answers={204: None})
async def delete_queue(service: Service, request: Request) -> Response:
    """Delete a queue and its messages, if it exists."""
    name = await service.meant(request.params[0])
    with contextlib.suppress(QueueNotFound):
        await service.broker.delete(name)
    return Response(204)


class Purged(Struct):
    deleted: int


@routes.post("/v1/queues/{name}/purge", scope="admin", answers={200: Purged}, long=True)
async def purge(service: Service, request: Request) -> Response:
    """Delete every message that is in the queue now."""
    return Response(200, encode(Purged(await service.broker.purge(request.params[0]))))
