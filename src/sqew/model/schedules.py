"""Schedules, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from sqew.model.events import NewEvent
from sqew.model.messages import NewMessage
from sqew.model.operation import Operation
from sqew.model.progress import NO_REASON

SCHEDULE_HEADER = "_schedule"
"""Where a message says which schedule sent it, and for which slot."""
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
    """When it fires, as it was given."""
    canonical: str
    """The same as it is understood: see `sqew.schedules`."""
    timezone: str
    message: NewMessage
    status: ScheduleStatus = "active"
    catchup: bool = False
    """Whether what was missed while no server ran is made up for; otherwise it fires once for all of it."""
    catchup_limit: int = 100
    """How many missed fires are made up for at most; the others are skipped."""
    failure_threshold: int | None = 10
    """After so many failures in a row it pauses. None: never."""
    jitter_secs: int = 0
    """Up to how many seconds after its time each slot fires, so that many schedules don't fire at once."""
    caught_up: int = 0
    """How many missed fires it has made up for so far, where that takes several steps."""
    next_fire_at: int | None = None
    """The slot that fires next. A paused schedule keeps it."""
    due_at: int | None = None
    """When that is tried: at its time, or later if it failed. None: not by itself."""
    consecutive_failures: int = 0
    last_error: str = NO_REASON
    paused_reason: str = NO_REASON
    last_fired_at: int | None = None
    """The slot that fired last; or when it was fired out of turn, if that was later."""
    fired: int = 0
    """How often it has fired: for its slots, and out of turn."""
    skipped: int = 0
    """How many slots passed by unfired while no server ran: of each such time, a hundred at most are counted."""
    created_at: int = 0
    updated_at: int = 0
    version: int = 0
    """Goes up with every change and every fire."""


class Saved(Struct, frozen=True):
    """A schedule as it is stored now, and whether it is new."""

    schedule: Schedule
    created: bool


class DueSchedules(Struct, frozen=True):
    """Schedules whose time has come, and when the next of the others is due."""

    schedules: list[Schedule]
    next_due_at: int | None


class Advance(Struct, frozen=True):
    """Where a schedule goes from here: its next slot (None: it is over), and how many it left out."""

    next_fire_at: int | None
    last_fired_at: int
    skipped: int = 0
    caught_up: int = 0
    """How many missed fires were made up for, where there are more to come."""
    due_at: int | None = None
    """When the next slot is fired. None: at its time."""


class Fired(Struct, frozen=True):
    """What a fire sent: the ids of the messages, and how many endpoints will be posted to."""

    ids: list[int]
    deliveries: int = 0


class Fire(Struct, frozen=True):
    """When a schedule fires."""

    at: int
    local: str
    """What the clock of its time zone shows then, in ISO 8601."""


class Preview(Struct, frozen=True):
    """What an expression says, and when it would fire next."""

    canonical: str
    timezone: str
    human_readable: str
    next_fires: list[Fire]


class ScheduleInfo(Struct, frozen=True):
    """A schedule as it is shown: what `Schedule` says of it, and what that means."""

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
    """None while it is paused."""
    next_fires: list[Fire]
    """A paused one has none."""
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
    """Why it can't fire as things are: its queue does not exist. Only where one schedule is asked for."""


class ScheduleRun(Struct, frozen=True):
    """A fire out of turn: the ids of the messages that it sent, and how many endpoints will be posted to."""

    schedule: str
    scheduled_for: int
    ids: list[int]
    deliveries: int


class SaveSchedule(Operation[Saved], frozen=True):
    """Store a schedule, if the one there has the version ``expected`` (0: there is none; None: whatever is there)."""

    schedule: Schedule
    expected: int | None = None


class GetSchedule(Operation[Schedule], frozen=True):
    writes: ClassVar[bool] = False
    name: str


class ListSchedules(Operation[list[Schedule]], frozen=True):
    """Schedules by name, those after ``after``."""

    writes: ClassVar[bool] = False
    status: ScheduleStatus | None = None
    target_kind: TargetKind | None = None
    prefix: str = ""
    after: str = ""
    limit: int = 1000


class DeleteSchedule(Operation[bool], frozen=True):
    """Delete a schedule; whether there was one."""

    name: str


class FindDueSchedules(Operation[DueSchedules], frozen=True):
    """The schedules that are due, the longest due first."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True
    limit: int = 100


class FireSchedule(Operation[Fired], frozen=True):
    """Send what a schedule sends, one event for each slot, and move it on, in one transaction.

    Only if it still has that version: so no slot fires twice, whoever else is at it. ``advance`` None: a fire out of
    turn, which changes nothing about the schedule.
    """

    name: str
    version: int
    events: Sequence[NewEvent]
    advance: Advance | None


class FailSchedule(Operation[Schedule], frozen=True):
    """A schedule could not fire: try the slot again later, or pause it if that was once too often."""

    name: str
    version: int
    error: str
    retry_at: int
