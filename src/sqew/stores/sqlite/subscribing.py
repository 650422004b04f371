"""Subscriptions: making, deleting and listing them."""

from __future__ import annotations

from sqew.errors import BadValue, QueueNotFound, SubscriptionExists, SubscriptionNotFound
from sqew.model import NO_REASON, Subscribed, Subscription
from sqew.operations import ListSubscriptions, Subscribe, Unsubscribe
from sqew.stores.sqlite.bindings import Binding
from sqew.stores.sqlite.statements import sql
from sqew.stores.sqlite.work import Row, Work

_LOGGED = 1_000
"""How many versions back a deletion is logged: who has not looked since reads all subscriptions again."""


def subscribe(work: Work, op: Subscribe) -> Subscribed:
    if op.protocol == "queue":
        # It may be deleted later; but a name that never was is a mistake.
        try:
            work.catalog.queue(op.target)
        except QueueNotFound as error:
            raise BadValue(f"The target is wrong. {error}") from error
    row = work.execute(sql("subscription_to"), (op.pattern, op.target)).fetchone()
    if row is not None:
        existing = _subscription(row)
        if existing.form != op.form:
            raise SubscriptionExists(existing.id, op.pattern, op.target if op.protocol == "queue" else None)
        return Subscribed(existing, created=False)
    id = work.execute(sql("insert_subscription"), (op.pattern, op.protocol, op.target, op.form, work.now)).get
    version = work.execute(sql("bump_subscriptions")).get
    work.bindings.added(op.pattern, Binding(id, op.protocol, op.target, op.form), version)
    return Subscribed(Subscription(id, op.pattern, op.protocol, op.target, op.form, work.now), created=True)


def unsubscribe(work: Work, op: Unsubscribe) -> None:
    row = work.execute(sql("subscription_by_id"), (op.id,)).fetchone()
    if row is None or (op.pattern is not None and row[1] != op.pattern):
        raise SubscriptionNotFound(op.id, op.pattern)
    id, pattern, protocol, target, form, *_ = row
    work.execute(sql("delete_subscription"), (id,))
    version = work.execute(sql("bump_subscriptions")).get
    work.execute(sql("log_unsubscription"), (version, id, pattern, protocol, target, form))
    work.execute(sql("forget_unsubscriptions"), (version - _LOGGED,))
    # What is on its way to its endpoint is dropped when its turn comes.
    work.bindings.removed(pattern, Binding(id, protocol, target, form), version)


def list_subscriptions(work: Work, op: ListSubscriptions) -> list[Subscription]:
    if op.pattern is not None:
        rows = work.execute(sql("subscriptions_to_pattern"), (op.pattern, op.after, op.limit))
    elif op.queue is not None:
        rows = work.execute(sql("subscriptions_of_queue"), (op.queue, op.after, op.limit))
    else:
        rows = work.execute(sql("list_subscriptions"), (op.after, op.limit))
    return [_subscription(row) for row in rows]


def _subscription(row: Row) -> Subscription:
    id, pattern, protocol, target, form, created_at, gone = row
    problem = str(QueueNotFound(target)) if gone else NO_REASON
    return Subscription(id, pattern, protocol, target, form, created_at, problem)
