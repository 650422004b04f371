"""The attributes of a subscription: their names, their valid values, and how they are shown."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import Struct, structs

from sqew.errors import BadFilterPolicy
from sqew.http.dialects.aws.documents import NOT_JSON, object_of, say_the_same
from sqew.http.dialects.aws.names import AwsNames
from sqew.http.dialects.aws.sns.arns import arn_of_subscription, arn_of_topic, is_fifo, queue_of
from sqew.http.dialects.aws.sns.delivery_policies import DELIVERY_POLICY, flaw_of_subscription
from sqew.http.dialects.aws.sns.refusals import invalid
from sqew.matching.filters import compile_filter
from sqew.model import RAW, FilterScope, Form, Subscription, SubscriptionDetails

FILTER_POLICY = "FilterPolicy"
FILTER_SCOPE = "FilterPolicyScope"
RAW_DELIVERY = "RawMessageDelivery"
REDRIVE_POLICY = "RedrivePolicy"
AUTHENTICATED = "ConfirmationWasAuthenticated"
AUTHENTICATE = "AuthenticateOnUnsubscribe"
ENDPOINT = "Endpoint"
"""The URL that a queue was subscribed by, if it was: its clients look for that in lists."""
_KEPT = (DELIVERY_POLICY, "SubscriptionRoleArn", "ReplayPolicy", "ReplayStatus")
_KNOWN = (FILTER_POLICY, FILTER_SCOPE, RAW_DELIVERY, REDRIVE_POLICY, *_KEPT)
_SCOPES = ("MessageAttributes", "MessageBody")


class SubscriptionRedrive(Struct):
    deadLetterTargetArn: str  # noqa: N815 (as it stands in the document)


class WantedSubscription(Struct):
    """Attributes as they are stored."""

    form: Form
    details: SubscriptionDetails


def wanted(
    given: dict[str, str], topic: str, names: AwsNames, signed_by: Form, before: WantedSubscription | None = None
) -> WantedSubscription:
    """Return the stored form of a subscription's attributes, new or changes to ``before``; raise if one is invalid."""
    found = WantedSubscription(signed_by, SubscriptionDetails()) if before is None else before
    # The scope first: a policy is read as its scope says.
    for name in sorted(given, key=lambda name: name != FILTER_SCOPE):
        found = changed(found, name, given[name], topic, names, signed_by, " Attributes Reason:")
    return found


def is_same(one: WantedSubscription, other: WantedSubscription) -> bool:
    """Return True if two subscriptions are to get the same, however their documents are written."""
    ours, theirs = one.details, other.details
    names = (ours.kept.keys() | theirs.kept.keys()) - {ENDPOINT}
    return (
        (one.form, ours.filter_scope, ours.dead_letter) == (other.form, theirs.filter_scope, theirs.dead_letter)
        and say_the_same(ours.filter_policy, theirs.filter_policy)
        and all(say_the_same(ours.kept.get(name, ""), theirs.kept.get(name, "")) for name in names)
    )


def changed(
    before: WantedSubscription, name: str, value: str, topic: str, names: AwsNames, signed_by: Form, place: str = ""
) -> WantedSubscription:
    """Return the attributes with one of them changed. Errors begin with ``place``."""
    if name not in _KNOWN:
        raise invalid("AttributeName" if not place else f"Attributes Reason: Unknown attribute {name[:100]}")
    details = before.details
    if name == RAW_DELIVERY:
        return WantedSubscription(RAW if _flag(value, place) else signed_by, details)
    if name == FILTER_POLICY:
        _check_filter(value, details.filter_scope, place)
        return WantedSubscription(
            before.form, structs.replace(details, filter_policy=value if value.strip() != "{}" else "")
        )
    if name == FILTER_SCOPE:
        if value not in _SCOPES:
            raise _wrong(place, f"FilterPolicyScope: Invalid value [{value[:100]}]. Please use either "
                                "MessageBody or MessageAttributes")  # fmt: skip
        if details.filter_policy:
            _check_filter(details.filter_policy, cast("FilterScope", value), place)
        return WantedSubscription(before.form, structs.replace(details, filter_scope=cast("FilterScope", value)))
    kept = {**details.kept, name: value}
    if name == REDRIVE_POLICY:
        dead_letters = _dead_letter(value, topic, names, place)
        return WantedSubscription(before.form, structs.replace(details, dead_letter=dead_letters, kept=kept))
    if value and name == DELIVERY_POLICY and (flaw := flaw_of_subscription(value)):
        raise _wrong(place, f"{name}: {flaw}")
    if value and name != "SubscriptionRoleArn" and object_of(value) is None:
        raise _wrong(place, f"{name}: failed to parse JSON.")
    return WantedSubscription(before.form, structs.replace(details, kept=kept))


def _flag(value: str, place: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise _wrong(place, f"RawMessageDelivery: Invalid value [{value[:100]}]. Must be true or false.")
    return value.lower() == "true"


def _check_filter(policy: str, scope: FilterScope, place: str) -> None:
    if not policy:
        return
    try:
        compile_filter(policy, scope)
    except BadFilterPolicy as error:
        raise _wrong(place, error.reason) from error


def _dead_letter(value: str, topic: str, names: AwsNames, place: str) -> str:
    if not value:
        return ""
    try:
        arn = msgspec.json.decode(value, type=SubscriptionRedrive).deadLetterTargetArn
    except NOT_JSON as error:
        raise _wrong(place, "RedrivePolicy: failed to parse JSON.") from error
    queue = queue_of(names, arn, f"{place.strip()} RedrivePolicy: deadLetterTargetArn is an invalid arn".strip())
    if is_fifo(topic) != is_fifo(queue):
        kind = "FIFO" if is_fifo(topic) else "standard"
        raise _wrong(place, f"RedrivePolicy: must use a {kind} queue as DLQ for a {kind} topic")
    return queue


def _wrong(place: str, reason: str) -> Exception:
    return invalid(f"{place} {reason}".strip())


def endpoint_of(subscription: Subscription, names: AwsNames) -> tuple[str, str]:
    """Return the protocol and the endpoint, as SNS calls them."""
    if subscription.protocol == "queue":
        return "sqs", subscription.details.kept.get(ENDPOINT) or names.arn_of(subscription.target)
    return subscription.protocol, subscription.target


def shown(subscription: Subscription, names: AwsNames) -> dict[str, str]:
    """Return all attributes, as SNS shows them. Those that a subscription does not have are left out."""
    details = subscription.details
    protocol, endpoint = endpoint_of(subscription, names)
    found = {
        "SubscriptionArn": arn_of_subscription(names, subscription.pattern, subscription.uuid),
        "TopicArn": arn_of_topic(names, subscription.pattern),
        "Protocol": protocol,
        "Endpoint": endpoint,
        "Owner": names.account,
        "SubscriptionPrincipal": f"arn:aws:iam::{names.account}:root",
        "PendingConfirmation": "false" if subscription.confirmed else "true",
        AUTHENTICATED: "true" if protocol == "sqs" else "false",
        RAW_DELIVERY: "true" if subscription.form == RAW else "false",
        **{name: value for name, value in details.kept.items() if value and name != AUTHENTICATE},
    }
    if details.filter_policy:
        found |= {FILTER_POLICY: details.filter_policy, FILTER_SCOPE: details.filter_scope}
    return found
