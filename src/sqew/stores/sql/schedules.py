"""Schedules: storing them, and firing them in one transaction with what they send."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from zlib import crc32

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
    ScheduleStatus,
    TargetKind,
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
from sqew.rules.limits import MOST_BYTES
from sqew.rules.names import names_meant
from sqew.stores.sql.publish import publish_events
from sqew.stores.sql.rows import DAMAGE, checksum, decode_headers, encode_headers
from sqew.stores.sql.send import accept, put, write_deferred
from sqew.stores.sql.similar_names import names_near
from sqew.stores.sql.transaction import Row, Work


class _Details(Struct, omit_defaults=True):
    """The fields of a schedule that are not searched for."""

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
    caught_up: int = 0
    jitter_secs: int = 0
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
    work.execute(work.sql["update_schedule" if existing else "insert_schedule"], _row(schedule))
    work.woken.add(SCHEDULES)
    return Saved(schedule, created=existing is None)


def get(work: Work, op: GetSchedule) -> Schedule:
    schedule = _find(work, op.name)
    if schedule is None:
        raise ScheduleNotFound(op.name, names_near(work.execute, work.sql.schedules_near, op.name))
    return schedule


def list_schedules(work: Work, op: ListSchedules) -> list[Schedule]:
    found: list[Schedule] = []
    size = 0
    for row in work.read(work.sql.list_schedules, (op.after, op.prefix, op.status, op.target_kind)):
        schedule = _as_far_as_whole(row)
        if schedule is not None:
            found.append(schedule)
            size += len(schedule.message.body)
        if len(found) == op.limit or size >= MOST_BYTES:
            break
    return found


def _as_far_as_whole(row: Row) -> Schedule | None:
    """Return a schedule as far as it is intact: a damaged one must not hide the others. None: its name is lost too."""
    try:
        return _schedule(row)
    except ScheduleDamaged as error:
        return _rest_of(row, str(error))


def _rest_of(row: Row, error: str) -> Schedule | None:
    name, version, status, target_kind, due_at, slot_at, stored, *_ = row
    try:
        known = name.decode()
    except UnicodeDecodeError:
        return None
    try:
        details = _decode(stored)
    except DAMAGE:
        details = _Details(
            "", "cron", "", "", "", catchup=False, catchup_limit=1, failure_threshold=None, created_at=0, updated_at=0
        )
    details.last_error = error
    return _made(
        known,
        version if isinstance(version, int) else 0,
        "paused" if status == b"paused" else "active",
        "topic" if target_kind == b"topic" else "queue",
        due_at if isinstance(due_at, int) else None,
        slot_at if isinstance(slot_at, int) else None,
        details,
        NewMessage(b"null"),
    )


def damaged_schedules(work: Work) -> Iterator[str]:
    """Yield the names of damaged schedules, as far as they can be read."""
    for row in work.execute(work.sql.check_schedules):
        try:
            _schedule(row)
        except ScheduleDamaged as error:
            yield error.name


def delete(work: Work, op: DeleteSchedule) -> bool:
    work.execute(work.sql.delete_schedule, (op.name,))
    return bool(work.changes())


def find_due(work: Work, op: FindDueSchedules) -> DueSchedules:
    due: list[Schedule] = []
    size = 0
    for row in work.read(work.sql.due_schedules, (work.now,)):
        # One that is damaged says so to whoever reads it; it must not keep the others from firing.
        with contextlib.suppress(ScheduleDamaged):
            due.append(_schedule(row))
            size += len(due[-1].message.body)
        if len(due) == op.limit or size >= MOST_BYTES:
            break
    return DueSchedules(due, work.execute(work.sql.next_schedule_due, (work.now,)).get)


def fire(work: Work, op: FireSchedule) -> Fired:
    schedule = _at_version(work, op.name, op.version)
    fired = _send(work, schedule, op.events)
    advance = op.advance
    if advance is None:
        # Its slots, and whether it fails at them, are another matter: it is counted, and that is all.
        _move(work, structs.replace(schedule, fired=schedule.fired + len(op.events), last_fired_at=work.now))
        return fired
    if advance.next_fire_at is None:
        work.execute(work.sql.delete_schedule, (schedule.name,))
        return fired
    moved = structs.replace(
        schedule,
        next_fire_at=advance.next_fire_at,
        due_at=advance.next_fire_at if advance.due_at is None else advance.due_at,
        last_fired_at=advance.last_fired_at,
        fired=schedule.fired + len(op.events),
        skipped=schedule.skipped + advance.skipped,
        caught_up=advance.caught_up,
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
    # A queue that was made after the schedule may be a FIFO queue of which the schedule knows the bare name alone.
    found = (work.catalog.find(name) for name in names_meant(schedule.target))
    state = next(filter(None, found), None) or work.catalog.queue(schedule.target)
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
        failed = structs.replace(failed, status="paused", paused_reason=reason, due_at=None, updated_at=work.now)
    return _move(work, failed)


def _move(work: Work, schedule: Schedule) -> Schedule:
    moved = structs.replace(schedule, version=schedule.version + 1)
    name, version, status, _, due_at, slot_at, details, _, check, headers, _ = _row(moved)
    work.execute(work.sql.move_schedule, (name, version, status, due_at, slot_at, details, check, headers))
    return moved


def _at_version(work: Work, name: str, version: int) -> Schedule:
    schedule = _find(work, name)
    if schedule is None or schedule.version != version:
        raise ScheduleChanged(name)
    return schedule


def _find(work: Work, name: str) -> Schedule | None:
    row = work.execute(work.sql.schedule_by_name, (name,)).fetchone()
    return None if row is None else _schedule(row)


def _row(schedule: Schedule) -> tuple[Any, ...]:
    message = schedule.message
    headers = encode_headers(message.headers) if message.headers else None
    is_text = message.format == "text"
    details = _encode(_details(schedule))
    said = (schedule.name.encode(), schedule.status.encode(), schedule.target_kind.encode(), details)
    check = _checksum(*said, checksum(message.body, headers, is_text))
    return (
        schedule.name, schedule.version, schedule.status, schedule.target_kind, schedule.due_at, schedule.next_fire_at,
        details, is_text, check, headers, message.body,
    )  # fmt: skip


def _checksum(name: bytes, status: bytes, target_kind: bytes, details: bytes, of_message: int) -> int:
    return crc32(b"%b %b %b %b" % (name, status, target_kind, details), of_message)


def _details(schedule: Schedule) -> _Details:
    fields = {field: getattr(schedule, field) for field in _OF_SCHEDULE}
    return _Details(**fields, **{field: getattr(schedule.message, field) for field in _OF_MESSAGE})


def _schedule(row: Row) -> Schedule:
    """Return a row of {schedule} as a schedule. Raise `ScheduleDamaged` if it is not as it was stored."""
    name, version, status, target_kind, due_at, slot_at, stored, is_text, check, headers, body = row
    try:
        if _checksum(name, status, target_kind, stored, checksum(body, headers, is_text)) != check:
            raise ValueError(name)
        message = NewMessage(body, "text" if is_text else "json", decode_headers(headers) or None)
        return _made(
            name.decode(), version, status.decode(), target_kind.decode(), due_at, slot_at, _decode(stored), message
        )
    except DAMAGE as error:
        raise ScheduleDamaged(name.decode(errors="replace")) from error


def _made(
    name: str,
    version: int,
    status: ScheduleStatus,
    target_kind: TargetKind,
    due_at: int | None,
    slot_at: int | None,
    details: _Details,
    message: NewMessage,
) -> Schedule:
    message = structs.replace(message, **{field: getattr(details, field) for field in _OF_MESSAGE})
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
