"""`sqew writer …`: writers that send in whole epochs, and what they have staged."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from sqew.cli.messages.pages import listed
from sqew.cli.parameters import Name, Whole, limit_option, queue_option, yes_option
from sqew.cli.session import QueueSession
from sqew.formats.columns import LARGEST_EPOCH
from sqew.model import Staging, WriterInfo
from sqew.terminal.command import Group
from sqew.terminal.output import Column, Facts, Table

name_option = click.option("--name", required=True, type=Name(), help="The writer's name: a job's or a query's id.")


@click.group(cls=Group)
def writer() -> None:
    """Look at who sends in whole epochs; abort what they have staged."""


@writer.command("list")
@queue_option
@limit_option(100)
@click.option("--after", default="", metavar="NAME", help="Only those whose names come later.")
@click.pass_obj
def list_writers(session: QueueSession, queue: str, limit: int, after: str) -> None:
    """List the writers of a queue."""
    with session.reader() as q:
        found = listed(
            session,
            lambda most, last: q.writers.list(queue, limit=most, after=last),
            lambda one: one.name,
            limit,
            after,
        )
    session.show({"writers": msgspec.to_builtins(found)}, _table(queue, found))


def _table(queue: str, found: Sequence[WriterInfo]) -> Table:
    columns = [Column("name"), Column("last epoch", right=True), Column("promoted", right=True), Column("staged")]
    rows = [(one.name, _epoch(one), one.promoted, "; ".join(map(_staged, one.staged))) for one in found]
    return Table(columns, rows, f"Nobody sends to queue '{queue}' in epochs.")


def _epoch(info: WriterInfo) -> object:
    return "none yet" if info.epoch is None else info.epoch


def _staged(staging: Staging) -> str:
    doing = ", being promoted" if staging.promoting else ""
    return f"{staging.messages} of epoch {staging.epoch}{doing}"


@writer.command("show")
@queue_option
@name_option
@click.pass_obj
def show(session: QueueSession, queue: str, name: str) -> None:
    """Show a writer: the last of its epochs that was promoted, and what is staged."""
    with session.reader() as q:
        found = q.writers.get(queue, name)
    facts = [
        ("name", found.name),
        ("last epoch", _epoch(found)),
        ("messages promoted", found.promoted),
        ("of these duplicates", found.duplicates),
        *(("staged", _staged(staging)) for staging in found.staged),
    ]
    session.show(msgspec.to_builtins(found), Facts(facts))


@writer.command("abort")
@queue_option
@name_option
@click.option("--epoch", required=True, type=Whole(0, LARGEST_EPOCH), help="Which of its epochs.")
@yes_option
@click.pass_obj
def abort(session: QueueSession, queue: str, name: str, epoch: int, yes: bool) -> None:
    """Forget what a writer has staged of an epoch, and not promoted."""
    session.confirm(f"Forgetting what writer '{name}' has staged of epoch {epoch}", yes)
    with session.open() as q:
        q.writers.abort(queue, name, epoch)
    session.show(
        {"queue": queue, "name": name, "epoch": epoch, "aborted": True},
        f"Nothing is staged of epoch {epoch} of writer '{name}'.",
    )
