"""Making, changing, listing, deleting and running schedules."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Annotated, cast

from msgspec import UNSET, Meta, Struct, structs

from sqew import operations as ops
from sqew.clock import timestamp
from sqew.errors import (
    BadValue,
    Conflict,
    Invalid,
    QueueNotFound,
    ScheduleChanged,
    ScheduleExists,
    ScheduleNotFound,
    TargetMissing,
)
from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.dialects.native.fifo_names import BareNames, bare_names
from sqew.http.dialects.native.schedules.bodies import (
    Name,
    NewSchedule,
    ScheduleChanges,
    ScheduleSpec,
    Status,
    Target,
    changes_of,
    spec_of,
)
from sqew.http.dialects.native.schedules.views import ScheduleDetails, ScheduleView, details, listed
from sqew.http.router import NoParameters, Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import Request, Response, next_page
from sqew.model import QueueInfo, Saved, Schedule, ScheduleStatus, TargetKind
from sqew.rules.limits import MOST_BYTES
from sqew.rules.names import check_schedule_name
from sqew.rules.values import check_int, shown
from sqew.schedules.changes import aim_of, changed_schedule, check_target, fire_now, new_schedule, problem_of

routes = Routes(DIALECT)

_NO_TARGET = "workflow"
"""A target that beyond-queue has a name for, and refuses as we do."""
_TRIES = 100
"""The most tries of a change while others change or fire the schedule. For each try that is lost, another one won."""


class ScheduleParameters(Struct, frozen=True):
    """Parameters of the list of schedules. Unknown parameters are ignored, as beyond-queue ignores them."""

    status: Status | None = None
    """Only schedules that fire (`active`), or that don't (`paused`)."""
    target_kind: Target | None = None
    """Only schedules with this kind of target. There are none for `workflow`."""
    name_prefix: str = ""
    after: str = ""
    """The schedule to continue after: the last of the page before."""
    limit: Annotated[int, Meta(extra_json_schema={"maximum": 100_000})] | None = None
    """The most schedules to list. Left out: as many as the server's `schedule_list_max` allows."""


@routes.post("/v1/schedules", scope="admin", query=NoParameters, body=NewSchedule, answers={201: ScheduleDetails})
async def create_schedule(service: Service, request: Request) -> Response:
    """Make a schedule. A name that is taken is refused: see PUT."""
    given: NewSchedule = request.data
    schedule = new_schedule(given.name, now=service.broker.now(), **spec_of(given))
    schedule = await _aimed(service, schedule)
    saved = await service.broker.run(ops.SaveSchedule(schedule, expected=0))
    return await _answer(service, saved)


@routes.get("/v1/schedules", scope="admin", query=ScheduleParameters, answers={200: list[ScheduleView]})
async def list_schedules(service: Service, request: Request) -> Response:
    """List schedules by name. If there may be more, the header `X-Sqew-After` says after which name to go on."""
    given: ScheduleParameters = request.options
    most = service.settings.schedule_list_max
    limit = most if given.limit is None else given.limit
    check_int("limit", limit, 1, most)
    if given.target_kind == _NO_TARGET:
        return Response(200, b"[]")
    wanted = ops.ListSchedules(
        cast("ScheduleStatus | None", given.status),
        cast("TargetKind | None", given.target_kind),
        given.name_prefix,
        given.after,
        limit,
    )
    (found,) = await service.broker.read(wanted)
    size = sum(len(schedule.message.body) for schedule in found)
    is_cut = len(found) == limit or size >= MOST_BYTES
    count = service.settings.schedule_preview_count
    body = await asyncio.to_thread(listed, found, await _bare_names(service, found), service.broker.now(), count)
    return Response(200, body, headers=next_page(found[-1].name if is_cut else None))


@routes.get(
    "/v1/schedules/{name}", scope="admin", path={"name": Name}, query=NoParameters, answers={200: ScheduleDetails}
)
async def show_schedule(service: Service, request: Request) -> Response:
    """Show a schedule, and when it fires next."""
    schedule = await service.broker.run(ops.GetSchedule(request.params[0]))
    return await _answer(service, Saved(schedule, created=False))


@routes.put(
    "/v1/schedules/{name}",
    scope="admin",
    path={"name": Name},
    query=NoParameters,
    body=ScheduleSpec,
    answers={201: ScheduleDetails, 200: ScheduleDetails},
)
async def put_schedule(service: Service, request: Request) -> Response:
    """Make a schedule, or replace the one of that name. Fields that stay the same leave its fire times alone.

    The body may be what GET answered: fields that are only shown are ignored.
    """
    given: ScheduleSpec = request.data
    name = request.params[0]
    if given.name is not UNSET and given.name != name:
        raise BadValue(
            f"The body names the schedule {shown(given.name)}, and the path '{name}'. Leave it out of the body."
        )
    spec = spec_of(given)

    def replaced(existing: Schedule | ScheduleNotFound, now: int) -> Schedule:
        if isinstance(existing, ScheduleNotFound):
            return new_schedule(name, now=now, **spec)
        return changed_schedule(existing, spec, now)

    return await _answer(service, await _save(service, name, replaced))


@routes.patch(
    "/v1/schedules/{name}",
    scope="admin",
    path={"name": Name},
    query=NoParameters,
    body=ScheduleChanges,
    answers={200: ScheduleDetails},
)
async def change_schedule(service: Service, request: Request) -> Response:
    """Change some fields of a schedule; pause or resume it by its `status`."""
    given: ScheduleChanges = request.data
    name = request.params[0]

    def changed(existing: Schedule | ScheduleNotFound, now: int) -> Schedule:
        if isinstance(existing, ScheduleNotFound):
            raise existing
        return changed_schedule(existing, changes_of(given, existing.message), now)

    return await _answer(service, await _save(service, name, changed))


@routes.delete("/v1/schedules/{name}", scope="admin", path={"name": Name}, answers={204: None})
async def delete_schedule(service: Service, request: Request) -> Response:
    """Delete a schedule, if there is one."""
    name = request.params[0]
    # None can be of such a name, so it is not that it was gone before.
    check_schedule_name(name)
    await service.broker.run(ops.DeleteSchedule(name))
    return Response(204)


class Run(Struct):
    """A fire out of turn, and what it sent."""

    schedule: str
    schedule_name: str
    """The same as `schedule`."""
    fired_at: str
    """The time when it fired."""
    scheduled_for: str
    out_of_band: bool
    msg_ids: list[int]
    deliveries: int


class NoSettings(Struct):
    """An empty object: a run has no settings."""


@routes.post(
    "/v1/schedules/{name}/runs",
    scope="admin",
    path={"name": Name},
    query=NoParameters,
    body=NoSettings,
    body_optional=True,
    answers={202: Run},
)
async def run_schedule(service: Service, request: Request) -> Response:
    """Fire a schedule now, out of turn. The fire is counted, and the next one comes at its time."""
    name = request.params[0]
    for _ in range(_TRIES):
        schedule, now = await service.broker.run(ops.GetSchedule(name)), service.broker.now()
        with contextlib.suppress(ScheduleChanged):
            try:
                fired = await service.publisher.fire(fire_now(schedule, now))
            except QueueNotFound as error:
                raise TargetMissing(name, error) from error
            except Invalid as error:
                raise Conflict(f"Schedule '{name}' can't fire. {error}") from error
            at = timestamp(now)
            return Response(202, encode(Run(name, name, at, at, True, fired.ids, fired.deliveries)))
    raise ScheduleChanged(name)


Change = Callable[[Schedule | ScheduleNotFound, int], Schedule]
"""A function of a schedule, or the error that there is none, and the time: it returns the schedule to store instead."""


async def _save(service: Service, name: str, change: Change) -> Saved:
    """Store a schedule as it is after a change; try again if it was changed or fired meanwhile."""
    for _ in range(_TRIES):
        existing = await _find(service, name)
        schedule = change(existing, service.broker.now())
        if not isinstance(existing, Schedule) or aim_of(existing) != aim_of(schedule):
            schedule = await _aimed(service, schedule)
        if schedule == existing:
            return Saved(schedule, created=False)
        expected = existing.version if isinstance(existing, Schedule) else 0
        with contextlib.suppress(ScheduleChanged, ScheduleExists):
            return await service.broker.run(ops.SaveSchedule(schedule, expected))
    raise ScheduleChanged(name)


async def _find(service: Service, name: str) -> Schedule | ScheduleNotFound:
    try:
        return await service.broker.run(ops.GetSchedule(name))
    except ScheduleNotFound as error:
        return error


async def _aimed(service: Service, schedule: Schedule) -> Schedule:
    """Return the schedule with the whole name of its queue; raise if it asks for what its target can't do."""
    if schedule.target_kind == "queue":
        schedule = structs.replace(schedule, target=await service.meant(schedule.target))
    check_target(schedule, await _queue(service, schedule))
    return schedule


async def _queue(service: Service, schedule: Schedule) -> QueueInfo | QueueNotFound | None:
    """Return the queue that a schedule sends to, or the error that there is none; None: the schedule publishes."""
    if schedule.target_kind != "queue":
        return None
    try:
        return await service.broker.run(ops.GetQueue(await service.meant(schedule.target)))
    except QueueNotFound as error:
        return error


async def _bare_names(service: Service, schedules: list[Schedule]) -> BareNames:
    return await bare_names(service, [one.target for one in schedules if one.target_kind == "queue"])


async def _answer(service: Service, saved: Saved) -> Response:
    schedule, count = saved.schedule, service.settings.schedule_preview_count
    problem = problem_of(await _queue(service, schedule))
    bare = await _bare_names(service, [schedule])
    body = encode(details(schedule, bare, service.broker.now(), count, problem))
    if not saved.created:
        return Response(200, body)
    return Response(201, body, headers=((b"location", b"/v1/schedules/" + schedule.name.encode()),))
