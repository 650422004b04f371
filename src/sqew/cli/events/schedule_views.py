"""Views of schedules: plain data for machines, tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw

from sqew.model import Fire, NewMessage, ScheduleInfo
from sqew.schedules import local_time
from sqew.settings import duration
from sqew.terminal.output import Column, Facts, Part, Table, relative

_EXACT = duration(0, 0, "")
_NONE = "There are no schedules. Add one: sqew schedule add --name tick --queue orders --every 5m --body '{}'"


def schedule_document(info: ScheduleInfo) -> dict[str, Any]:
    """Return a schedule for machines, times in epoch milliseconds."""
    fields: dict[str, Any] = msgspec.structs.asdict(info)
    for hidden in ("kind", "expression"):
        del fields[hidden]
    message = info.message
    return fields | {
        info.kind: info.expression,
        "message": Raw(message.body) if message.format == "json" else message.body.decode(),
        "format": message.format,
        "headers": message.headers or {},
        "priority": message.priority,
        "lane": message.lane,
        "group": message.group,
        "delay_ms": message.delay_ms,
        "ttl_ms": message.ttl_ms,
        "next_fires": fire_documents(info.next_fires),
        "last_error": info.last_error or None,
        "paused_reason": info.paused_reason or None,
        "problem": info.problem or None,
    }


def fire_documents(fires: Sequence[Fire]) -> list[dict[str, Any]]:
    """Return fires for machines."""
    return [{"at": fire.at, "local": fire.local} for fire in fires]


def fires_table(fires: Sequence[Fire], now: int) -> Table:
    """Return a table of times at which something fires, by the clock of its time zone and by UTC."""
    columns = [Column("next fires"), Column("day"), Column("utc"), Column("from now")]
    rows = [(_legible(fire.local), _day(fire.local), _utc(fire.at), relative(fire.at - now)) for fire in fires]
    return Table(columns, rows, "It does not fire.")


def _legible(local: str) -> str:
    """Return ``2026-11-16 09:00:00 +01:00``: with spaces where it may be folded."""
    return f"{local[:10]} {local[11:19]} {local[19:]}"


def _day(local: str) -> str:
    return f"{datetime.fromisoformat(local):%a}"


def _utc(at: int) -> str:
    return local_time(at, "UTC").removesuffix("+00:00") + "Z"


def schedule_table(schedules: Sequence[ScheduleInfo], now: int, is_filtered: bool) -> Table:
    """Return a table with a line for each schedule."""
    columns = [
        Column("name"),
        Column("status"),
        Column("to"),
        Column("fires"),
        Column("next fire"),
        Column("fired", right=True),
        Column("problem", optional=True, cut=True),
    ]
    rows = [
        (one.name, one.status, _target(one), one.human_readable, _next_fire(one, now), one.fired, _problem(one))
        for one in schedules
    ]
    return Table(columns, rows, "No schedule is like that." if is_filtered else _NONE)


def _target(info: ScheduleInfo) -> str:
    return f"{info.target_kind} {info.target}"


def _next_fire(info: ScheduleInfo, now: int) -> str:
    return "" if info.status == "paused" else _moment(info.next_fire_at, info, now)


def _moment(at: int | None, info: ScheduleInfo, now: int) -> str:
    """Return a time by the clock of the schedule's zone, and how far away it is."""
    return "" if at is None else f"{_legible(local_time(at, info.timezone))} ({relative(at - now)})"


def _problem(info: ScheduleInfo) -> str:
    return info.paused_reason or info.last_error


def schedule_parts(info: ScheduleInfo, now: int) -> list[Part]:
    """Return everything about one schedule."""
    threshold = info.failure_threshold
    pairs: list[tuple[str, object]] = [
        ("schedule", info.name),
        ("status", info.status),
        ("paused because", info.paused_reason),
        ("problem", info.problem),
        ("to", _target(info)),
        ("fires", info.human_readable),
        ("given as", f"{info.kind}: {info.expression}"),
        ("read as", info.canonical),
        ("next fire", _next_fire(info, now)),
        ("last fire", _moment(info.last_fired_at, info, now)),
        ("fired", info.fired),
        ("skipped", info.skipped),
        ("jitter", f"up to {info.jitter_secs} s" if info.jitter_secs else None),
        ("catches up", f"up to {info.catchup_limit} missed fires" if info.catchup else "no: fires once for all missed"),
        ("failures in a row", info.consecutive_failures or None),
        ("last error", info.last_error),
        ("pauses", "never" if threshold is None else f"after {threshold} failures in a row"),
        *_message_pairs(info.message),
        ("created", _moment(info.created_at, info, now)),
        ("changed", _moment(info.updated_at, info, now)),
    ]
    facts = Facts([pair for pair in pairs if pair[1] not in (None, "")])
    return [facts, fires_table(info.next_fires, now)] if info.next_fires else [facts]


def _message_pairs(message: NewMessage) -> list[tuple[str, object]]:
    return [
        ("message", message.body.decode()),
        ("headers", msgspec.json.encode(message.headers).decode() if message.headers else None),
        ("priority", message.priority or None),
        ("lane", message.lane),
        ("group", message.group),
        ("delay", None if message.delay_ms is None else _EXACT.show(message.delay_ms)),
        ("time to live", None if message.ttl_ms is None else _EXACT.show(message.ttl_ms)),
    ]
