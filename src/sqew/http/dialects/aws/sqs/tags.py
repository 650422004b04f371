"""The tags of a queue."""

from __future__ import annotations

from msgspec import Struct

from sqew import operations as ops
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.http.dialects.aws.sqs.attributes import check_tags
from sqew.http.dialects.aws.sqs.queues import OnQueue
from sqew.http.wire.exchange import Call, Response
from sqew.model import QueueInfo


class TagQueue(OnQueue):
    Tags: dict[str, str] | None = None


@SQS.action(TagQueue, "Tags")
async def tag_queue(call: AwsCall, given: TagQueue) -> Response:
    await _change(call, given.QueueUrl, given.Tags or {}, [])
    return call.ok()


class UntagQueue(OnQueue):
    TagKeys: list[str] | None = None


@SQS.action(UntagQueue, "TagKeys")
async def untag_queue(call: AwsCall, given: UntagQueue) -> Response:
    await _change(call, given.QueueUrl, {}, given.TagKeys or [])
    return call.ok()


async def _change(call: AwsCall, url: str | None, added: dict[str, str], removed: list[str]) -> None:
    queue = call.queue(url)

    async def update(info: QueueInfo) -> ops.UpdateQueue:
        tags = {**info.extras.get("tags", {}), **added}
        for key in removed:
            tags.pop(key, None)
        check_tags(tags, call.names.name(queue))
        return ops.UpdateQueue(queue, {}, {"tags": tags}, info)

    await call.service.edits.make(ops.GetQueue(queue), update)


class ListQueueTags(OnQueue):
    pass


class ListQueueTagsResult(Struct, omit_defaults=True):
    Tags: dict[str, str] | None = None


@SQS.action(ListQueueTags)
def list_queue_tags(call: AwsCall, given: ListQueueTags) -> Call:
    return Call(
        ops.GetQueue(call.queue(given.QueueUrl)),
        lambda info: call.ok(ListQueueTagsResult(info.extras.get("tags") or None)),
    )
