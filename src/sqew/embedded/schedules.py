"""`Queue.schedules`: messages and events sent by the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack

from msgspec import structs

from sqew.clock import Clock
from sqew.embedded.publishing import EmbeddedPublisher, ExecuteOperation
from sqew.errors import (
    Conflict,
    Invalid,
    QueueNotFound,
    ScheduleChanged,
    ScheduleExists,
    ScheduleNotFound,
    TargetMissing,
)
from sqew.model import (
    NewMessage,
    Preview,
    QueueInfo,
    Schedule,
    ScheduleInfo,
    ScheduleRun,
    ScheduleStatus,
    TargetKind,
)
from sqew.operations import DeleteSchedule, GetQueue, GetSchedule, ListSchedules, SaveSchedule
from sqew.rules.bodies import encode_body
from sqew.rules.limits import Limits
from sqew.rules.names import check_lane, check_queue_name, check_schedule_name, names_meant
from sqew.rules.values import seconds_as_ms
from sqew.schedules import preview as previews
from sqew.schedules.changes import (
    DEFAULT_ZONE,
    DEFAULTS,
    aim_of,
    changed_schedule,
    check_target,
    fire_now,
    new_schedule,
    problem_of,
)
from sqew.schedules.keywords import (
    ScheduleFields,
    Timing,
    check_fields,
    expression_of,
    in_seconds,
    needed_expression,
    needed_message,
    needed_target,
    target_of,
)
from sqew.settings import Settings

R = TypeVar("R")
Found = list[ScheduleInfo]

_MOST_TRIES = 100
_OF_MESSAGE = ("headers", "priority", "lane", "group")
_OF_SCHEDULE = ("timezone", "status", "catchup", "catchup_limit", "failure_threshold", "jitter_secs")
_UNSAID = NewMessage(b"null")
"""An empty message, to which a schedule's fields are added."""


class EmbeddedSchedules:
    """Schedules of the file.

        q.schedules.create("report", queue="reports", when="every weekday at 9am", message={}, timezone="Europe/Berlin")

    A server on the same file fires them: an embedded queue fires nothing by itself.
    """

    def __init__(
        self, run: ExecuteOperation, publisher: EmbeddedPublisher, clock: Clock, settings: Settings, limits: Limits
    ) -> None:
        self._run, self._publisher, self._clock, self._limits = run, publisher, clock, limits
        self._fires_shown, self._most_listed = settings.schedule_preview_count, settings.schedule_list_max

    def create(self, name: str, **fields: Unpack[ScheduleFields]) -> ScheduleInfo:
        """Create a schedule: where to, when, and what. Raises `sqew.errors.ScheduleExists` if the name is taken."""
        return self._saved(self._new(name, in_seconds(fields)), expected=0)

    def put(self, name: str, **fields: Unpack[ScheduleFields]) -> ScheduleInfo:
        """Create or replace a schedule; fields that are not given get their defaults.

        A paused schedule stays paused unless the fields say otherwise. Repeating the same fields does not change its
        next fire.
        """
        return self._tried_again(lambda: self._put(name, in_seconds(fields)))

    def change(self, name: str, **fields: Unpack[ScheduleFields]) -> ScheduleInfo:
        """Change some fields of a schedule."""
        return self._tried_again(lambda: self._change(name, in_seconds(fields)))

    def pause(self, name: str) -> ScheduleInfo:
        """Stop the schedule from firing, until `resume`."""
        return self.change(name, status="paused")

    def resume(self, name: str) -> ScheduleInfo:
        """Have the schedule fire again. Fires that it missed are made up for if its ``catchup`` is True."""
        return self.change(name, status="active")

    def get(self, name: str) -> ScheduleInfo:
        """Return a schedule, with the times it fires next."""
        return self._info(self._run(GetSchedule(name)))

    def list(
        self,
        *,
        status: ScheduleStatus | None = None,
        target_kind: TargetKind | None = None,
        prefix: str = "",
        limit: int | None = None,
        after: str = "",
    ) -> Found:
        """Return schedules by name, after the given one: at most ``limit``, or else ``schedule_list_max``."""
        most = self._most_listed if limit is None else limit
        found = part = self._run(ListSchedules(status, target_kind, prefix, after, most))
        # Where messages are large there are fewer at a time.
        while part and len(found) < most:
            part = self._run(ListSchedules(status, target_kind, prefix, part[-1].name, most - len(found)))
            found += part
        return [previews.info_of(schedule, self._clock.now(), self._fires_shown) for schedule in found]

    def delete(self, name: str) -> None:
        """Delete a schedule, if there is one of that name."""
        self._run(DeleteSchedule(name))

    def run(self, name: str) -> ScheduleRun:
        """Fire now, out of turn. The next fire by the clock stays as it is."""
        return self._tried_again(lambda: self._fire(name))

    def preview(self, *, timezone: str = DEFAULT_ZONE, count: int = 5, **timing: Unpack[Timing]) -> Preview:
        """Return an expression's description, and the times it would fire next."""
        check_fields({"timezone": timezone, **timing})
        kind, expression = needed_expression(timing)
        return previews.preview(kind, expression, timezone, self._clock.now(), count)

    def _put(self, name: str, fields: Mapping[str, Any]) -> ScheduleInfo:
        try:
            existing = self._run(GetSchedule(name))
        except ScheduleNotFound:
            return self._saved(self._new(name, fields), expected=0)
        check_fields(fields)
        needed_target(fields)
        needed_expression(fields)
        needed_message(fields)
        changes = {**DEFAULTS, **self._changes(fields, _UNSAID)}
        return self._changed(existing, changes)

    def _change(self, name: str, fields: Mapping[str, Any]) -> ScheduleInfo:
        check_fields(fields)
        existing = self._run(GetSchedule(name))
        changes = self._changes(fields, existing.message)
        return self._changed(existing, changes)

    def _new(self, name: str, fields: Mapping[str, Any]) -> Schedule:
        check_schedule_name(name)
        check_fields(fields)
        target, expression = needed_target(fields), needed_expression(fields)
        needed_message(fields)
        changes = self._changes(fields, _UNSAID)
        for known in ("target_kind", "target", "kind", "expression"):
            del changes[known]
        schedule = new_schedule(name, *target, *expression, now=self._clock.now(), **changes)
        self._check_target(schedule)
        return schedule

    def _changes(self, fields: Mapping[str, Any], message: NewMessage) -> dict[str, Any]:
        """Return the changes that the fields make, in the terms of `sqew.schedules.changes`."""
        changes: dict[str, Any] = {name: fields[name] for name in _OF_SCHEDULE if name in fields}
        target, expression = target_of(fields), expression_of(fields)
        if target is not None:
            changes["target_kind"], changes["target"] = target
        if expression is not None:
            changes["kind"], changes["expression"] = expression
        changes["message"] = self._message_with(message, fields)
        return changes

    def _check_target(self, schedule: Schedule) -> None:
        if schedule.message.lane is not None:
            check_lane(schedule.message.lane)
        check_target(schedule, self._queue(schedule))

    def _queue(self, schedule: Schedule) -> QueueInfo | QueueNotFound | None:
        """Return the queue that a schedule sends to, the error if it is missing, or None if the schedule publishes."""
        if schedule.target_kind != "queue":
            return None
        check_queue_name(schedule.target)
        missing: list[QueueNotFound] = []
        for name in names_meant(schedule.target):
            try:
                return self._run(GetQueue(name))
            except QueueNotFound as error:
                missing.append(error)
        return missing[0]

    def _message_with(self, message: NewMessage, fields: Mapping[str, Any]) -> NewMessage:
        changes: dict[str, Any] = {name: fields[name] for name in _OF_MESSAGE if name in fields}
        if "message" in fields:
            changes["body"], changes["format"] = encode_body(fields["message"], self._limits)
        for field, seconds, at_least in (("delay_ms", "delay_seconds", 0), ("ttl_ms", "ttl_seconds", 1)):
            if seconds in fields:
                given = fields[seconds]
                changes[field] = None if given is None else seconds_as_ms(seconds, given, at_least)
        return structs.replace(message, **changes)

    def _fire(self, name: str) -> ScheduleRun:
        schedule, now = self._run(GetSchedule(name)), self._clock.now()
        try:
            fired = self._publisher.fire(fire_now(schedule, now))
        except QueueNotFound as error:
            raise TargetMissing(name, error) from error
        except Invalid as error:
            raise Conflict(f"Schedule '{name}' can't fire. {error}") from error
        return ScheduleRun(name, now, fired.ids, fired.deliveries)

    def _changed(self, existing: Schedule, changes: Mapping[str, Any]) -> ScheduleInfo:
        changed = changed_schedule(existing, changes, self._clock.now())
        if changed == existing:
            return self._info(existing)
        if aim_of(changed) != aim_of(existing):
            self._check_target(changed)
        return self._saved(changed, existing.version)

    def _saved(self, schedule: Schedule, expected: int) -> ScheduleInfo:
        return self._info(self._run(SaveSchedule(schedule, expected)).schedule)

    def _info(self, schedule: Schedule) -> ScheduleInfo:
        return previews.info_of(schedule, self._clock.now(), self._fires_shown, problem_of(self._queue(schedule)))

    def _tried_again(self, act: Callable[[], R]) -> R:
        """Repeat an edit whose schedule is changed or fired by others between reading and saving it."""
        for _ in range(_MOST_TRIES - 1):
            try:
                return act()
            except (ScheduleChanged, ScheduleExists):
                continue
        return act()
