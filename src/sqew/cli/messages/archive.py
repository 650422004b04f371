"""`sqew archive …`: finished messages, and how they ended."""

from __future__ import annotations

from typing import cast

import click

from sqew.cli import views
from sqew.cli.messages.pages import listed
from sqew.cli.parameters import after_option, limit_option, queue_option
from sqew.cli.session import QueueSession, now_ms
from sqew.model import Outcome
from sqew.terminal.command import Group


@click.group(cls=Group)
def archive() -> None:
    """Look at finished messages."""


@archive.command("list")
@queue_option
@click.option("--outcome", type=click.Choice(["done", "dead"]), help="Only those that ended so.")
@limit_option(100)
@after_option
@click.pass_obj
def list_archive(session: QueueSession, queue: str, outcome: str | None, limit: int, after: int) -> None:
    """List finished messages. A queue keeps them if it was made with --keep archive."""
    with session.reader() as q:
        found = listed(
            session,
            lambda most, last: q.archive(queue, most, last, cast("Outcome | None", outcome)),
            lambda archived: archived.message.id,
            limit,
            after,
        )
    session.show(
        views.archived_document(found),
        views.archived_messages(found, now_ms(), f"The archive of queue '{queue}' is empty."),
    )
