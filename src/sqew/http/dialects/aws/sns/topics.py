"""Topics: making, listing, changing and deleting them."""

from __future__ import annotations

from msgspec import Struct

from sqew import operations as ops
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.pages import first_of, token_of
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.dialects.aws.sns.arns import arn_of_topic, check_topic_name, is_fifo, topic_of
from sqew.http.dialects.aws.sns.pages import PAGE, after
from sqew.http.dialects.aws.sns.refusals import MOST_FOR_LARGE, invalid, too_large_for_subscribers
from sqew.http.dialects.aws.sns.tags import Tag, checked_tags
from sqew.http.dialects.aws.sns.topic_attributes import (
    FIFO_TOPIC,
    MAXIMUM_SIZE,
    SIGNATURE_VERSION,
    USUAL_SIZE,
    check,
    differs,
    form_of,
    shown,
    stored,
)
from sqew.http.wire.exchange import Response
from sqew.model import TopicInfo


class CreateTopic(Struct):
    Name: str | None = None
    Attributes: dict[str, str] | None = None
    Tags: list[Tag] | None = None
    DataProtectionPolicy: str | None = None


class TopicResult(Struct):
    TopicArn: str


@SNS.action(CreateTopic, "Name")
async def create_topic(call: AwsCall, given: CreateTopic) -> Response:
    name, attributes = given.Name or "", given.Attributes or {}
    _check_kind(name, attributes.get(FIFO_TOPIC, "false"))
    check_topic_name(name)
    topic = call.names.here(name)
    for attribute, value in attributes.items():
        check(attribute, value, topic)
    kept = {attribute: stored(attribute, value) for attribute, value in attributes.items()}
    tags = checked_tags(given.Tags or [])
    info = await call.service.broker.run(ops.CreateTopic(topic, kept, tags))
    if given.Tags and info.tags != tags:
        raise invalid("Tags Reason: Topic already exists with different tags")
    if differs(info, call.names, attributes, call.service.settings):
        raise invalid("Attributes Reason: Topic already exists with different attributes")
    return call.ok(TopicResult(arn_of_topic(call.names, topic)))


def _check_kind(name: str, fifo: str) -> None:
    if (fifo.lower() == "true") == is_fifo(name):
        return
    if is_fifo(name):
        raise invalid("Topic Name")
    raise invalid(
        "Fifo Topic names must end with .fifo and must be made up of only uppercase and lowercase ASCII letters, "
        "numbers, underscores, and hyphens, and must be between 1 and 256 characters long."
    )


class OnTopic(Struct):
    """The parameter that all actions on a topic share."""

    TopicArn: str | None = None


class DeleteTopic(OnTopic):
    pass


@SNS.action(DeleteTopic, "TopicArn")
async def delete_topic(call: AwsCall, given: DeleteTopic) -> Response:
    await call.service.broker.run(ops.DeleteTopic(topic_of(call, given.TopicArn)))
    return call.ok()


class ListTopics(Struct):
    NextToken: str | None = None


class ListTopicsResult(Struct, omit_defaults=True):
    Topics: list[TopicResult]
    NextToken: str | None = None


@SNS.action(ListTopics)
async def list_topics(call: AwsCall, given: ListTopics) -> Response:
    names = call.names

    async def read(last: str, limit: int) -> list[TopicInfo]:
        return await call.service.broker.run(ops.ListTopics(names.prefix, last, limit))

    found = await first_of(
        read, lambda info: names.is_here(info.name), lambda info: names.beyond(info.name), after(given.NextToken), PAGE
    )
    topics = [TopicResult(arn_of_topic(names, info.name)) for info in found[:PAGE]]
    return call.ok(ListTopicsResult(topics, token_of(found[PAGE - 1].name) if len(found) > PAGE else None))


class GetTopicAttributes(OnTopic):
    pass


class TopicAttributesResult(Struct):
    Attributes: dict[str, str]


@SNS.action(GetTopicAttributes, "TopicArn")
async def get_topic_attributes(call: AwsCall, given: GetTopicAttributes) -> Response:
    topic, broker = topic_of(call, given.TopicArn), call.service.broker
    info = await broker.run(ops.GetTopic(topic))
    audience = await broker.run(ops.CountSubscriptions(topic))
    return call.ok(TopicAttributesResult(shown(info, call.names, audience, call.service.settings)))


class SetTopicAttributes(OnTopic):
    AttributeName: str | None = None
    AttributeValue: str | None = None


@SNS.action(SetTopicAttributes, "TopicArn", "AttributeName")
async def set_topic_attributes(call: AwsCall, given: SetTopicAttributes) -> Response:
    topic, broker = topic_of(call, given.TopicArn), call.service.broker
    name, value = given.AttributeName or "", given.AttributeValue or ""
    info = await broker.run(ops.GetTopic(topic))
    if name == FIFO_TOPIC:
        raise invalid("AttributeName")
    check(name, value, topic)
    if name == MAXIMUM_SIZE and int(value) > USUAL_SIZE:
        await _check_large(call, topic)
    after = {**info.attributes, name: stored(name, value)}
    form = form_of(TopicInfo(topic, after, {}, 0)) if name == SIGNATURE_VERSION else None
    await broker.run(ops.UpdateTopic(topic, {name: after[name]}, form=form))
    return call.ok()


async def _check_large(call: AwsCall, topic: str) -> None:
    """Raise unless all subscribers of a topic can have large messages."""
    found = await call.service.broker.run(ops.ListSubscriptions(topic, None, 0, MOST_FOR_LARGE + 1))
    if len(found) > MOST_FOR_LARGE or any(one.protocol != "queue" for one in found):
        raise too_large_for_subscribers()
