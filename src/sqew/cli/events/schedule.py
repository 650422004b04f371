"""`sqew schedule …`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from sqew.cli.events.event import went_out
from sqew.cli.events.schedule_views import schedule_document, schedule_parts, schedule_table
from sqew.cli.messages.bodies import body_of, body_option, text_option, value_of
from sqew.cli.messages.pages import listed
from sqew.cli.parameters import (
    OFF,
    TIMINGS,
    Limit,
    Milliseconds,
    Name,
    Pair,
    QueueName,
    Whole,
    check_alternatives,
    limit_option,
    yes_option,
)
from sqew.cli.session import QueueSession, now_ms
from sqew.model import ScheduleInfo, ScheduleStatus, TargetKind
from sqew.rules.values import LONGEST_JITTER_S
from sqew.terminal.command import Group

F = TypeVar("F", bound=Callable[..., Any])

_TARGETS = ("queue", "topic")
name_option = click.option("--name", required=True, metavar="NAME", help="The schedule.")

_FIELD_OPTIONS = [
    click.option("--queue", type=QueueName(), help="Where it sends: a queue,"),
    click.option("--topic", metavar="KEY", help="or everybody who subscribes to this routing key."),
    click.option("--cron", metavar="FIELDS", help="Five or six fields, or @daily and the like: '0 9 * * 1-5'."),
    click.option("--every", metavar="INTERVAL", help="An interval: '5 minutes', 1h30m."),
    click.option("--when", metavar="TEXT", help="Plain English: 'first monday of the month at noon'."),
    click.option("--fire-at", metavar="TIME", help="Once: 2026-12-24T18:00."),
    click.option("--timezone", metavar="ZONE", help="An IANA name: Europe/Berlin.  [default: UTC]"),
    body_option,
    text_option,
    click.option("--header", "--headers", "headers", multiple=True, type=Pair(), help="A header; give it once each."),
    click.option("--priority", type=int, help="Higher ones are received first: -1000 to 1000."),
    click.option("--lane", metavar="NAME", help="The lane."),
    click.option("--group", type=Name(), help="The group, in a FIFO queue."),
    click.option("--delay-ms", "--delay", "delay_ms", type=Milliseconds(), help="How long each message waits."),
    click.option("--ttl-ms", "--ttl", "ttl_ms", type=Milliseconds(at_least=1), help="How long each message lives."),
    click.option(
        "--catchup/--no-catchup", default=None, help="Whether fires that were missed are made up for.  [default: no]"
    ),
    click.option("--catchup-limit", type=Whole(1, 1_000_000), metavar="N", help="How many of them.  [default: 100]"),
    click.option(
        "--failure-threshold",
        type=Limit(),
        metavar="NUMBER|none",
        help="It pauses after so many failures in a row.  [default: 10]",
    ),
    click.option(
        "--jitter-secs",
        type=Whole(0, LONGEST_JITTER_S),
        metavar="N",
        help="Fire up to so many seconds late.  [default: 0]",
    ),
]


def field_options(command: F) -> F:
    """Add an option for each field of a schedule to a command."""
    for option in reversed(_FIELD_OPTIONS):
        command = option(command)
    return command


def _fields(session: QueueSession, options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given, by the keywords of `q.schedules`."""
    check_alternatives(options, _TARGETS)
    check_alternatives(options, TIMINGS)
    body = body_of(options.pop("body"), options.pop("text"), session.limits)
    headers = dict(options.pop("headers"))
    given: dict[str, Any] = {
        name: None if value is OFF else value for name, value in options.items() if value is not None
    }
    for field in ("delay", "ttl"):
        ms: int | None = given.pop(f"{field}_ms", None)
        if ms is not None:
            given[f"{field}_seconds"] = ms / 1000
    if headers:
        given["headers"] = headers
    if body is not None:
        given["message"] = value_of(body)
    return given


@click.group(cls=Group)
def schedule() -> None:
    """Send messages and publish events by the clock."""


@schedule.command("add")
@name_option
@field_options
@click.option("--paused", is_flag=True, help="It does not fire until it is resumed.")
@click.pass_obj
def add(session: QueueSession, /, name: str, paused: bool, **options: Any) -> None:
    """Make a schedule: where to, when, and what. A name that is taken is refused.

    A server on the file fires it: sqew serve.
    """
    fields = _fields(session, options)
    with session.open() as q:
        info = q.schedules.create(name, **_needed(fields), status="paused" if paused else "active")
    _show(session, info)


@schedule.command("put")
@name_option
@field_options
@click.option("--paused/--active", default=None, help="Whether it fires.  [default: as before]")
@click.pass_obj
def put(session: QueueSession, /, name: str, paused: bool | None, **options: Any) -> None:
    """Create or replace a schedule: what is left out gets its default.

    Doing it again changes nothing, so that it can be part of a deployment.
    """
    fields = _needed(_fields(session, options))
    if paused is not None:
        fields["status"] = "paused" if paused else "active"
    with session.open() as q:
        info = q.schedules.put(name, **fields)
    _show(session, info)


def _needed(fields: dict[str, Any]) -> dict[str, Any]:
    for options in (_TARGETS, TIMINGS, ("message",)):
        if not any(option in fields for option in options):
            raise click.UsageError(_MISSING[options[0]], click.get_current_context())
    return fields


_MISSING = {
    "queue": "Say where it sends: give --queue or --topic.",
    "cron": "Say when it fires: give --cron, --every, --when or --fire-at.",
    "message": "Say what it sends: give --body or --text.",
}


@schedule.command("list")
@click.option("--status", type=click.Choice(get_args(ScheduleStatus)), help="Only those.")
@click.option("--target-kind", type=click.Choice(get_args(TargetKind)), help="Only those that send there.")
@click.option("--prefix", default="", help="Only those whose names begin so.")
@limit_option(100)
@click.option("--after", default="", metavar="NAME", help="Only those whose names come later.")
@click.pass_obj
def list_schedules(
    session: QueueSession,
    status: ScheduleStatus | None,
    target_kind: TargetKind | None,
    prefix: str,
    limit: int,
    after: str,
) -> None:
    """List schedules, and when each fires next."""
    with session.reader() as q:
        found = listed(
            session,
            lambda most, last: q.schedules.list(
                status=status, target_kind=target_kind, prefix=prefix, limit=most, after=last
            ),
            lambda one: one.name,
            limit,
            after,
        )
    documents = [schedule_document(info) for info in found]
    for document in documents:
        del document["next_fires"]
    is_filtered = bool(status or target_kind or prefix or after)
    session.show({"schedules": documents}, schedule_table(found, now_ms(), is_filtered))


@schedule.command("show")
@name_option
@click.pass_obj
def show(session: QueueSession, name: str) -> None:
    """Show everything about a schedule, and when it fires next."""
    with session.reader() as q:
        info = q.schedules.get(name)
    _show(session, info)


@schedule.command("edit")
@name_option
@field_options
@click.pass_obj
def edit(session: QueueSession, /, name: str, **options: Any) -> None:
    """Change a schedule. What is not named stays; headers are replaced as a whole."""
    fields = _fields(session, options)
    if not fields:
        raise click.UsageError("Say what to change.", click.get_current_context())
    with session.open() as q:
        info = q.schedules.change(name, **fields)
    _show(session, info)


@schedule.command("pause")
@name_option
@click.pass_obj
def pause(session: QueueSession, name: str) -> None:
    """Have a schedule fire no more until it is resumed."""
    with session.open() as q:
        info = q.schedules.pause(name)
    session.show(schedule_document(info), f"Paused schedule '{name}'.")


@schedule.command("resume")
@name_option
@click.pass_obj
def resume(session: QueueSession, name: str) -> None:
    """Have a schedule fire again. What it missed is made up for if it catches up."""
    with session.open() as q:
        info = q.schedules.resume(name)
    _show(session, info)


@schedule.command("rm")
@name_option
@yes_option
@click.pass_obj
def remove(session: QueueSession, name: str, yes: bool) -> None:
    """Delete a schedule."""
    with session.open() as q:
        q.schedules.get(name)
        session.confirm(f"Deleting schedule '{name}'", yes)
        q.schedules.delete(name)
    session.show({"name": name, "deleted": True}, f"Deleted schedule '{name}'.")


@schedule.command("run")
@name_option
@click.pass_obj
def run(session: QueueSession, name: str) -> None:
    """Fire a schedule now, out of turn. Its next fire stays as it is."""
    with session.open() as q:
        fired = q.schedules.run(name)
    document = {
        "schedule": name,
        "scheduled_for": fired.scheduled_for,
        "out_of_band": True,
        "msg_ids": fired.ids,
        "deliveries": fired.deliveries,
    }
    session.show(
        document,
        f"Fired schedule '{name}': sent {went_out(len(fired.ids), fired.deliveries)}.",
    )


def _show(session: QueueSession, info: ScheduleInfo) -> None:
    session.show(schedule_document(info), *schedule_parts(info, now_ms()))
