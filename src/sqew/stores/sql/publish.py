"""Publishing of events to queues and endpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from sqew.envelopes.sns import addressed
from sqew.errors import (
    BodyTooLarge,
    EnvelopeNeeded,
    Limited,
    QueueNotFound,
    SqewError,
    TooManyAttributes,
    TooWide,
    UnknownLane,
)
from sqew.model import DELIVERIES, NOTIFICATION, RAW, Fact, NewEvent, NewMessage, Published
from sqew.operations import Publish
from sqew.rules.names import is_keyed
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.fanout import MOST_ATTRIBUTES, Fanout, FanoutTarget, event_headers, routes_of
from sqew.stores.sql.rows import INLINE_BODY_BYTES, checksum, delivery_checksum, encode_headers, payload_checksum
from sqew.stores.sql.send import accept, put, write_deferred
from sqew.stores.sql.subscription_cache import Binding
from sqew.stores.sql.topics import check_topic
from sqew.stores.sql.transaction import Copies, Row, Work

MOST_ROWS = 20_000
"""Most messages and deliveries that a batch of events may become: a million would hold all others up for 5 s."""

_REFUSALS = (Limited, BodyTooLarge, UnknownLane)
"""Errors of a queue that does not take an event."""
_REFUSED = 400


class _Plan(Struct):
    """The targets of one event, and its form for each, as far as there is more to it than rows to be written."""

    event: NewEvent
    fanout: Fanout
    overladen: Sequence[Binding]
    """Subscriptions for which it has too many attributes."""
    number: int | None
    checked_targets: list[tuple[QueueState, NewMessage]]
    sent: list[tuple[str, int]]
    refused: list[SqewError]


def publish(work: Work, op: Publish) -> list[Published]:
    if len(op.events) == 1 and not op.to_topics:
        published = _publish_plain(work, op.events[0])
        if published is not None:
            return [published]
    if op.to_topics:
        for name in {event.routing_key for event in op.events}:
            if not is_keyed(name):
                check_topic(work, name)
    return publish_events(work, op.events, each_for_itself=op.to_topics)


def _publish_plain(work: Work, event: NewEvent) -> Published | None:
    """Publish an event that all queues take as it is, as most do; None, with nothing done, if there is more to it."""
    work.bindings.refresh(work)
    fanout = work.bindings.fanouts.get(event.routing_key)
    if (
        fanout is None
        or not fanout.is_plain
        or fanout.epoch != work.catalog.epoch
        or event.attributes
        or event.numbered
        or event.only
        or not _is_small(event)
    ):
        return None
    work.space.check(work.now)
    ids = _put_plain(work, fanout, event)
    if not work.defers:
        write_deferred(work)
    return Published(list(zip(fanout.names, ids, strict=True)), 0, fanout.missing)


def publish_events(work: Work, events: Sequence[NewEvent], *, each_for_itself: bool = False) -> list[Published]:
    """Publish all events, or none: whatever refuses does so before the first write.

    ``each_for_itself``: a queue that refuses does so for itself alone.
    """
    work.space.check(work.now)
    work.bindings.refresh(work)
    ways = routes_of(work, events)
    fanouts = [fanout for fanout, _ in ways]
    _check_rows(fanouts)
    wanted = {
        form for event, fanout in zip(events, fanouts, strict=True) for form in fanout.wanted - event.envelopes.keys()
    }
    if wanted:
        raise EnvelopeNeeded(wanted, {form for fanout in fanouts for form in fanout.wanted_in_queues} & wanted)
    numbers = _numbers(work, events, fanouts)
    plans = [_plan(event, *way, numbers.get(event.message_id)) for event, way in zip(events, ways, strict=True)]
    accepted, contested = _accepted(work, plans, each_for_itself)
    for plan in plans:
        if plan.fanout.targets and _is_small(plan.event):
            plan.sent.extend(zip(plan.fanout.names, _put_plain(work, plan.fanout, plan.event), strict=True))
    for state, targets, messages, lanes in accepted:
        for plan, one in zip(targets, put(work, state, messages, lanes, work.deferred), strict=True):
            plan.sent.append((state.name, one.id))
    if accepted or not work.defers:
        write_deferred(work)
    for state, targets, messages in contested:
        for plan, message in zip(targets, messages, strict=True):
            _put_if_taken(work, plan, state, message)
    for plan in plans:
        for binding in plan.overladen:
            _dead_letter_overladen(work, plan, binding)
    _add_deliveries(work, plans)
    return [
        Published(_in_order(plan), len(plan.fanout.endpoints), plan.fanout.missing, plan.refused, plan.number)
        for plan in plans
    ]


def _numbers(work: Work, events: Sequence[NewEvent], fanouts: Sequence[Fanout]) -> dict[str, int]:
    """Return the numbers of events that get one, by their ids: an event in several versions has one number.

    They come from the sequence of message ids: each is higher than all before it, whichever process gave them.
    """
    ids = dict.fromkeys([event.message_id for event in events if event.numbered])
    if not ids:
        return {}
    # Or one that has a higher number could come to a queue first.
    work.hold(*(state for fanout in fanouts for state, _ in fanout.checked_targets if state.policy.fifo))
    return dict(zip(ids, work.catalog.take_ids(len(ids)), strict=True))


def _in_order(plan: _Plan) -> list[tuple[str, int]]:
    """Return the messages of an event by the age of their subscriptions, in whatever order they were written."""
    if plan.checked_targets or plan.overladen:
        order = plan.fanout.order
        plan.sent.sort(key=lambda sent: order.get(sent[0], len(order)))
    return plan.sent


def _check_rows(fanouts: Sequence[Fanout]) -> None:
    """Raise if a batch becomes too many rows. One event alone is taken, however many subscriptions want it."""
    if len(fanouts) == 1:
        return
    rows = fits = 0
    for fanout in fanouts:
        rows += fanout.rows
        fits += rows <= MOST_ROWS
    if rows > MOST_ROWS:
        raise TooWide(rows, MOST_ROWS, max(fits, 1))


def _is_small(event: NewEvent) -> bool:
    """Return True if an event can be written as it is to every target."""
    message = event.message
    return event.key is message.group is message.lane is None and len(message.body) <= INLINE_BODY_BYTES


def _plan(event: NewEvent, fanout: Fanout, overladen: Sequence[Binding], number: int | None) -> _Plan:
    plan = _Plan(event, fanout, overladen, number, [], [], [])
    is_small = _is_small(event)
    if fanout.checked_targets or not is_small:
        wrapped, raw = _wrapped(event), _raw(event)
        for state, binding in fanout.checked_targets:
            own = raw
            if binding.form != RAW:
                own = structs.replace(wrapped, body=addressed(event, binding.form, number, binding.uuid), format="json")
            if state.name != binding.target:
                own = _dead_letter(event, own, binding, QueueNotFound(binding.target))
            plan.checked_targets.append((state, own))
        if not is_small:
            plan.checked_targets.extend((target.state, raw) for target in fanout.targets)
    return plan


def _wrapped(event: NewEvent) -> NewMessage:
    """Return an event as the message that carries its envelope."""
    headers = event_headers(event.routing_key, event.message.headers)
    return structs.replace(event.message, headers=headers, key=event.key)


def _raw(event: NewEvent) -> NewMessage:
    """Return an event as a message of its own, with its attributes."""
    wrapped = _wrapped(event)
    if not event.attributes:
        return wrapped
    return structs.replace(wrapped, headers={**event.attributes, **(wrapped.headers or {})})


def _dead_letter(event: NewEvent, message: NewMessage, binding: Binding, error: SqewError) -> NewMessage:
    """Return a message for the dead-letter queue of a subscription, which says why it is there.

    Its key is its own: letters of other subscriptions may lie in the same queue, and are no repetitions of it.
    """
    headers = {**(message.headers or {}), **dead_letter_headers(event.message_id, _REFUSED, str(error))}
    key = message.key
    if key is not None:
        key = hashlib.sha256(f"{binding.uuid} {key}".encode()).hexdigest()
    return structs.replace(message, headers=headers, key=key)


def dead_letter_headers(message_id: str, status: int, error: str) -> dict[str, Any]:
    """Return the attributes by which SNS says why a message is a dead letter."""
    attributes = {"RequestID": message_id, "ErrorCode": str(status), "ErrorMessage": error}
    return {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items() if text}


def _put_plain(work: Work, fanout: Fanout, event: NewEvent) -> Sequence[int]:
    """Add the rows of one event in all queues that take it as it is; return their ids. Most columns are the same."""
    now, catalog, rows, targets = work.now, work.catalog, work.deferred, fanout.targets
    message = event.message
    body, priority, delay_ms, ttl_ms = message.body, message.priority, message.delay_ms, message.ttl_ms
    is_text = message.format == "text"
    headers = fanout.headers
    if message.headers or event.attributes:
        given = {**event.attributes, **(message.headers or {})}
        headers = encode_headers(event_headers(event.routing_key, given))
    check = checksum(body, headers, is_text)
    if priority not in fanout.priorities:
        for target in targets:
            catalog.ensure_bucket(target.state, target.lane, priority)
        fanout.priorities.add(priority)
    ids = catalog.take_ids(len(targets))
    if fanout.takes_copies:
        kind = fanout, priority, delay_ms, ttl_ms, is_text, headers
        copies = rows.copies.get(kind)
        if copies is None:
            due_at, expires_at = _times(now, targets[0], message)
            alike = targets[0].lane, priority, due_at, now, expires_at, is_text, headers
            copies = rows.copies[kind] = Copies(targets, alike)
            work.woken.update(fanout.names)
        copies.ids.append(ids)
        copies.checksums.append(check)
        copies.bodies.append(body)
        return ids
    for id, target in zip(ids, targets, strict=True):
        due_at, expires_at = _times(now, target, message)
        rows.small.append(
            (id, target.queue_id, target.lane, priority, due_at, now, expires_at, is_text, check, headers, body)
        )
        work.facts.append(Fact("sent", target.queue, target.lane_name, id, 0))
    work.woken.update(fanout.names)
    return ids


def _times(now: int, target: FanoutTarget, message: NewMessage) -> tuple[int, int | None]:
    """Return when a message is due in a queue, and when it expires there."""
    delay_ms = target.delay_ms if message.delay_ms is None else message.delay_ms
    ttl_ms = target.ttl_ms if message.ttl_ms is None else message.ttl_ms
    return now + delay_ms, None if ttl_ms is None else now + ttl_ms


_Contested = tuple[QueueState, list[_Plan], list[NewMessage]]
_Accepted = tuple[QueueState, list[_Plan], list[NewMessage], list[int]]


def _accepted(work: Work, plans: list[_Plan], each_for_itself: bool) -> tuple[list[_Accepted], list[_Contested]]:
    """Return the other queues, each with all that goes to it: its limits and the order in a group are about all of it.

    Also return those that don't take all of it, if that is no reason to publish nothing.
    """
    targets: dict[int, tuple[QueueState, list[_Plan], list[NewMessage]]] = {}
    for plan in plans:
        for state, message in plan.checked_targets:
            _, plans_of, messages = targets.setdefault(state.id, (state, [], []))
            plans_of.append(plan)
            messages.append(message)
    if targets:
        # What waits to be written counts as well: in a quota, and before others of its group.
        write_deferred(work)
        work.hold(*(state for state, _, _ in targets.values() if state.takes_one_at_a_time))
    accepted: list[_Accepted] = []
    contested: list[_Contested] = []
    try:
        for state, plans_of, messages in targets.values():
            try:
                accepted.append((state, plans_of, messages, accept(work, state, messages)))
            except _REFUSALS:
                if not each_for_itself:
                    raise
                contested.append((state, plans_of, messages))
    except SqewError:
        # Nothing is sent: what those that would have taken it allow in a second must not be used up.
        for state, _, messages, _ in accepted:
            work.catalog.throttle(state).give_back(len(messages))
        raise
    return accepted, contested


def _put_if_taken(work: Work, plan: _Plan, state: QueueState, message: NewMessage) -> None:
    """Send a message to a queue that may refuse it; then it goes to the dead letters of the subscription, if any."""
    try:
        _put_one(work, plan, state, message)
    except _REFUSALS as error:
        binding = next((one for one in plan.fanout.bindings if one.target == state.name), None)
        _dead_letter_message(work, plan, binding, message, error)


def _dead_letter_overladen(work: Work, plan: _Plan, binding: Binding) -> None:
    error = TooManyAttributes(binding.target, len(plan.event.attributes), MOST_ATTRIBUTES)
    _dead_letter_message(work, plan, binding, _raw(plan.event), error)


def _dead_letter_message(
    work: Work, plan: _Plan, binding: Binding | None, message: NewMessage, error: SqewError
) -> None:
    """Send what a queue does not take to the dead-letter queue of its subscription, if there is one that takes it."""
    dead_letters = None if binding is None else work.catalog.find(binding.dead_letter or None)
    if binding is None or dead_letters is None:
        plan.refused.append(error)
        return
    try:
        _put_one(work, plan, dead_letters, _dead_letter(plan.event, message, binding, error))
    except _REFUSALS:
        plan.refused.append(error)


def _put_one(work: Work, plan: _Plan, state: QueueState, message: NewMessage) -> None:
    [sent] = put(work, state, [message], accept(work, state, [message]), work.deferred)
    plan.sent.append((state.name, sent.id))
    # The next of its group stands behind it.
    write_deferred(work)


def _add_deliveries(work: Work, plans: Sequence[_Plan]) -> None:
    """Add one copy of what is posted for each event and form, and a delivery for each endpoint."""
    shared = [
        (plan, form, [binding for binding in plan.fanout.endpoints if binding.form == form])
        for plan in plans
        for form in {binding.form for binding in plan.fanout.endpoints}
    ]
    if not shared:
        return
    payloads = [_payload(plan, form, len(targets)) for plan, form, targets in shared]
    ids = [row[0] for row in work.executemany(work.sql.insert_payload, payloads).fetchall()]
    rows: list[Row] = []
    for id, (plan, _, targets) in zip(ids, shared, strict=True):
        message = plan.event.message
        due_at = work.now + (message.delay_ms or 0)
        expires_at = None if message.ttl_ms is None else work.now + message.ttl_ms
        rows += [
            (id, to.id, to.target, delivery_checksum(id, to.target.encode()), work.now, expires_at, due_at)
            for to in targets
        ]
    work.executemany(work.sql.insert_delivery, rows)
    work.woken.add(DELIVERIES)


def _payload(plan: _Plan, form: int, targets: int) -> Row:
    event, message = plan.event, plan.event.message
    body = message.body if form == RAW else addressed(event, form, plan.number)
    is_text = form == RAW and message.format == "text"
    check = payload_checksum(event.routing_key.encode(), event.message_id.encode(), form, is_text, body)
    return event.routing_key, event.message_id, form, is_text, check, targets, body, NOTIFICATION
