"""Verdicts on a message: the results that a handler may return."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sqew.errors import BadValue
from sqew.rules.values import seconds_as_ms, shown


class Ack(Struct, frozen=True):
    """The verdict that the work is done. Returning None says the same."""


class Retry(Struct, frozen=True):
    """The verdict that the work failed: the message is retried after so many seconds (None: the queue's backoff)."""

    after: float | None = None
    reason: str = ""


class Dead(Struct, frozen=True):
    """The verdict that the work can never succeed: there are no more attempts."""

    reason: str


def decided(verdict: Any) -> Ack | Retry | Dead:
    """Return a function's result as a verdict; raise `BadValue` if it is none."""
    match verdict:
        case None:
            return Ack()
        case Ack() | Dead():
            return verdict
        case Retry(after=after):
            if after is not None:
                seconds_as_ms("Retry.after", after)
            return verdict
        case _:
            raise BadValue(
                f"Its function returned {shown(verdict)}. Return None, Ack(), Retry(after=…) or Dead(reason)."
            )
