"""`sqew dlq …`: the dead letters of a queue, wherever they are stored."""

from __future__ import annotations

import click

from sqew import operations as ops
from sqew.cli import views
from sqew.cli.messages.pages import listed
from sqew.cli.parameters import IdList, after_option, limit_option, queue_option, yes_option
from sqew.cli.session import QueueSession, now_ms
from sqew.cli.steps import in_steps
from sqew.terminal.command import Group
from sqew.terminal.exits import Exit, complain
from sqew.terminal.output import plural

ids_option = click.option("--ids", "--id", "ids", type=IdList(), help="Only these.  [default: all]")


@click.group(cls=Group)
def dlq() -> None:
    """Look at the dead letters of a queue, bring them back or delete them."""


@dlq.command("list")
@queue_option
@limit_option(100)
@after_option
@click.pass_obj
def list_dead(session: QueueSession, queue: str, limit: int, after: int) -> None:
    """List the messages of a queue that died, and why."""
    with session.reader() as q:
        messages = listed(
            session, lambda most, last: q.dead_letters(queue, most, last), lambda message: message.id, limit, after
        )
    session.show(
        views.messages_document(messages),
        views.dead_letters(messages, now_ms(), f"Queue '{queue}' has no dead letters."),
    )


@dlq.command("requeue")
@queue_option
@ids_option
@click.pass_obj
def requeue(session: QueueSession, queue: str, ids: list[int] | None) -> int:
    """Bring dead letters back to their queue, with attempts 0."""
    with session.open() as q:
        count = in_steps(
            session, q, lambda: ops.RequeueDead(queue, ids), lambda: q.requeue(queue, ids), "requeued", "message"
        )
    session.show({"queue": queue, "requeued": count}, views.sentence_of(count, "Requeued"))
    return _found_all(queue, ids, count)


@dlq.command("purge")
@queue_option
@ids_option
@yes_option
@click.pass_obj
def purge(session: QueueSession, queue: str, ids: list[int] | None, yes: bool) -> int:
    """Delete dead letters."""
    with session.open() as q:
        doomed = q.stats(queue).depths.dead if ids is None else len(ids)
        session.confirm(f"Deleting {plural(doomed, 'dead letter')} of queue '{queue}'", yes)
        count = in_steps(
            session, q, lambda: ops.PurgeDead(queue, ids), lambda: q.purge_dead(queue, ids), "deleted", "dead letter"
        )
    session.show({"queue": queue, "purged": count}, views.sentence_of(count, "Purged", "dead letter"))
    return _found_all(queue, ids, count)


def _found_all(queue: str, ids: list[int] | None, count: int) -> Exit:
    """Return an exit code: a failure, with a sentence, if some of the ids given name no dead letter."""
    if ids is None or count == len(ids):
        return Exit.OK
    complain(f"{len(ids) - count} of the {plural(len(ids), 'id')} given name no dead letter of queue '{queue}'.")
    return Exit.NOT_FOUND
