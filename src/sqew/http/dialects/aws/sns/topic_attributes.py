"""The attributes of a topic: their names, their valid values, and how they are shown."""

from __future__ import annotations

import re

import msgspec

from sqew.http.dialects.aws.documents import object_of, say_the_same
from sqew.http.dialects.aws.names import AwsNames
from sqew.http.dialects.aws.sns.arns import arn_of_topic, is_fifo
from sqew.http.dialects.aws.sns.delivery_policies import DELIVERY_POLICY, EFFECTIVE, effective_of_topic, flaw_of_topic
from sqew.http.dialects.aws.sns.refusals import invalid
from sqew.model import Audience, Form, TopicInfo
from sqew.settings import Settings

SIGNATURE_VERSION = "SignatureVersion"
CONTENT_BASED = "ContentBasedDeduplication"
FIFO_TOPIC = "FifoTopic"
POLICY = "Policy"
_LONGEST_DISPLAY_NAME = 100
MAXIMUM_SIZE = "MaximumMessageSize"
USUAL_SIZE = 262_144
LEAST_SIZE = 1_024
MOST_BYTES = 1_048_576
_DOCUMENTS = (POLICY, DELIVERY_POLICY, "ArchivePolicy")
_CHOICES = {
    SIGNATURE_VERSION: ("1", "2"),
    "TracingConfig": ("PassThrough", "Active"),
    "FifoThroughputScope": ("Topic", "MessageGroup"),
    CONTENT_BASED: ("true", "false"),
    FIFO_TOPIC: ("true", "false"),
}
_FIFO_ONLY = (CONTENT_BASED, "ArchivePolicy", "FifoThroughputScope")
_FEEDBACK = re.compile(
    r"(HTTP|Firehose|Lambda|Application|SQS)(SuccessFeedbackRoleArn|SuccessFeedbackSampleRate|FailureFeedbackRoleArn)"
)
_KNOWN = (*_DOCUMENTS, *_CHOICES, "DisplayName", "KmsMasterKeyId", MAXIMUM_SIZE)
_ACTIONS = ("GetTopicAttributes", "SetTopicAttributes", "AddPermission", "RemovePermission", "DeleteTopic", "Subscribe",
            "ListSubscriptionsByTopic", "Publish")  # fmt: skip


def check(name: str, value: str, topic: str) -> None:
    """Raise unless a topic's attribute may have this value."""
    if name not in _KNOWN and not _FEEDBACK.fullmatch(name):
        raise invalid("AttributeName")
    if name in _FIFO_ONLY and not is_fifo(topic):
        raise invalid(f"{name} Reason: it is for FIFO topics only")
    if name in _CHOICES and value.lower() not in [choice.lower() for choice in _CHOICES[name]]:
        raise invalid(f"{name} Reason: it must be {' or '.join(_CHOICES[name])}")
    if name == DELIVERY_POLICY and value and (flaw := flaw_of_topic(value)):
        raise invalid(f"{name}: {flaw}")
    if name == MAXIMUM_SIZE and not _is_size(value):
        raise invalid(f"{name} Reason: it must be a number of bytes from {LEAST_SIZE} to {MOST_BYTES}")
    if name in _DOCUMENTS and value and object_of(value) is None:
        raise invalid(f"{name} Reason: it is not a JSON object")
    if name == "DisplayName" and len(value) > _LONGEST_DISPLAY_NAME:
        raise invalid(f"DisplayName Reason: it has more than {_LONGEST_DISPLAY_NAME} characters")


def _is_size(value: str) -> bool:
    return re.fullmatch("[0-9]{1,7}", value) is not None and LEAST_SIZE <= int(value) <= MOST_BYTES


def most_bytes(topic: TopicInfo) -> int:
    """Return the largest size in bytes of a message, or a batch, that is published to a topic."""
    return int(topic.attributes.get(MAXIMUM_SIZE) or USUAL_SIZE)


def stored(name: str, value: str) -> str:
    """Return a value as it is stored."""
    return value.lower() if name in (CONTENT_BASED, FIFO_TOPIC) else value


def form_of(topic: TopicInfo) -> Form:
    """Return the version of the signature in the envelopes of a topic."""
    return 1 if topic.attributes.get(SIGNATURE_VERSION) == "1" else 2


def policy_of(topic: TopicInfo, names: AwsNames) -> str:
    """Return a topic's access policy. It is shown only: a caller that is let in may do everything."""
    kept = topic.attributes.get(POLICY)
    if kept:
        return kept
    statement = {
        "Sid": "__default_statement_ID",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": [f"SNS:{action}" for action in _ACTIONS],
        "Resource": arn_of_topic(names, topic.name),
        "Condition": {"StringEquals": {"AWS:SourceOwner": names.account}},
    }
    policy = {"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [statement]}
    return msgspec.json.encode(policy).decode()


def shown(topic: TopicInfo, names: AwsNames, audience: Audience, settings: Settings) -> dict[str, str]:
    """Return all attributes, as SNS shows them. Those that were set to nothing are left out."""
    found = {
        "TopicArn": arn_of_topic(names, topic.name),
        "Owner": names.account,
        "DisplayName": "",
        SIGNATURE_VERSION: "2",
        "SubscriptionsConfirmed": str(audience.confirmed),
        "SubscriptionsPending": str(audience.pending),
        "SubscriptionsDeleted": str(audience.deleted),
        EFFECTIVE: effective_of_topic(topic, settings),
        **({FIFO_TOPIC: "true", CONTENT_BASED: "false"} if is_fifo(topic.name) else {}),
        **{name: value for name, value in topic.attributes.items() if value and name != FIFO_TOPIC},
    }
    return {**found, POLICY: policy_of(topic, names)}


def differs(topic: TopicInfo, names: AwsNames, given: dict[str, str], settings: Settings) -> bool:
    """Return True if a topic differs from the one that was asked for."""
    present = {FIFO_TOPIC: "false", MAXIMUM_SIZE: str(USUAL_SIZE), **shown(topic, names, Audience(), settings)}
    return any(not _same(name, value, present.get(name, "")) for name, value in given.items())


def _same(name: str, one: str, other: str) -> bool:
    return say_the_same(one, other) if name in _DOCUMENTS else one.lower() == other.lower()
