"""Receiving of the next messages under a lease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from zlib import crc32

from msgspec import Struct

from sqew.ids import new_token
from sqew.model import Death, Fact, Lease, Message, Received
from sqew.operations import NextDue, Receive
from sqew.rules.limits import MOST_BYTES
from sqew.stores.sql import receive_attempts
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.lanes import next_turn, save_turns, turns_of
from sqew.stores.sql.removal import DAMAGED, EXHAUSTED, Held, archive, discard, forget, move_to_dead_letters
from sqew.stores.sql.rows import (
    INLINE_BODY_BYTES,
    MOST_ADDED_UP,
    are_odd,
    body_of,
    checksum,
    decode_headers,
    not_too_much,
    scoped_key,
    shown_key,
    size_of,
)
from sqew.stores.sql.transaction import Row, Work

NEVER = 1 << 62
"""Number of deliveries that no message reaches: the limit of a policy without max_attempts."""


class _Claim(Struct, frozen=True, gc=False):
    """The common part of all leases of one receive."""

    state: QueueState
    lease: Lease
    last_attempt: int
    """Number of deliveries that the policy allows."""


def receive(work: Work, op: Receive) -> Received:
    state = work.catalog.queue(op.queue)
    policy = state.policy
    lease_ms = policy.visibility_ms if op.lease_ms is None else op.lease_ms
    if policy.fifo:
        # Before it looks whether this receive is a repeated one: the first may still be under way.
        work.hold(state)
    if (
        op.attempt_id is not None
        and policy.fifo
        and (same := receive_attempts.find(work, state, op, lease_ms)) is not None
    ):
        return _again(work, state, op, same, lease_ms)
    claim = _Claim(state, Lease(new_token(), work.now + lease_ms, op.by), policy.max_attempts or NEVER)
    lanes = state.lanes if op.lane is None else (state.lane(op.lane),)
    if policy.fifo:
        messages = _take_groups(work, claim, lanes, op.limit)
    else:
        messages = _take(work, claim, lanes, op.limit)
        work.ready_rows.took(work, state, messages)
        if not op.finish:
            _lease(work, claim, messages)
    if not messages:
        return Received([], _next_arrival(work, state, lanes), policy.receive_wait_ms)
    _record_received(work, op, state, messages)
    if op.finish:
        for message in messages:
            _finish(work, state, message)
    elif op.attempt_id is not None and policy.fifo:
        receive_attempts.remember(work, state, op, claim.lease, messages)
    return Received(messages, lease_ms=lease_ms)


def receive_each(work: Work, op: Receive, count: int) -> list[Received] | None:
    """Do `receive` for several callers that want one message each, under a lease of its own, in less than half the
    time; return None, with nothing done, if they can't be served together."""
    state = work.catalog.find(op.queue)
    if state is None or state.policy.fifo or op.limit != 1 or op.finish or (op.lane is None and len(state.lanes) > 1):
        return None
    policy, now = state.policy, work.now
    lease_ms = policy.visibility_ms if op.lease_ms is None else op.lease_ms
    if not lease_ms:
        # What is leased for no time is there for the next.
        return None
    lane, last_attempt = state.lane(op.lane), policy.max_attempts or NEVER
    messages, leases = [], []
    for row in work.ready_rows.rows(work, state, lane, count):
        claim = _Claim(state, Lease(new_token(), now + lease_ms, op.by), last_attempt)
        message = _deliverable(work, claim, row)
        if message is not None:
            messages.append(message)
            leases.append(_lease_parameters(work, claim, message))
            if len(messages) == count:
                break
    work.ready_rows.took(work, state, messages)
    work.executemany(work.sql.lease, leases)
    _record_received(work, op, state, messages)
    received = [Received([message], lease_ms=lease_ms) for message in messages]
    if len(received) < count:
        nothing = Received([], _next_arrival(work, state, (lane,)), policy.receive_wait_ms)
        received += [nothing] * (count - len(received))
    return received


def _again(work: Work, state: QueueState, op: Receive, same: receive_attempts.Same, lease_ms: int) -> Received:
    """Return the same messages as before, which counts as the same delivery."""
    lease, rows = same
    messages = [delivered(state, lease, row, body, row[3], row[4], work.now) for row, body in rows]
    receive_attempts.remember(work, state, op, lease, messages)
    return Received(messages, lease_ms=lease_ms)


def _record_received(work: Work, op: Receive, state: QueueState, messages: Sequence[Message]) -> None:
    facts, now, by, last_attempt = work.facts, work.now, op.by, state.policy.max_attempts or NEVER
    for m in messages:
        facts.append(Fact("received", m.queue, m.lane, m.id, m.attempts, by, now - m.available_at))
        if m.attempts >= last_attempt and not op.finish:
            wake_dead_letter_queue(work, state)


def next_due(work: Work, op: NextDue) -> int | None:
    state = work.catalog.queue(op.queue)
    return work.ready_rows.first_due(work, state, state.lanes if op.lane is None else (state.lane(op.lane),))


def wake_dead_letter_queue(work: Work, state: QueueState) -> None:
    """Wake waiters for dead letters: a message of this queue is delivered for the last time, and may die."""
    if state.policy.dead_letter is not None:
        work.woken.add(state.policy.dead_letter)


def _next_arrival(work: Work, state: QueueState, lanes: Sequence[int]) -> int | None:
    """Return when a message of these lanes is due, or may die and come here."""
    due = work.ready_rows.next_look_at(work, state, lanes)
    if state.policy.max_attempts is not None:
        # Where messages themselves die is no dead-letter queue, or need not be waited for as one.
        return due
    death: int | None = work.execute(work.sql.next_death).get
    return death if due is None or (death is not None and death < due) else due


def _take(work: Work, claim: _Claim, lanes: Sequence[int], limit: int) -> list[Message]:
    """Return up to ``limit`` messages, the lanes taking turns."""
    if len(lanes) == 1:
        return list(not_too_much(islice(_ready(work, claim, lanes[0], limit), limit)))
    return _in_turns(work, claim, lanes, limit)


def _lease(work: Work, claim: _Claim, messages: list[Message]) -> None:
    if len(messages) == 1:
        work.execute_at_once(work.sql.lease, _lease_parameters(work, claim, messages[0]))
    elif messages:
        lease = claim.lease
        ids = work.integers([message.id for message in messages])
        work.execute_at_once(
            work.sql.lease_many, (ids, lease.expires_at, lease.token, lease.by, work.now, claim.last_attempt)
        )


def _in_turns(work: Work, claim: _Claim, lanes: Sequence[int], limit: int) -> list[Message]:
    state = claim.state
    turns = turns_of(work, state)
    queues = {lane: _ready(work, claim, lane, limit) for lane in lanes}
    messages: list[Message] = []
    # What stands first in each lane that has work.
    heads = {lane: head for lane, queue in queues.items() if (head := next(queue, None)) is not None}
    size = 0
    while heads and len(messages) < limit and size < MOST_BYTES:
        lane = next_turn(turns, heads, state)
        messages.append(heads.pop(lane))
        size += size_of(messages[-1])
        if (head := next(queues[lane], None)) is not None:
            heads[lane] = head
    if messages:
        save_turns(work, state)
    return messages


def _ready(work: Work, claim: _Claim, lane: int, limit: int) -> Iterator[Message]:
    """Yield the messages of a lane that may be delivered, in order; those on the way that may not are dealt with."""
    for row in work.ready_rows.rows(work, claim.state, lane, limit):
        message = _deliverable(work, claim, row)
        if message is not None:
            yield message


def _lease_parameters(work: Work, claim: _Claim, message: Message) -> Row:
    """Return the parameters of `lease` and `lease_follower`."""
    lease = claim.lease
    until = lease.expires_at
    dies_at = until if message.attempts >= claim.last_attempt else None
    return message.id, until, lease.token, lease.by, work.now, dies_at


def _take_groups(work: Work, claim: _Claim, lanes: Sequence[int], limit: int) -> list[Message]:
    """Lease the heads of FIFO groups, and with each head the messages behind it while there is room."""
    state = claim.state
    messages: list[Message] = []
    turns = turns_of(work, state) if len(lanes) > 1 else {}
    while len(messages) < limit and sum(map(size_of, messages)) < MOST_BYTES:
        heads = _heads(work, claim, lanes, messages)
        if not heads:
            break
        lane = next_turn(turns, heads, state) if len(lanes) > 1 else lanes[0]
        work.execute_at_once(work.sql.lease, _lease_parameters(work, claim, heads[lane]))
        messages.append(heads[lane])
        _take_followers(work, claim, lane, heads[lane], messages, limit)
    if len(lanes) > 1 and messages:
        save_turns(work, state)
    return messages


def _heads(work: Work, claim: _Claim, lanes: Sequence[int], taken: list[Message]) -> dict[int, Message]:
    """Return the first head of each lane that has one."""
    while True:
        facts = len(work.facts)
        heads = {lane: head for lane in lanes if (head := _head(work, claim, lane, taken)) is not None}
        if len(work.facts) == facts:
            return heads
        # What had to be dealt with on the way (each a fact) may have exposed a head in a lane that was seen before.


def _head(work: Work, claim: _Claim, lane: int, taken: list[Message]) -> Message | None:
    """Return the first head in a lane, apart from those taken before (under a lease of no time they are ready)."""
    taken_ids = {message.id for message in taken}
    found = work.ready_rows.rows
    while row := next((row for row in found(work, claim.state, lane, 1) if row[0] not in taken_ids), None):
        message = _deliverable(work, claim, row)
        if message is not None:
            return message
        # It has been dealt with, and the new head of its group may stand before it: look again from the start.
    return None


def _take_followers(work: Work, claim: _Claim, lane: int, head: Message, messages: list[Message], limit: int) -> None:
    last, size = head.id, sum(map(size_of, messages))
    while len(messages) < limit and size < MOST_BYTES:
        row = work.execute(work.sql.next_follower, (claim.state.id, head.group, last)).fetchone()
        # The order ends at a message that is delayed or belongs to another lane.
        if row is None or row[1] != lane or row[4] > work.now:
            return
        last = row[0]
        message = _deliverable(work, claim, row)
        if message is not None:
            work.execute_at_once(work.sql.lease_follower, _lease_parameters(work, claim, message))
            messages.append(message)
            size += size_of(message)


def _deliverable(work: Work, claim: _Claim, row: Row) -> Message | None:
    """Return the row as the message to deliver; None if it may not be, and then it has been dealt with."""
    (
        id, lane_id, priority, attempts, available_at, created_at, expires_at, key, group, origin, reason, died_at,
        is_text, check, headers, inline, due_at, first_received_at,
    ) = row  # fmt: skip
    state = claim.state
    added_up = priority + attempts + available_at + created_at
    if (
        type(added_up) is not int
        or added_up > MOST_ADDED_UP
        or lane_id not in state.lane_names
        or (
            not (expires_at is key is group is origin is first_received_at is None)
            and are_odd((key, group, origin, reason), (expires_at, died_at, first_received_at))
        )
    ):
        raise ValueError(f"message {id} holds what was never written to it")
    if expires_at is not None and expires_at <= work.now:
        discard(work, state, (id, state.id, lane_id, attempts, key, group, inline is None), "expired")
        return None
    body = body_of(work, id, None) if inline is None else inline
    intact = body is not None and (checksum(body, headers, is_text) if headers else crc32(body, is_text)) == check
    if body is None or attempts >= claim.last_attempt or not intact:
        held = Held(id, state.id, lane_id, priority, attempts, None, None, None, key, group, inline is None)
        move_to_dead_letters(work, state, held, EXHAUSTED if intact else DAMAGED)
        return None
    since = available_at if due_at is None else due_at
    return delivered(state, claim.lease, row, body, attempts + 1, since, work.now)


def delivered(state: QueueState, lease: Lease, row: Row, body: bytes, attempts: int, since: int, now: int) -> Message:
    """Return a row of {delivered} as the message that its receiver gets."""
    (
        id, lane_id, priority, _attempts, _available_at, created_at, expires_at, key, group, origin, reason, died_at,
        is_text, _check, headers, _inline, _due_at, first_received_at,
    ) = row  # fmt: skip
    return Message(
        id,
        state.name,
        body,
        "text" if is_text else "json",
        decode_headers(headers) if headers else {},
        priority,
        state.lane_names[lane_id],
        group,
        key if key is None else shown_key(key),
        attempts,
        created_at,
        since,
        expires_at,
        "leased",
        lease,
        None if origin is None else Death(origin, reason or "", died_at or 0),
        False,
        now if first_received_at is None else first_received_at,
    )


def _finish(work: Work, state: QueueState, message: Message) -> None:
    """Finish a message that is received for good: the lease never shows."""
    large = len(message.body) > INLINE_BODY_BYTES
    lane_id, within = state.lane_ids[message.lane], state.policy.deduplicate_within
    key = None if message.key is None else scoped_key(message.key, message.group, within)
    held = Held(
        message.id, state.id, lane_id, message.priority, message.attempts, None, None, None, key, message.group, large,
    )  # fmt: skip
    if state.policy.keep == "archive":
        archive(work, state, held, "done")
    else:
        work.execute(work.sql.delete_message, (message.id,))
        forget(work, state, message.id, key, message.group, large)
    work.facts.append(Fact("acked", state.name, message.lane, message.id, message.attempts))
