"""The tags of a topic."""

from __future__ import annotations

from msgspec import Struct

from sqew import operations as ops
from sqew.errors import TopicNotFound
from sqew.http.aws_refusals import AwsError
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.dialects.aws.sns.arns import topic_of
from sqew.http.dialects.aws.sns.refusals import invalid
from sqew.http.exchange import Response
from sqew.model import TopicInfo

MOST_TAGS = 50


class Tag(Struct):
    Key: str = ""
    Value: str = ""


class Done(Struct):
    """An answer that says nothing but that it went well."""


def checked_tags(tags: list[Tag]) -> dict[str, str]:
    """Tags by their keys; raises if they can't be."""
    found = {tag.Key: tag.Value for tag in tags}
    if len(found) != len(tags):
        raise invalid("Duplicated keys are not allowed.")
    if any(not 1 <= len(key) <= 128 or len(value) > 256 for key, value in found.items()):
        raise invalid("Tags Reason: a key has 1 to 128 characters, and a value 256 at most")
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
    info = await _topic(call, given.ResourceArn)
    await _save(call, info, {**info.tags, **checked_tags(given.Tags or [])})
    return call.ok(Done())


class UntagResource(Struct):
    ResourceArn: str | None = None
    TagKeys: list[str] | None = None


@SNS.action(UntagResource, "ResourceArn", "TagKeys")
async def untag_resource(call: AwsCall, given: UntagResource) -> Response:
    info = await _topic(call, given.ResourceArn)
    gone = given.TagKeys or []
    await _save(call, info, {key: value for key, value in info.tags.items() if key not in gone})
    return call.ok(Done())


class ListTagsForResource(Struct):
    ResourceArn: str | None = None


class TagsResult(Struct):
    Tags: list[Tag]


@SNS.action(ListTagsForResource, "ResourceArn")
async def list_tags_for_resource(call: AwsCall, given: ListTagsForResource) -> Response:
    info = await _topic(call, given.ResourceArn)
    return call.ok(TagsResult([Tag(key, value) for key, value in info.tags.items()]))


async def _topic(call: AwsCall, arn: str | None) -> TopicInfo:
    try:
        return await call.service.broker.run(ops.GetTopic(topic_of(arn or "", "ResourceArn")))
    except TopicNotFound as error:
        raise AwsError("ResourceNotFoundException", "Resource does not exist", 404, "ResourceNotFound") from error


async def _save(call: AwsCall, info: TopicInfo, tags: dict[str, str]) -> None:
    _check_number(tags)
    await call.service.broker.run(ops.UpdateTopic(info.name, tags=tags))
