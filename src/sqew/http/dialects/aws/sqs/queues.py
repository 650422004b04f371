"""Queues: making, finding, changing and deleting them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from sqew import operations as ops
from sqew.core.flows import messages
from sqew.errors import QueueExists, QueueNotFound
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.names import bad_name, check_name
from sqew.http.dialects.aws.pages import first_of, last_of, token_of
from sqew.http.dialects.aws.refusals import AwsError, invalid_value
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.http.dialects.aws.sqs.attributes import (
    COUNTED,
    EXTRA,
    MODIFIED,
    RETENTION_S,
    WantedQueue,
    allows,
    bad_redrive,
    check_names,
    check_tags,
    shown,
    wanted,
)
from sqew.http.wire.exchange import Call, Response
from sqew.model import Policy, QueueInfo
from sqew.rules.names import FIFO_SUFFIX

_MOST_LISTED = 1_000


class CreateQueue(Struct):
    QueueName: str | None = None
    Attributes: dict[str, str] | None = None
    tags: dict[str, str] | None = None
    Tags: dict[str, str] | None = None


class QueueUrlResult(Struct):
    QueueUrl: str


@SQS.action(CreateQueue, "QueueName")
async def create_queue(call: AwsCall, given: CreateQueue) -> Response:
    name = given.QueueName or ""
    check_name(name)
    queue = call.names.queue(name)
    attributes = given.Attributes or {}
    _check_type(name, attributes)
    found = wanted(attributes, queue, call.names)
    usual = Policy(
        visibility_ms=call.service.settings.visibility_ms,
        ttl_ms=RETENTION_S * 1000,
        fifo=queue.endswith(FIFO_SUFFIX),
        key_retention_from="sent",
    )
    policy = structs.replace(usual, **found.policy)
    await _check_dead_letter(call, queue, found, attributes)
    now, tags = call.service.broker.now(), given.tags or given.Tags or {}
    check_tags(tags, name)
    call.service.strictness.check_creation(queue, now)
    extras = {EXTRA: {**found.extras, MODIFIED: now}, "tags": tags}
    try:
        await call.service.broker.run(ops.CreateQueue(queue, policy, extras=extras, new=True))
    except QueueExists as error:
        # As it was in the transaction that did not make it: of several who make it at once, one decides how it is.
        if error.existing is not None:
            _check_alike(call, error.existing, attributes)
    return call.ok(QueueUrlResult(call.names.url(queue)))


def _check_type(name: str, attributes: Mapping[str, str]) -> None:
    """Raise unless the name and the attribute FifoQueue agree."""
    fifo = attributes.get("FifoQueue")
    if name.endswith(FIFO_SUFFIX) == ((fifo or "").lower() == "true"):
        if fifo is not None and not name.endswith(FIFO_SUFFIX):
            # As AWS has it: what is no FIFO queue has no such attribute.
            raise AwsError("InvalidAttributeName", "Unknown Attribute FifoQueue.")
        return
    if fifo is None:
        raise bad_name()
    raise invalid_value(
        "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
        "must end with .fifo suffix and be 1 to 80 in length."
    )


def _check_alike(call: AwsCall, info: QueueInfo, attributes: dict[str, str]) -> None:
    """Raise unless an existing queue has all attributes that were given: only then is it the queue that was meant."""
    present = shown(info, set(attributes), None, call.names)
    for name, value in attributes.items():
        if present.get(name, "") != value and not _same(name, value, present.get(name, "")):
            raise AwsError(
                "QueueNameExists",
                f"A queue already exists with the same name and a different value for attribute {name}",
            )


def _same(name: str, one: str, other: str) -> bool:
    if name not in ("RedrivePolicy", "Policy", "RedriveAllowPolicy"):
        return one.lower() == other.lower()
    try:
        first, second = (msgspec.json.decode(text, type=dict[str, Any]) for text in (one, other))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    # The count in a redrive policy may be a number or a string.
    count = "maxReceiveCount"
    return {**first, count: str(first.get(count))} == {**second, count: str(second.get(count))}


async def _check_dead_letter(call: AwsCall, queue: str, found: WantedQueue, attributes: Mapping[str, str]) -> None:
    """Raise unless a queue may send its dead letters to the target that was given."""
    target = found.policy.get("dead_letter")
    if target is None:
        return
    written = attributes["RedrivePolicy"]
    if not call.names.is_here(target):
        raise bad_redrive(written, "Dead letter queue must be in the same region as the source.")
    try:
        info = await call.service.broker.run(ops.GetQueue(target))
    except QueueNotFound as error:
        raise bad_redrive(written, "Dead letter target does not exist.") from error
    if target == queue:
        raise bad_redrive(written, "A queue can't be its own dead letter queue.")
    if info.policy.fifo != queue.endswith(FIFO_SUFFIX):
        raise bad_redrive(written, "Dead letter queue must be same type of queue as the source.")
    if not allows(info, call.names.arn(queue)):
        raise bad_redrive(written, "The dead letter queue's RedriveAllowPolicy does not permit this source queue.")


class GetQueueUrl(Struct):
    QueueName: str | None = None
    QueueOwnerAWSAccountId: str | None = None


@SQS.action(GetQueueUrl, "QueueName")
def get_queue_url(call: AwsCall, given: GetQueueUrl) -> Call:
    queue = call.names.queue(given.QueueName or "")
    return Call(ops.GetQueue(queue), lambda info: call.ok(QueueUrlResult(call.names.url(info.name))))


class ListQueues(Struct):
    QueueNamePrefix: str | None = None
    NextToken: str | None = None
    MaxResults: int | None = None


class ListQueuesResult(Struct, omit_defaults=True):
    QueueUrls: list[str] | None = None
    NextToken: str | None = None


@SQS.action(ListQueues)
async def list_queues(call: AwsCall, given: ListQueues) -> Response:
    prefix = call.names.prefix + (given.QueueNamePrefix or "")

    async def names(after: str, limit: int) -> list[str]:
        return [info.name for info in await call.service.broker.run(ops.ListQueues(prefix, after, limit))]

    urls, token = await _page(call, names, given.MaxResults, given.NextToken)
    return call.ok(ListQueuesResult(urls or None, token))


async def _page(
    call: AwsCall, names: Callable[[str, int], Awaitable[list[str]]], asked: int | None, token: str | None
) -> tuple[list[str], str | None]:
    """Return the URLs of the next queues that can be named here, and the token to ask for more.

    ``names`` returns up to so many names after one.
    """
    if asked is not None and not 1 <= asked <= _MOST_LISTED:
        raise invalid_value(
            f"Value {asked} for parameter MaxResults is invalid. "
            f"Reason: Must be between 1 and {_MOST_LISTED}, if provided."
        )
    limit, after = asked or _MOST_LISTED, last_of(token)
    if after is None:
        raise invalid_value("Invalid or expired next token.")
    found = await first_of(names, call.names.can_name, call.names.beyond, after, limit)
    # AWS gives a token only where a number was asked for.
    more = asked is not None and len(found) > limit
    return [call.names.url(name) for name in found[:limit]], token_of(found[limit - 1]) if more else None


class OnQueue(Struct):
    """The parameter that all actions on a queue share."""

    QueueUrl: str | None = None


class DeleteQueue(OnQueue):
    pass


@SQS.action(DeleteQueue)
async def delete_queue(call: AwsCall, given: DeleteQueue) -> Response:
    queue, broker = call.queue(given.QueueUrl), call.service.broker
    await broker.delete(queue)
    call.service.strictness.deleted(queue, broker.now())
    return call.ok()


class PurgeQueue(OnQueue):
    pass


@SQS.action(PurgeQueue)
async def purge_queue(call: AwsCall, given: PurgeQueue) -> Response:
    queue, broker = call.queue(given.QueueUrl), call.service.broker
    await broker.run(ops.GetQueue(queue))
    call.service.strictness.check_purge(queue, call.names.name(queue), broker.now())
    await broker.purge(queue)
    return call.ok()


class GetQueueAttributes(OnQueue):
    AttributeNames: list[str] | None = None


class AttributesResult(Struct, omit_defaults=True):
    Attributes: dict[str, str] | None = None


@SQS.action(GetQueueAttributes)
async def get_queue_attributes(call: AwsCall, given: GetQueueAttributes) -> Response:
    queue = call.queue(given.QueueUrl)
    asked = check_names(given.AttributeNames or [])
    broker = call.service.broker
    info = await broker.run(ops.GetQueue(queue))
    depths = None
    if asked.intersection(COUNTED):
        depths = await broker.run_flow(messages.depths(queue, broker.now, broker.limits))
    return call.ok(AttributesResult(shown(info, asked, depths, call.names) or None))


class SetQueueAttributes(OnQueue):
    Attributes: dict[str, str] | None = None


@SQS.action(SetQueueAttributes, "Attributes")
async def set_queue_attributes(call: AwsCall, given: SetQueueAttributes) -> Response:
    queue, attributes = call.queue(given.QueueUrl), given.Attributes or {}

    async def update(info: QueueInfo) -> ops.UpdateQueue:
        found = wanted(attributes, queue, call.names, info)
        await _check_dead_letter(call, queue, found, attributes)
        extras = {**info.extras.get(EXTRA, {}), **found.extras, MODIFIED: call.service.broker.now()}
        return ops.UpdateQueue(queue, found.policy, {EXTRA: extras}, info)

    await call.service.edits.make(ops.GetQueue(queue), update)
    return call.ok()


class ListDeadLetterSourceQueues(OnQueue):
    NextToken: str | None = None
    MaxResults: int | None = None


class SourcesResult(Struct, omit_defaults=True):
    queueUrls: list[str]  # noqa: N815 (as it stands on the wire)
    NextToken: str | None = None


@SQS.action(ListDeadLetterSourceQueues)
async def list_dead_letter_source_queues(call: AwsCall, given: ListDeadLetterSourceQueues) -> Response:
    queue = call.queue(given.QueueUrl)

    async def names(after: str, limit: int) -> list[str]:
        return await call.service.broker.run(ops.ListDeadLetterSources(queue, after, limit))

    return call.ok(SourcesResult(*await _page(call, names, given.MaxResults, given.NextToken)))
