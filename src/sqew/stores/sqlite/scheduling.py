"""Schedules: storing them, and firing them in one transaction with what they send."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from sqew.errors import ScheduleChanged, ScheduleDamaged, ScheduleExists, ScheduleNotFound
from sqew.model import (
    NO_REASON,
    SCHEDULES,
    DueSchedules,
    ExpressionKind,
    Fired,
    NewEvent,
    NewMessage,
    Saved,
    Schedule,
)
from sqew.operations import (
    DeleteSchedule,
    FailSchedule,
    FindDueSchedules,
    FireSchedule,
    GetSchedule,
    ListSchedules,
    SaveSchedule,
)
from sqew.stores.sqlite.publishing import publish_events
from sqew.stores.sqlite.rows import MOST_BYTES, checksum, decode_headers, encode_headers
from sqew.stores.sqlite.sending import accept, put, write_deferred
from sqew.stores.sqlite.statements import sql
from sqew.stores.sqlite.work import Row, Work


class _Details(Struct, omit_defaults=True):
    """What nobody searches for."""

    target: str
    kind: ExpressionKind
    expression: str
    canonical: str
    timezone: str
    catchup: bool
    catchup_limit: int
    failure_threshold: int | None
    created_at: int
    updated_at: int
    consecutive_failures: int = 0
    last_error: str = NO_REASON
    paused_reason: str = NO_REASON
    last_fired_at: int | None = None
    fired: int = 0
    skipped: int = 0
    priority: int = 0
    lane: str | None = None
    group: str | None = None
    delay_ms: int | None = None
    ttl_ms: int | None = None


_OF_SCHEDULE = [field for field in _Details.__struct_fields__ if field in Schedule.__struct_fields__]
_OF_MESSAGE = [field for field in _Details.__struct_fields__ if field in NewMessage.__struct_fields__]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Details).decode


def save(work: Work, op: SaveSchedule) -> Saved:
    existing = _find(work, op.schedule.name)
    if op.expected is not None and op.expected != (existing.version if existing else 0):
        raise ScheduleExists(op.schedule.name) if op.expected == 0 else ScheduleChanged(op.schedule.name)
    created_at = existing.created_at if existing else work.now
    # One that is new begins with the time: whoever still has to do with a deleted one of its name must not mistake it.
    version = existing.version + 1 if existing else work.now
    schedule = structs.replace(op.schedule, created_at=created_at, updated_at=work.now, version=version)
    work.execute(sql("update_schedule" if existing else "insert_schedule"), _row(schedule))
    work.stirred.add(SCHEDULES)
    return Saved(schedule, created=existing is None)


def get(work: Work, op: GetSchedule) -> Schedule:
    schedule = _find(work, op.name)
    if schedule is None:
        raise ScheduleNotFound(op.name, [row[0] for row in work.execute(sql("schedule_names"))])
    return schedule


def list_schedules(work: Work, op: ListSchedules) -> list[Schedule]:
    rows = work.execute(sql("list_schedules"), (op.after, op.prefix, op.status, op.target_kind, op.limit))
    found: list[Schedule] = []
    size = 0
    for row in rows:
        found.append(_as_far_as_whole(row))
        size += len(found[-1].message.body)
        if size >= MOST_BYTES:
            break
    return found


def _as_far_as_whole(row: Row) -> Schedule:
    """One that is damaged must not hide the others."""
    try:
        return _schedule(row)
    except ScheduleDamaged as error:
        whole = list(row)
        whole[-2:], whole[-3] = (None, b"null"), checksum(b"null", None, whole[-4])
        return structs.replace(_schedule(tuple(whole)), last_error=str(error))


def delete(work: Work, op: DeleteSchedule) -> bool:
    work.execute(sql("delete_schedule"), (op.name,))
    return bool(work.changes())


def find_due(work: Work, op: FindDueSchedules) -> DueSchedules:
    due: list[Schedule] = []
    for row in work.execute(sql("due_schedules"), (work.now,)):
        # One that is damaged says so to whoever reads it; it must not keep the others from firing.
        with contextlib.suppress(ScheduleDamaged):
            due.append(_schedule(row))
        if len(due) == op.limit:
            break
    return DueSchedules(due, work.execute(sql("next_schedule_due"), (work.now,)).get)


def fire(work: Work, op: FireSchedule) -> Fired:
    schedule = _at_version(work, op.name, op.version)
    fired = _send(work, schedule, op.events)
    advance = op.advance
    if advance is None:
        return fired
    if advance.next_fire_at is None:
        work.execute(sql("delete_schedule"), (schedule.name,))
        return fired
    moved = structs.replace(
        schedule,
        next_fire_at=advance.next_fire_at,
        due_at=advance.next_fire_at,
        last_fired_at=advance.last_fired_at,
        fired=schedule.fired + len(op.events),
        skipped=schedule.skipped + advance.skipped,
        consecutive_failures=0,
        last_error=NO_REASON,
    )
    _move(work, moved)
    return fired


def _send(work: Work, schedule: Schedule, events: Sequence[NewEvent]) -> Fired:
    if schedule.target_kind == "topic":
        published = publish_events(work, events)
        ids = [id for one in published for _, id in one.messages]
        return Fired(ids, sum(one.deliveries for one in published))
    state = work.catalog.queue(schedule.target)
    messages = [event.message for event in events]
    lanes = accept(work, state, messages)
    sent = put(work, state, messages, lanes, work.deferred)
    write_deferred(work)
    return Fired([one.id for one in sent])


def fail(work: Work, op: FailSchedule) -> Schedule:
    schedule = _at_version(work, op.name, op.version)
    failures = schedule.consecutive_failures + 1
    failed = structs.replace(schedule, consecutive_failures=failures, last_error=op.error, due_at=op.retry_at)
    threshold = schedule.failure_threshold
    if threshold is not None and failures >= threshold:
        often = "once" if failures == 1 else f"{failures} times in a row"
        reason = f"It failed {often}: {op.error}"
        failed = structs.replace(failed, status="paused", paused_reason=reason, due_at=None)
    return _move(work, failed)


def _move(work: Work, schedule: Schedule) -> Schedule:
    moved = structs.replace(schedule, version=schedule.version + 1)
    work.execute(
        sql("move_schedule"),
        (moved.name, moved.version, moved.status, moved.due_at, moved.next_fire_at, _encode(_details(moved))),
    )
    return moved


def _at_version(work: Work, name: str, version: int) -> Schedule:
    schedule = _find(work, name)
    if schedule is None or schedule.version != version:
        raise ScheduleChanged(name)
    return schedule


def _find(work: Work, name: str) -> Schedule | None:
    row = work.execute(sql("schedule_by_name"), (name,)).fetchone()
    return None if row is None else _schedule(row)


def _row(schedule: Schedule) -> tuple[Any, ...]:
    message = schedule.message
    headers = encode_headers(message.headers) if message.headers else None
    is_text = message.format == "text"
    return (
        schedule.name, schedule.version, schedule.status, schedule.target_kind, schedule.due_at, schedule.next_fire_at,
        _encode(_details(schedule)), is_text, checksum(message.body, headers, is_text), headers, message.body,
    )  # fmt: skip


def _details(schedule: Schedule) -> _Details:
    fields = {field: getattr(schedule, field) for field in _OF_SCHEDULE}
    return _Details(**fields, **{field: getattr(schedule.message, field) for field in _OF_MESSAGE})


def _schedule(row: Row) -> Schedule:
    name, version, status, target_kind, due_at, slot_at, stored, is_text, check, headers, body = row
    if checksum(body, headers, is_text) != check:
        raise ScheduleDamaged(name)
    try:
        details = _decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ScheduleDamaged(name) from error
    message = NewMessage(
        body,
        "text" if is_text else "json",
        decode_headers(headers) or None,
        **{field: getattr(details, field) for field in _OF_MESSAGE},
    )
    return Schedule(
        name=name,
        version=version,
        status=status,
        target_kind=target_kind,
        due_at=due_at,
        next_fire_at=slot_at,
        message=message,
        **{field: getattr(details, field) for field in _OF_SCHEDULE},
    )
