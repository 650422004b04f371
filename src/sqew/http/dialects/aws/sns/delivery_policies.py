"""The attributes DeliveryPolicy and EffectiveDeliveryPolicy: their checks, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from sqew.envelopes.delivery_policies import (
    LONGEST_S,
    MOST_RETRIES,
    Backoff,
    Retries,
    http_policy,
    nearest_retries,
    retries_of,
)
from sqew.http.dialects.aws.documents import object_of
from sqew.model import Subscription, TopicInfo
from sqew.settings import Settings, durations

DELIVERY_POLICY = "DeliveryPolicy"
EFFECTIVE = "EffectiveDeliveryPolicy"
_OF_SUBSCRIPTION = ("healthyRetryPolicy", "sicklyRetryPolicy", "throttlePolicy", "requestPolicy", "guaranteed")
_OF_TOPIC = (
    "defaultHealthyRetryPolicy", "defaultSicklyRetryPolicy", "defaultThrottlePolicy", "defaultRequestPolicy",
    "disableSubscriptionOverrides",
)  # fmt: skip
_SWITCHES = ("guaranteed", "disableSubscriptionOverrides")
"""Members that are true or false. All others are objects."""
_RANGES = {
    "minDelayTarget": (1, LONGEST_S),
    "maxDelayTarget": (1, LONGEST_S),
    "numRetries": (0, MOST_RETRIES),
    "numMaxDelayRetries": (0, MOST_RETRIES),
    "numNoDelayRetries": (0, MOST_RETRIES),
    "numMinDelayRetries": (0, MOST_RETRIES),
}
_BACKOFF = "backoffFunction"
_REQUEST_POLICY = {"headerContentType": "text/plain; charset=UTF-8"}


def flaw_of_subscription(policy: str) -> str:
    """Return the flaw in the delivery policy of a subscription; empty: there is none."""
    found = object_of(policy)
    if found is None:
        return "failed to parse JSON."
    return _unexpected(found, _OF_SUBSCRIPTION) or _flaw(found, "", "healthyRetryPolicy", "throttlePolicy")


def flaw_of_topic(policy: str) -> str:
    """Return the flaw in the delivery policy of a topic; empty: there is none."""
    found = object_of(policy)
    if found is None:
        return "failed to parse JSON."
    http = found.get("http")
    if http is None:
        return _unexpected(found, ("http",))
    if not isinstance(http, dict):
        return "http must be a JSON object"
    flaw = _unexpected(found, ("http",)) or _unexpected(http, _OF_TOPIC)
    return flaw or _flaw(http, "http.", "defaultHealthyRetryPolicy", "defaultThrottlePolicy")


def _unexpected(found: Mapping[str, Any], known: tuple[str, ...]) -> str:
    unknown = next((name for name in found if name not in known), None)
    return "" if unknown is None else f"Unexpected JSON member: {unknown[:100]}"


def _flaw(found: Mapping[str, Any], place: str, retries: str, throttle: str) -> str:
    for name, value in found.items():
        if name in _SWITCHES:
            if not isinstance(value, bool):
                return f"{place}{name} must be true or false"
        elif not isinstance(value, dict | None):
            return f"{place}{name} must be a JSON object"
    return _flaw_of_retries(found.get(retries) or {}, place + retries) or _flaw_of_throttle(
        found.get(throttle) or {}, place + throttle
    )


def _flaw_of_retries(said: Mapping[str, Any], place: str) -> str:
    unexpected = _unexpected(said, (*_RANGES, _BACKOFF))
    if unexpected:
        return unexpected
    for name, (least, most) in _RANGES.items():
        flaw = _flaw_of_number(said.get(name, most), f"{place}.{name}", least, most)
        if flaw:
            return flaw
    if said.get(_BACKOFF, "linear") not in get_args(Backoff):
        return f"{place}.{_BACKOFF} must be one of {', '.join(get_args(Backoff))}"
    retries = msgspec.convert(said, Retries)
    if retries.min_delay_target > retries.max_delay_target:
        return f"{place}.maxDelayTarget must be greater than or equal to minDelayTarget"
    if retries.growing < 0:
        parts = "numMinDelayRetries, numNoDelayRetries and numMaxDelayRetries"
        return f"{place}.numRetries must be greater than or equal to total of {parts}"
    if sum(retries.delays_ms()) > LONGEST_S * 1000:
        return f"{place}: Total policy retry time cannot be greater than {LONGEST_S} seconds"
    return ""


def _flaw_of_throttle(said: Mapping[str, Any], place: str) -> str:
    name = "maxReceivesPerSecond"
    unexpected = _unexpected(said, (name,))
    return unexpected or ("" if said.get(name) is None else _flaw_of_number(said[name], f"{place}.{name}", 1, None))


def _flaw_of_number(value: Any, place: str, least: int, most: int | None) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return f"{place} must be an integer"
    if value < least:
        return f"{place} must be greater than or equal to {least}"
    return f"{place} must be less than or equal to {most}" if most is not None and value > most else ""


def effective_of_topic(topic: TopicInfo, settings: Settings) -> str:
    """Return the retry policy of those endpoints of a topic that have no policy of their own."""
    policy = topic.attributes.get(DELIVERY_POLICY, "")
    return _json({
        "http": {
            "defaultHealthyRetryPolicy": retries_of("", policy) or _usual(settings),
            "disableSubscriptionOverrides": http_policy(policy).disable_subscription_overrides,
            "defaultRequestPolicy": _REQUEST_POLICY,
        }
    })  # fmt: skip


def effective_of_subscription(subscription: Subscription, topic: TopicInfo, settings: Settings) -> str:
    """Return the retry policy of a subscription's endpoint."""
    own, topics = (kept.get(DELIVERY_POLICY, "") for kept in (subscription.details.kept, topic.attributes))
    return _json({
        "healthyRetryPolicy": retries_of(own, topics) or _usual(settings),
        "sicklyRetryPolicy": None,
        "throttlePolicy": None,
        "requestPolicy": _REQUEST_POLICY,
        "guaranteed": False,
    })  # fmt: skip


def _usual(settings: Settings) -> Retries:
    return nearest_retries(durations("delivery_retries", settings.delivery_retries))


def _json(policy: dict[str, Any]) -> str:
    return msgspec.json.encode(policy).decode()
