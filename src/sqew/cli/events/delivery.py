"""`sqew delivery …`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import click
import msgspec
from msgspec import Raw

from sqew.cli.events.subscription import after_option, form_text
from sqew.cli.messages.pages import listed
from sqew.cli.parameters import LARGEST_ID, IdList, Whole, all_yes_option, limit_option
from sqew.cli.session import QueueSession, now_ms
from sqew.errors import SqewError
from sqew.model import RAW, Delivery, DeliveryState
from sqew.terminal.command import Group
from sqew.terminal.exits import Exit, complain
from sqew.terminal.failures import code_of
from sqew.terminal.output import Column, Facts, Table, moment, relative

_NONE = "There are no deliveries: nothing waits to be posted, and nothing failed for good."
_ID = Whole(1, LARGEST_ID)
ids_option = click.option("--id", "--ids", "ids", type=IdList(), help="These.")
all_option = click.option("--all", "everything", is_flag=True, help="All that are exhausted.")
subscription_option = click.option(
    "--subscription", "subscription_id", type=_ID, metavar="ID", help="All of this subscription that are exhausted."
)


@click.group(cls=Group)
def delivery() -> None:
    """Look at events on their way to endpoints; retry or drop them."""


@delivery.command("list")
@click.option("--exhausted", is_flag=True, help="Only those that are not tried any more.")
@click.option("--state", type=click.Choice(get_args(DeliveryState)), help="Only those in this state.")
@click.option("--subscription", "subscription_id", type=_ID, metavar="ID", help="Only those of this subscription.")
@limit_option(100)
@after_option
@click.pass_obj
def list_deliveries(
    session: QueueSession,
    exhausted: bool,
    state: DeliveryState | None,
    subscription_id: int | None,
    limit: int,
    after: int,
) -> None:
    """List deliveries, and what went wrong with them. What was delivered is gone from here."""
    if exhausted and state not in (None, "exhausted"):
        raise click.UsageError(f"--exhausted and --state {state} contradict each other.", click.get_current_context())
    wanted: DeliveryState | None = "exhausted" if exhausted else state
    with session.reader() as q:
        found = listed(
            session,
            lambda most, last: q.deliveries.list(wanted, subscription_id, limit=most, after=last),
            lambda one: one.id,
            limit,
            after,
        )
    is_filtered = bool(wanted or subscription_id or after)
    session.show({"deliveries": [_document(one) for one in found]}, _table(found, now_ms(), is_filtered))


@delivery.command("show")
@click.option("--id", required=True, type=_ID, help="The delivery, from `sqew delivery list`.")
@click.pass_obj
def show(session: QueueSession, id: int) -> None:
    """Show everything about one delivery, and what is posted."""
    with session.reader() as q:
        found = q.deliveries.get(id)
    text = found.body.decode()
    posted = Raw(found.body) if found.format == "json" else text
    session.show(_document(found) | {"message": posted, "format": found.format}, _facts(found, text, now_ms()))


@delivery.command("retry")
@ids_option
@all_option
@subscription_option
@click.pass_obj
def retry(session: QueueSession, ids: list[int] | None, everything: bool, subscription_id: int | None) -> int:
    """Have exhausted deliveries tried again from the start."""
    _check_choice(ids, everything, subscription_id)
    with session.open() as q:
        if ids is None:
            found = q.deliveries.retry_all(subscription_id)
            left = f"{_counted(found.left)} can't be: the subscription is gone. Drop them, or look at them."
            sentences = [f"{_counted(found.retried)} will be tried again.", *([left] if found.left else [])]
            session.show({"retried": found.retried, "left": found.left}, *sentences)
            return Exit.OK
        return _each(session, ids, q.deliveries.retry, "will be tried again", "retried")


@delivery.command("drop")
@ids_option
@all_option
@subscription_option
@all_yes_option
@click.pass_obj
def drop(session: QueueSession, ids: list[int] | None, everything: bool, subscription_id: int | None, yes: bool) -> int:
    """Delete deliveries: they are not posted any more."""
    _check_choice(ids, everything, subscription_id)
    with session.open() as q:
        if ids is None:
            count = 0
            # Nobody is asked about nothing.
            if q.deliveries.list("exhausted", subscription_id, limit=1):
                of = "" if subscription_id is None else f" of subscription {subscription_id}"
                session.confirm(f"Deleting all exhausted deliveries{of}", yes, everything=subscription_id is None)
                count = q.deliveries.drop_all(subscription_id)
            session.show({"dropped": count}, f"Dropped {_counted(count)}.")
            return Exit.OK
        session.confirm(f"Deleting {_counted(len(ids))}", yes)
        return _each(session, ids, q.deliveries.drop, "dropped", "dropped")


def _counted(count: int) -> str:
    return "1 delivery" if count == 1 else f"{count} deliveries"


def _check_choice(ids: list[int] | None, everything: bool, subscription_id: int | None) -> None:
    """Raise unless ids, a subscription or --all is given: nothing is retried or dropped as a whole by default."""
    if ids is not None and (everything or subscription_id is not None):
        raise click.UsageError("--id names the deliveries; leave --all and --subscription out.", _context())
    if ids is None and not everything and subscription_id is None:
        raise click.UsageError("Say which: give --id, --subscription or --all.", _context())


def _context() -> click.Context:
    return click.get_current_context()


def _each(session: QueueSession, ids: Sequence[int], act: Callable[[int], object], done: str, mark: str) -> int:
    """Apply an action to each delivery, and report those that failed. The exit code is that of the first failure."""
    errors: dict[int, SqewError] = {}
    for id in ids:
        try:
            act(id)
        except SqewError as error:
            errors[id] = error
    results = [_result(id, errors.get(id), mark) for id in ids]
    sentences = [f"Delivery {id} {'is ' if done == mark else ''}{done}." for id in ids if id not in errors]
    session.show({"results": results}, *sentences)
    for refusal in errors.values():
        complain(str(refusal))
    return next((code_of(refusal) for refusal in errors.values()), Exit.OK)


def _result(id: int, error: SqewError | None, mark: str) -> dict[str, Any]:
    if error is None:
        return {"id": id, mark: True}
    return {"id": id, mark: False, "error": error.code, "message": str(error)}


def _document(delivery: Delivery) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(delivery)
    for hidden in ("body", "format", "form"):
        del fields[hidden]
    envelope = {"envelope": delivery.form != RAW, "signature_version": delivery.form or None}
    return fields | envelope | {"error": delivery.error or None}


def _table(deliveries: Sequence[Delivery], now: int, is_filtered: bool) -> Table:
    columns = [
        Column("id", right=True),
        Column("state"),
        Column("sub", right=True),
        Column("key"),
        Column("endpoint", cut=True, least=14),
        Column("tries", right=True),
        Column("error", optional=True),
    ]
    rows = [
        (one.id, _state(one, now), one.subscription_id, one.routing_key, one.endpoint.partition("://")[2],
         one.attempts, one.error)
        for one in deliveries
    ]  # fmt: skip
    return Table(columns, rows, "No delivery is like that." if is_filtered else _NONE)


def _state(delivery: Delivery, now: int) -> str:
    """Return the state; if it is pending, with the time of the next try: ``pending (in 30 s)``."""
    if delivery.state != "pending" or delivery.due_at is None:
        return delivery.state
    return f"pending ({relative(max(delivery.due_at - now, 0))})"


def _facts(delivery: Delivery, text: str, now: int) -> Facts:
    pairs: list[tuple[str, object]] = [
        ("delivery", delivery.id),
        ("state", delivery.state),
        ("subscription", delivery.subscription_id),
        ("endpoint", delivery.endpoint),
        ("routing key", delivery.routing_key),
        ("message id", delivery.message_id),
        ("events come", form_text(delivery.form)),
        ("attempts", delivery.attempts),
        ("made", moment(delivery.created_at, now)),
        ("last try", moment(delivery.tried_at, now)),
        ("next try", moment(delivery.due_at, now) if delivery.state == "pending" else None),
        ("status", delivery.status),
        ("error", delivery.error),
        ("message", text),
    ]
    return Facts([pair for pair in pairs if pair[1] not in (None, "")])
