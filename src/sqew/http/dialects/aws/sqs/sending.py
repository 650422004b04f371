"""SendMessage and its batch."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from functools import partial

from msgspec import Struct

from sqew import operations as ops
from sqew.errors import BodyTooLarge, KeyMissing, SqewError
from sqew.http.aws_refusals import JSON_TYPE, AwsError, in_aws_words, invalid_value, missing, too_long
from sqew.http.dialects.aws.calls import AwsCall, request_id
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.http.dialects.aws.sqs.attributes import MOST_BODY_BYTES
from sqew.http.dialects.aws.sqs.batches import Failed, check_entries, each, failure
from sqew.http.dialects.aws.sqs.message_attributes import Attribute, as_headers, check, is_legal, md5, md5_of, size_of
from sqew.http.exchange import Call, Response
from sqew.ids import uuid_text
from sqew.model import NewMessage, Sent
from sqew.rules import FIFO_SUFFIX

_MOST_DELAY_S = 900
_PUNCTUATED = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")


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


@SQS.action(SendMessage)
def send_message(call: AwsCall, given: SendMessage) -> Call:
    queue = call.queue(given.QueueUrl)
    is_fifo = queue.endswith(FIFO_SUFFIX)
    message, _ = _new_message(given, is_fifo)
    call.request.rows = 1
    operation = ops.Send(queue, (message,), keyed=True)
    if call.wire == "json" and not is_fifo and message.headers is None:
        return Call(operation, partial(_plainly_sent, request_id(call.request), md5(message.body).hexdigest()))
    return Call(operation, partial(_sent, call, given, message.body, is_fifo))


def _plainly_sent(request_id: bytes, checksum: str, sent: list[Sent]) -> Response:
    """The most frequent answer of all. What could be done before the commit is: after it, everybody waits in line."""
    body = f'{{"MD5OfMessageBody":"{checksum}","MessageId":"{uuid_text(sent[0].id)}"}}'
    return Response(200, body.encode(), JSON_TYPE, ((b"x-amzn-requestid", request_id),))


def _sent(call: AwsCall, given: SendMessage | SendEntry, body: bytes, is_fifo: bool, sent: list[Sent]) -> Response:
    checksum, id, attributes, system, sequence = _result(given, body, is_fifo, sent[0].id)
    return call.ok(SendMessageResult(checksum, id, attributes, system, sequence))


def _result(
    given: SendMessage | SendEntry, body: bytes, is_fifo: bool, id: int
) -> tuple[str, str, str | None, str | None, str | None]:
    """MD5 of the body, the message's id, MD5s of its attributes, and its number in a FIFO queue."""
    return (
        md5(body).hexdigest(),
        uuid_text(id),
        md5_of(given.MessageAttributes) if given.MessageAttributes else None,
        md5_of(given.MessageSystemAttributes) if given.MessageSystemAttributes else None,
        sequence_number(id) if is_fifo else None,
    )


def sequence_number(id: int) -> str:
    """A number of 20 digits that grows from message to message, as FIFO queues give them."""
    return f"{id:020}"


def _new_message(given: SendMessage | SendEntry, is_fifo: bool) -> tuple[NewMessage, int]:
    """The message to send, and how many bytes it has with its attributes."""
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
        size += check(given.MessageAttributes or {})
        headers = as_headers(given.MessageAttributes, given.MessageSystemAttributes)
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
    return NewMessage(body, "text", headers, 0, None, group, key, delay_ms, None), size


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
    """What only the other kind of queue takes, standard or FIFO."""
    return invalid_value(
        f"Value {value[:200]} for parameter {parameter} is invalid. "
        "Reason: The request include parameter that is not valid for this queue type."
    )


def check_id(parameter: str, value: str) -> None:
    """Raise unless a group, or what is to be told from others, may be called so."""
    if not _PUNCTUATED.fullmatch(value):
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
    Failed: list[Failed] | None = None


_Ready = list[tuple[SendEntry, tuple[NewMessage, int]]]


@SQS.action(SendMessageBatch)
def send_message_batch(call: AwsCall, given: SendMessageBatch) -> Call | Response:
    queue = call.queue(given.QueueUrl)
    entries = check_entries(given.Entries, "SendMessageBatchRequestEntry")
    total = sum(_size(entry) for entry in entries)
    if total > MOST_BODY_BYTES:
        raise AwsError(
            "BatchRequestTooLong",
            f"Batch requests cannot be longer than {MOST_BODY_BYTES} bytes. You have sent {total} bytes.",
        )
    ready, failed = each(entries, partial(_entry_message, is_fifo=queue.endswith(FIFO_SUFFIX)))
    return _send_all(call, queue, ready, failed)


def _size(entry: SendEntry) -> int:
    """How many bytes a message has with its attributes, good or bad."""
    size = len((entry.MessageBody or "").encode(errors="replace"))
    return size + sum(size_of(*pair) for pair in (entry.MessageAttributes or {}).items())


def _entry_message(entry: SendEntry, is_fifo: bool) -> tuple[NewMessage, int]:
    try:
        return _new_message(entry, is_fifo)
    except AwsError as error:
        if error.type == "MissingRequiredParameterException" and "MessageGroupId" in str(error):
            # In a batch this is the value of an entry, and not a parameter that is missing.
            raise invalid_value(str(error)) from error
        raise


def _send_all(call: AwsCall, queue: str, ready: _Ready, failed: list[Failed]) -> Call | Response:
    if not ready:
        return call.ok(SendMessageBatchResult([], failed))
    call.request.rows = len(ready)
    messages = [message for _, (message, _) in ready]
    return Call(
        ops.Send(queue, messages, keyed=True),
        partial(_all_sent, call, queue.endswith(FIFO_SUFFIX), ready, failed),
        otherwise=partial(_some_refused, call, queue, ready, failed),
    )


def _all_sent(call: AwsCall, is_fifo: bool, ready: _Ready, failed: list[Failed], sent: list[Sent]) -> Response:
    entries = []
    for (entry, (message, _)), one in zip(ready, sent, strict=True):
        checksum, id, attributes, system, sequence = _result(entry, message.body, is_fifo, one.id)
        entries.append(SendMessageBatchResultEntry(entry.Id or "", id, checksum, attributes, system, sequence))
    return call.ok(SendMessageBatchResult(entries, failed or None))


def _some_refused(
    call: AwsCall, queue: str, ready: _Ready, failed: list[Failed], error: SqewError
) -> Awaitable[Call | Response] | None:
    """The queue refused the batch for some of its messages: the others are sent all the same."""
    match error:
        case KeyMissing():
            refused = [one for one in ready if one[1][0].key is None]
        case BodyTooLarge():
            refused = [one for one in ready if len(one[1][0].body) > error.most]
        case _:
            return None
    return _without(call, queue, [one for one in ready if one not in refused], refused, failed, error)


async def _without(
    call: AwsCall, queue: str, ready: _Ready, refused: _Ready, failed: list[Failed], error: SqewError
) -> Call | Response:
    more = [failure(entry.Id or "", in_aws_words(error)) for entry, _ in refused]
    return _send_all(call, queue, ready, failed + more)
