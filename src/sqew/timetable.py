"""What becomes of a schedule: when it is made or changed, when it fires, and when it can't."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from sqew.errors import BadValue, nearest
from sqew.model import NO_REASON, Advance, ExpressionKind, NewEvent, NewMessage, Schedule, TargetKind
from sqew.operations import FireSchedule
from sqew.schedules import Rule, rule_from, understand
from sqew.sealing import new_event

SCHEDULE_HEADER = "_schedule"
"""Where a message says which schedule sent it, and for which slot."""
DEFAULT_ZONE = "UTC"
CHANGEABLE = (
    "target_kind", "target", "kind", "expression", "timezone", "message", "status", "catchup", "catchup_limit",
    "failure_threshold",
)  # fmt: skip
"""What a user may say about a schedule, besides its name."""

_FIRST_RETRY_MS = 1_000
_LONGEST_RETRY_MS = 60_000
_MOST_COUNTED = 100
"""Slots that passed by are counted so far: after a year, every second has had thirty million."""


def new_schedule(
    name: str,
    target_kind: TargetKind,
    target: str,
    kind: ExpressionKind,
    expression: str,
    message: NewMessage,
    now: int,
    timezone: str = DEFAULT_ZONE,
    **more: Any,
) -> Schedule:
    """A schedule that was not there before. ``more``: see `CHANGEABLE`."""
    rule = understand(kind, expression, timezone, now)
    slot = rule.next_after(now)
    schedule = Schedule(
        name, target_kind, target, kind, expression, rule.canonical, rule.zone, message, next_fire_at=slot, due_at=slot
    )
    return changed_schedule(schedule, more, now)


def changed_schedule(schedule: Schedule, changes: Mapping[str, Any], now: int) -> Schedule:
    """A schedule with other values for some of `CHANGEABLE`. What is the same as before changes nothing."""
    for field in changes:
        if field not in CHANGEABLE:
            raise BadValue(f"A schedule has no '{field}'{nearest(field, CHANGEABLE)}. It has: {', '.join(CHANGEABLE)}.")
    changed = structs.replace(schedule, **changes)
    if (changed.kind, changed.expression, changed.timezone) != (
        schedule.kind,
        schedule.expression,
        schedule.timezone,
    ):
        rule = understand(changed.kind, changed.expression, changed.timezone, now)
        slot = rule.next_after(now)
        changed = structs.replace(
            changed, canonical=rule.canonical, timezone=rule.zone, next_fire_at=slot, consecutive_failures=0
        )
    if changed.status == "paused":
        reason = schedule.paused_reason if schedule.status == "paused" else NO_REASON
        return structs.replace(changed, due_at=None, paused_reason=reason)
    if schedule.status == "paused":
        return _resumed(changed, now)
    # A slot that failed keeps the time of its next try, unless the slot itself has changed.
    due_at = schedule.due_at if changed.next_fire_at == schedule.next_fire_at else changed.next_fire_at
    return structs.replace(changed, due_at=due_at)


def _resumed(schedule: Schedule, now: int) -> Schedule:
    """What was missed is made up for if the schedule catches up; what fires once fires if its time is over."""
    slot = schedule.next_fire_at
    if slot is not None and slot <= now and not schedule.catchup:
        slot = rule_from(schedule.canonical, schedule.timezone).next_after(now) or slot
    return structs.replace(
        schedule,
        next_fire_at=slot,
        due_at=slot,
        consecutive_failures=0,
        last_error=NO_REASON,
        paused_reason=NO_REASON,
    )


def fire_now(schedule: Schedule, now: int) -> FireSchedule:
    """Fire out of turn: the schedule stays as it is."""
    event = _event(schedule, now, out_of_band=True)
    return FireSchedule(schedule.name, schedule.version, [event], None)


def fire_due(schedule: Schedule, now: int) -> FireSchedule:
    """Fire the slot that is due, those that were missed if the schedule catches up, and go on to the next."""
    rule = rule_from(schedule.canonical, schedule.timezone)
    slot = schedule.next_fire_at
    assert slot is not None
    slots, skipped = [slot], 0
    following = rule.next_after(slot)
    while schedule.catchup and following is not None and following <= now and len(slots) < schedule.catchup_limit:
        slots.append(following)
        following = rule.next_after(following)
    if following is not None and following <= now:
        skipped = _count(rule, following, now)
        following = rule.next_after(now)
    events = [_event(schedule, slot, out_of_band=False) for slot in slots]
    return FireSchedule(schedule.name, schedule.version, events, Advance(following, slots[-1], skipped))


def _count(rule: Rule, slot: int, now: int) -> int:
    """How many slots there are from this one to now."""
    count, following = 0, rule.next_after(slot - 1)
    while following is not None and following <= now and count < _MOST_COUNTED:
        count, following = count + 1, rule.next_after(following)
    return count


def retry_at(schedule: Schedule, now: int) -> int:
    """When a slot that could not fire is tried again: after a second, then twice as long each time, up to a minute."""
    return now + min(_FIRST_RETRY_MS << min(schedule.consecutive_failures, 10), _LONGEST_RETRY_MS)


def _event(schedule: Schedule, at: int, *, out_of_band: bool) -> NewEvent:
    mark = {"name": schedule.name, "scheduled_for": _utc(at), "out_of_band": out_of_band}
    headers = {**(schedule.message.headers or {}), SCHEDULE_HEADER: mark}
    return new_event(schedule.target, structs.replace(schedule.message, headers=headers))


def _utc(ms: int) -> str:
    seconds, rest = divmod(ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03}Z"
