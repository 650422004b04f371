"""Fast paths to send, receive or ack one plain message: a single statement that commits itself.

Most messages have no key, no group and a small body, and most queues one lane, one priority and no archive. For these
the general way (begin, look whether other processes changed something, read, write, commit) takes half as long again.
Here the statement itself makes sure that the queues are still what this process thinks they are; where it finds
anything else it changes nothing, and the caller goes the general way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from sqew.ids import new_token
from sqew.model import Commit, Fact, Format, Lease, NewMessages, Received, Settled
from sqew.operations import Ack, Operation, Receive, Send
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.receive import NEVER, delivered
from sqew.stores.sql.rows import DAMAGE, INLINE_BODY_BYTES, body_of, is_whole
from sqew.stores.sql.send import plain_row, sent_by, sent_plain
from sqew.stores.sql.transaction import Work
from sqew.stores.sqlite.row_capture import Change

FastPath = Callable[[Work, Change, Any], Commit | None]
"""Function that runs an operation and returns what it did; None if the operation takes the general way."""

_NOBODY: frozenset[str] = frozenset()


def send(work: Work, _change: Change, op: Send) -> Commit | None:
    """Send one message."""
    catalog = work.catalog
    state = catalog.by_name.get(op.queue)
    messages = op.messages
    if state is None or not state.takes_plain or len(messages) != 1 or isinstance(messages, NewMessages):
        return None
    row = plain_row(work, state, messages[0])
    if row is None:
        return None
    work.execute_at_once(work.sql.insert_plain, (*row, catalog.version, catalog.reserved_below))
    if not work.changes():
        return None
    fact = sent_plain(work, state, row)
    return Commit([[sent_by(row)]], [fact], {fact.queue})


def send_plain(work: Work, queue: str, body: bytes, format: Format) -> Fact | None:
    """Send a message that has nothing but a body: the same as `send`, with `plain_row` and `sent_plain` spelled out."""
    catalog, now = work.catalog, work.now
    state, id = catalog.by_name.get(queue), catalog.next_id
    if state is None or not state.takes_plain or id >= catalog.reserved_below or len(body) > INLINE_BODY_BYTES:
        return None
    lane = state.default_lane
    if 0 not in state.buckets.get(lane, ()):
        return None
    if now >= work.space.next_look_at:
        work.space.check(now)
    policy, is_text = state.policy, format == "text"
    due_at, expires_at = now + policy.delay_ms, None if policy.ttl_ms is None else now + policy.ttl_ms
    work.execute_at_once(
        work.sql.insert_plain,
        (id, state.id, lane, 0, due_at, now, expires_at, is_text, crc32(body, is_text), None, body,
         catalog.version, catalog.reserved_below),
    )  # fmt: skip
    if not work.changes():
        return None
    catalog.next_id = id + 1
    catalog.taken_ids += 1
    return Fact("sent", state.name, state.lane_names[lane], id, 0)


def receive(work: Work, change: Change, op: Receive) -> Commit | None:
    """Receive one message, if there is any."""
    catalog = work.catalog
    state = catalog.by_name.get(op.queue)
    if state is None or op.limit != 1 or state.policy.fifo or (op.finish and not _leaves_nothing(state)):
        return None
    lanes = state.lanes if op.lane is None else (state.lane_ids.get(op.lane),)
    priorities = state.buckets.get(lanes[0]) if len(lanes) == 1 and lanes[0] is not None else None
    if priorities is None or len(priorities) != 1:
        return None
    policy, now, by = state.policy, work.now, op.by
    lease_ms = policy.visibility_ms if op.lease_ms is None else op.lease_ms
    expires_at = now + lease_ms
    lease = Lease(new_token(), expires_at, by)
    last_attempt = policy.max_attempts or NEVER
    head = (state.id, lanes[0], priorities[0], now, last_attempt, catalog.version)
    sql = work.sql
    row = change(sql.take_head, head) if op.finish else change(sql.claim_head, (*head, expires_at, lease.token, by))
    if row is None:
        return None
    # Positions: id 0, attempts 3, body 15, due_at 16.
    id, attempts, body, since = row[0], row[3] + 1, row[15], row[16]
    if body is None:
        body = body_of(work, id, None)
        if body is None or not is_whole(body, row[14], row[12], row[13]):
            work.execute_at_once(sql.unclaim, (id, lease.token))
            return None
    message = delivered(state, lease, row, body, attempts, since, now)
    facts = [Fact("received", state.name, message.lane, id, attempts, by, now - since)]
    if op.finish:
        facts.append(Fact("acked", state.name, message.lane, id, attempts))
    elif attempts >= last_attempt and policy.dead_letter is not None:
        # Who waits for dead letters must know when it may die.
        return Commit([Received([message], None, 0, lease_ms)], facts, {policy.dead_letter})
    return Commit([Received([message], None, 0, lease_ms)], facts, _NOBODY)


def _leaves_nothing(state: QueueState) -> bool:
    """Return True if a finished message is only deleted: not archived, and not counted against a quota."""
    return state.policy.keep == "delete" and state.depth is None


def ack(work: Work, change: Change, op: Ack) -> Commit | None:
    """Ack one message."""
    if len(op.refs) != 1:
        return None
    catalog, ref = work.catalog, op.refs[0]
    if op.queue is None:
        queue_id = work.execute_at_once(work.sql.whereabouts, (ref.id,)).get
        state = None if queue_id is None else catalog.known_by_id(queue_id)
    else:
        state = catalog.by_name.get(op.queue)
    if state is None or not _leaves_nothing(state):
        return None
    lasts = work.now if op.in_time else None
    row = change(work.sql.finish_plain, (ref.id, state.id, ref.token, ref.by, catalog.version, lasts))
    if row is None:
        return None
    lane_id, attempts, by, received_at = row
    try:
        age_ms, lane = work.now - (received_at or work.now), state.lane_names[lane_id]
    except DAMAGE:
        # It is acked and gone, whatever was said of it.
        age_ms, lane, attempts, by = 0, state.lane_names[state.default_lane], 0, None
    fact = Fact("acked", state.name, lane, ref.id, attempts, by, age_ms)
    return Commit([[Settled(ref.id)]], [fact], _NOBODY)


FAST_PATHS: dict[type[Operation[Any]], FastPath] = {Send: send, Receive: receive, Ack: ack}
"""Fast paths of operations that are a transaction of their own."""

FAST_PATHS_WITHIN: dict[type[Operation[Any]], FastPath] = {Receive: receive, Ack: ack}
"""Fast paths that are also quicker for a part of a transaction."""
