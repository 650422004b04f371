"""The attributes of a queue: SQS's names for the fields of a policy, and attributes that only SQS has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from sqew.http.dialects.aws.documents import object_of
from sqew.http.dialects.aws.names import AwsNames
from sqew.http.dialects.aws.policies import statements_of
from sqew.http.dialects.aws.refusals import AwsError, invalid_value
from sqew.model import Depths, Policy, QueueInfo
from sqew.rules.names import FIFO_SUFFIX

RETENTION_S = 345_600
"""Seconds that SQS keeps a message by default: four days."""
MOST_BODY_BYTES = 1_048_576
MOST_TAGS = 50
MOST_SOURCES = 10
"""The most queues that a RedriveAllowPolicy may name."""
EXTRA = "sqs"
"""The name under which a queue's extras hold what only SQS has."""
MODIFIED = "modified_at"


class _Seconds(Struct, frozen=True):
    """An attribute that is a number, and the policy field that is ``scale`` times that number."""

    field: str
    least: int
    most: int
    scale: int = 1_000


_NUMBERS = {
    "VisibilityTimeout": _Seconds("visibility_ms", 0, 43_200),
    "DelaySeconds": _Seconds("delay_ms", 0, 900),
    "MessageRetentionPeriod": _Seconds("ttl_ms", 60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": _Seconds("receive_wait_ms", 0, 20),
    "MaximumMessageSize": _Seconds("max_body_bytes", 1_024, MOST_BODY_BYTES, 1),
}
_KEPT = {
    # What we only keep and show, and what it is where nobody has said.
    "Policy": "",
    "RedriveAllowPolicy": "",
    "KmsMasterKeyId": "",
    "KmsDataKeyReusePeriodSeconds": "",
    "SqsManagedSseEnabled": "true",
    "FifoThroughputLimit": "",
}
_ONE_ENCRYPTION = (
    "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
)
_KMS_REUSE_S = "300"
_FIFO_ONLY = ("ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit")
COUNTED = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_READ_ONLY = (*COUNTED, "CreatedTimestamp", "LastModifiedTimestamp", "QueueArn")
KNOWN = (
    *_NUMBERS, *_KEPT, "RedrivePolicy", "FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", *_READ_ONLY,
)  # fmt: skip


class QueueRedrive(Struct):
    deadLetterTargetArn: str  # noqa: N815 (as it stands in the document)
    maxReceiveCount: int | str  # noqa: N815


class RedriveAllow(Struct):
    redrivePermission: Literal["allowAll", "denyAll", "byQueue"]  # noqa: N815
    sourceQueueArns: list[str] | None = None  # noqa: N815


class WantedQueue(Struct):
    """Attributes as changes to a policy and to the extras that are stored beside it."""

    policy: dict[str, Any]
    extras: dict[str, str]


def wanted(given: Mapping[str, str], queue: str, names: AwsNames, info: QueueInfo | None = None) -> WantedQueue:
    """Return the changes that attributes ask for; raise if one is invalid, or does not go with the existing queue."""
    found = WantedQueue({}, {})
    fifo = queue.endswith(FIFO_SUFFIX)
    for name, value in given.items():
        if name not in KNOWN or name in _READ_ONLY:
            raise _unknown(name)
        if not fifo and (name in _FIFO_ONLY or (name == "FifoQueue" and value.lower() != "true")):
            raise _unknown(name)
        if name in _NUMBERS:
            number = _NUMBERS[name]
            found.policy[number.field] = _number(name, value, number) * number.scale
        else:
            _SET[name](found, value, queue, names)
    if found.policy.get("max_body_bytes") == MOST_BODY_BYTES:
        # As large as any may be: to look would take the queue off the shortest way.
        found.policy["max_body_bytes"] = None
    _check_throughput(found, info)
    _check_encryption(found, given)
    return found


def _check_throughput(found: WantedQueue, info: QueueInfo | None) -> None:
    """Raise if a throughput limit for each message group comes without deduplication within each."""
    extras = {} if info is None else info.extras.get(EXTRA, {})
    within = "queue" if info is None else info.policy.deduplicate_within
    limit = found.extras.get("FifoThroughputLimit", extras.get("FifoThroughputLimit"))
    if limit == "perMessageGroupId" and found.policy.get("deduplicate_within", within) != "group":
        raise AwsError(
            "InvalidAttributeValue",
            "The perMessageGroupId value for FifoThroughputLimit is allowed only when the value for "
            "DeduplicationScope is messageGroup.",
        )


def _check_encryption(found: WantedQueue, given: Mapping[str, str]) -> None:
    """Turn off one kind of encryption if the other is given; raise if both are. They are stored and shown only."""
    if given.get("KmsMasterKeyId"):
        if given.get("SqsManagedSseEnabled", "").lower() == "true":
            raise AwsError("InvalidAttributeValue", _ONE_ENCRYPTION)
        found.extras["SqsManagedSseEnabled"] = "false"
    elif given.get("SqsManagedSseEnabled", "").lower() == "true":
        found.extras["KmsMasterKeyId"] = ""


def _number(name: str, value: str, number: _Seconds) -> int:
    if not _is_number(value, number.least, number.most):
        raise _wrong(name)
    return int(value)


def _is_number(text: str, least: int, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most


def _redrive_policy(found: WantedQueue, value: str, _queue: str, names: AwsNames) -> None:
    if value == "":
        found.policy |= {"dead_letter": None, "max_attempts": None}
        return
    try:
        redrive = msgspec.json.decode(value, type=QueueRedrive)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise bad_redrive(value, "It must hold deadLetterTargetArn and maxReceiveCount.") from error
    count = str(redrive.maxReceiveCount)
    if not _is_number(count, 1, 1_000):
        raise bad_redrive(
            value, f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to 1000 both inclusive."
        )
    target = names.queue_of_arn(redrive.deadLetterTargetArn, "RedrivePolicy")
    if redrive.deadLetterTargetArn.split(":")[4] != names.account:
        raise bad_redrive(value, "Dead letter target owner should be same as the source.")
    found.policy |= {"dead_letter": target, "max_attempts": int(count)}


def bad_redrive(value: str, reason: str) -> AwsError:
    return invalid_value(f"Value {value[:500]} for parameter RedrivePolicy is invalid. Reason: {reason}")


def allows(info: QueueInfo, source_arn: str) -> bool:
    """Return True if a queue lets another one send dead letters to it."""
    written = info.extras.get(EXTRA, {}).get("RedriveAllowPolicy")
    if not written:
        return True
    policy = msgspec.json.decode(written, type=RedriveAllow)
    return policy.redrivePermission == "allowAll" or (
        policy.redrivePermission == "byQueue" and source_arn in (policy.sourceQueueArns or ())
    )


def _check_allow(value: str) -> None:
    try:
        policy = msgspec.json.decode(value, type=RedriveAllow)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _wrong("RedriveAllowPolicy") from error
    count = len(policy.sourceQueueArns or ())
    if not (1 <= count <= MOST_SOURCES if policy.redrivePermission == "byQueue" else count == 0):
        raise _wrong("RedriveAllowPolicy")


def _fifo_queue(_found: WantedQueue, value: str, queue: str, _names: AwsNames) -> None:
    if (value.lower() == "true") != queue.endswith(FIFO_SUFFIX):
        raise AwsError(
            "InvalidAttributeValue",
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        )


def _content_based(found: WantedQueue, value: str, _queue: str, _names: AwsNames) -> None:
    found.policy["deduplicate"] = "content" if _flag("ContentBasedDeduplication", value) else "key"


def _scope(found: WantedQueue, value: str, _queue: str, _names: AwsNames) -> None:
    if value not in ("queue", "messageGroup"):
        raise _wrong("DeduplicationScope")
    found.policy["deduplicate_within"] = "group" if value == "messageGroup" else "queue"


def _kept(name: str) -> Callable[[WantedQueue, str, str, AwsNames], None]:
    def keep(found: WantedQueue, value: str, _queue: str, _names: AwsNames) -> None:
        if name == "Policy" and value:
            document_of(value)
        if name == "RedriveAllowPolicy" and value:
            _check_allow(value)
        if name == "SqsManagedSseEnabled":
            value = "true" if _flag(name, value) else "false"
        if name == "FifoThroughputLimit" and value not in ("perQueue", "perMessageGroupId"):
            raise _wrong(name)
        if name == "KmsDataKeyReusePeriodSeconds":
            _number(name, value, _Seconds("", 60, 86_400))
        found.extras[name] = value

    return keep


_SET: dict[str, Callable[[WantedQueue, str, str, AwsNames], None]] = {
    "RedrivePolicy": _redrive_policy,
    "FifoQueue": _fifo_queue,
    "ContentBasedDeduplication": _content_based,
    "DeduplicationScope": _scope,
    **{name: _kept(name) for name in _KEPT},
}


def document_of(policy: str) -> dict[str, Any]:
    """Return the document of a queue's policy, its statements as a list; raise unless each is an object."""
    document = object_of(policy)
    if document is None:
        raise _wrong("Policy")
    statements = statements_of(document)
    if not all(isinstance(statement, dict) for statement in statements):
        raise _wrong("Policy")
    return {**document, "Statement": statements}


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise _wrong(name)
    return value.lower() == "true"


def check_tags(tags: Mapping[str, str], queue: str) -> None:
    """Raise if a queue can't have these tags: too many, too long, or with keys that are AWS's own."""
    if len(tags) > MOST_TAGS:
        raise invalid_value(f"Too many tags added for queue {queue}.")
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            raise invalid_value(
                f"Value {key[:128]} for parameter Tags is invalid. Reason: Tag keys that begin with aws: are AWS's own."
            )
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise invalid_value(
                f"Value {key[:128]} for parameter Tags is invalid. "
                "Reason: A tag's key has 1 to 128 characters, its value up to 256."
            )


def _unknown(name: str) -> AwsError:
    return AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")


def _wrong(name: str) -> AwsError:
    return AwsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")


# What a queue has


def check_names(asked: list[str]) -> set[str]:
    """Return the attributes that are asked for; raise if there is no such attribute."""
    for name in asked:
        if name not in KNOWN and name != "All":
            raise _unknown(name)
    return set(KNOWN) if "All" in asked else set(asked)


def shown(info: QueueInfo, asked: set[str], depths: Depths | None, names: AwsNames) -> dict[str, str]:
    """Return attributes as SQS shows them: those that a queue does not have are left out."""
    found = {name: value for name, value in _values(info, names).items() if name in asked and value != ""}
    if depths is not None:
        counts = (depths.total("ready") + depths.total("blocked"), depths.total("leased"), depths.total("delayed"))
        found |= {name: str(count) for name, count in zip(COUNTED, counts, strict=True) if name in asked}
    return found


def _values(info: QueueInfo, names: AwsNames) -> dict[str, str]:
    policy, extras = info.policy, info.extras.get(EXTRA, {})
    created = info.created_at // 1000
    values = {
        "QueueArn": names.arn(info.name),
        "CreatedTimestamp": str(created),
        "LastModifiedTimestamp": str(extras.get(MODIFIED, info.created_at) // 1000),
        **{name: _in_units(policy, number) for name, number in _NUMBERS.items()},
        **{name: extras.get(name, default) for name, default in _KEPT.items()},
    }
    if values["KmsMasterKeyId"]:
        values["KmsDataKeyReusePeriodSeconds"] = values["KmsDataKeyReusePeriodSeconds"] or _KMS_REUSE_S
    if policy.dead_letter is not None and policy.max_attempts is not None:
        redrive = {"deadLetterTargetArn": names.arn_of(policy.dead_letter), "maxReceiveCount": policy.max_attempts}
        values["RedrivePolicy"] = msgspec.json.encode(redrive).decode()
    if policy.fifo:
        values["FifoQueue"] = "true"
        values["ContentBasedDeduplication"] = "true" if policy.deduplicate == "content" else "false"
        values["DeduplicationScope"] = "messageGroup" if policy.deduplicate_within == "group" else "queue"
        values["FifoThroughputLimit"] = values["FifoThroughputLimit"] or "perQueue"
    return values


def _in_units(policy: Policy, number: _Seconds) -> str:
    value = getattr(policy, number.field)
    if value is None:
        return str(number.most)
    return str(value // number.scale)
