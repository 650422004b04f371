"""`sqew key …`: the API keys of a queue."""

from __future__ import annotations

from typing import Any, get_args

import click
import msgspec

from sqew.cli.parameters import Name, QueueName, queue_option, yes_option
from sqew.cli.session import QueueSession, now_ms
from sqew.model import KeyInfo, KeyScope
from sqew.terminal.command import Group
from sqew.terminal.output import Column, Facts, Table, moment

_ONCE = "Keep what is shown here: it can't be shown again."
_NO_TOKEN = "Keys count on a server that has a token: start it with SQEW_AUTH_TOKEN set."


@click.group(cls=Group)
def key() -> None:
    """Make, list and delete the keys that open one queue of a server."""


@key.command("add")
@queue_option
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(get_args(KeyScope)),
    help="What it allows; give it once each. admin: everything with this queue.",
)
@click.option("--label", default="", metavar="TEXT", help="What it is for, or whose it is.")
@click.option("--signing", is_flag=True, help="Every request with it must be signed.")
@click.pass_obj
def add(session: QueueSession, queue: str, scopes: tuple[KeyScope, ...], label: str, signing: bool) -> None:
    """Make a key. It is shown once."""
    with session.open() as q:
        info, made, secret = q.create_key(queue, list(dict.fromkeys(scopes)), label, signing=signing)
    document: dict[str, Any] = msgspec.to_builtins(info) | {"key": made}
    facts: list[tuple[str, object]] = [("id", info.id), ("queue", info.queue), ("key", made)]
    if secret is not None:
        document["signing_secret"] = secret
        facts.append(("signing secret", secret))
    session.show(document, Facts([*facts, ("allows", ", ".join(info.scopes))]))
    session.note(_ONCE)
    if not session.settings.auth_token:
        session.note(_NO_TOKEN)


@key.command("list")
@click.option("--queue", type=QueueName(), help="The queue.  [default: all]")
@click.pass_obj
def list_keys(session: QueueSession, queue: str | None) -> None:
    """List keys: what they allow, not what they are."""
    with session.reader() as q:
        names = [info.name for info in q.queues()] if queue is None else [queue]
        found = [key for name in names for key in q.keys(name)]
    session.show({"keys": msgspec.to_builtins(found)}, _table(found, now_ms()))


def _table(keys: list[KeyInfo], now: int) -> Table:
    columns = [Column("id"), Column("queue"), Column("allows"), Column("signing"), Column("made"), Column("label")]
    rows = [
        (key.id, key.queue, ", ".join(key.scopes), key.signing, moment(key.created_at, now), key.label) for key in keys
    ]
    return Table(columns, rows, "There are no keys. Make one: sqew key add --queue orders --scope send")


@key.command("rm")
@queue_option
@click.option("--id", required=True, type=Name(), help="The key's id, from `sqew key list`.")
@yes_option
@click.pass_obj
def remove(session: QueueSession, queue: str, id: str, yes: bool) -> None:
    """Delete a key: within a second it opens nothing."""
    session.confirm(f"Deleting key '{id}' of queue '{queue}'", yes)
    with session.open() as q:
        q.delete_key(queue, id)
    session.show({"queue": queue, "id": id, "deleted": True}, f"Deleted key '{id}' of queue '{queue}'.")
