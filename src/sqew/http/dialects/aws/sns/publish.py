"""The action Publish, and its batch."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain

import msgspec
from msgspec import Struct

from sqew import operations as ops
from sqew.envelopes.sns import new_message_id, sequence_number
from sqew.errors import EnvelopeNeeded, SqewError, TopicNotFound
from sqew.http.dialects.aws.batches import Fault, fault_in
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.messages import Attribute, as_headers, is_legal, is_punctuated
from sqew.http.dialects.aws.refusals import AwsError
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.dialects.aws.sns.arns import is_fifo, topic_of
from sqew.http.dialects.aws.sns.message_attributes import check
from sqew.http.dialects.aws.sns.refusals import in_sns_words, invalid
from sqew.http.dialects.aws.sns.topic_attributes import CONTENT_BASED, LEAST_SIZE, MOST_BYTES, most_bytes
from sqew.http.wire.exchange import Call, Response
from sqew.model import NewEvent, NewMessage, Protocol, Published, TopicInfo
from sqew.rules.names import is_keyed

_LONGEST_SUBJECT = 100
_BREAKS = ("Cc", "Zl", "Zp")
"""The categories of characters that control something, or end a line."""
_FAULTS: dict[Fault, str] = {
    "EmptyBatchRequest": "The batch request doesn't contain any entries.",
    "TooManyEntriesInBatchRequest": "The batch request contains more entries than permissible.",
    "InvalidBatchEntryId": "The Id of a batch entry in a batch request doesn't abide by the specification: "
    "letters, digits, hyphens and underscores, 80 at most.",
    "BatchEntryIdsNotDistinct": "Two or more batch entries in the request have the same Id.",
}

_NAMES: dict[Protocol, str] = {"queue": "sqs", "http": "http", "https": "https"}
"""The names that protocols have in a message with a string for each."""

_Render = Callable[[list[Published]], Response]


class Publish(Struct):
    TopicArn: str | None = None
    TargetArn: str | None = None
    PhoneNumber: str | None = None
    Message: str | None = None
    Subject: str | None = None
    MessageStructure: str | None = None
    MessageAttributes: dict[str, Attribute] | None = None
    MessageDeduplicationId: str | None = None
    MessageGroupId: str | None = None


class PublishResult(Struct, omit_defaults=True):
    MessageId: str
    SequenceNumber: str | None = None


@SNS.action(Publish, sends=True)
def publish(call: AwsCall, given: Publish) -> Call | Awaitable[Call]:
    if given.PhoneNumber is not None:
        raise invalid("PhoneNumber Reason: SMS is not supported here. Publish to a topic")
    if not given.TopicArn and not given.TargetArn:
        raise invalid("TopicArn or TargetArn Reason: no value for required parameter")
    if given.TopicArn and given.TargetArn and given.TopicArn != given.TargetArn:
        raise invalid("TargetArn Reason: it names another topic than TopicArn. Give one of them")
    topic = topic_of(call, given.TopicArn or given.TargetArn, "TopicArn" if given.TopicArn else "TargetArn")
    if is_fifo(topic) and given.MessageDeduplicationId is None:
        return _publish_by_content(call, topic, given)
    events, size = _events(topic, given, by_content=False)
    # What every topic takes need not wait until this one is looked at.
    return _publish_one(call, events) if size <= LEAST_SIZE else _publish_larger(call, topic, events, size)


async def _publish_by_content(call: AwsCall, topic: str, given: Publish) -> Call:
    info = await call.service.broker.run(ops.GetTopic(topic))
    events, size = _events(topic, given, _is_by_content(info))
    _check_size(info, size)
    return _publish_one(call, events)


async def _publish_larger(call: AwsCall, topic: str, events: list[NewEvent], size: int) -> Call:
    _check_size(await _info(call, topic), size)
    return _publish_one(call, events)


async def _info(call: AwsCall, topic: str) -> TopicInfo:
    """Return a topic. One that is named by a routing key need not have been made."""
    try:
        return await call.service.broker.run(ops.GetTopic(topic))
    except TopicNotFound:
        if is_keyed(topic):
            return TopicInfo(topic, {}, {}, 0)
        raise


def _is_by_content(info: TopicInfo) -> bool:
    return info.attributes.get(CONTENT_BASED) == "true"


def _check_size(info: TopicInfo, size: int) -> None:
    if size > most_bytes(info):
        raise invalid("Message too long")


def _publish_one(call: AwsCall, events: list[NewEvent]) -> Call:
    def render(published: list[Published]) -> Response:
        _count_refused(call, published)
        return call.ok(PublishResult(events[0].message_id, _sequence(published[0])))

    return _publishing(call, events, render)


def _count_refused(call: AwsCall, published: list[Published]) -> None:
    """Count the subscribers' refusals in the server's figures: the publisher is not told of them."""
    for error in chain.from_iterable(one.refused for one in published):
        call.service.counters.failed(error)


def _sequence(published: Published) -> str | None:
    return None if published.number is None else sequence_number(published.number)


def _publishing(call: AwsCall, events: list[NewEvent], render: _Render) -> Call:
    call.request.rows = len(events)
    return Call(ops.Publish(events, to_topics=True), render, otherwise=partial(_with_envelopes, call, events, render))


def _with_envelopes(
    call: AwsCall, events: list[NewEvent], render: _Render, error: SqewError
) -> Awaitable[Response] | None:
    return _publish_with_envelopes(call, events, render, error) if isinstance(error, EnvelopeNeeded) else None


async def _publish_with_envelopes(
    call: AwsCall, events: list[NewEvent], render: _Render, needed: EnvelopeNeeded
) -> Response:
    return render(await call.service.publisher.publish(events, to_topics=True, needed=needed))


class PublishEntry(Struct):
    Id: str | None = None
    Message: str | None = None
    Subject: str | None = None
    MessageStructure: str | None = None
    MessageAttributes: dict[str, Attribute] | None = None
    MessageDeduplicationId: str | None = None
    MessageGroupId: str | None = None


def _events(topic: str, given: Publish | PublishEntry, by_content: bool) -> tuple[list[NewEvent], int]:
    """Return the events to publish, one for each string if protocols get different ones, and their size in bytes."""
    text = given.Message
    if not text:
        raise invalid("Empty message")
    _check_subject(given.Subject)
    attributes = given.MessageAttributes or {}
    size = len(text.encode()) + check(attributes)
    if size > MOST_BYTES:
        raise invalid("Message too long")
    texts = _texts(text, given.MessageStructure)
    if not all(is_legal(one) for one in texts):
        raise invalid("Message Reason: it holds characters that can't stand in XML")
    key = _key(given, topic, text, by_content)
    id, headers = new_message_id(), as_headers(attributes, None) or {}
    events = [
        NewEvent(
            topic, NewMessage(one.encode(), "text", group=given.MessageGroupId), id, attributes=headers,
            subject=given.Subject, key=key, numbered=is_fifo(topic), only=protocols if len(texts) > 1 else (),
        )
        for one, protocols in texts.items()
    ]  # fmt: skip
    return events, size


def _check_subject(subject: str | None) -> None:
    if subject is None:
        return
    has_breaks = any(unicodedata.category(letter) in _BREAKS for letter in subject[:_LONGEST_SUBJECT])
    if not 1 <= len(subject) <= _LONGEST_SUBJECT or has_breaks or not is_legal(subject):
        raise invalid("Subject")


def _texts(text: str, structure: str | None) -> dict[str, tuple[Protocol, ...]]:
    """Return the strings to publish, and the protocols that each is for."""
    if not structure:
        return {text: tuple(_NAMES)}
    if structure != "json":
        raise invalid("MessageStructure")
    try:
        said = msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise invalid("Message Structure - JSON message body failed to parse") from error
    usual = said.get("default")
    if not isinstance(usual, str):
        raise invalid("Message Structure - No default entry in JSON message body")
    texts: dict[str, tuple[Protocol, ...]] = {}
    for protocol, name in _NAMES.items():
        own = said.get(name, usual)
        if not isinstance(own, str) or not own:
            raise invalid(f"Message Structure - the entry {name} is not a text, or an empty one")
        texts[own] = (*texts.get(own, ()), protocol)
    return texts


def _key(given: Publish | PublishEntry, topic: str, text: str, by_content: bool) -> str | None:
    """Return the deduplication key of a message, None for a standard topic; raise if its ids are invalid."""
    group, key = given.MessageGroupId, given.MessageDeduplicationId
    for name, value in (("MessageGroupId", group), ("MessageDeduplicationId", key)):
        if value is not None and not is_punctuated(value):
            raise invalid(
                f"{name} Reason: it can only include alphanumeric and punctuation characters. 1 to 128 in length"
            )
    if not is_fifo(topic):
        if key is not None:
            raise invalid(
                "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not "
                "valid for this topic type"
            )
        return None
    if group is None:
        raise invalid("The MessageGroupId parameter is required for FIFO topics")
    if key is None and not by_content:
        raise invalid(
            "The topic should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        )
    return key if key is not None else hashlib.sha256(text.encode()).hexdigest()


class PublishBatch(Struct):
    TopicArn: str | None = None
    PublishBatchRequestEntries: list[PublishEntry] | None = None


class Successful(Struct, omit_defaults=True):
    Id: str
    MessageId: str
    SequenceNumber: str | None = None


class BatchResultErrorEntry(Struct):
    Id: str
    Code: str
    Message: str
    SenderFault: bool


class PublishBatchResult(Struct):
    Successful: list[Successful]
    Failed: list[BatchResultErrorEntry]


@SNS.action(PublishBatch, "TopicArn", sends=True)
async def publish_batch(call: AwsCall, given: PublishBatch) -> Call | Response:
    topic = topic_of(call, given.TopicArn)
    entries = given.PublishBatchRequestEntries or []
    fault = fault_in(entries)
    if fault is not None:
        raise _batch_error(fault, _FAULTS[fault])
    info = await _info(call, topic)
    events: list[NewEvent] = []
    named: dict[str, str] = {}
    failed: list[BatchResultErrorEntry] = []
    total = 0
    for entry in entries:
        try:
            made, size = _events(topic, entry, _is_by_content(info))
        except SqewError as error:
            said = in_sns_words(error)
            failed.append(BatchResultErrorEntry(entry.Id or "", said.aws_code, str(said), said.status < 500))
            total += len((entry.Message or "").encode())
            continue
        events += made
        total += size
        named[made[0].message_id] = entry.Id or ""
    if total > most_bytes(info):
        raise _batch_error(
            "BatchRequestTooLong", "The length of all the batch messages put together is more than the limit."
        )
    if not events:
        return call.ok(PublishBatchResult([], failed))

    def render(published: list[Published]) -> Response:
        _count_refused(call, published)
        numbers = {event.message_id: _sequence(one) for event, one in zip(events, published, strict=True)}
        return call.ok(PublishBatchResult([Successful(name, id, numbers[id]) for id, name in named.items()], failed))

    return _publishing(call, events, render)


def _batch_error(code: str, message: str) -> AwsError:
    return AwsError(f"{code}Exception", message, code=code)
