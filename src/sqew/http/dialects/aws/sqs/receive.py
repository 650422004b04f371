"""The action ReceiveMessage."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct

from sqew import operations as ops
from sqew.envelopes.sns import sequence_number
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.messages import Attribute, of_headers, trace_of
from sqew.http.dialects.aws.refusals import AwsError, invalid_value
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.http.dialects.aws.sqs.attributes import KNOWN
from sqew.http.dialects.aws.sqs.message_attributes import md5, md5_of, selected
from sqew.http.dialects.aws.sqs.receipt_handles import handle_of, mark_of
from sqew.http.dialects.aws.sqs.send import check_id, not_for_this_type
from sqew.http.wire.exchange import Call, Response
from sqew.model import Message, Received
from sqew.rules.names import FIFO_SUFFIX

MOST_MESSAGES = 10
MOST_WAIT_S = 20
MOST_VISIBILITY_S = 43_200
SENDER = "AIDAIT2UOQQY3AUEKVGXU"
"""The sender of every message: the actual one is not stored."""
_SYSTEM = (
    "SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp", "SequenceNumber",
    "MessageDeduplicationId", "MessageGroupId", "AWSTraceHeader", "DeadLetterQueueSourceArn",
)  # fmt: skip


_NO_NAMES: frozenset[str] = frozenset()


class ReceiveMessage(Struct):
    QueueUrl: str | None = None
    AttributeNames: list[str] | None = None
    MessageSystemAttributeNames: list[str] | None = None
    MessageAttributeNames: list[str] | None = None
    MaxNumberOfMessages: int | None = None
    VisibilityTimeout: int | None = None
    WaitTimeSeconds: int | None = None
    ReceiveRequestAttemptId: str | None = None


class ReceivedMessage(Struct, omit_defaults=True):
    MessageId: str
    ReceiptHandle: str
    MD5OfBody: str
    Body: str
    Attributes: dict[str, str] | None = None
    MD5OfMessageAttributes: str | None = None
    MessageAttributes: dict[str, Attribute] | None = None


class ReceiveMessageResult(Struct, omit_defaults=True):
    Messages: list[ReceivedMessage] | None = None


class _Asked(Struct, frozen=True):
    """The attributes to show of each message."""

    system: frozenset[str]
    attributes: list[str]


@SQS.action(ReceiveMessage)
def receive_message(call: AwsCall, given: ReceiveMessage) -> Call:
    queue = call.queue(given.QueueUrl)
    limit = _between("MaxNumberOfMessages", given.MaxNumberOfMessages, 1, MOST_MESSAGES)
    seconds = _at_most("VisibilityTimeout", given.VisibilityTimeout, MOST_VISIBILITY_S)
    wait_s = _at_most("WaitTimeSeconds", given.WaitTimeSeconds, MOST_WAIT_S)
    names = [*(given.AttributeNames or ()), *(given.MessageSystemAttributeNames or ())]
    asked = _Asked(_system_names(names), given.MessageAttributeNames or [])
    lease_ms = None if seconds is None else seconds * 1000
    attempt_id = given.ReceiveRequestAttemptId
    if attempt_id is not None:
        _check_attempt(attempt_id, queue)
    operation = ops.Receive(queue, limit, None, lease_ms, None, attempt_id=attempt_id)
    wait_ms = None if wait_s is None else call.service.wait_ms(wait_s * 1000, "WaitTimeSeconds")
    return Call(operation, partial(_received, call, asked), wait_ms)


def _between(parameter: str, value: int | None, least: int, most: int) -> int:
    if value is None:
        return least
    if not least <= value <= most:
        raise invalid_value(
            f"Value {value} for parameter {parameter} is invalid. "
            f"Reason: Must be between {least} and {most}, if provided."
        )
    return value


def _at_most(parameter: str, value: int | None, most: int) -> int | None:
    if value is not None and not 0 <= value <= most:
        raise invalid_value(
            f"Value {value} for parameter {parameter} is invalid. Reason: Must be >= 0 and <= {most}, if provided."
        )
    return value


def _check_attempt(id: str, queue: str) -> None:
    if not queue.endswith(FIFO_SUFFIX):
        raise not_for_this_type(id, "ReceiveRequestAttemptId")
    check_id("ReceiveRequestAttemptId", id)


def _system_names(asked: list[str]) -> frozenset[str]:
    if not asked:
        return _NO_NAMES
    if "All" in asked:
        return frozenset(_SYSTEM)
    for name in asked:
        # The older of the two parameters may also name attributes of queues, which no message has.
        if name not in _SYSTEM and name not in KNOWN:
            raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    return frozenset(asked)


def _received(call: AwsCall, asked: _Asked, received: Received) -> Response:
    if not received.messages:
        return call.ok(ReceiveMessageResult())
    mark = mark_of(received.messages[0].queue)
    return call.ok(ReceiveMessageResult([_message(call, asked, message, mark) for message in received.messages]))


def _message(call: AwsCall, asked: _Asked, message: Message, mark: bytes) -> ReceivedMessage:
    lease = message.lease
    assert lease is not None
    attributes = None
    if asked.attributes and message.headers:
        attributes = selected(of_headers(message.headers), asked.attributes) or None
    body = message.body
    return ReceivedMessage(
        call.service.uuids.text(message.id),
        handle_of(message.id, lease.token, mark),
        md5(body).hexdigest(),
        body.decode(),
        _system(call, asked.system, message) if asked.system else None,
        None if attributes is None else md5_of(attributes),
        attributes,
    )


def _system(call: AwsCall, asked: frozenset[str], message: Message) -> dict[str, str] | None:
    values: dict[str, Any] = {
        "SenderId": SENDER,
        "SentTimestamp": message.created_at,
        "ApproximateReceiveCount": message.attempts,
        "ApproximateFirstReceiveTimestamp": message.first_received_at,
        "MessageDeduplicationId": message.key,
        "MessageGroupId": message.group or None,
        "AWSTraceHeader": trace_of(message.headers),
        "SequenceNumber": sequence_number(message.id) if message.queue.endswith(FIFO_SUFFIX) else None,
        "DeadLetterQueueSourceArn": None if message.death is None else call.names.arn_of(message.death.queue),
    }
    return {name: str(value) for name, value in values.items() if name in asked and value is not None} or None
