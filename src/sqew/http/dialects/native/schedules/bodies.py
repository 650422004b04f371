"""Bodies of requests about schedules, and their conversion to the fields of a schedule."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, structs

from sqew.errors import BadSchedule, BadValue
from sqew.http.service import body_in
from sqew.model import Format, NewMessage, ScheduleStatus, TargetKind
from sqew.rules.values import seconds_as_ms, shown
from sqew.schedules.changes import DEFAULT_ZONE, DEFAULTS
from sqew.schedules.keywords import KINDS

_SAID_ALIKE = ("timezone", "status", "catchup", "catchup_limit", "jitter_secs")
"""Fields that a request and a schedule call by the same name, and that are left out if they are null."""

_STORED_AS = ("cron", "fire_at")
"""The kinds that `every` and `when` may be stored as."""
_TARGETS = 'Give {"queue": "orders", "message": …} or {"topic": "orders.due", "message": …}.'

Name = Annotated[
    str,
    Meta(
        description="The schedule's name: 1 to 100 letters, digits, `-`, `_`, `.` or `:`.",
        extra_json_schema={"pattern": r"^[A-Za-z0-9_.:-]{1,100}$"},
    ),
]
Target = Annotated[str, Meta(extra_json_schema={"enum": list(get_args(TargetKind))})]
Status = Annotated[str, Meta(extra_json_schema={"enum": list(get_args(ScheduleStatus))})]


class Expression(Struct, omit_defaults=True, kw_only=True):
    """A time expression: one of `cron`, `every`, `when` and `fire_at`. One that is null is not given.

    Unknown fields are ignored, as beyond-queue ignores them.
    """

    cron: str | UnsetType | None = UNSET
    every: str | UnsetType | None = UNSET
    when: str | UnsetType | None = UNSET
    fire_at: str | UnsetType | None = UNSET
    timezone: str | UnsetType | None = UNSET


class TargetObject(Struct, omit_defaults=True, kw_only=True):
    """The target of a schedule, one of `queue` and `topic`, and the message to send there."""

    queue: str | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    """The routing key that the message is published under."""
    workflow: str | UnsetType = UNSET
    """Reserved: it is refused, here as in beyond-queue."""
    message: Raw | UnsetType = UNSET
    headers: dict[str, Any] | UnsetType | None = UNSET


class ScheduleChanges(Expression, kw_only=True, omit_defaults=True):
    """Changes to a schedule. Times are in seconds."""

    target: TargetObject | str | UnsetType | None = UNSET
    """The queue or the routing key with the message, or its name alone beside `target_kind` and `message`."""
    target_kind: Target | UnsetType | None = UNSET
    message: Raw | UnsetType = UNSET
    format: Format | UnsetType = UNSET
    """`text`: the message is a JSON string, and its contents are sent. Left out: `json`."""
    headers: dict[str, Any] | UnsetType | None = UNSET
    delay: float | UnsetType | None = UNSET
    ttl: float | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    lane: str | UnsetType | None = UNSET
    group_id: str | UnsetType | None = UNSET
    status: Status | UnsetType | None = UNSET
    """`paused`: it does not fire. `active`: it does, from now on."""
    jitter_secs: int | UnsetType | None = UNSET
    """The most seconds that a slot fires late, so that many schedules don't fire at once."""
    catchup: bool | UnsetType | None = UNSET
    catchup_limit: int | UnsetType | None = UNSET
    failure_threshold: int | UnsetType | None = UNSET
    canonical: str | UnsetType | None = UNSET
    """The expression as it is stored. Given back as it was shown, it tells which of `cron` and `fire_at` is what
    `every` or `when` was stored as."""


class ScheduleSpec(ScheduleChanges, kw_only=True, omit_defaults=True):
    """A whole schedule: what is left out has its default. A paused one stays paused unless `status` is given.

    It may be a schedule as it was shown: fields that only a server can set are ignored.
    """

    name: Name | UnsetType = UNSET
    target: TargetObject | str


class NewSchedule(ScheduleSpec, kw_only=True, omit_defaults=True):
    """A schedule to make."""

    name: Name


def expression_of(given: Expression) -> dict[str, Any]:
    """Return the kind, the expression and the time zone of a schedule; raise unless exactly one expression is given."""
    said = _said_about_time(given)
    if "kind" not in said:
        raise BadSchedule("It does not say when it fires. Give one of cron, every, when and fire_at.")
    return {"timezone": DEFAULT_ZONE, **said}


def _said_about_time(given: Expression) -> dict[str, Any]:
    said: dict[str, Any] = {} if given.timezone in (UNSET, None) else {"timezone": given.timezone}
    kinds = [kind for kind in KINDS if getattr(given, kind) not in (UNSET, None)]
    if len(kinds) > 1 and isinstance(given, ScheduleChanges):
        kinds = [kind for kind in kinds if kind not in _STORED_AS or getattr(given, kind) != given.canonical]
    if len(kinds) > 1:
        raise BadSchedule(f"It says when it fires in several ways: {' and '.join(kinds)}. Give one of them.")
    for kind in kinds:
        said |= {"kind": kind, "expression": getattr(given, kind)}
    return said


def spec_of(given: ScheduleSpec) -> dict[str, Any]:
    """Return a whole schedule, but for its name, and for its status unless that is given."""
    changes = changes_of(given, NewMessage(b"null"))
    if "target_kind" not in changes:
        raise BadSchedule(f"The target does not say what '{changes['target']}' is. {_TARGETS}")
    if _message_in(given) is UNSET:
        raise BadSchedule("It does not say what to send. Give the target a message.")
    return {**DEFAULTS, **expression_of(given), **changes}


def changes_of(given: ScheduleChanges, message: NewMessage) -> dict[str, Any]:
    """Return the fields of a schedule that were given. ``message`` is its message so far."""
    said = {name: getattr(given, name) for name in _SAID_ALIKE if getattr(given, name) not in (UNSET, None)}
    said |= _said_about_target(given)
    if given.failure_threshold is not UNSET:
        said["failure_threshold"] = given.failure_threshold
    parts = _message_parts(given)
    if parts:
        said["message"] = structs.replace(message, **parts)
    return {**said, **_said_about_time(given)}


def _said_about_target(given: ScheduleChanges) -> dict[str, Any]:
    said: dict[str, Any] = {} if given.target_kind in (UNSET, None) else {"target_kind": given.target_kind}
    if said.get("target_kind", "queue") not in get_args(TargetKind):
        raise BadSchedule(
            f"target_kind can't be {shown(said['target_kind'])}: "
            "it must be 'queue' (to send to one) or 'topic' (to publish under a routing key)."
        )
    target = given.target
    if not isinstance(target, TargetObject):
        return said if target in (UNSET, None) else {**said, "target": target}
    if target.workflow is not UNSET:
        raise BadSchedule(f"A workflow can't be a target: there are none here. {_TARGETS}")
    named = {kind: name for kind in get_args(TargetKind) if (name := getattr(target, kind)) is not UNSET}
    if len(named) != 1:
        raise BadSchedule(f"The target names {' and '.join(named) or 'neither queue nor topic'}. {_TARGETS}")
    ((kind, name),) = named.items()
    if said.get("target_kind", kind) != kind:
        raise BadSchedule(f"target_kind says {said['target_kind']}, and the target names a {kind}. Leave it out.")
    return {"target_kind": kind, "target": name}


def _message_in(given: ScheduleChanges) -> Raw | UnsetType:
    """Return the message to send, given in the target, or beside it, or alike in both places."""
    within = given.target.message if isinstance(given.target, TargetObject) else UNSET
    if within is UNSET or given.message is UNSET:
        return given.message if within is UNSET else within
    if bytes(within) != bytes(given.message):
        raise BadSchedule("It has one message in its target and another beside it. Give the one in the target.")
    return within


def _headers_in(given: ScheduleChanges) -> dict[str, Any] | UnsetType | None:
    if not isinstance(given.target, TargetObject):
        return given.headers
    within = given.target.headers
    if within is UNSET:
        # A target is said as a whole: one without headers has none, unless they are said beside it.
        return None if given.headers is UNSET else given.headers
    if given.headers not in (UNSET, None) and given.headers != within:
        raise BadSchedule("It has headers in its target and others beside it. Give those in the target.")
    return within


def _message_parts(given: ScheduleChanges) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    message, headers = _message_in(given), _headers_in(given)
    if message is not UNSET:
        format: Format = "json" if given.format is UNSET else given.format
        parts |= {"body": body_in(message, format), "format": format}
    elif given.format is not UNSET:
        raise BadValue("format says how the message is meant. Give the message with it, or leave it out.")
    if given.delay is not UNSET:
        parts["delay_ms"] = None if given.delay is None else seconds_as_ms("delay", given.delay)
    if given.ttl is not UNSET:
        parts["ttl_ms"] = None if given.ttl is None else seconds_as_ms("ttl", given.ttl, at_least=1)
    if headers is not UNSET:
        # As they are read again: so that to put the same is to change nothing.
        parts["headers"] = headers or None
    for part, value in (("priority", given.priority), ("lane", given.lane), ("group", given.group_id)):
        if value is not UNSET:
            parts[part] = value
    return parts
