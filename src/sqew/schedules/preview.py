"""Previews of the next fires of schedules."""

from __future__ import annotations

from sqew.errors import Invalid
from sqew.model import NO_REASON, ExpressionKind, Fire, Preview, Schedule, ScheduleInfo
from sqew.rules.values import check_int
from sqew.schedules import Rule, local_time, rule_from, understand

MOST_FIRES = 100
"""The most fires ahead that may be asked for."""

_SHOWN = [field for field in ScheduleInfo.__struct_fields__ if field in Schedule.__struct_fields__]


def preview(kind: ExpressionKind, expression: str, timezone: str, now: int, count: int) -> Preview:
    """Describe an expression, with the next times that it would fire.

    >>> made = preview("when", "every weekday at 9am", "Europe/Berlin", now=0, count=1)
    >>> made.canonical, made.next_fires[0].local
    ('0 9 * * 1-5', '1970-01-01T09:00:00+01:00')
    """
    check_int("count", count, 1, MOST_FIRES)
    rule = understand(kind, expression, timezone, now)
    return Preview(rule.canonical, rule.zone, rule.sentence, _fires(rule, now, count))


def info_of(schedule: Schedule, now: int, count: int, problem: str = NO_REASON) -> ScheduleInfo:
    """Return a schedule as it is shown, with its next fires. A paused schedule has none."""
    fields = {field: getattr(schedule, field) for field in _SHOWN}
    if schedule.status == "paused":
        # Its slot is kept for when it is resumed; until then nothing fires.
        fields["next_fire_at"] = None
    try:
        rule = rule_from(schedule.canonical, schedule.timezone)
    except Invalid as error:
        # It was damaged, or its zone is not known here (any more): it can still be looked at, changed and deleted.
        fields["last_error"] = schedule.last_error or str(error)
        return ScheduleInfo(**fields, human_readable="", next_fires=[], problem=problem)
    slot, fires = schedule.next_fire_at, list[Fire]()
    if slot is not None and schedule.status == "active" and count:
        # Slots that were missed are not fires to come: it fires for them together, in the first.
        fires = [_fire(rule, slot), *_fires(rule, max(slot, now), count - 1)]
    return ScheduleInfo(**fields, human_readable=rule.sentence, next_fires=fires, problem=problem)


def _fires(rule: Rule, after: int, count: int) -> list[Fire]:
    fires: list[Fire] = []
    slot = rule.next_after(after)
    while slot is not None and len(fires) < count:
        fires.append(_fire(rule, slot))
        slot = rule.next_after(slot)
    return fires


def _fire(rule: Rule, at: int) -> Fire:
    return Fire(at, local_time(at, rule.zone))
