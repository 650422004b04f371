"""Schedules as the native dialect shows them."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, structs

from sqew.clock import timestamp
from sqew.http.dialects.native.dialect import encode
from sqew.http.dialects.native.fifo_names import BareNames
from sqew.http.dialects.native.schedules.bodies import Name
from sqew.http.service import in_seconds
from sqew.model import ExpressionKind, Fire, Format, Schedule, ScheduleStatus, TargetKind
from sqew.schedules import is_instant
from sqew.schedules.preview import info_of


class TargetView(Struct, omit_defaults=True, kw_only=True):
    """The target of a schedule, and the message that is sent there."""

    queue: str | None = None
    """The queue's name under `/v1`: without the `.fifo` of a FIFO queue."""
    topic: str | None = None
    """The routing key that the message is published under."""
    message: Raw
    headers: dict[str, Any] | None = None


class ScheduleView(Struct, omit_defaults=True, kw_only=True):
    """A schedule. Of `cron`, `every`, `when` and `fire_at` it has the one that it was given.

    `cron` or `fire_at` also says what `every` or `when` was stored as, if a cron expression or an instant can.
    """

    name: Name
    target: TargetView
    target_kind: TargetKind
    queue: str | None = None
    """The whole name of the target's queue, as in every dialect."""
    expression: str
    """The expression of when it fires, as it was given."""
    cron: str | None = None
    every: str | None = None
    when: str | None = None
    fire_at: str | None = None
    timezone: str
    canonical: str
    human_readable: str
    message: Raw
    format: Format
    headers: dict[str, Any] | None
    delay: float | None
    ttl: float | None
    priority: int
    lane: str | None
    group_id: str | None
    status: ScheduleStatus
    """`active` if it fires, `paused` if it does not."""
    catchup: bool
    catchup_limit: int
    failure_threshold: int | None
    jitter_secs: int
    """The most seconds that a slot fires after its time."""
    next_fire_at: str | None
    """The slot that fires next, or would if it were not paused."""
    next_fires: list[str]
    """The times when it fires next, in UTC. Empty while it is paused."""
    next_fires_local: list[str]
    """The same times as the clocks of its time zone show them."""
    last_fired_at: str | None
    """The slot that fired last; or the time when it was fired by hand, if that was later."""
    fired: int
    """The number of its fires: for its slots, and by hand."""
    fire_count: int
    """The same as `fired`."""
    skipped: int
    """The number of slots that passed by unfired."""
    consecutive_failures: int
    last_error: str | None
    """The reason why it could not fire the last time."""
    paused_reason: str | None
    """The reason why it was paused, if its owner did not do that."""
    created_at: str
    updated_at: str
    """The time when it was changed last, or paused itself."""


class ScheduleDetails(ScheduleView, kw_only=True):
    """A schedule, and the reason if it can't fire."""

    problem: str | None = None
    """The reason why it can't fire as things are: its queue does not exist."""


def details(schedule: Schedule, bare: BareNames, now: int, count: int, problem: str) -> ScheduleDetails:
    """Return a schedule with its next ``count`` fires."""
    return ScheduleDetails(**structs.asdict(_view(schedule, bare, now, count)), problem=problem or None)


def listed(schedules: list[Schedule], bare: BareNames, now: int, count: int) -> bytes:
    """Return schedules as JSON, each with its next ``count`` fires."""
    return encode([_view(schedule, bare, now, count) for schedule in schedules])


def fires(found: list[Fire]) -> list[str]:
    return [timestamp(fire.at) for fire in found]


def local_fires(found: list[Fire]) -> list[str]:
    return [fire.local for fire in found]


def stored_as(kind: ExpressionKind | None, canonical: str) -> dict[str, str]:
    """Return what an expression is stored as, by the kind it then is; nothing for its own kind and for intervals."""
    if canonical.startswith("@") or not canonical:
        return {}
    stored: ExpressionKind = "fire_at" if is_instant(canonical) else "cron"
    return {} if stored == kind else {stored: canonical}


def _view(schedule: Schedule, bare: BareNames, now: int, count: int) -> ScheduleView:
    info = info_of(schedule, now, count)
    message = info.message
    shown = Raw(message.body if message.format == "json" else encode(message.body.decode()))
    said = {info.kind: info.expression, **stored_as(info.kind, info.canonical)}
    is_queue = info.target_kind == "queue"
    target = {info.target_kind: bare.get(info.target, info.target) if is_queue else info.target}
    return ScheduleView(
        name=info.name,
        target=TargetView(**target, message=shown, headers=message.headers),
        target_kind=info.target_kind,
        queue=info.target if is_queue else None,
        expression=info.expression,
        timezone=info.timezone,
        canonical=info.canonical,
        human_readable=info.human_readable,
        message=shown,
        format=message.format,
        headers=message.headers,
        delay=None if message.delay_ms is None else in_seconds(message.delay_ms),
        ttl=None if message.ttl_ms is None else in_seconds(message.ttl_ms),
        priority=message.priority,
        lane=message.lane,
        group_id=message.group,
        status=info.status,
        catchup=info.catchup,
        catchup_limit=info.catchup_limit,
        failure_threshold=info.failure_threshold,
        jitter_secs=info.jitter_secs,
        next_fire_at=_time(schedule.next_fire_at),
        next_fires=fires(info.next_fires),
        next_fires_local=local_fires(info.next_fires),
        last_fired_at=_time(info.last_fired_at),
        fired=info.fired,
        fire_count=info.fired,
        skipped=info.skipped,
        consecutive_failures=info.consecutive_failures,
        last_error=info.last_error or None,
        paused_reason=info.paused_reason or None,
        created_at=timestamp(info.created_at),
        updated_at=timestamp(info.updated_at),
        **said,
    )


def _time(ms: int | None) -> str | None:
    return None if ms is None else timestamp(ms)
