"""What is shown of a schedule."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, structs

from sqew.clock import timestamp
from sqew.forecast import info_of
from sqew.http.dialects.native import encode
from sqew.http.dialects.schedules.bodies import Name
from sqew.http.service import in_seconds
from sqew.model import Fire, Format, Schedule, ScheduleInfo, ScheduleStatus, TargetKind


class FireView(Struct):
    """When something fires: in UTC, and as the clocks of the time zone show it."""

    utc: str
    local: str


class ScheduleView(Struct, omit_defaults=True, kw_only=True):
    """A schedule. Of `cron`, `every`, `when` and `fire_at` it has the one that it was given."""

    name: Name
    target_kind: TargetKind
    target: str
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
    """Whether it fires."""
    catchup: bool
    catchup_limit: int
    failure_threshold: int | None
    next_fire_at: str | None
    """The slot that fires next; null while it is paused."""
    last_fired_at: str | None
    """The slot that fired last; or when it was fired by hand, if that was later."""
    fired: int
    """How often it has fired: for its slots, and by hand."""
    skipped: int
    """How many slots passed by unfired."""
    consecutive_failures: int
    last_error: str | None
    """Why it could not fire the last time."""
    paused_reason: str | None
    """Why it was paused, if that was not its owner's doing."""
    created_at: str
    updated_at: str
    """When it was changed last, or paused itself."""


class ScheduleDetails(ScheduleView, kw_only=True):
    """A schedule, and when it fires next."""

    next_fires: list[FireView]
    """Empty while it is paused."""


def details(info: ScheduleInfo) -> ScheduleDetails:
    return ScheduleDetails(**structs.asdict(_view(info)), next_fires=fires(info.next_fires))


def listed(schedules: list[Schedule], now: int) -> bytes:
    """Many schedules, without their fires to come."""
    return encode([_view(info_of(schedule, now, 0)) for schedule in schedules])


def fires(found: list[Fire]) -> list[FireView]:
    return [FireView(timestamp(fire.at), fire.local) for fire in found]


def _view(info: ScheduleInfo) -> ScheduleView:
    message = info.message
    return ScheduleView(
        name=info.name,
        target_kind=info.target_kind,
        target=info.target,
        timezone=info.timezone,
        canonical=info.canonical,
        human_readable=info.human_readable,
        message=Raw(message.body if message.format == "json" else encode(message.body.decode())),
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
        next_fire_at=_time(info.next_fire_at),
        last_fired_at=_time(info.last_fired_at),
        fired=info.fired,
        skipped=info.skipped,
        consecutive_failures=info.consecutive_failures,
        last_error=info.last_error or None,
        paused_reason=info.paused_reason or None,
        created_at=timestamp(info.created_at),
        updated_at=timestamp(info.updated_at),
        **{info.kind: info.expression},
    )


def _time(ms: int | None) -> str | None:
    return None if ms is None else timestamp(ms)
