"""Lateness of schedules when many are due at once among many more."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from bench import serving
from bench.report import Figure, Section, Table
from bench.serving import QUEUE
from bench.timing import quantile
from bench.workspace import remove, say
from sqew import Queue
from sqew.model import NewMessage, Schedule
from sqew.operations import SaveSchedule
from sqew.schedules.changes import new_schedule

MOST_LATE_S = 1.2
_TOGETHER = 1_000
_AHEAD_MS = 4_000
"""Milliseconds before its time that the server is started."""
_LATE_ENOUGH_S = 60.0


class Scale(Struct, frozen=True):
    schedules: int
    due: int
    rounds: int


class Outcome(Struct, frozen=True):
    schedules: int
    due: int
    late_p50_s: float
    late_p99_s: float
    late_most_s: float


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for number in range(scale.rounds):
        say(f"schedules: round {number + 1} of {scale.rounds}")
        outcomes.append(_run(folder, scale))
    rows = [
        [
            f"{outcome.due:,} of {outcome.schedules:,}",
            f"{outcome.late_p50_s:.3f} s",
            f"{outcome.late_p99_s:.3f} s",
            f"{outcome.late_most_s:.3f} s",
        ]
        for outcome in outcomes
    ]
    table = Table(
        "Schedules due in one second: from the slot to the message in its queue (durable, synchronous=FULL)",
        ["", "late by, p50", "p99", "most"],
        rows,
    )
    worst = max(outcome.late_p99_s for outcome in outcomes)
    figure = Figure(
        f"lateness p99, {scale.due:,} of {scale.schedules:,} due at once",
        f"≤ {MOST_LATE_S:g} s",
        f"{worst:.3f} s",
        worst <= MOST_LATE_S,
    )
    return Section("schedules", "Schedules", [table], [figure], {"outcomes": outcomes})


def _run(folder: Path, scale: Scale) -> Outcome:
    file = folder / "schedules.db"
    with Queue.open(file, durability="fast") as queue:
        queue.create(QUEUE, dead_letter=None, max_attempts=None)
        _save(queue, [_schedule(number, "0 0 1 1 *") for number in range(scale.schedules - scale.due)])
        due_at = (int(time.time() * 1000) + _AHEAD_MS + scale.due) // 1000 * 1000
        _save(queue, [_schedule(scale.schedules + number, _at(due_at)) for number in range(scale.due)])
    with serving.sqew(folder, "durable", file) as served:
        deadline = time.monotonic() + _LATE_ENOUGH_S
        while len(late := _lateness(served)) < scale.due and time.monotonic() < deadline:
            time.sleep(0.2)
    if len(late) < scale.due:
        raise serving.NotServed(f"only {len(late)} of {scale.due} schedules fired; see {served.log}")
    remove(file)
    late.sort()
    return Outcome(scale.schedules, scale.due, quantile(late, 0.5), quantile(late, 0.99), late[-1])


def _save(queue: Queue, schedules: list[Schedule]) -> None:
    for start in range(0, len(schedules), _TOGETHER):
        with queue.transaction():
            for schedule in schedules[start : start + _TOGETHER]:
                queue.run(SaveSchedule(schedule))


def _schedule(number: int, expression: str) -> Schedule:
    return new_schedule(
        f"schedule-{number}",
        "queue",
        QUEUE,
        "cron" if expression.endswith("*") else "fire_at",
        expression,
        NewMessage(b'{"n":%d}' % number),
        int(time.time() * 1000),
    )


def _at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _lateness(served: serving.Served) -> list[float]:
    """Return for every message so far the seconds from its slot to when it was sent."""
    _, lines = served.call("GET", f"/v1/queues/{QUEUE}/export")
    return [
        message["created_at"] / 1000 - _ms(message["headers"]["_schedule"]["scheduled_for"])
        for message in map(msgspec.json.decode, lines.splitlines())
    ]


def _ms(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
