"""`sqew consumer …`: consumers that read a queue in claims, as a streaming query does."""

from __future__ import annotations

import click
import msgspec

from sqew.cli.messages.pages import listed
from sqew.cli.parameters import Name, limit_option, queue_option, yes_option
from sqew.cli.session import QueueSession, now_ms
from sqew.model import ConsumerInfo
from sqew.terminal.command import Group
from sqew.terminal.output import Column, Table, moment


@click.group(cls=Group)
def consumer() -> None:
    """Look at who reads a queue in claims, and take it from them."""


@consumer.command("list")
@queue_option
@limit_option(100)
@click.option("--after", default="", metavar="NAME", help="Only those whose names come later.")
@click.pass_obj
def list_consumers(session: QueueSession, queue: str, limit: int, after: str) -> None:
    """List the consumers of a queue, and what each has claimed."""
    with session.reader() as q:
        found = listed(
            session,
            lambda most, last: q.consumers.list(queue, limit=most, after=last),
            lambda one: one.name,
            limit,
            after,
        )
    session.show({"consumers": msgspec.to_builtins(found)}, _table(queue, found, now_ms()))


def _table(queue: str, found: list[ConsumerInfo], now: int) -> Table:
    columns = [
        Column("name"),
        Column("owner"),
        Column("held until"),
        Column("open claims", right=True),
        Column("messages", right=True),
        Column("last claim", right=True),
    ]
    rows = [
        (
            one.name,
            one.owner,
            "" if one.held_until is None else moment(one.held_until, now),
            len(one.claims),
            sum(claim.count for claim in one.claims),
            one.last,
        )
        for one in found
    ]
    return Table(columns, rows, f"Nobody reads queue '{queue}' in claims.")


@consumer.command("release")
@queue_option
@click.option("--name", required=True, type=Name(), help="The consumer, from `sqew consumer list`.")
@click.option("--force", is_flag=True, help="Even while its owner holds it: what that one still does is refused.")
@yes_option
@click.pass_obj
def release(session: QueueSession, queue: str, name: str, force: bool, yes: bool) -> None:
    """Forget a consumer, and give back what it has claimed: others can receive it at once."""
    session.confirm(f"Releasing consumer '{name}' of queue '{queue}'", yes)
    with session.open() as q:
        q.consumers.release(queue, name, force=force)
    session.show({"queue": queue, "name": name, "released": True}, f"Released consumer '{name}' of queue '{queue}'.")
