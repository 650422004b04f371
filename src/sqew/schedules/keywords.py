"""Keywords that describe a schedule, for the queue as a library and for the clients."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, get_args

from sqew.errors import BadValue, nearest
from sqew.model import ExpressionKind, ScheduleStatus, TargetKind
from sqew.rules.values import check_unicode, seconds_of

KINDS: tuple[ExpressionKind, ...] = get_args(ExpressionKind)
_TARGETS: tuple[TargetKind, ...] = get_args(TargetKind)


class Timing(TypedDict, total=False):
    """The time to fire: exactly one of these."""

    cron: str
    every: str
    when: str
    fire_at: str | datetime


class ScheduleFields(Timing, total=False):
    """All fields of a schedule besides its name."""

    queue: str
    """The target of its messages: a queue,"""
    topic: str
    """or the routing key that they are published under."""
    timezone: str
    message: Any
    """A string is sent as text, anything else as JSON."""
    headers: dict[str, Any] | None
    priority: int
    lane: str | None
    group: str | None
    delay_seconds: float | None
    ttl_seconds: float | None
    delay_ms: int | None
    """The same as ``delay_seconds``, in milliseconds; so is ``ttl_ms``."""
    ttl_ms: int | None
    status: ScheduleStatus
    catchup: bool
    catchup_limit: int
    failure_threshold: int | None
    jitter_secs: int


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raise `BadValue` for a keyword that is not a field of schedules."""
    known = ScheduleFields.__annotations__
    for field in fields:
        if field not in known:
            raise BadValue(f"A schedule has no '{field}'{nearest(field, known)}. It has: {', '.join(known)}.")
    if "timezone" in fields:
        check_unicode("timezone", fields["timezone"])


def in_seconds(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a schedule's times in milliseconds to seconds."""
    found = dict(fields)
    for prefix in ("delay_", "ttl_"):
        if f"{prefix}ms" in found:
            ms = found.pop(f"{prefix}ms")
            found[f"{prefix}seconds"] = seconds_of(prefix, found.get(f"{prefix}seconds"), ms)
    return found


def needed_target(fields: Mapping[str, Any]) -> tuple[TargetKind, str]:
    """Return the target of a new schedule; raise `BadValue` if there is none."""
    target = target_of(fields)
    if target is None:
        raise BadValue("A schedule needs a target. Give queue='orders', or topic='orders.created'.")
    return target


def needed_message(fields: Mapping[str, Any]) -> Any:
    """Return the message of a new schedule; raise `BadValue` if there is none."""
    if "message" not in fields:
        raise BadValue("A schedule needs a message to send. Give message={…}, or message=None for none in particular.")
    return fields["message"]


def target_of(fields: Mapping[str, Any]) -> tuple[TargetKind, str] | None:
    """Return the target of a schedule's messages, or None.

    >>> target_of({"queue": "orders"})
    ('queue', 'orders')
    """
    given = [kind for kind in _TARGETS if fields.get(kind) is not None]
    if len(given) > 1:
        raise BadValue("A schedule has one target. Give queue or topic, and not both.")
    return (given[0], fields[given[0]]) if given else None


def needed_expression(fields: Mapping[str, Any]) -> tuple[ExpressionKind, str]:
    """Return the expression of a new schedule; raise `BadValue` if there is none."""
    expression = expression_of(fields)
    if expression is None:
        raise BadValue(
            "Nothing says when to fire. Give one of cron='0 9 * * 1-5', every='5 minutes', "
            "when='every weekday at 9am' and fire_at='2026-12-24T18:00:00Z'."
        )
    return expression


def expression_of(fields: Mapping[str, Any]) -> tuple[ExpressionKind, str] | None:
    """Return the expression of a schedule and its kind, or None.

    >>> expression_of({"every": "5 minutes"})
    ('every', '5 minutes')
    """
    given = [kind for kind in KINDS if fields.get(kind) is not None]
    if len(given) > 1:
        raise BadValue(f"{' and '.join(given)} contradict each other. Give one of {', '.join(KINDS)}.")
    if not given:
        return None
    text = fields[given[0]]
    if isinstance(text, datetime):
        text = text.isoformat()
    check_unicode(given[0], text)
    return given[0], text
