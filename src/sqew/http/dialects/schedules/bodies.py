"""What requests say about a schedule, and the same in the words of a schedule."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, structs

from sqew.errors import BadValue
from sqew.http.service import body_in
from sqew.model import Format, NewMessage, ScheduleStatus, TargetKind
from sqew.rules import seconds_as_ms, shown
from sqew.schedule_fields import KINDS
from sqew.timetable import DEFAULT_ZONE, DEFAULTS

_SAID_ALIKE = ("target_kind", "target", "timezone", "status", "catchup", "catchup_limit", "failure_threshold")
"""What a request and a schedule call by the same name."""

Name = Annotated[
    str,
    Meta(
        description="The schedule's name: 1 to 100 letters, digits, `-`, `_`, `.` or `:`.",
        extra_json_schema={"pattern": r"^[A-Za-z0-9_.:-]{1,100}$"},
    ),
]
Target = Annotated[str, Meta(extra_json_schema={"enum": list(get_args(TargetKind))})]
Ignored = Annotated[Any, Meta(description="Shown of a schedule, and ignored here.")]
Status = Annotated[str, Meta(extra_json_schema={"enum": list(get_args(ScheduleStatus))})]


class Expression(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """When something fires: one of `cron`, `every`, `when` and `fire_at`. One that is null is not given."""

    cron: str | UnsetType | None = UNSET
    every: str | UnsetType | None = UNSET
    when: str | UnsetType | None = UNSET
    fire_at: str | UnsetType | None = UNSET
    timezone: str | UnsetType = UNSET


class ScheduleChanges(Expression, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to change of a schedule. Times are in seconds."""

    target_kind: Target | UnsetType = UNSET
    target: str | UnsetType = UNSET
    message: Raw | UnsetType = UNSET
    format: Format | UnsetType = UNSET
    """`text`: the message is a JSON string, and the text in it is what is sent. Left out: `json`."""
    headers: dict[str, Any] | UnsetType | None = UNSET
    delay: float | UnsetType | None = UNSET
    ttl: float | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    lane: str | UnsetType | None = UNSET
    group_id: str | UnsetType | None = UNSET
    status: Status | UnsetType = UNSET
    """`paused`: it does not fire. `active`: it does, from now on."""
    catchup: bool | UnsetType = UNSET
    catchup_limit: int | UnsetType = UNSET
    failure_threshold: int | UnsetType | None = UNSET


class ScheduleSpec(ScheduleChanges, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A schedule as it is to be: what is left out has its default. A paused one stays so unless `status` is given."""

    name: Name | UnsetType = UNSET
    target_kind: Target
    target: str
    message: Raw


class PutSchedule(ScheduleSpec, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A schedule as it is to be, or as it was shown: what a server alone can say of it is ignored."""

    canonical: Ignored = UNSET
    human_readable: Ignored = UNSET
    next_fire_at: Ignored = UNSET
    next_fires: Ignored = UNSET
    last_fired_at: Ignored = UNSET
    fired: Ignored = UNSET
    skipped: Ignored = UNSET
    consecutive_failures: Ignored = UNSET
    last_error: Ignored = UNSET
    paused_reason: Ignored = UNSET
    created_at: Ignored = UNSET
    updated_at: Ignored = UNSET


class NewSchedule(ScheduleSpec, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A schedule to make."""

    name: Name


def expression_of(given: Expression) -> dict[str, Any]:
    """When it fires: kind, expression and time zone. Raises unless the first two are said, in one way."""
    said = _said_about_time(given)
    if "kind" not in said:
        raise BadValue("It does not say when it fires. Give one of cron, every, when and fire_at.")
    return {"timezone": DEFAULT_ZONE, **said}


def _said_about_time(given: Expression) -> dict[str, Any]:
    said: dict[str, Any] = {} if given.timezone is UNSET else {"timezone": given.timezone}
    kinds = [kind for kind in KINDS if getattr(given, kind) not in (UNSET, None)]
    if len(kinds) > 1:
        raise BadValue(f"It says when it fires in several ways: {' and '.join(kinds)}. Give one of them.")
    for kind in kinds:
        said |= {"kind": kind, "expression": getattr(given, kind)}
    return said


def spec_of(given: ScheduleSpec) -> dict[str, Any]:
    """A whole schedule, but for its name, and for its status unless that is given."""
    return {**DEFAULTS, **expression_of(given), **changes_of(given, NewMessage(b"null"))}


def changes_of(given: ScheduleChanges, message: NewMessage) -> dict[str, Any]:
    """What was said about a schedule whose message was this one."""
    said = {name: getattr(given, name) for name in _SAID_ALIKE if getattr(given, name) is not UNSET}
    if said.get("target_kind", "queue") not in get_args(TargetKind):
        raise BadValue(
            f"target_kind can't be {shown(said['target_kind'])}: "
            "it must be 'queue' (to send to one) or 'topic' (to publish under a routing key)."
        )
    parts = _message_parts(given)
    if parts:
        said["message"] = structs.replace(message, **parts)
    return {**said, **_said_about_time(given)}


def _message_parts(given: ScheduleChanges) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if given.message is not UNSET:
        format: Format = "json" if given.format is UNSET else given.format
        parts |= {"body": body_in(given.message, format), "format": format}
    elif given.format is not UNSET:
        raise BadValue("format says how the message is meant. Give the message with it, or leave it out.")
    if given.delay is not UNSET:
        parts["delay_ms"] = None if given.delay is None else seconds_as_ms("delay", given.delay)
    if given.ttl is not UNSET:
        parts["ttl_ms"] = None if given.ttl is None else seconds_as_ms("ttl", given.ttl, at_least=1)
    if given.headers is not UNSET:
        # As they are read again: so that to put the same is to change nothing.
        parts["headers"] = given.headers or None
    for part, value in (("priority", given.priority), ("lane", given.lane), ("group", given.group_id)):
        if value is not UNSET:
            parts[part] = value
    return parts
