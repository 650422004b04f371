"""The driver of any queue that speaks SQS: Amazon's own, Sqew's, and others."""

from __future__ import annotations

import functools
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any, ClassVar, Literal
from zlib import crc32

import boto3
import msgspec
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from plainbench.drivers.base import Delivered, Item, Left, NotOffered, Place, Topic
from plainbench.drivers.other_queues import NUMBER, Policies, number_of, refuse_lanes, refuse_priorities
from sqew.errors import BadValue, NotFound, OutcomeUnknown, SqewError, StaleLease, StoreUnavailable, Unreachable

_BATCH = 10
"""Messages that SQS takes or gives in one call, at most."""
_BATCH_BYTES = 262_144
_TIMEOUT_S = 10
_LOOK_S = 60
"""Seconds for which messages are hidden while the lab looks at what is left."""
_COUNTS = {
    "ready": "ApproximateNumberOfMessages",
    "leased": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}
_WITH_EACH = ["ApproximateReceiveCount", "MessageGroupId"]
_STALE = frozenset({"ReceiptHandleIsInvalid", "MessageNotInflight", "InvalidParameterValue"})
_UNKNOWN = frozenset({"InternalFailure", "InternalError"})
"""Errors after which the call may have been done all the same."""
_opening = threading.Lock()


class SqsDriver:
    """A driver of SQS; see `plainbench.drivers.base.Driver`."""

    name: ClassVar[str] = "sqs"
    does: ClassVar[str] = "Any SQS endpoint, through boto3: Amazon's, Sqew's own, or another."
    needs: ClassVar[Sequence[str]] = ("boto3",)
    options: ClassVar[Mapping[str, str]] = {
        "endpoint_url": "Where it is; without one it is Amazon's.",
        "region": "us-east-1, unless boto3 finds another one.",
        "access_key_id": "Who asks; without one, as boto3 finds out by itself.",
        "secret_access_key": "What proves it.",
        "durability": "What the endpoint promises, to be printed beside its throughput.",
        "look_s": "How long to wait at the end until messages that are in flight can be seen (30).",
    }
    runs_in_virtual_time: ClassVar[bool] = False
    faults_inside: ClassVar[bool] = False
    shows_dead: ClassVar[bool] = True
    leases_outlive: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        options = place.options
        self._sqs = _client(options)
        self._url = functools.cache(self._find)
        self._policies = Policies(place)
        self._look_s = float(options.get("look_s", 30))
        self.durability = str(options.get("durability") or _durability(options.get("endpoint_url")))

    def create(self, topic: Topic) -> None:
        refuse_lanes(topic, "SQS")
        if topic.fifo != topic.name.endswith(".fifo"):
            raise BadValue(f"SQS knows FIFO queues by their names: call topic {topic.name} by one that ends in .fifo.")
        attributes = {"FifoQueue": "true"} if topic.fifo else {}
        with _asking():
            dead_letters = self._sqs.create_queue(QueueName=_dead_letters(topic.name), Attributes=attributes)[
                "QueueUrl"
            ]
            arn = self._attributes(dead_letters, ["QueueArn"])["QueueArn"]
            if topic.max_attempts is not None:
                redrive = {"deadLetterTargetArn": arn, "maxReceiveCount": topic.max_attempts}
                attributes["RedrivePolicy"] = msgspec.json.encode(redrive).decode()
            attributes["VisibilityTimeout"] = str(_seconds(topic.lease_ms))
            self._make(topic.name, attributes)

    def _make(self, name: str, attributes: dict[str, str]) -> None:
        try:
            self._sqs.create_queue(QueueName=name, Attributes=attributes)
        except self._sqs.exceptions.QueueNameExists:
            changeable = {key: value for key, value in attributes.items() if key != "FifoQueue"}
            self._sqs.set_queue_attributes(QueueUrl=self._url(name), Attributes=changeable)

    def send(self, topic: str, items: Sequence[Item]) -> None:
        refuse_priorities(items, "SQS")
        for sent, batch in enumerate(_batches(items)):
            entries = [_entry(str(number), item, topic) for number, item in enumerate(batch)]
            try:
                with _asking():
                    answer = self._sqs.send_message_batch(QueueUrl=self._url(topic), Entries=entries)
            except SqewError as error:
                if sent:
                    raise OutcomeUnknown(f"Some of the messages were stored and some were not: {error}") from error
                raise
            _check_all_stored(answer, whole=not sent)

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        return self._receive(self._url(topic), limit, _seconds(lease_ms), ceil(wait_s))

    def _receive(self, url: str, limit: int, lease_s: int, wait_s: int) -> list[Delivered]:
        with _asking():
            answer = self._sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=min(limit, _BATCH), VisibilityTimeout=lease_s, WaitTimeSeconds=wait_s,
                MessageAttributeNames=["All"], MessageSystemAttributeNames=_WITH_EACH,
            )  # fmt: skip
        return [_delivered(message) for message in answer.get("Messages", [])]

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        refusals: list[SqewError | None] = []
        for start in range(0, len(deliveries), _BATCH):
            refusals += self._ack(topic, deliveries[start : start + _BATCH])
        return refusals

    def _ack(self, topic: str, deliveries: Sequence[Delivered]) -> list[SqewError | None]:
        entries = [
            {"Id": str(number), "ReceiptHandle": delivery.handle["ReceiptHandle"]}
            for number, delivery in enumerate(deliveries)
        ]
        try:
            with _asking():
                answer = self._sqs.delete_message_batch(QueueUrl=self._url(topic), Entries=entries)
        except SqewError as error:
            return [error] * len(deliveries)
        failures = {int(failure["Id"]): failure for failure in answer.get("Failed", [])}
        return [
            _refusal(failures[number], delivery) if number in failures else None
            for number, delivery in enumerate(deliveries)
        ]

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        self.extend(topic, delivery, self._policies.wait_ms(topic, delivery.attempt, after_ms))

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        """Send a copy to the dead letters, then delete the message: SQS has no call for that."""
        dead_letters = _dead_letters(topic)
        message = delivery.handle
        entry = {"MessageBody": message["Body"], "MessageAttributes": message.get("MessageAttributes", {})}
        with _asking():
            self._sqs.send_message(
                QueueUrl=self._url(dead_letters), **entry, **_fifo_fields(dead_letters, delivery.group)
            )
        (refusal,) = self._ack(topic, [delivery])
        if refusal is not None:
            raise refusal

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        with _asking(delivery):
            self._sqs.change_message_visibility(
                QueueUrl=self._url(topic),
                ReceiptHandle=delivery.handle["ReceiptHandle"],
                VisibilityTimeout=_seconds(lease_ms),
            )

    def left(self, topic: str) -> Iterator[Left]:
        """Receive all messages, as SQS shows them in no other way: so looking at what is left counts as a delivery."""
        yield from self._in_queue(topic, "ready")
        yield from self._in_queue(_dead_letters(topic), "dead")

    def _in_queue(self, queue: str, where: Literal["ready", "dead"]) -> Iterator[Left]:
        url, seen, deadline = self._url(queue), list[Delivered](), time.monotonic() + self._look_s
        try:
            while (hidden := sum(self._counted(url).values()) - len(seen)) > 0:
                if queue.endswith(".fifo"):
                    raise NotOffered(
                        f"There are messages in {queue}, and SQS shows no more of a group than its first ones: "
                        "use a new queue, or empty it first."
                    )
                found = self._receive(url, _BATCH, _LOOK_S, 1)
                seen += found
                yield from (Left(delivery.number, where) for delivery in found)
                if not found and time.monotonic() > deadline:
                    raise NotOffered(
                        f"{hidden} messages of {queue} are in flight, and SQS shows nobody which they are."
                    )
        finally:
            self._show(url, seen)

    def _show(self, url: str, hidden: Sequence[Delivered]) -> None:
        """Make hidden messages receivable again, at once."""
        for start in range(0, len(hidden), _BATCH):
            entries = [
                {"Id": str(number), "ReceiptHandle": delivery.handle["ReceiptHandle"], "VisibilityTimeout": 0}
                for number, delivery in enumerate(hidden[start : start + _BATCH])
            ]
            with _asking():
                self._sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        counts = self._counted(self._url(topic))
        return {"": {**counts, "dead": sum(self._counted(self._url(_dead_letters(topic))).values())}}

    def _counted(self, url: str) -> dict[str, int]:
        with _asking():
            attributes = self._attributes(url, list(_COUNTS.values()))
        return {state: int(attributes.get(name, 0)) for state, name in _COUNTS.items()}

    def _attributes(self, url: str, names: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names).get("Attributes", {})
        return found

    def _find(self, queue: str) -> str:
        with _asking():
            url: str = self._sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        return url

    def close(self) -> None:
        self._sqs.close()


@functools.cache
def _session() -> boto3.session.Session:
    # To read what boto3 knows of SQS takes longer than anything else; so it is read once.
    return boto3.session.Session()


def _client(options: Mapping[str, Any]) -> Any:
    # Nothing is tried again behind the lab's back: it would not be on the log.
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S + 20)
    with _opening, _asking():
        return _session().client(
            "sqs", endpoint_url=options.get("endpoint_url"), config=config,
            region_name=options.get("region") or _session().region_name or "us-east-1",
            aws_access_key_id=options.get("access_key_id"), aws_secret_access_key=options.get("secret_access_key"),
        )  # fmt: skip


def _durability(endpoint: object) -> str:
    return "durable: Amazon SQS" if endpoint is None else "unknown: give target.options.durability"


@contextmanager
def _asking(delivery: Delivered | None = None) -> Iterator[None]:
    """Convert the errors of boto3 to those of the lab."""
    try:
        yield
    except ClientError as error:
        raise _said(error, delivery) from error
    except (EndpointConnectionError, ConnectTimeoutError) as error:
        raise Unreachable(f"SQS can't be reached: {error}") from error
    except (NoCredentialsError, PartialCredentialsError, ParamValidationError, ValueError) as error:
        raise BadValue(f"SQS can't be asked: {error}. See target.options: plainbench drivers sqs.") from error
    except BotoCoreError as error:
        raise OutcomeUnknown(f"No answer came from SQS: {error}") from error


def _said(error: ClientError, delivery: Delivered | None) -> SqewError:
    error = error.response.get("Error", {})
    code, sentence = str(error.get("Code", "")), f"SQS says {error.get('Code')}: {error.get('Message')}"
    if delivery is not None and code.rpartition(".")[2] in _STALE:
        return StaleLease(delivery.number)
    if "NonExistentQueue" in code or "QueueDoesNotExist" in code:
        return NotFound(sentence)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if status < 500 and status != 429 and "Throttl" not in code:
        return BadValue(sentence)
    return OutcomeUnknown(sentence) if code in _UNKNOWN else StoreUnavailable(sentence)


def _refusal(failure: Mapping[str, Any], delivery: Delivered) -> SqewError:
    if failure.get("SenderFault"):
        return StaleLease(delivery.number)
    return StoreUnavailable(f"SQS says {failure.get('Code')}: {failure.get('Message')}")


def _check_all_stored(answer: Mapping[str, Any], *, whole: bool) -> None:
    failed = answer.get("Failed", [])
    if not failed:
        return
    sentence = f"SQS says {failed[0].get('Code')}: {failed[0].get('Message')}"
    if answer.get("Successful") or not whole:
        raise OutcomeUnknown(f"Some of the messages were stored and some were not: {sentence}")
    raise BadValue(sentence) if failed[0].get("SenderFault") else StoreUnavailable(sentence)


def _batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    size = 0
    for item in items:
        if batch and (len(batch) == _BATCH or size + len(item.body) > _BATCH_BYTES - 1024 * _BATCH):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item.body)
    if batch:
        yield batch


def _entry(id: str, item: Item, topic: str) -> dict[str, Any]:
    number = {NUMBER: {"DataType": "Number", "StringValue": str(item.number)}}
    headers = {name: {"DataType": "String", "StringValue": str(value)} for name, value in (item.headers or {}).items()}
    fields = _fifo_fields(topic, item.group, item.key)
    return {"Id": id, "MessageBody": item.body.decode(), "MessageAttributes": {**headers, **number}, **fields}


def _fifo_fields(queue: str, group: str | None, key: str | None = None) -> dict[str, str]:
    if not queue.endswith(".fifo"):
        return {}
    # Numbers begin anew with every run, and SQS would take what has an earlier one's for a copy.
    return {"MessageGroupId": group or "all", "MessageDeduplicationId": key or uuid.uuid4().hex}


def _delivered(message: Mapping[str, Any]) -> Delivered:
    attributes, system = message.get("MessageAttributes", {}), message.get("Attributes", {})
    said = {name: attribute.get("StringValue") for name, attribute in attributes.items()}
    number = number_of(said.pop(NUMBER, None), crc32(message["MessageId"].encode()))
    attempt, group = int(system.get("ApproximateReceiveCount", 1)), system.get("MessageGroupId")
    return Delivered(number, message["Body"].encode(), "", attempt, group, said or None, message)


def _seconds(ms: float) -> int:
    """Return whole seconds, as SQS counts in them: never less than was asked for."""
    return ceil(ms / 1000)


def _dead_letters(topic: str) -> str:
    """Return the name of the queue for a topic's dead letters."""
    return f"{topic.removesuffix('.fifo')}-dead{'.fifo' if topic.endswith('.fifo') else ''}"
