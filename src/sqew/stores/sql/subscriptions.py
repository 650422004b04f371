"""Subscriptions: making, changing, deleting and listing them."""

from __future__ import annotations

import msgspec
from msgspec import structs

from sqew.errors import (
    ChangedMeanwhile,
    FilterLimitExceeded,
    QueueNotFound,
    SubscriptionExists,
    SubscriptionNotFound,
)
from sqew.model import (
    DELIVERIES,
    NO_REASON,
    Subscribed,
    Subscription,
    SubscriptionDetails,
    SubscriptionNotice,
    SubscriptionState,
)
from sqew.operations import (
    FindSubscription,
    GetSubscription,
    ListSubscriptions,
    Subscribe,
    Unsubscribe,
    UpdateSubscription,
)
from sqew.stores.sql.rows import delivery_checksum, payload_checksum
from sqew.stores.sql.subscription_cache import Binding, binding_of, details_of
from sqew.stores.sql.topics import check_unchanged
from sqew.stores.sql.transaction import Row, Work

_encode = msgspec.json.Encoder().encode
_LOGGED = 1_000
"""Versions for which a change or a deletion is logged: a server further behind reads all subscriptions again."""
MOST_FILTERS_OF_TOPIC = 200
MOST_FILTERS = 10_000
"""Limits as in AWS: each publish to a topic evaluates all of its filters."""
_NOTHING_SAID = SubscriptionDetails()
_HOUR_MS = 3_600_000
_LASTS_MS: dict[SubscriptionState, int | None] = {"confirmed": None, "pending": 48 * _HOUR_MS, "deleted": 72 * _HOUR_MS}
"""Milliseconds that a subscription stays in a state, as in AWS: its endpoint has so long to confirm or restore it."""
_PROBLEMS: dict[SubscriptionState, str] = {
    "confirmed": NO_REASON,
    "pending": "Its endpoint has not confirmed it yet: nothing is posted before it has visited its SubscribeURL.",
    "deleted": "Its endpoint has unsubscribed: nothing is posted, and it goes unless that is taken back.",
}


def subscribe(work: Work, op: Subscribe) -> Subscribed:
    if op.topic is not None:
        check_unchanged(work, op.topic)
    row = work.execute(work.sql.subscription_to, (op.pattern, op.target)).fetchone()
    existing = None if row is None else _subscription(row)
    if existing is not None and existing.state != "deleted":
        return Subscribed(_repeated(work, op, existing), created=False)
    if op.protocol == "queue" and not op.uuid:
        # It may be deleted later; but a name that never was is a mistake.
        work.catalog.queue(op.target)
    _check_filters(work, op.pattern, op.details)
    if existing is not None:
        _delete(work, existing)
    state: SubscriptionState = "confirmed" if op.confirmed else "pending"
    ends_at = _ends_at(work, state)
    details = _json(op.details) if op.uuid else None
    fields = (op.uuid or None, details, state, ends_at, op.details.filter_policy != "")
    id = work.execute(
        work.sql.insert_subscription, (op.pattern, op.protocol, op.target, op.form, work.now, *fields)
    ).get
    version = work.execute(work.sql.bump_subscriptions).get
    binding = binding_of(id, op.protocol, op.target, op.form, op.uuid, op.details)
    work.bindings.added(op.pattern, binding, version, counts=op.confirmed)
    made = Subscription(
        id, op.pattern, op.protocol, op.target, op.form, work.now, _PROBLEMS[state], op.uuid, op.details, state,
        ends_at,
    )  # fmt: skip
    if op.notice is not None:
        _post_notice(work, made, op.notice)
    return Subscribed(made, created=True)


def _ends_at(work: Work, state: SubscriptionState) -> int | None:
    lasts_ms = _LASTS_MS[state]
    return None if lasts_ms is None else work.now + lasts_ms


def _repeated(work: Work, op: Subscribe, existing: Subscription) -> Subscription:
    """Return the existing subscription, if it is what was asked for. An unconfirmed endpoint is asked once more."""
    alike = existing.form == op.form and (not op.uuid or not existing.uuid or _same(existing.details, op.details))
    if not alike and not op.exist_ok:
        raise SubscriptionExists(existing.id, op.pattern, op.target if op.protocol == "queue" else None)
    if op.uuid and not existing.uuid:
        _check_filters(work, op.pattern, op.details)
        # Until now only we knew it: now SNS does.
        return _save(work, existing, structs.replace(existing, uuid=op.uuid, details=op.details))
    if not existing.confirmed and op.notice is not None:
        holds = existing.ends_at is None or existing.ends_at > work.now
        if holds and op.details.token != existing.details.token:
            raise ChangedMeanwhile(f"The subscription of {op.target}")
        details = structs.replace(existing.details, token=op.details.token)
        ends_at = _ends_at(work, existing.state)
        existing = _save(work, existing, structs.replace(existing, details=details, ends_at=ends_at))
        _post_notice(work, existing, op.notice)
    return existing


def _check_filters(
    work: Work, pattern: str, after: SubscriptionDetails, before: SubscriptionDetails = _NOTHING_SAID
) -> None:
    """Raise if one more subscription has a filter, and there are too many of those."""
    if not after.filter_policy or before.filter_policy:
        return
    if work.execute(work.sql.count_filters_of_topic, (pattern,)).get >= MOST_FILTERS_OF_TOPIC:
        raise FilterLimitExceeded(MOST_FILTERS_OF_TOPIC, pattern)
    if work.execute(work.sql.count_filters).get >= MOST_FILTERS:
        raise FilterLimitExceeded(MOST_FILTERS)


def _same(one: SubscriptionDetails, other: SubscriptionDetails) -> bool:
    return structs.replace(one, token="") == structs.replace(other, token="")


def _post_notice(work: Work, subscription: Subscription, notice: SubscriptionNotice) -> None:
    body = notice.body
    pattern, id, form, target = subscription.pattern, notice.message_id, subscription.form, subscription.target
    check = payload_checksum(pattern.encode(), id.encode(), form, False, body)
    payload_id = work.execute(work.sql.insert_payload, (pattern, id, form, False, check, 1, body, notice.kind)).get
    check = delivery_checksum(payload_id, target.encode())
    work.execute(work.sql.insert_delivery, (payload_id, subscription.id, target, check, work.now, None, work.now))
    work.woken.add(DELIVERIES)


def get_subscription(work: Work, op: GetSubscription) -> Subscription:
    row = work.execute(work.sql.subscription_by_uuid, (op.uuid,)).fetchone()
    if row is None:
        raise SubscriptionNotFound(op.uuid)
    return _subscription(row)


def find_subscription(work: Work, op: FindSubscription) -> Subscription:
    row = work.execute(work.sql.subscription_to, (op.pattern, op.target)).fetchone()
    if row is None:
        raise SubscriptionNotFound(op.target, op.pattern)
    return _subscription(row)


def update_subscription(work: Work, op: UpdateSubscription) -> Subscription:
    before = get_subscription(work, GetSubscription(op.uuid))
    # (What is wrong with it is found out anew each time.)
    if op.known is not None and structs.replace(op.known, problem=before.problem) != before:
        raise ChangedMeanwhile(f"The subscription {op.uuid}")
    if op.topic is not None:
        check_unchanged(work, op.topic)
    after = structs.replace(
        before,
        form=before.form if op.form is None else op.form,
        details=before.details if op.details is None else op.details,
    )
    _check_filters(work, before.pattern, after.details, before.details)
    if op.state is not None and op.state != before.state:
        after = structs.replace(after, state=op.state, ends_at=_ends_at(work, op.state), problem=_PROBLEMS[op.state])
    _save(work, before, after)
    if op.notice is not None:
        _post_notice(work, after, op.notice)
    return after


def _save(work: Work, before: Subscription, after: Subscription) -> Subscription:
    is_filtered = after.details.filter_policy != ""
    fields = (after.uuid or None, _json(after.details), after.state, after.ends_at, is_filtered)
    work.execute(work.sql.update_subscription, (after.id, after.form, *fields))
    version = work.execute(work.sql.bump_subscriptions).get
    work.bindings.replaced(
        after.pattern, _binding(before) if before.confirmed else None, _binding(after) if after.confirmed else None,
        version,
    )  # fmt: skip
    return after


def unsubscribe(work: Work, op: Unsubscribe) -> None:
    row = work.execute(work.sql.subscription_by_id, (op.id,)).fetchone()
    if row is None:
        raise SubscriptionNotFound(op.id)
    _delete(work, _subscription(row))


def end_unconfirmed(work: Work, limit: int) -> int:
    """Delete some subscriptions that were not confirmed or restored in time; return how many."""
    ended = work.execute(work.sql.subscriptions_ended, (work.now, limit)).fetchall()
    for row in ended:
        _delete(work, _subscription(row))
    return len(ended)


def _delete(work: Work, gone: Subscription) -> None:
    work.execute(work.sql.delete_subscription, (gone.id,))
    version = work.execute(work.sql.bump_subscriptions).get
    logged = (version, gone.id, gone.pattern, gone.protocol, gone.target, gone.form)
    work.execute(work.sql.log_unsubscription, logged)
    work.execute(work.sql.forget_unsubscriptions, (version - _LOGGED,))
    # What is on its way to its endpoint is dropped when its turn comes.
    work.bindings.removed(gone.pattern, _binding(gone), version, counts=gone.confirmed)


def list_subscriptions(work: Work, op: ListSubscriptions) -> list[Subscription]:
    if op.pattern is not None:
        rows = work.execute(work.sql.subscriptions_to_pattern, (op.pattern, op.after, op.limit))
    elif op.queue is not None:
        rows = work.execute(work.sql.subscriptions_of_queue, (op.queue, op.after, op.limit))
    else:
        rows = work.execute(work.sql.list_subscriptions, (op.after, op.limit))
    return [_subscription(row) for row in rows]


def _binding(subscription: Subscription) -> Binding:
    one = subscription
    return binding_of(one.id, one.protocol, one.target, one.form, one.uuid, one.details)


def _subscription(row: Row) -> Subscription:
    id, pattern, protocol, target, form, created_at, gone, uuid, details, state, ends_at = row
    return Subscription(
        id, pattern, protocol, target, form, created_at, str(QueueNotFound(target)) if gone else _PROBLEMS[state],
        uuid or "", details_of(details), state, ends_at,
    )  # fmt: skip


def _json(details: SubscriptionDetails) -> str:
    return _encode(details).decode()
