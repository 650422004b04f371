"""Requests and answers about schedules and previews."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw, Struct, ValidationError

from sqew.client import wire
from sqew.client.calls import SENDABLE, ApiCall, Listed, as_json, nothing, query_of, reads, written
from sqew.client.native import epoch_ms, epoch_ms_or_none, path
from sqew.model import (
    ExpressionKind,
    Fire,
    Format,
    NewMessage,
    Preview,
    ScheduleInfo,
    ScheduleRun,
    ScheduleStatus,
    TargetKind,
)
from sqew.rules.bodies import encode_body
from sqew.rules.names import check_schedule_name
from sqew.rules.values import seconds_as_ms
from sqew.schedules.keywords import (
    check_fields,
    expression_of,
    in_seconds,
    needed_expression,
    needed_message,
    needed_target,
    target_of,
)

_SAID_ALIKE = (
    "timezone", "headers", "priority", "lane", "status", "catchup", "catchup_limit", "failure_threshold",
    "jitter_secs",
)  # fmt: skip
"""Fields with the same name here and in the dialect."""
_BY_PRECEDENCE: tuple[ExpressionKind, ...] = ("every", "when", "cron", "fire_at")
"""Fields that say how the schedule was given, first match first: beside an interval or plain English, the others hold
what that is stored as.
"""


def _fires(utc: list[str], local: list[str]) -> list[Fire]:
    if len(utc) != len(local):
        raise ValidationError(f"{len(utc)} fires in UTC and {len(local)} in local time")
    return [Fire(epoch_ms(at), shown) for at, shown in zip(utc, local, strict=True)]


class TargetDocument(Struct):
    topic: str = ""


class ScheduleDocument(Struct):
    name: str
    target_kind: TargetKind
    target: TargetDocument
    expression: str
    timezone: str
    message: Raw
    format: Format
    status: ScheduleStatus
    catchup: bool
    catchup_limit: int
    canonical: str
    human_readable: str
    created_at: str
    updated_at: str
    next_fires: list[str] = []
    next_fires_local: list[str] = []
    jitter_secs: int = 0
    problem: str | None = None
    failure_threshold: int | None = None
    next_fire_at: str | None = None
    last_fired_at: str | None = None
    fired: int = 0
    skipped: int = 0
    consecutive_failures: int = 0
    last_error: str | None = None
    paused_reason: str | None = None
    cron: str | None = None
    every: str | None = None
    when: str | None = None
    fire_at: str | None = None
    queue: str = ""
    headers: dict[str, Any] | None = None
    priority: int = 0
    lane: str | None = None
    group_id: str | None = None
    delay: float | None = None
    ttl: float | None = None

    def info(self) -> ScheduleInfo:
        kind = next((kind for kind in _BY_PRECEDENCE if getattr(self, kind) is not None), None)
        if kind is None:
            raise ValidationError("nothing says when it fires")
        return ScheduleInfo(
            name=self.name,
            target_kind=self.target_kind,
            target=self.queue if self.target_kind == "queue" else self.target.topic,
            kind=kind,
            expression=self.expression,
            timezone=self.timezone,
            message=self._message(),
            status=self.status,
            catchup=self.catchup,
            catchup_limit=self.catchup_limit,
            failure_threshold=self.failure_threshold,
            canonical=self.canonical,
            human_readable=self.human_readable,
            next_fire_at=None if self.status == "paused" else epoch_ms_or_none(self.next_fire_at),
            next_fires=_fires(self.next_fires, self.next_fires_local),
            last_fired_at=epoch_ms_or_none(self.last_fired_at),
            fired=self.fired,
            skipped=self.skipped,
            consecutive_failures=self.consecutive_failures,
            last_error=self.last_error or "",
            paused_reason=self.paused_reason or "",
            created_at=epoch_ms(self.created_at),
            updated_at=epoch_ms(self.updated_at),
            jitter_secs=self.jitter_secs,
            problem=self.problem or "",
        )

    def _message(self) -> NewMessage:
        return NewMessage(
            wire.body_of(self.message, self.format),
            self.format,
            self.headers or None,
            self.priority,
            self.lane,
            self.group_id,
            delay_ms=None if self.delay is None else round(self.delay * 1000),
            ttl_ms=None if self.ttl is None else round(self.ttl * 1000),
        )


_document = reads(ScheduleDocument)
_documents = reads(list[ScheduleDocument])


def _info(body: bytes) -> ScheduleInfo:
    return _document(body).info()


def _infos(body: bytes) -> Listed[ScheduleInfo]:
    return Listed(document.info() for document in _documents(body))


def _path(name: str, *rest: str) -> str:
    check_schedule_name(name)
    return path("schedules", name, *rest)


def create(name: str, fields: Mapping[str, Any]) -> ApiCall[ScheduleInfo]:
    check_schedule_name(name)
    body = _needed({"name": name, **_said(fields)}, fields)
    return ApiCall(
        "POST",
        path("schedules"),
        _info,
        body=body,
        about={"name": name},
    )


def put(name: str, fields: Mapping[str, Any]) -> ApiCall[ScheduleInfo]:
    body = _needed(_said(fields), fields)
    return ApiCall("PUT", _path(name), _info, body=body, repeatable=True)


def change(name: str, fields: Mapping[str, Any]) -> ApiCall[ScheduleInfo]:
    body = written(_said(fields), "schedule")
    return ApiCall(
        "PATCH",
        _path(name),
        _info,
        body=body,
        repeatable=True,
        about={"name": name},
    )


def _needed(said: dict[str, Any], fields: Mapping[str, Any]) -> bytes:
    """Return the body for a whole schedule, if it has all that it must."""
    needed_target(fields)
    needed_expression(fields)
    needed_message(fields)
    return written(said, "schedule")


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields under the names of the dialect."""
    check_fields(fields)
    fields = in_seconds(fields)
    said = {name: fields[name] for name in _SAID_ALIKE if name in fields}
    target, expression = target_of(fields), expression_of(fields)
    if target is not None:
        said["target_kind"], said["target"] = target
    if expression is not None:
        said[expression[0]] = expression[1]
    if "message" in fields:
        encoded, format = encode_body(fields["message"], SENDABLE)
        said["message"], said["format"] = wire.payload_of(NewMessage(encoded, format)), format
    if "group" in fields:
        said["group_id"] = fields["group"]
    for name in ("delay", "ttl"):
        if f"{name}_seconds" in fields:
            said[name] = _seconds(f"{name}_seconds", fields[f"{name}_seconds"])
    return said


def _seconds(name: str, seconds: Any) -> float | None:
    return None if seconds is None else seconds_as_ms(name, seconds) / 1000


def get(name: str) -> ApiCall[ScheduleInfo]:
    return ApiCall("GET", _path(name), _info, repeatable=True, about={"name": name})


def schedules(
    status: ScheduleStatus | None, target_kind: TargetKind | None, prefix: str, limit: int | None, after: str
) -> ApiCall[Listed[ScheduleInfo]]:
    query = query_of(
        status=status, target_kind=target_kind, name_prefix=prefix or None, limit=limit, after=after or None
    )
    return ApiCall("GET", path("schedules"), _infos, query, repeatable=True)


def delete(name: str) -> ApiCall[None]:
    return ApiCall("DELETE", _path(name), nothing, repeatable=True)


class RunDocument(Struct):
    schedule: str
    scheduled_for: str
    msg_ids: list[int]
    deliveries: int

    def run(self) -> ScheduleRun:
        return ScheduleRun(self.schedule, epoch_ms(self.scheduled_for), self.msg_ids, self.deliveries)


_run = reads(RunDocument)


def run(name: str) -> ApiCall[ScheduleRun]:
    return ApiCall(
        "POST",
        _path(name, "runs"),
        lambda body: _run(body).run(),
        about={"name": name},
    )


class PreviewDocument(Struct):
    canonical: str
    timezone: str
    human_readable: str
    next_fires: list[str]
    next_fires_local: list[str]

    def preview(self) -> Preview:
        fires = _fires(self.next_fires, self.next_fires_local)
        return Preview(self.canonical, self.timezone, self.human_readable, fires)


_preview = reads(PreviewDocument)


def preview(timezone: str, count: int, timing: Mapping[str, Any]) -> ApiCall[Preview]:
    check_fields({"timezone": timezone, **timing})
    kind, expression = needed_expression(timing)
    return ApiCall(
        "POST",
        path("previews"),
        lambda body: _preview(body).preview(),
        body=as_json({kind: expression, "timezone": timezone, "count": count}),
        repeatable=True,
    )
