"""Schedules, their fires, and the operations on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from sqew.model.events import NewEvent
from sqew.model.messages import NewMessage
from sqew.model.operation import Operation
from sqew.model.progress import NO_REASON

SCHEDULE_HEADER = "_schedule"
"""The header that has the schedule that sent a message, and the slot."""
SCHEDULES = "\0schedules"
ExpressionKind = Literal["cron", "every", "when", "fire_at"]
ScheduleStatus = Literal["active", "paused"]
TargetKind = Literal["queue", "topic"]


class Schedule(Struct, frozen=True):
    """A rule that sends a message, or publishes an event, when it fires."""

    name: str
    target_kind: TargetKind
    target: str
    """The queue's name, or the routing key."""
    kind: ExpressionKind
    expression: str
    """The expression for its times, as it was given."""
    canonical: str
    """The expression in canonical form: see `sqew.schedules`."""
    timezone: str
    message: NewMessage
    status: ScheduleStatus = "active"
    catchup: bool = False
    """True to make up for fires that were missed while no server ran; otherwise it fires once for all of them."""
    catchup_limit: int = 100
    """The number of missed fires that are made up for, at most; the others are skipped."""
    failure_threshold: int | None = 10
    """The number of failures in a row after which it pauses. None: never."""
    jitter_secs: int = 0
    """The most seconds that a slot may fire late, so that many schedules don't fire at once."""
    caught_up: int = 0
    """The number of missed fires that it has made up for so far, if that takes several steps."""
    next_fire_at: int | None = None
    """The slot that fires next. A paused schedule keeps it."""
    due_at: int | None = None
    """The time to fire that slot: its own, or later if it failed. None: not by itself."""
    consecutive_failures: int = 0
    last_error: str = NO_REASON
    paused_reason: str = NO_REASON
    last_fired_at: int | None = None
    """The slot that fired last; or the time of a fire out of turn, if that was later."""
    fired: int = 0
    """The number of fires: for its slots, and out of turn."""
    skipped: int = 0
    """The number of slots that passed while no server ran: of each such time, a hundred at most are counted."""
    created_at: int = 0
    updated_at: int = 0
    version: int = 0
    """A number that goes up with every change and every fire."""


class Saved(Struct, frozen=True):
    """A schedule as it is stored now, and ``created``, which is True if it is new."""

    schedule: Schedule
    created: bool


class DueSchedules(Struct, frozen=True):
    """The due schedules, and the time at which the next of the others is due."""

    schedules: list[Schedule]
    next_due_at: int | None


class Advance(Struct, frozen=True):
    """The next state of a schedule: its next slot (None: it is over), and how many were skipped."""

    next_fire_at: int | None
    last_fired_at: int
    skipped: int = 0
    caught_up: int = 0
    """The number of missed fires that were made up for, if there are more to come."""
    due_at: int | None = None
    """The time to fire the next slot. None: its own."""


class Fired(Struct, frozen=True):
    """The result of a fire: the ids of the messages, and the number of endpoints to post to."""

    ids: list[int]
    deliveries: int = 0


class Fire(Struct, frozen=True):
    """The time of a fire."""

    at: int
    local: str
    """The local time in its time zone, in ISO 8601."""


class Preview(Struct, frozen=True):
    """The meaning of an expression, and the times it would fire next."""

    canonical: str
    timezone: str
    human_readable: str
    next_fires: list[Fire]


class ScheduleInfo(Struct, frozen=True):
    """A schedule as it is shown: the fields of `Schedule`, and their meaning."""

    name: str
    target_kind: TargetKind
    target: str
    kind: ExpressionKind
    expression: str
    timezone: str
    message: NewMessage
    status: ScheduleStatus
    catchup: bool
    catchup_limit: int
    failure_threshold: int | None
    canonical: str
    human_readable: str
    next_fire_at: int | None
    """The slot that fires next; None while it is paused."""
    next_fires: list[Fire]
    """The next fires; empty while it is paused."""
    last_fired_at: int | None
    fired: int
    skipped: int
    consecutive_failures: int
    last_error: str
    paused_reason: str
    created_at: int
    updated_at: int
    jitter_secs: int = 0
    problem: str = NO_REASON
    """The reason why it can't fire now: its queue does not exist. Only if a single schedule is read."""


class ScheduleRun(Struct, frozen=True):
    """The result of a fire out of turn: the ids of the messages it sent, and the number of endpoints to post to."""

    schedule: str
    scheduled_for: int
    ids: list[int]
    deliveries: int


class SaveSchedule(Operation[Saved], frozen=True):
    """Store a schedule, if the existing one has the version ``expected`` (0: there is none; None: any)."""

    schedule: Schedule
    expected: int | None = None


class GetSchedule(Operation[Schedule], frozen=True):
    writes: ClassVar[bool] = False
    name: str


class ListSchedules(Operation[list[Schedule]], frozen=True):
    """List schedules by name, after ``after``."""

    writes: ClassVar[bool] = False
    status: ScheduleStatus | None = None
    target_kind: TargetKind | None = None
    prefix: str = ""
    after: str = ""
    limit: int = 1000


class DeleteSchedule(Operation[bool], frozen=True):
    """Delete a schedule; return whether there was one."""

    name: str


class FindDueSchedules(Operation[DueSchedules], frozen=True):
    """Return the schedules that are due, the longest due first."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True
    limit: int = 100


class FireSchedule(Operation[Fired], frozen=True):
    """Send a schedule's message, one event for each slot, and advance the schedule, in one transaction.

    Only if it still has that version: so no slot fires twice, whatever other servers do. ``advance`` None: a fire out
    of turn, which leaves the schedule's next slot as it is.
    """

    name: str
    version: int
    events: Sequence[NewEvent]
    advance: Advance | None


class FailSchedule(Operation[Schedule], frozen=True):
    """Record that a schedule could not fire: retry the slot later, or pause it after too many failures."""

    name: str
    version: int
    error: str
    retry_at: int
