"""Deliveries: claiming them, settling them, and listing those that are exhausted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from sqew.envelopes.delivery_policies import retries_of
from sqew.errors import DeliveryDamaged, DeliveryNotFound, SqewError
from sqew.model import (
    DELIVERIES,
    NOTIFICATION,
    Claimed,
    Delivered,
    Delivery,
    DeliveryCounts,
    DeliveryOutcome,
    DeliveryState,
    DueDelivery,
    NewMessage,
    Progress,
)
from sqew.operations import (
    ClaimDeliveries,
    CountDeliveries,
    DropDeliveries,
    GetDelivery,
    ListDeliveries,
    NextDelivery,
    RenewDeliveries,
    RetryDeliveries,
    SettleDeliveries,
)
from sqew.rules.limits import MOST_BYTES
from sqew.stores.sql.fanout import event_headers
from sqew.stores.sql.publish import dead_letter_headers
from sqew.stores.sql.rows import DAMAGE, delivery_checksum, payload_checksum
from sqew.stores.sql.send import accept, put, write_deferred
from sqew.stores.sql.subscription_cache import details_of
from sqew.stores.sql.topics import texts_of
from sqew.stores.sql.transaction import Row, Work

_FEW = 200
"""Most due deliveries that are looked at one by one, to find their subscriptions."""
_STEPS = 500
"""Most subscriptions that are looked at one by one: 0.3 ms. The next claim goes on from there."""
_CLEARED_AT_ONCE = 200
"""Most deliveries that a claim drops or gives up."""

_LAST = (1 << 63) - 1
_POLICY = "DeliveryPolicy"
_PORTS = {"http": 80, "https": 443}


def claim(work: Work, op: ClaimDeliveries) -> Claimed:
    turns = _turns(work, op)
    cursor = turns.ends_at
    taking = _Taking(work, op)
    for at, subscription_id in enumerate(turns.ids):
        space = min(op.per_subscription - op.busy.get(subscription_id, 0), op.limit - len(taking.taken))
        if space > 0:
            row = work.execute(work.sql.subscription_taking, (subscription_id,)).fetchone()
            if row is None:
                taking.drop_unsubscribed(subscription_id)
            else:
                uuid, confirmed, *said = row
                taking.take(subscription_id, uuid, confirmed, space, _retries_ms(*said))
        if len(taking.taken) >= op.limit or taking.size >= MOST_BYTES:
            cursor = subscription_id if at < turns.in_order else cursor
            break
    work.executemany(work.sql.claim_delivery, [(delivery.id, delivery.claimed_until) for delivery in taking.taken])
    is_cut = turns.is_cut or taking.is_cut or taking.size >= MOST_BYTES
    return Claimed(taking.taken, cursor, work.execute(work.sql.next_delivery_due, (work.now,)).get, is_cut)


class _Turns(NamedTuple):
    """Subscriptions that have deliveries due, each once: those after the cursor, then the others."""

    ids: list[int]
    in_order: int
    """Number of ids in the order of turns. The others are those that have waited longest, wherever they are."""
    ends_at: int
    """Cursor from which the next claim goes on."""
    is_cut: bool
    """True if there may be others."""


def _turns(work: Work, op: ClaimDeliveries) -> _Turns:
    rows = work.execute(work.sql.subscriptions_due, (work.now, _FEW)).fetchall()
    due = dict.fromkeys(row[0] for row in rows)
    if len(rows) < _FEW:
        # These are all. Thousands of others may have deliveries that wait for their next attempt.
        ids = sorted(due, key=lambda id: (id <= op.cursor, id))
        return _Turns(ids, len(ids), ids[-1] if ids else op.cursor, is_cut=False)
    walked = work.execute(work.sql.turns, (op.cursor, _LAST, _STEPS, work.now)).fetchall()
    is_cut = len(walked) == _STEPS
    if not is_cut:
        walked += work.execute(work.sql.turns, (0, op.cursor, _STEPS - len(walked), work.now)).fetchall()
    in_order = {id: None for id, is_due in walked if is_due}
    return _Turns([*(in_order | due)], len(in_order), walked[-1][0] if walked else op.cursor, is_cut)


class _Taking:
    """The deliveries that a claim takes; and those that it clears away, which will never be posted."""

    def __init__(self, work: Work, op: ClaimDeliveries) -> None:
        self._work, self._until = work, work.now + op.lease_ms
        self._origins = set(op.origins)
        self._shared = op.limit if op.shared is None else op.shared
        self._payloads: dict[int, Row] = {}
        self._may_clear = _CLEARED_AT_ONCE
        self.taken: list[DueDelivery] = []
        self.size = 0
        self.is_cut = False
        """True if others may be due in place of what was cleared away."""

    def take(
        self, subscription_id: int, uuid: str, confirmed: int, space: int, retries_ms: tuple[int, ...] | None
    ) -> None:
        work = self._work
        for id, payload_id, endpoint, check, is_expired, attempts in work.execute(
            work.sql.due_deliveries, (subscription_id, work.now, space)
        ).fetchall():
            if is_expired:
                self._clear(id, _delete)
                continue
            try:
                url = _whole_endpoint(endpoint, payload_id, check)
                origin = _origin(url)
                if origin in self._origins and len(self.taken) >= self._shared:
                    break
                routing_key, message_id, form, is_text, body, kind = self._payload(payload_id)
            except DAMAGE:
                self._clear(id, _give_up_damaged)
                continue
            if kind == NOTIFICATION and not confirmed:
                # It was, and then its endpoint has left.
                self._clear(id, _delete)
                continue
            self._origins.add(origin)
            self.taken.append(
                DueDelivery(
                    id, subscription_id, url, origin, routing_key, message_id, form,
                    "text" if is_text else "json", body, attempts, self._until, kind, uuid, retries_ms,
                )
            )  # fmt: skip

    def _payload(self, id: int) -> Row:
        payload = self._payloads.get(id)
        if payload is None:
            payload = self._payloads[id] = _payload(self._work, id)
            self.size += len(payload[4])
        return payload

    def drop_unsubscribed(self, subscription_id: int) -> None:
        rows = self._work.execute(self._work.sql.unsubscribed_deliveries, (subscription_id, self._may_clear)).fetchall()
        for (id,) in rows:
            self._clear(id, _delete)

    def _clear(self, id: int, clear: Callable[[Work, int], object]) -> None:
        self.is_cut = True
        if self._may_clear:
            self._may_clear -= 1
            clear(self._work, id)


def _retries_ms(details: str | None, attributes: str | None) -> tuple[int, ...] | None:
    """Return the retry delays that SNS has for a subscription or its topic; None if there are none, or unreadable."""
    if details is None:
        return None
    try:
        own, topics = details_of(details).kept.get(_POLICY, ""), texts_of(attributes or "{}").get(_POLICY, "")
        retries = retries_of(own, topics) if own or topics else None
        return None if retries is None else retries.delays_ms()
    except DAMAGE:
        return None


def _whole_endpoint(endpoint: bytes, payload_id: int, check: int) -> str:
    """Return the URL to post to. Raise one of `DAMAGE` if it is not what was stored."""
    if delivery_checksum(payload_id, endpoint) != check:
        raise ValueError(endpoint)
    return endpoint.decode()


def _payload(work: Work, id: int) -> Row:
    """Return what to post. Raise one of `DAMAGE` if it is lost, or is not what was stored."""
    row = work.execute(work.sql.payload, (id,)).fetchone()
    if row is None:
        raise ValueError(id)
    return _whole_payload(row)


def _whole_payload(row: Row) -> Row:
    """Return a row of {payload} as routing key, message id, form, is_text, body, and whatever else it has."""
    routing_key, message_id, form, is_text, check, body, *more = row
    if payload_checksum(routing_key, message_id, form, is_text, body) != check:
        raise ValueError(message_id)
    return routing_key.decode(), message_id.decode(), form, is_text, body, *more


@lru_cache(4_096)
def _origin(url: str) -> str:
    """Return scheme, host and port in one form, whatever ways there are to write them."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".")
    return f"{parts.scheme}://{host}:{parts.port or _PORTS.get(parts.scheme)}"


def _give_up_damaged(work: Work, id: int) -> None:
    until = work.now
    work.execute(work.sql.claim_delivery, (id, until))
    work.execute(work.sql.postpone_delivery, (id, until, None, work.now, None, str(DeliveryDamaged(id))))


def damaged_deliveries(work: Work) -> Iterator[int]:
    """Yield the ids of deliveries that could not be posted as they were stored."""
    whole = {id for id, *row in work.execute(work.sql.check_payloads) if _is_whole(tuple(row))}
    for id, payload_id, endpoint, check in work.execute(work.sql.check_deliveries):
        try:
            _whole_endpoint(endpoint, payload_id, check)
        except DAMAGE:
            yield id
        else:
            if payload_id not in whole:
                yield id


def _is_whole(payload: Row) -> bool:
    try:
        _whole_payload(payload)
    except DAMAGE:
        return False
    return True


def next_due(work: Work, _op: NextDelivery) -> int | None:
    due_at: int | None = work.execute(work.sql.first_delivery_due).get
    return due_at


def renew(work: Work, op: RenewDeliveries) -> None:
    until = work.now + op.lease_ms
    # In the order of their ids, as all who lock several do.
    claims = [(id, claimed_until, until) for id, claimed_until in sorted(op.claims.items())]
    work.executemany(work.sql.renew_delivery, claims)


def settle(work: Work, op: SettleDeliveries) -> list[Delivered]:
    return [_settle(work, outcome) for outcome in op.outcomes]


def _settle(work: Work, outcome: DeliveryOutcome) -> Delivered:
    if outcome.delivered:
        # Delivered is delivered, whoever else has taken it over meanwhile.
        return "delivered" if _delete(work, outcome.id) else "stale"
    if outcome.undone:
        again_at = work.now if outcome.retry_at is None else outcome.retry_at
        work.execute(work.sql.unclaim_delivery, (outcome.id, outcome.claimed_until, again_at))
        return "waiting" if work.changes() else "stale"
    work.execute(
        work.sql.postpone_delivery,
        (outcome.id, outcome.claimed_until, outcome.retry_at, work.now, outcome.status, outcome.error),
    )
    if not work.changes():
        return "stale"
    if outcome.retry_at is not None:
        return "waiting"
    _dead_letter(work, outcome)
    return "exhausted"


def _dead_letter(work: Work, outcome: DeliveryOutcome) -> None:
    """Move what can't be delivered to the dead-letter queue of its subscription, if it names one that exists."""
    row = work.execute(work.sql.payload_with_details, (outcome.id,)).fetchone()
    if row is None:
        return
    details, endpoint, payload_id, check, *payload = row
    state = work.catalog.find(details_of(details).dead_letter or None)
    if state is None:
        return
    try:
        _whole_endpoint(endpoint, payload_id, check)
        routing_key, message_id, _form, is_text, body, kind = _whole_payload(tuple(payload))
    except DAMAGE:
        # It stays where it is, exhausted, and says so to who looks at it.
        return
    if kind != NOTIFICATION:
        return
    headers = event_headers(routing_key, dead_letter_headers(message_id, outcome.status or 0, outcome.error))
    message = NewMessage(outcome.posted or body, "text" if is_text else "json", headers)
    with contextlib.suppress(SqewError):
        # A queue that takes no more leaves it where it is, exhausted.
        put(work, state, [message], accept(work, state, [message]), work.deferred)
        write_deferred(work)
        _delete(work, outcome.id)


def _delete(work: Work, id: int) -> bool:
    payload_id = work.execute(work.sql.delete_delivery, (id,)).get
    if payload_id is None:
        return False
    if work.execute(work.sql.release_payload, (payload_id,)).get == 0:
        work.execute(work.sql.delete_payload, (payload_id,))
    return True


def list_deliveries(work: Work, op: ListDeliveries) -> list[Delivery]:
    if op.state != "exhausted":
        rows = work.execute(work.sql.list_deliveries, (op.after, op.subscription_id, op.state, work.now, op.limit))
    elif op.subscription_id is None:
        rows = work.execute(work.sql.list_exhausted, (op.after, op.limit))
    else:
        rows = work.execute(work.sql.list_exhausted_of, (op.subscription_id, op.after, op.limit))
    return [_delivery(row, work.now) for row in rows]


def get_delivery(work: Work, op: GetDelivery) -> Delivery:
    row = work.execute(work.sql.get_delivery, (op.id,)).fetchone()
    if row is None:
        raise DeliveryNotFound(op.id)
    *fields, payload_id, check = row
    try:
        _whole_endpoint(row[2], payload_id, check)
        *_, is_text, body, _kind = _payload(work, payload_id)
    except DAMAGE as error:
        raise DeliveryDamaged(op.id) from error
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
        # Until then it is claimed: that is no time to try it.
        state, due_at = "delivering", None
    return Delivery(
        id, subscription_id, _text(endpoint), _text(routing_key), _text(message_id), form, state, attempts, created_at,
        due_at, tried_at, status, _text(error), "text" if is_text else "json", body,
    )  # fmt: skip


def _text(stored: bytes | None) -> str:
    """Return a string as far as it can be decoded, or an empty one if there is none."""
    return "" if stored is None else stored.decode(errors="replace")


def count(work: Work, _op: CountDeliveries) -> DeliveryCounts:
    kinds = DeliveryCounts.__struct_fields__
    return DeliveryCounts(*(work.execute(work.sql[f"count_{kind}_deliveries"]).get for kind in kinds))


def forget_exhausted(work: Work, limit: int) -> int:
    """Delete some deliveries that have been exhausted for long enough; return how many."""
    return sum(_delete(work, id) for id in _forgettable(work, limit))


def has_forgettable(work: Work) -> bool:
    """Return True if a delivery has been exhausted for long enough."""
    return bool(_forgettable(work, 1))


def _forgettable(work: Work, limit: int) -> list[int]:
    rows = work.execute(work.sql.forgettable_deliveries, (work.now - work.delivery_keep_ms, limit))
    return [row[0] for row in rows.fetchall()]


def retry(work: Work, op: RetryDeliveries) -> Progress:
    count, ids = 0, _meant(work, op, op.after)
    for id in ids:
        work.execute(work.sql.revive_delivery, (id, work.now))
        count += work.changes()
    if count:
        work.woken.add(DELIVERIES)
    if len(ids) < op.limit:
        return Progress(count, done=True)
    # Those whose subscription is gone stay: the next step must not walk past them all again.
    return Progress(count, done=False, after=ids[-1])


def drop(work: Work, op: DropDeliveries) -> Progress:
    count = sum(_delete(work, id) for id in _meant(work, op, 0))
    return Progress(count, count < op.limit)


def _meant(work: Work, op: RetryDeliveries | DropDeliveries, after: int) -> list[int]:
    if op.ids is not None:
        return list(op.ids)
    if op.subscription_id is not None:
        rows = work.execute(work.sql.exhausted_deliveries_of, (op.subscription_id, after, op.limit))
    else:
        rows = work.execute(work.sql.exhausted_deliveries, (after, op.limit))
    return [row[0] for row in rows.fetchall()]
