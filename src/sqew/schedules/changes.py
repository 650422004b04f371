"""Changes of a schedule: when it is made or edited, when it fires, and when it can't."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from sqew.clock import SMALLEST_CORRECTION_MS, timestamp
from sqew.envelopes.sns import new_event
from sqew.errors import BadExpression, BadValue, QueueNotFound, UnknownLane, nearest
from sqew.model import (
    NO_REASON,
    SCHEDULE_HEADER,
    Advance,
    ExpressionKind,
    NewEvent,
    NewMessage,
    QueueInfo,
    Schedule,
    TargetKind,
)
from sqew.operations import FireSchedule
from sqew.rules.names import check_new_queue_name
from sqew.rules.values import check_jitter
from sqew.schedules import Rule, rule_from, understand

DEFAULT_ZONE = "UTC"
DEFAULTS: dict[str, Any] = {
    "timezone": DEFAULT_ZONE,
    **{
        field.name: field.default
        for field in structs.fields(Schedule)
        if field.name in ("catchup", "catchup_limit", "failure_threshold", "jitter_secs")
    },
}
"""Defaults of a schedule's fields."""
CHANGEABLE = (
    "target_kind", "target", "kind", "expression", "timezone", "message", "status", "catchup", "catchup_limit",
    "failure_threshold", "jitter_secs",
)  # fmt: skip
"""Fields of a schedule that a user may set, besides its name."""

MOST_WEIGHT = 1 << 20
"""The most bytes of messages fired in one transaction: a thousand that were missed may be a gigabyte."""
_WEIGHT_OF_NONE = 1_024
"""Bytes that a message counts besides its body: small ones must not be too many either."""
_FIRST_RETRY_MS = 1_000
_LONGEST_RETRY_MS = 60_000
_MOST_COUNTED = 100
"""The most skipped slots that are counted: after a year, every second has had thirty million."""


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
    """Make a schedule. ``more``: see `CHANGEABLE`."""
    rule = understand(kind, expression, timezone, now)
    slot = rule.next_after(now)
    schedule = Schedule(
        name, target_kind, target, kind, expression, rule.canonical, rule.zone, message, next_fire_at=slot, due_at=slot
    )
    return changed_schedule(schedule, more, now)


def changed_schedule(schedule: Schedule, changes: Mapping[str, Any], now: int) -> Schedule:
    """Return a schedule with some of its `CHANGEABLE` fields replaced; values that are the same change nothing."""
    for field in changes:
        if field not in CHANGEABLE:
            raise BadValue(f"A schedule has no '{field}'{nearest(field, CHANGEABLE)}. It has: {', '.join(CHANGEABLE)}.")
    changed = structs.replace(schedule, **changes)
    check_jitter(changed.jitter_secs)
    if (changed.kind, changed.expression, changed.timezone) != (
        schedule.kind,
        schedule.expression,
        schedule.timezone,
    ):
        rule, slot = _understood(changed, schedule, now)
        changed = structs.replace(
            changed,
            canonical=rule.canonical,
            timezone=rule.zone,
            next_fire_at=slot,
            consecutive_failures=0,
            caught_up=0,
        )
    if changed.status == "paused":
        reason = schedule.paused_reason if schedule.status == "paused" else NO_REASON
        return structs.replace(changed, due_at=None, paused_reason=reason)
    if schedule.status == "paused":
        return _resumed(changed, now)
    if (changed.next_fire_at, changed.jitter_secs) == (schedule.next_fire_at, schedule.jitter_secs):
        # A slot that failed keeps the time of its next try.
        return structs.replace(changed, due_at=schedule.due_at)
    return structs.replace(changed, due_at=_due_at(changed, changed.next_fire_at))


def _due_at(schedule: Schedule, slot: int | None) -> int | None:
    """Return the time at which a slot is fired: its own, or later by the jitter, but before the slot that follows it.

    It is the same each time, on every server: it depends on nothing but the schedule's name and the slot.
    """
    if slot is None or not schedule.jitter_secs:
        return slot
    following = rule_from(schedule.canonical, schedule.timezone).next_after(slot)
    latest = slot + schedule.jitter_secs * 1_000
    if following is not None:
        latest = min(latest, following - 1)
    chance = hashlib.blake2b(f"{schedule.name} {slot}".encode(), digest_size=8).digest()
    return slot + int.from_bytes(chance) % (latest - slot + 1)


def _understood(changed: Schedule, before: Schedule, now: int) -> tuple[Rule, int | None]:
    """Return the rule of a schedule with another expression or time zone, and its next slot."""
    slot = before.next_fire_at
    if changed.kind == before.kind == "fire_at" and changed.expression == before.expression and slot is not None:
        # A time that says its offset is the same in every zone; and one that is over, and could not fire, stays due.
        with contextlib.suppress(BadExpression):
            rule = understand(changed.kind, changed.expression, changed.timezone, min(now, slot - 1))
            if rule.canonical == before.canonical:
                return rule, slot
    rule = understand(changed.kind, changed.expression, changed.timezone, now)
    return rule, rule.next_after(now)


def _resumed(schedule: Schedule, now: int) -> Schedule:
    """Resume a schedule. Missed slots fire if it catches up; a schedule that fires once fires if its time is over."""
    slot = schedule.next_fire_at
    if slot is not None and slot <= now and not schedule.catchup:
        slot = rule_from(schedule.canonical, schedule.timezone).next_after(now) or slot
    return structs.replace(
        schedule,
        next_fire_at=slot,
        due_at=_due_at(schedule, slot),
        consecutive_failures=0,
        caught_up=0,
        last_error=NO_REASON,
        paused_reason=NO_REASON,
    )


def aim_of(schedule: Schedule) -> tuple[TargetKind, str, str | None]:
    """Return a schedule's target and lane, which are checked when they change, and only then.

    If the lane has been deleted since, the schedule fails; its owner can still pause it.
    """
    return schedule.target_kind, schedule.target, schedule.message.lane


def check_target(schedule: Schedule, found: QueueInfo | QueueNotFound | None) -> None:
    """Raise if a schedule can't have this target and lane. ``found`` is the queue, its absence, or None for a topic.

    The queue need not exist yet: until it does, every slot fails and is retried, as after the queue is deleted. A name
    under which only hq's clients could make a queue is more likely a mistake then.
    """
    lane = schedule.message.lane
    if found is None:
        if lane is not None:
            raise BadValue("A topic has no lanes: each queue that it reaches has its own. Leave lane out.")
        return
    if isinstance(found, QueueNotFound):
        check_new_queue_name(schedule.target)
        return
    if lane is not None and lane not in found.policy.lanes:
        raise UnknownLane(found.name, lane, found.policy.lanes)


def problem_of(found: QueueInfo | QueueNotFound | None) -> str:
    """Return the reason why a schedule with this target can't fire at present."""
    if not isinstance(found, QueueNotFound):
        return NO_REASON
    return f"{found} Until then the schedule can't fire."


def fire_now(schedule: Schedule, now: int) -> FireSchedule:
    """Fire out of turn: the slots of the schedule stay as they are."""
    event = _event(schedule, now, out_of_band=True)
    return FireSchedule(schedule.name, schedule.version, [event], None)


def set_right(schedule: Schedule, now: int) -> Schedule | None:
    """Return the schedule without times that the clock gave it while it was ahead; None if it has none.

    A schedule that has fired, or was made or changed, later than now goes on with its next slot from now. One that
    failed later than now is retried at once.
    """
    right = schedule
    latest = max(schedule.last_fired_at or 0, schedule.updated_at, schedule.created_at)
    if latest > now + SMALLEST_CORRECTION_MS and schedule.next_fire_at is not None:
        slot = rule_from(schedule.canonical, schedule.timezone).next_after(now)
        if slot is not None and slot < schedule.next_fire_at:
            fired = None if schedule.last_fired_at is None else min(schedule.last_fired_at, now)
            due_at = None if schedule.due_at is None else _due_at(schedule, slot)
            right = structs.replace(schedule, next_fire_at=slot, due_at=due_at, last_fired_at=fired)
    if _is_tried_too_late(right, now):
        right = structs.replace(right, due_at=_due_at(right, right.next_fire_at))
    return None if right is schedule else right


def _is_tried_too_late(schedule: Schedule, now: int) -> bool:
    """Return True if a slot is due after its own time, and later than any slot that has failed by now."""
    due_at, slot = schedule.due_at, schedule.next_fire_at
    if due_at is None or slot is None or due_at <= now + _LONGEST_RETRY_MS + SMALLEST_CORRECTION_MS:
        return False
    return due_at > (_due_at(schedule, slot) or due_at)


def fire_due(schedule: Schedule, now: int, most: int | None = None) -> FireSchedule:
    """Fire the slot that is due, and missed ones if the schedule catches up, and go on to the next.

    If those are too much for one transaction, or more than ``most``, the schedule stays due for the rest.
    """
    rule = rule_from(schedule.canonical, schedule.timezone)
    slot = schedule.next_fire_at
    assert slot is not None
    allowed = schedule.catchup_limit - schedule.caught_up if schedule.catchup else 1
    room = max(MOST_WEIGHT // _weight(schedule.message), 1)
    at_once = min(allowed, room if most is None else min(room, most))
    slots, skipped, caught_up = [slot], 0, 0
    following = rule.next_after(slot)
    while following is not None and following <= now and len(slots) < at_once:
        slots.append(following)
        following = rule.next_after(following)
    if following is not None and following <= now:
        if len(slots) < allowed:
            caught_up = schedule.caught_up + len(slots)
        else:
            skipped = _count(rule, following, now)
            following = rule.next_after(now)
    events = [_event(schedule, slot, out_of_band=False) for slot in slots]
    is_plain = following is None or following <= now or not schedule.jitter_secs
    due_at = None if is_plain else _due_at(schedule, following)
    advance = Advance(following, slots[-1], skipped, caught_up, due_at)
    return FireSchedule(schedule.name, schedule.version, events, advance)


def weight_of(fire: FireSchedule) -> int:
    """Return the share of `MOST_WEIGHT` that a fire takes up."""
    # They are alike: it is the same message in each slot.
    return len(fire.events) * _weight(fire.events[0].message)


def _weight(message: NewMessage) -> int:
    headers = len(repr(message.headers)) if message.headers else 0
    return len(message.body) + headers + _WEIGHT_OF_NONE


def _count(rule: Rule, slot: int, now: int) -> int:
    """Count the slots from this one to now."""
    count, following = 0, rule.next_after(slot - 1)
    while following is not None and following <= now and count < _MOST_COUNTED:
        count, following = count + 1, rule.next_after(following)
    return count


def retry_at(schedule: Schedule, now: int) -> int:
    """Return the time to retry a slot that could not fire: after a second, then twice as long each time, up to a
    minute."""
    return now + min(_FIRST_RETRY_MS << min(schedule.consecutive_failures, 10), _LONGEST_RETRY_MS)


def _event(schedule: Schedule, at: int, *, out_of_band: bool) -> NewEvent:
    mark = {"name": schedule.name, "scheduled_for": timestamp(at), "out_of_band": out_of_band}
    headers = {**(schedule.message.headers or {}), SCHEDULE_HEADER: mark}
    return new_event(schedule.target, structs.replace(schedule.message, headers=headers))
