"""The tags of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from sqew import operations as ops
from sqew.errors import TopicNotFound
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.refusals import AwsError
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.dialects.aws.sns.arns import topic_of
from sqew.http.dialects.aws.sns.refusals import invalid
from sqew.http.wire.exchange import Response
from sqew.model import TopicInfo

MOST_TAGS = 50


class Tag(Struct):
    Key: str = ""
    Value: str = ""


class Done(Struct):
    """An empty result: the action succeeded."""


def checked_tags(tags: list[Tag]) -> dict[str, str]:
    """Return tags by their keys; raise if they are invalid."""
    found = {tag.Key: tag.Value for tag in tags}
    if len(found) != len(tags):
        raise invalid("Duplicated keys are not allowed.")
    if any(not 1 <= len(key) <= 128 or len(value) > 256 for key, value in found.items()):
        raise invalid("Tags Reason: a key has 1 to 128 characters, and a value 256 at most")
    if any(key.lower().startswith("aws:") for key in found):
        raise invalid("Tags Reason: keys that begin with aws: are kept for AWS")
    _check_number(found)
    return found


def _check_number(tags: dict[str, str]) -> None:
    if len(tags) > MOST_TAGS:
        raise AwsError(
            "TagLimitExceededException",
            "Could not complete request: tag quota of per resource exceeded",
            code="TagLimitExceeded",
        )


class TagResource(Struct):
    ResourceArn: str | None = None
    Tags: list[Tag] | None = None


@SNS.action(TagResource, "ResourceArn", "Tags")
async def tag_resource(call: AwsCall, given: TagResource) -> Response:
    await _change(call, given.ResourceArn, checked_tags(given.Tags or []), [])
    return call.ok(Done())


class UntagResource(Struct):
    ResourceArn: str | None = None
    TagKeys: list[str] | None = None


@SNS.action(UntagResource, "ResourceArn", "TagKeys")
async def untag_resource(call: AwsCall, given: UntagResource) -> Response:
    await _change(call, given.ResourceArn, {}, given.TagKeys or [])
    return call.ok(Done())


class ListTagsForResource(Struct):
    ResourceArn: str | None = None


class ListTagsForResourceResult(Struct):
    Tags: list[Tag]


@SNS.action(ListTagsForResource, "ResourceArn")
async def list_tags_for_resource(call: AwsCall, given: ListTagsForResource) -> Response:
    with _as_resource():
        info = await call.service.broker.run(ops.GetTopic(topic_of(call, given.ResourceArn, "ResourceArn")))
    return call.ok(ListTagsForResourceResult([Tag(key, value) for key, value in info.tags.items()]))


@contextmanager
def _as_resource() -> Iterator[None]:
    """Raise ResourceNotFound for a missing topic, as actions on tags call it."""
    try:
        yield
    except TopicNotFound as error:
        raise AwsError("ResourceNotFoundException", "Resource does not exist", 404, "ResourceNotFound") from error


async def _change(call: AwsCall, arn: str | None, added: dict[str, str], removed: list[str]) -> None:
    async def update(info: TopicInfo) -> ops.UpdateTopic:
        tags = {key: value for key, value in {**info.tags, **added}.items() if key not in removed}
        _check_number(tags)
        return ops.UpdateTopic(info.name, tags=tags, known=info)

    with _as_resource():
        await call.service.edits.make(ops.GetTopic(topic_of(call, arn, "ResourceArn")), update)
