"""Subscriptions: making, changing, deleting and listing them."""

from __future__ import annotations

import msgspec
from msgspec import structs

from sqew.errors import BadValue, QueueNotFound, SubscriptionExists, SubscriptionNotFound
from sqew.model import CONFIRMATION, DELIVERIES, NO_REASON, Greeting, Subscribed, Subscription, SubscriptionDetails
from sqew.operations import (
    FindSubscription,
    GetSubscription,
    ListSubscriptions,
    Subscribe,
    Unsubscribe,
    UpdateSubscription,
)
from sqew.stores.sqlite.bindings import Binding, binding_of, details_of
from sqew.stores.sqlite.rows import delivery_checksum, payload_checksum
from sqew.stores.sqlite.statements import sql
from sqew.stores.sqlite.work import Row, Work

_encode = msgspec.json.Encoder().encode
_LOGGED = 1_000
"""How many versions back a change or a deletion is logged: who has not looked since reads all subscriptions again."""
_UNCONFIRMED = "Its endpoint has not confirmed it yet: nothing is posted before it has visited its SubscribeURL."


def subscribe(work: Work, op: Subscribe) -> Subscribed:
    row = work.execute(sql("subscription_to"), (op.pattern, op.target)).fetchone()
    if row is not None:
        return Subscribed(_repeated(work, op, _subscription(row)), created=False)
    if op.protocol == "queue" and not op.uuid:
        # It may be deleted later; but a name that never was is a mistake.
        try:
            work.catalog.queue(op.target)
        except QueueNotFound as error:
            raise BadValue(f"The target is wrong. {error}") from error
    fields = (op.uuid or None, _json(op.details) if op.uuid else None, op.confirmed)
    id = work.execute(sql("insert_subscription"), (op.pattern, op.protocol, op.target, op.form, work.now, *fields)).get
    version = work.execute(sql("bump_subscriptions")).get
    binding = binding_of(id, op.protocol, op.target, op.form, op.uuid, op.details)
    work.bindings.added(op.pattern, binding, version, counts=op.confirmed)
    made = Subscription(
        id, op.pattern, op.protocol, op.target, op.form, work.now, NO_REASON if op.confirmed else _UNCONFIRMED,
        op.uuid, op.details, op.confirmed,
    )  # fmt: skip
    if op.greeting is not None:
        _greet(work, made, op.greeting)
    return Subscribed(made, created=True)


def _repeated(work: Work, op: Subscribe, existing: Subscription) -> Subscription:
    """What is there already, if it is what was asked for. Who has not confirmed is asked to once more."""
    alike = existing.form == op.form and (not op.uuid or not existing.uuid or _same(existing.details, op.details))
    if not alike and not op.exist_ok:
        raise SubscriptionExists(existing.id, op.pattern, op.target if op.protocol == "queue" else None)
    if op.uuid and not existing.uuid:
        # Until now only we knew it: now SNS does.
        return _save(work, existing, structs.replace(existing, uuid=op.uuid, details=op.details))
    if not existing.confirmed and op.greeting is not None:
        details = structs.replace(existing.details, token=op.details.token)
        existing = _save(work, existing, structs.replace(existing, details=details))
        _greet(work, existing, op.greeting)
    return existing


def _same(one: SubscriptionDetails, other: SubscriptionDetails) -> bool:
    return structs.replace(one, token="") == structs.replace(other, token="")


def _greet(work: Work, subscription: Subscription, greeting: Greeting) -> None:
    body = greeting.body
    pattern, id, form, target = subscription.pattern, greeting.message_id, subscription.form, subscription.target
    check = payload_checksum(pattern.encode(), id.encode(), form, False, body)
    payload_id = work.execute(sql("insert_payload"), (pattern, id, form, False, check, 1, body, CONFIRMATION)).get
    check = delivery_checksum(payload_id, target.encode())
    work.execute(sql("insert_delivery"), (payload_id, subscription.id, target, check, work.now, None, work.now))
    work.stirred.add(DELIVERIES)


def get_subscription(work: Work, op: GetSubscription) -> Subscription:
    row = work.execute(sql("subscription_by_uuid"), (op.uuid,)).fetchone()
    if row is None:
        raise SubscriptionNotFound(op.uuid)
    return _subscription(row)


def find_subscription(work: Work, op: FindSubscription) -> Subscription:
    row = work.execute(sql("subscription_to"), (op.pattern, op.target)).fetchone()
    if row is None:
        raise SubscriptionNotFound(op.target, op.pattern)
    return _subscription(row)


def update_subscription(work: Work, op: UpdateSubscription) -> Subscription:
    before = get_subscription(work, GetSubscription(op.uuid))
    after = structs.replace(
        before,
        form=before.form if op.form is None else op.form,
        details=before.details if op.details is None else op.details,
        confirmed=before.confirmed if op.confirmed is None else op.confirmed,
    )
    return _save(work, before, after)


def _save(work: Work, before: Subscription, after: Subscription) -> Subscription:
    work.execute(
        sql("update_subscription"), (after.id, after.form, after.uuid or None, _json(after.details), after.confirmed)
    )
    version = work.execute(sql("bump_subscriptions")).get
    work.bindings.replaced(
        after.pattern, _binding(before) if before.confirmed else None, _binding(after) if after.confirmed else None,
        version,
    )  # fmt: skip
    return after


def unsubscribe(work: Work, op: Unsubscribe) -> None:
    row = work.execute(sql("subscription_by_id"), (op.id,)).fetchone()
    if row is None or (op.pattern is not None and row[1] != op.pattern):
        raise SubscriptionNotFound(op.id, op.pattern)
    gone = _subscription(row)
    work.execute(sql("delete_subscription"), (gone.id,))
    version = work.execute(sql("bump_subscriptions")).get
    logged = (version, gone.id, gone.pattern, gone.protocol, gone.target, gone.form)
    work.execute(sql("log_unsubscription"), logged)
    work.execute(sql("forget_unsubscriptions"), (version - _LOGGED,))
    # What is on its way to its endpoint is dropped when its turn comes.
    work.bindings.removed(gone.pattern, _binding(gone), version, counts=gone.confirmed)


def list_subscriptions(work: Work, op: ListSubscriptions) -> list[Subscription]:
    if op.pattern is not None:
        rows = work.execute(sql("subscriptions_to_pattern"), (op.pattern, op.after, op.limit))
    elif op.queue is not None:
        rows = work.execute(sql("subscriptions_of_queue"), (op.queue, op.after, op.limit))
    else:
        rows = work.execute(sql("list_subscriptions"), (op.after, op.limit))
    return [_subscription(row) for row in rows]


def _binding(subscription: Subscription) -> Binding:
    one = subscription
    return binding_of(one.id, one.protocol, one.target, one.form, one.uuid, one.details)


def _subscription(row: Row) -> Subscription:
    id, pattern, protocol, target, form, created_at, gone, uuid, details, confirmed = row
    problem = str(QueueNotFound(target)) if gone else NO_REASON
    return Subscription(
        id, pattern, protocol, target, form, created_at, problem if confirmed else _UNCONFIRMED, uuid or "",
        details_of(details), bool(confirmed),
    )  # fmt: skip


def _json(details: SubscriptionDetails) -> str:
    return _encode(details).decode()
