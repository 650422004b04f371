"""`sqew subscription …`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import click

from sqew.cli.messages.pages import listed
from sqew.cli.parameters import LARGEST_ID, QueueName, Whole, limit_option, yes_option
from sqew.cli.session import QueueSession, now_ms
from sqew.errors import SubscriptionNotFound
from sqew.model import RAW, Subscription
from sqew.terminal.command import Group
from sqew.terminal.output import Column, Facts, Table, moment

_NONE = "There are no subscriptions. Add one: sqew subscription add --pattern 'orders.*' --queue orders"
_SUBSCRIPTION_ID = Whole(1, LARGEST_ID)
after_option = click.option(
    "--after", type=Whole(0, LARGEST_ID), default=0, metavar="ID", help="Only those with higher ids."
)


@click.group(cls=Group)
def subscription() -> None:
    """Say which events go to which queues and endpoints."""


@subscription.command("add")
@click.option(
    "--pattern", required=True, metavar="PATTERN", help="The routing keys: * is one word, # any number, as in orders.#"
)
@click.option("--queue", type=QueueName(), help="The queue that they go to.")
@click.option("--endpoint", metavar="URL", help="The http(s) URL that they are posted to.")
@click.option("--envelope", is_flag=True, help="In a signed envelope, as SNS sends them.  [default: as they are]")
@click.option(
    "--signature-version",
    type=click.Choice(["1", "2"]),
    help="How the envelope is signed: SHA-1 or SHA-256.  [default: 2]",
)
@click.pass_obj
def add(
    session: QueueSession,
    pattern: str,
    queue: str | None,
    endpoint: str | None,
    envelope: bool,
    signature_version: str | None,
) -> None:
    """Have events that match a pattern go to a queue or an endpoint."""
    if (queue is None) == (endpoint is None):
        raise click.UsageError(
            "Say where the events go: give --queue or --endpoint, and not both.", click.get_current_context()
        )
    if signature_version is not None and not envelope:
        raise click.UsageError("--signature-version is for --envelope. Give both or none.", click.get_current_context())
    version = None if signature_version is None else cast("Literal[1, 2]", int(signature_version))
    with session.open() as q:
        made = q.events.subscribe(pattern, queue=queue, endpoint=endpoint, envelope=envelope, signature_version=version)
    session.show(document(made), _facts(made, now_ms()))


@subscription.command("list")
@click.option("--pattern", metavar="PATTERN", help="Only those to exactly this pattern.")
@click.option("--queue", type=QueueName(), help="Only those that lead to this queue.")
@limit_option(100)
@after_option
@click.pass_obj
def list_subscriptions(session: QueueSession, pattern: str | None, queue: str | None, limit: int, after: int) -> None:
    """List subscriptions."""
    if pattern is not None and queue is not None:
        raise click.UsageError("Give --pattern or --queue, and not both.", click.get_current_context())
    with session.reader() as q:
        found = listed(
            session,
            lambda most, last: q.events.subscriptions(pattern, queue, limit=most, after=last),
            lambda one: one.id,
            limit,
            after,
        )
    is_filtered = bool(pattern or queue or after)
    session.show({"subscriptions": [document(one) for one in found]}, _table(found, now_ms(), is_filtered))


@subscription.command("rm")
@click.option("--id", required=True, type=_SUBSCRIPTION_ID, help="The subscription, from `sqew subscription list`.")
@yes_option
@click.pass_obj
def remove(session: QueueSession, id: int, yes: bool) -> None:
    """Delete a subscription, and what was still on its way to its endpoint."""
    with session.open() as q:
        found = q.events.subscriptions(limit=1, after=id - 1)
        if not found or found[0].id != id:
            raise SubscriptionNotFound(id)
        session.confirm(f"Deleting {_meant(found[0])}", yes)
        q.events.unsubscribe(id)
    session.show({"id": id, "deleted": True}, f"Deleted subscription {id}.")


def _meant(subscription: Subscription) -> str:
    named = f"subscription {subscription.id} ('{subscription.pattern}' to"
    if subscription.protocol == "queue":
        return f"{named} queue '{subscription.target}')"
    return f"{named} an endpoint) and what is on its way there"


def document(subscription: Subscription) -> dict[str, Any]:
    """Return a subscription for machines."""
    return {
        "id": subscription.id,
        "pattern": subscription.pattern,
        "protocol": subscription.protocol,
        "target": subscription.target,
        "envelope": subscription.form != RAW,
        "signature_version": subscription.form or None,
        "created_at": subscription.created_at,
        "problem": subscription.problem or None,
    }


def _facts(subscription: Subscription, now: int) -> Facts:
    pairs: list[tuple[str, object]] = [
        ("subscription", subscription.id),
        ("pattern", subscription.pattern),
        ("queue" if subscription.protocol == "queue" else "endpoint", subscription.target),
        ("events come", form_text(subscription.form)),
        ("made", moment(subscription.created_at, now)),
        ("problem", subscription.problem),
    ]
    return Facts([pair for pair in pairs if pair[1] != ""])


def _table(subscriptions: Sequence[Subscription], now: int, is_filtered: bool) -> Table:
    columns = [Column("id", right=True), Column("pattern"), Column("to"), Column("target"), Column("events come")]
    columns += [Column("made"), Column("problem", optional=True)]
    rows = [
        (one.id, one.pattern, one.protocol, one.target, form_text(one.form), moment(one.created_at, now), one.problem)
        for one in subscriptions
    ]
    return Table(columns, rows, "No subscription is like that." if is_filtered else _NONE)


def form_text(form: int) -> str:
    """Return the form in which events reach a subscriber, in words."""
    return "as they are" if form == RAW else f"in an envelope, signature {form}"
