"""The ARNs of topics and subscriptions."""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

from sqew.envelopes.sns import topic_arn
from sqew.errors import BadPattern
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.names import AwsNames
from sqew.http.dialects.aws.refusals import AwsError
from sqew.http.dialects.aws.sns.refusals import invalid
from sqew.matching.routing import check_pattern
from sqew.rules.names import FIFO_SUFFIX, QUEUE_SCHEME, is_keyed
from sqew.rules.regions import in_region

_LEAST_ELEMENTS = 6
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,256}|[A-Za-z0-9_-]{1,251}\.fifo")
_NO_QUEUE = "SQS endpoint ARN"
_UUID = re.compile(r"([A-Za-z0-9_.-]{1,85}-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class SubscriptionName(NamedTuple):
    topic: str
    uuid: str


def check_topic_name(name: str) -> None:
    """Raise unless a topic may have this name: as on AWS, or as a pattern of routing keys is written."""
    if not _is_topic(name):
        raise invalid("Topic Name")


def _is_topic(name: str) -> bool:
    if _TOPIC.fullmatch(name):
        return True
    if ":" in name or not is_keyed(name) or is_fifo(name):
        return False
    with contextlib.suppress(BadPattern):
        check_pattern(name)
        return True
    return False


def topic_of(call: AwsCall, arn: str | None, parameter: str = "TopicArn") -> str:
    """Return the engine's name of the topic in an ARN: with its region before it, unless that is the usual one."""
    parts = _parts(call, arn or "", parameter)
    if len(parts) != _LEAST_ELEMENTS or not _is_topic(parts[5]):
        raise invalid(f"{parameter} Reason: {':'.join(parts)[:300]} is not the ARN of a topic")
    return in_region(parts[3], parts[5])


def subscription_of(call: AwsCall, arn: str | None) -> SubscriptionName:
    """Return the subscription that an ARN names."""
    parts = _parts(call, arn or "", "SubscriptionArn")
    if len(parts) != _LEAST_ELEMENTS + 1 or not _is_topic(parts[5]) or not _UUID.fullmatch(parts[6]):
        raise invalid(f"SubscriptionArn Reason: {':'.join(parts)[:300]} is not the ARN of a subscription")
    return SubscriptionName(in_region(parts[3], parts[5]), parts[6])


def _parts(call: AwsCall, arn: str, parameter: str) -> list[str]:
    parts = arn.split(":", _LEAST_ELEMENTS + 1)
    if len(parts) < _LEAST_ELEMENTS:
        raise invalid(f"{parameter} Reason: An ARN must have at least {_LEAST_ELEMENTS} elements, not {len(parts)}")
    if parts[:3] != ["arn", "aws", "sns"]:
        raise invalid(f"{parameter} Reason: {arn[:300]} is not an ARN of SNS")
    # Who follows a link has signed for no region: the link leads into its own.
    if call.is_signed and parts[3] != call.names.region:
        raise invalid(f"{parameter} Reason: it is of another region than {call.names.region}, which you signed for")
    return parts


def arn_of_topic(names: AwsNames, topic: str) -> str:
    return topic_arn(topic, names.account)


def arn_of_subscription(names: AwsNames, topic: str, uuid: str) -> str:
    return f"{topic_arn(topic, names.account)}:{uuid}"


def queue_of(names: AwsNames, arn: str, reason: str) -> str:
    """Return the queue that an ARN names; raise with ``reason`` if it names none."""
    try:
        return names.queue_of_arn(arn, "Endpoint")
    except AwsError as error:
        raise invalid(reason) from error


def queue_at(names: AwsNames, endpoint: str) -> str:
    """Return the queue that an endpoint names: by its ARN, by its URL, or as `sqs://orders`, which /v1 shows."""
    if not is_queue_url(endpoint):
        return queue_of(names, endpoint, _NO_QUEUE)
    try:
        return names.queue_of_url(endpoint.removeprefix(QUEUE_SCHEME))
    except AwsError as error:
        raise invalid(_NO_QUEUE) from error


def is_queue_url(endpoint: str) -> bool:
    """Return True if a queue is named by a URL, as beyond-queue's clients do. AWS takes ARNs only."""
    return "://" in endpoint


def is_fifo(name: str) -> bool:
    """Return True if a topic or a queue is a FIFO one."""
    return name.endswith(FIFO_SUFFIX)
