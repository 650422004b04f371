"""Retries of failed deliveries, as the delivery policies of SNS define them: see `retries_of`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

P = TypeVar("P")

MOST_RETRIES = 100
LONGEST_S = 3_600
_Delay = Annotated[int, Meta(ge=1, le=LONGEST_S)]
_Number = Annotated[int, Meta(ge=0, le=MOST_RETRIES)]
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)

Backoff = Literal["linear", "arithmetic", "geometric", "exponential"]
"""Functions by which delays grow from the shortest to the longest: the later ones grow more from each to the next."""


class Retries(Struct, frozen=True, rename="camel"):
    """Retries in four phases: at once, then after the shortest delay, after longer ones, and after the longest."""

    min_delay_target: _Delay = 20
    max_delay_target: _Delay = 20
    num_retries: _Number = 3
    num_max_delay_retries: _Number = 0
    num_no_delay_retries: _Number = 0
    num_min_delay_retries: _Number = 0
    backoff_function: Backoff = "linear"

    @property
    def growing(self) -> int:
        """The number of retries whose delays grow."""
        return self.num_retries - self.num_no_delay_retries - self.num_min_delay_retries - self.num_max_delay_retries

    def delays_ms(self) -> tuple[int, ...]:
        """Return the delay before each retry.

        >>> Retries(1, 9, 6, 1, 1, 1).delays_ms()
        (0, 1000, 1000, 5000, 9000, 9000)
        """
        shortest, longest = self.min_delay_target * 1000, self.max_delay_target * 1000
        return (
            *[0] * self.num_no_delay_retries,
            *[shortest] * self.num_min_delay_retries,
            *(_delay(shortest, longest, at, self.growing, self.backoff_function) for at in range(self.growing)),
            *[longest] * self.num_max_delay_retries,
        )


def _delay(shortest: int, longest: int, at: int, number: int, backoff: Backoff) -> int:
    last = max(number - 1, 1)
    if backoff == "geometric":
        return round(shortest * math.pow(longest / shortest, at / last))
    if backoff == "arithmetic":
        share = at * (at + 1) / (last * (last + 1))
    elif backoff == "exponential":
        share = (2**at - 1) / (2**last - 1)
    else:
        share = at / last
    return shortest + round((longest - shortest) * share)


class SubscriptionPolicy(Struct, frozen=True, rename="camel"):
    """The delivery policy of a subscription, as far as it is used here."""

    healthy_retry_policy: Retries | None = None


class HttpPolicy(Struct, frozen=True, rename="camel"):
    """The part of a topic's delivery policy that is about all of its endpoints."""

    default_healthy_retry_policy: Retries | None = None
    disable_subscription_overrides: bool = False


class TopicPolicy(Struct, frozen=True):
    """The delivery policy of a topic, as far as it is used here."""

    http: HttpPolicy | None = None


_decode_own = msgspec.json.Decoder(SubscriptionPolicy).decode
_decode_topics = msgspec.json.Decoder(TopicPolicy).decode


def retries_of(own: str, topics: str) -> Retries | None:
    """Return the retries that the delivery policies of a subscription and its topic ask for; None if they ask for none.

    A policy that can't be read is ignored, so it holds up no delivery.

    >>> retries_of('{"healthyRetryPolicy":{"numRetries":1}}', "").delays_ms()
    (20000,)
    """
    usual = http_policy(topics)
    if own and not usual.disable_subscription_overrides:
        said = _read(_decode_own, own, SubscriptionPolicy()).healthy_retry_policy
        if said is not None:
            return said
    return usual.default_healthy_retry_policy


def http_policy(topics: str) -> HttpPolicy:
    """Return the part of a topic's delivery policy that is about its endpoints."""
    return (_read(_decode_topics, topics, TopicPolicy()).http if topics else None) or HttpPolicy()


def _read(decode: Callable[[str], P], policy: str, nothing: P) -> P:
    try:
        return decode(policy)
    except _UNREADABLE:
        return nothing


def nearest_retries(delays_ms: Sequence[int]) -> Retries:
    """Return the delivery policy that comes nearest to delays that were chosen freely.

    >>> nearest_retries([10_000, 30_000, 60_000, 300_000]).backoff_function
    'geometric'
    """
    seconds = [round(delay / 1000) for delay in delays_ms]
    at_once = next((at for at, delay in enumerate(seconds) if delay), len(seconds))
    later = seconds[at_once:] or [Retries().min_delay_target]
    said = [
        Retries(max(min(later), 1), max(later), len(seconds), num_no_delay_retries=at_once, backoff_function=function)
        for function in get_args(Backoff)
    ]
    return min(said, key=lambda one: sum(abs(a - b) for a, b in zip(one.delays_ms(), delays_ms, strict=True)))
