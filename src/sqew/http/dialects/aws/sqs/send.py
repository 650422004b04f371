"""The action SendMessage, and its batch."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial

import msgspec
from msgspec import Struct

from sqew import operations as ops
from sqew.envelopes.sns import sequence_number
from sqew.errors import BodyTooLarge, KeyMissing, SqewError
from sqew.http.dialects.aws.calls import AwsCall, request_id
from sqew.http.dialects.aws.messages import Attribute, as_headers, is_legal, is_punctuated
from sqew.http.dialects.aws.refusals import JSON_TYPE, AwsError, in_aws_words, invalid_value, missing, too_long
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.http.dialects.aws.sqs.attributes import MOST_BODY_BYTES
from sqew.http.dialects.aws.sqs.batches import FailedEntry, check_entries, each, failure, none_left
from sqew.http.dialects.aws.sqs.message_attributes import check, md5, md5_of, size_of, trace_in
from sqew.http.wire.exchange import Call, Request, Response, SharedCall
from sqew.ids import MessageUuids
from sqew.model import NewMessage, NewMessages, Sent
from sqew.rules.limits import Limits
from sqew.rules.messages import attribute_bytes, check_message
from sqew.rules.names import FIFO_SUFFIX

_MOST_DELAY_S = 900

_Checksums = tuple[str, str | None, str | None]
"""The MD5s of the body, of the attributes and of the system attributes."""


class SendMessage(Struct):
    QueueUrl: str | None = None
    MessageBody: str | None = None
    DelaySeconds: int | None = None
    MessageAttributes: dict[str, Attribute] | None = None
    MessageSystemAttributes: dict[str, Attribute] | None = None
    MessageDeduplicationId: str | None = None
    MessageGroupId: str | None = None


class SendMessageResult(Struct, omit_defaults=True):
    MD5OfMessageBody: str
    MessageId: str
    MD5OfMessageAttributes: str | None = None
    MD5OfMessageSystemAttributes: str | None = None
    SequenceNumber: str | None = None


class _PlainMessage(Struct, forbid_unknown_fields=True, gc=False):
    """A message with a body and nothing else."""

    MessageBody: str
    QueueUrl: str | None = None


_decode_plain = msgspec.json.Decoder(_PlainMessage).decode


def _send_batch(call: AwsCall, requests: Sequence[Request]) -> SharedCall | None:
    given = [_decode_plain(request.body) for request in requests]
    urls, texts = {one.QueueUrl for one in given}, [one.MessageBody for one in given]
    if len(urls) > 1 or not all(texts) or not is_legal("".join(texts)):
        return None
    queue = call.queue(urls.pop())
    if queue.endswith(FIFO_SUFFIX):
        return None
    bodies = [text.encode() for text in texts]
    checksums = [md5(body).hexdigest() for body in bodies]
    return SharedCall(
        ops.Send(queue, NewMessages(bodies, "text"), keyed=True, apart=True),
        partial(_sent_batch, call.service.uuids, checksums),
    )


def _sent_batch(
    uuids: MessageUuids, checksums: Sequence[str], sent: list[Sent], requests: Sequence[Request]
) -> list[Response]:
    return [
        _plainly_sent(uuids, request.id, checksum, [one])
        for request, checksum, one in zip(requests, checksums, sent, strict=True)
    ]


@SQS.action(SendMessage, sends=True, batched=_send_batch)
def send_message(call: AwsCall, given: SendMessage) -> Call:
    queue = call.queue(given.QueueUrl)
    is_fifo = queue.endswith(FIFO_SUFFIX)
    message = _new_message(given, is_fifo)
    call.request.rows = 1
    operation = ops.Send(queue, (message,), keyed=True)
    if call.wire == "json" and not is_fifo and message.headers is None:
        return Call(
            operation,
            partial(_plainly_sent, call.service.uuids, request_id(call.request), md5(message.body).hexdigest()),
        )
    return Call(operation, partial(_sent, call, _checksums(given, message.body), is_fifo))


def _plainly_sent(uuids: MessageUuids, request_id: bytes, checksum: str, sent: list[Sent]) -> Response:
    """Return the most frequent answer of all, mostly made before the commit: after that, everybody waits in line."""
    body = f'{{"MD5OfMessageBody":"{checksum}","MessageId":"{uuids.text(sent[0].id)}"}}'
    return Response(200, body.encode(), JSON_TYPE, ((b"x-amzn-requestid", request_id),))


def _sent(call: AwsCall, checksums: _Checksums, is_fifo: bool, sent: list[Sent]) -> Response:
    checksum, attributes, system = checksums
    id = sent[0].id
    number = sequence_number(id) if is_fifo else None
    return call.ok(SendMessageResult(checksum, call.service.uuids.text(id), attributes, system, number))


def _checksums(given: SendMessage | SendEntry, body: bytes) -> _Checksums:
    """Return the checksums to answer with, made before the commit: what fails after it is sent a second time."""
    return (
        md5(body).hexdigest(),
        md5_of(given.MessageAttributes) if given.MessageAttributes else None,
        md5_of(given.MessageSystemAttributes) if given.MessageSystemAttributes else None,
    )


def _new_message(given: SendMessage | SendEntry, is_fifo: bool) -> NewMessage:
    """Return the message to send; raise if SQS would not take it."""
    text = given.MessageBody
    if not text:
        raise missing("MessageBody")
    if not is_legal(text):
        raise AwsError(
            "InvalidMessageContents",
            "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | "
            "#xE000 to #xFFFD | #x10000 to #x10FFFF.",
        )
    body = text.encode()
    size, headers = len(body), None
    if given.MessageAttributes or given.MessageSystemAttributes:
        attributes = given.MessageAttributes or {}
        size += check(attributes)
        headers = as_headers(attributes, trace_in(given.MessageSystemAttributes or {}))
    if size > MOST_BODY_BYTES:
        raise too_long(MOST_BODY_BYTES)
    delay_ms = _delay_ms(given.DelaySeconds, is_fifo)
    group, key = given.MessageGroupId, given.MessageDeduplicationId
    if is_fifo and group is None:
        raise missing("MessageGroupId")
    if group is not None:
        check_id("MessageGroupId", group)
    if key is not None:
        if not is_fifo:
            raise not_for_this_type(key, "MessageDeduplicationId")
        check_id("MessageDeduplicationId", key)
    return NewMessage(body, "text", headers, 0, None, group, key, delay_ms, None)


def _delay_ms(seconds: int | None, is_fifo: bool) -> int | None:
    if seconds is None:
        return None
    if is_fifo and seconds:
        raise not_for_this_type(str(seconds), "DelaySeconds")
    if not 0 <= seconds <= _MOST_DELAY_S:
        raise invalid_value(
            f"Value {seconds} for parameter DelaySeconds is invalid. "
            f"Reason: DelaySeconds must be >= 0 and <= {_MOST_DELAY_S}."
        )
    # A FIFO queue has one delay for all: that is the policy's.
    return None if is_fifo else seconds * 1000


def not_for_this_type(value: str, parameter: str) -> AwsError:
    """Return the error for a parameter that only the other type of queue takes, standard or FIFO."""
    return invalid_value(
        f"Value {value[:200]} for parameter {parameter} is invalid. "
        "Reason: The request include parameter that is not valid for this queue type."
    )


def check_id(parameter: str, value: str) -> None:
    """Raise unless a value may be the id of a message group, a deduplication or a receive attempt."""
    if not is_punctuated(value):
        raise invalid_value(
            f"Value {value[:200]} for parameter {parameter} is invalid. "
            f"Reason: {parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        )


class SendEntry(Struct):
    Id: str | None = None
    MessageBody: str | None = None
    DelaySeconds: int | None = None
    MessageAttributes: dict[str, Attribute] | None = None
    MessageSystemAttributes: dict[str, Attribute] | None = None
    MessageDeduplicationId: str | None = None
    MessageGroupId: str | None = None


class SendMessageBatch(Struct):
    QueueUrl: str | None = None
    Entries: list[SendEntry] | None = None


class SendMessageBatchResultEntry(Struct, omit_defaults=True):
    Id: str
    MessageId: str
    MD5OfMessageBody: str
    MD5OfMessageAttributes: str | None = None
    MD5OfMessageSystemAttributes: str | None = None
    SequenceNumber: str | None = None


class SendMessageBatchResult(Struct, omit_defaults=True):
    Successful: list[SendMessageBatchResultEntry]
    Failed: list[FailedEntry] | None = None


_Ready = list[tuple[SendEntry, tuple[NewMessage, _Checksums]]]


@SQS.action(SendMessageBatch, sends=True)
def send_message_batch(call: AwsCall, given: SendMessageBatch) -> Call:
    queue = call.queue(given.QueueUrl)
    entries = check_entries(given.Entries, "SendMessageBatchRequestEntry")
    total = sum(_size(entry) for entry in entries)
    if total > MOST_BODY_BYTES:
        raise AwsError(
            "BatchRequestTooLong",
            f"Batch requests cannot be longer than {MOST_BODY_BYTES} bytes. You have sent {total} bytes.",
        )
    convert = partial(_entry_message, is_fifo=queue.endswith(FIFO_SUFFIX), limits=call.service.broker.limits)
    ready, failed = each(entries, convert)
    return _send_all(call, queue, ready, failed)


def _size(entry: SendEntry) -> int:
    """Return the size of a message with its attributes in bytes, valid or not."""
    size = len((entry.MessageBody or "").encode(errors="replace"))
    return size + sum(size_of(*pair) for pair in (entry.MessageAttributes or {}).items())


def _entry_message(entry: SendEntry, is_fifo: bool, limits: Limits) -> tuple[NewMessage, _Checksums]:
    try:
        message = _new_message(entry, is_fifo)
    except AwsError as error:
        if error.parameter == "MessageGroupId":
            # In a batch this is the value of an entry, and not a parameter that is missing.
            raise invalid_value(str(error)) from error
        raise
    if message.headers is not None or len(message.body) > limits.max_body_bytes:
        # What the server refuses, it would refuse the whole batch for.
        check_message(message, limits)
    return message, _checksums(entry, message.body)


def _send_all(call: AwsCall, queue: str, ready: _Ready, failed: list[FailedEntry]) -> Call:
    if not ready:
        return none_left(call, queue, SendMessageBatchResult([], failed))
    call.request.rows = len(ready)
    messages = [message for _, (message, _) in ready]
    return Call(
        ops.Send(queue, messages, keyed=True),
        partial(_all_sent, call, queue.endswith(FIFO_SUFFIX), ready, failed),
        otherwise=partial(_some_refused, call, queue, ready, failed),
    )


def _all_sent(call: AwsCall, is_fifo: bool, ready: _Ready, failed: list[FailedEntry], sent: list[Sent]) -> Response:
    entries = []
    for (entry, (_, (checksum, attributes, system))), one in zip(ready, sent, strict=True):
        id, number = call.service.uuids.text(one.id), sequence_number(one.id) if is_fifo else None
        entries.append(SendMessageBatchResultEntry(entry.Id or "", id, checksum, attributes, system, number))
    return call.ok(SendMessageBatchResult(entries, failed or None))


def _some_refused(
    call: AwsCall, queue: str, ready: _Ready, failed: list[FailedEntry], error: SqewError
) -> Awaitable[Call | Response] | None:
    """Send the rest of a batch if the queue refused it for some of its messages."""
    match error:
        case KeyMissing():
            refused = [one for one in ready if one[1][0].key is None]
        case BodyTooLarge():
            refused = [one for one in ready if _stored_size(one[1][0]) > error.most]
        case _:
            return None
    return _without(call, queue, [one for one in ready if one not in refused], refused, failed, error)


def _stored_size(message: NewMessage) -> int:
    return len(message.body) + attribute_bytes(message.headers or {})


async def _without(
    call: AwsCall, queue: str, ready: _Ready, refused: _Ready, failed: list[FailedEntry], error: SqewError
) -> Call:
    more = [failure(entry.Id or "", in_aws_words(error)) for entry, _ in refused]
    return _send_all(call, queue, ready, failed + more)
