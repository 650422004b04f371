"""Deliveries: claiming them, what became of them, and looking at those that are exhausted."""

from __future__ import annotations

import contextlib
from zlib import crc32

from sqew.errors import DeliveryDamaged, DeliveryNotFound, SqewError
from sqew.model import (
    DELIVERIES,
    NO_REASON,
    NOTIFICATION,
    Claimed,
    Delivered,
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    DueDelivery,
    NewMessage,
    Progress,
)
from sqew.operations import (
    ClaimDeliveries,
    DropDeliveries,
    GetDelivery,
    ListDeliveries,
    RetryDeliveries,
    SettleDeliveries,
)
from sqew.stores.sqlite.bindings import details_of
from sqew.stores.sqlite.publishing import event_headers
from sqew.stores.sqlite.rows import MOST_BYTES
from sqew.stores.sqlite.sending import accept, put, write_deferred
from sqew.stores.sqlite.statements import sql
from sqew.stores.sqlite.work import Row, Work

_FEW = 200
"""So many deliveries that are due are looked at one by one, to see whose they are."""
_DROPPED_AT_ONCE = 200

_LAST = (1 << 63) - 1
_SUBSCRIPTIONS_DUE = sql("subscriptions_due")
_TURNS = sql("turns")
_DUE = sql("due_deliveries")
_SUBSCRIPTION_UUID = sql("subscription_uuid")
_PAYLOAD = sql("payload")
_CLAIM = sql("claim_delivery")


def claim(work: Work, op: ClaimDeliveries) -> Claimed:
    until = work.now + op.lease_ms
    taken: list[DueDelivery] = []
    payloads: dict[int, Row] = {}
    size = 0
    cursor = op.cursor
    for subscription_id in _turns(work, op):
        room = min(op.per_subscription - op.busy.get(subscription_id, 0), op.limit - len(taken))
        if room > 0 and (uuid := work.execute(_SUBSCRIPTION_UUID, (subscription_id,)).get) is None:
            _drop_some_of(work, subscription_id)
        elif room > 0:
            for id, payload_id, endpoint, attempts in work.execute(_DUE, (subscription_id, work.now, room)).fetchall():
                payload = payloads.get(payload_id) or work.execute(_PAYLOAD, (payload_id,)).fetchone()
                if payload is None or crc32(payload[5], payload[3]) != payload[4]:
                    _give_up_damaged(work, id)
                    continue
                payloads[payload_id] = payload
                routing_key, message_id, form, is_text, _, body, kind = payload
                size += len(body)
                taken.append(
                    DueDelivery(
                        id, subscription_id, endpoint, routing_key, message_id, form, "text" if is_text else "json",
                        body, attempts, until, kind, uuid,
                    )
                )  # fmt: skip
        cursor = subscription_id
        if len(taken) >= op.limit or size >= MOST_BYTES:
            break
    work.executemany(_CLAIM, [(delivery.id, until) for delivery in taken])
    return Claimed(taken, cursor, work.execute(sql("next_delivery_due"), (work.now,)).get)


def _turns(work: Work, op: ClaimDeliveries) -> list[int]:
    """Subscriptions that have deliveries due, each once: those after the cursor, then the others."""
    due = [row[0] for row in work.execute(_SUBSCRIPTIONS_DUE, (work.now, _FEW))]
    if len(due) < _FEW:
        # These are all. Thousands of others may have deliveries that wait for their next attempt.
        return sorted(set(due), key=lambda id: (id <= op.cursor, id))
    # So many that there is one with room for each delivery that is wanted, if there are as many.
    most = op.limit + len(op.busy)
    turns = [row[0] for row in work.execute(_TURNS, (op.cursor, _LAST, work.now, most))]
    if len(turns) < most:
        turns += [row[0] for row in work.execute(_TURNS, (0, op.cursor, work.now, most - len(turns)))]
    return turns


def _drop_some_of(work: Work, subscription_id: int) -> None:
    for id, _ in work.execute(sql("unsubscribed_deliveries"), (subscription_id, _DROPPED_AT_ONCE)).fetchall():
        _delete(work, id)
    # There may be more of them.
    work.stirred.add(DELIVERIES)


def _give_up_damaged(work: Work, id: int) -> None:
    until = work.now
    work.execute(_CLAIM, (id, until))
    work.execute(sql("postpone_delivery"), (id, until, None, work.now, None, str(DeliveryDamaged(id))))


def settle(work: Work, op: SettleDeliveries) -> list[Delivered]:
    return [_settle(work, outcome) for outcome in op.outcomes]


def _settle(work: Work, outcome: DeliveryOutcome) -> Delivered:
    if outcome.delivered:
        # Delivered is delivered, whoever else has taken it over meanwhile.
        return "delivered" if _delete(work, outcome.id) else "stale"
    if outcome.undone:
        work.execute(sql("unclaim_delivery"), (outcome.id, outcome.claimed_until, work.now))
        return "waiting" if work.changes() else "stale"
    work.execute(
        sql("postpone_delivery"),
        (outcome.id, outcome.claimed_until, outcome.retry_at, work.now, outcome.status, outcome.error),
    )
    if not work.changes():
        return "stale"
    if outcome.retry_at is not None:
        return "waiting"
    bury(work, outcome.id, outcome.status, outcome.error)
    return "exhausted"


def bury(work: Work, id: int, status: int | None, error: str) -> None:
    """Move what can't be delivered to the queue that its subscription names for that, if it does and there is one."""
    row = work.execute(sql("delivery_with_details"), (id,)).fetchone()
    if row is None:
        return
    routing_key, message_id, is_text, body, kind, details = row
    state = work.catalog.find(details_of(details).dead_letter or None)
    if state is None or kind != NOTIFICATION:
        return
    told = {"RequestID": message_id, "ErrorCode": str(status or 0), "ErrorMessage": error}
    headers = {name: {"DataType": "String", "StringValue": text} for name, text in told.items() if text}
    message = NewMessage(body, "text" if is_text else "json", event_headers(routing_key, headers))
    with contextlib.suppress(SqewError):
        # A queue that takes no more leaves it where it is, exhausted.
        put(work, state, [message], accept(work, state, [message]), work.deferred)
        write_deferred(work)
        _delete(work, id)


def _delete(work: Work, id: int) -> bool:
    payload_id = work.execute(sql("delete_delivery"), (id,)).get
    if payload_id is None:
        return False
    if work.execute(sql("release_payload"), (payload_id,)).get == 0:
        work.execute(sql("delete_payload"), (payload_id,))
    return True


def list_deliveries(work: Work, op: ListDeliveries) -> list[Delivery]:
    if op.state != "exhausted":
        rows = work.execute(sql("list_deliveries"), (op.after, op.subscription_id, op.state, work.now, op.limit))
    elif op.subscription_id is None:
        rows = work.execute(sql("list_exhausted"), (op.after, op.limit))
    else:
        rows = work.execute(sql("list_exhausted_of"), (op.subscription_id, op.after, op.limit))
    return [_delivery(row, work.now) for row in rows]


def get_delivery(work: Work, op: GetDelivery) -> Delivery:
    row = work.execute(sql("get_delivery"), (op.id,)).fetchone()
    if row is None:
        raise DeliveryNotFound(op.id)
    *fields, is_text, check, body = row
    if crc32(body, is_text) != check:
        raise DeliveryDamaged(op.id)
    return _delivery(tuple(fields), work.now, is_text, body)


def _delivery(row: Row, now: int, is_text: int = 0, body: bytes = b"") -> Delivery:
    (
        id, subscription_id, endpoint, routing_key, message_id, form, claimed, attempts, created_at, due_at, tried_at,
        status, error,
    ) = row  # fmt: skip
    state: DeliveryState = "pending"
    if due_at is None:
        state = "exhausted"
    elif claimed and due_at > now:
        state = "delivering"
    return Delivery(
        id, subscription_id, endpoint, routing_key, message_id, form, state, attempts, created_at, due_at, tried_at,
        status, error or NO_REASON, "text" if is_text else "json", body,
    )  # fmt: skip


def retry(work: Work, op: RetryDeliveries) -> Progress:
    count = 0
    for id in _meant(work, op, "retriable_deliveries"):
        work.execute(sql("revive_delivery"), (id, work.now))
        count += work.changes()
    if count:
        work.stirred.add(DELIVERIES)
    return Progress(count, count < op.limit)


def drop(work: Work, op: DropDeliveries) -> Progress:
    count = sum(_delete(work, id) for id in _meant(work, op, "exhausted_deliveries"))
    return Progress(count, count < op.limit)


def _meant(work: Work, op: RetryDeliveries | DropDeliveries, of_all: str) -> list[int]:
    if op.ids is not None:
        return list(op.ids)
    if op.subscription_id is not None:
        rows = work.execute(sql("exhausted_deliveries_of"), (op.subscription_id, op.limit))
    else:
        rows = work.execute(sql(of_all), (op.limit,))
    return [row[0] for row in rows.fetchall()]
