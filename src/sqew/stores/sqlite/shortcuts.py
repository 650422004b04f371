"""The short way to send, receive or ack one plain message: a single statement that commits itself.

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
from sqew.model import Fact, Lease, NewMessages, Received, Sent, Settled
from sqew.operations import Ack, Operation, Receive, Send
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.receiving import NEVER, delivered, tell_dead_letter_queue
from sqew.stores.sql.rows import body_of, checksum
from sqew.stores.sql.sending import plain_row, sent_plain
from sqew.stores.sql.work import Row, Work


def send(work: Work, op: Send) -> list[Sent] | None:
    """The one answer, or None where it takes the general way."""
    catalog = work.catalog
    state = catalog.by_name.get(op.queue)
    messages = op.messages
    if state is None or not state.takes_plain or len(messages) != 1 or isinstance(messages, NewMessages):
        return None
    row = plain_row(work, state, messages[0])
    if row is None:
        return None
    # + takes half as long as (*row, …).
    work.execute_at_once(work.sql.insert_plain, row + (catalog.version, catalog.reserved_below))  # noqa: RUF005
    return sent_plain(work, state, row) if work.changes() else None


def receive(work: Work, op: Receive) -> Received | None:
    """The one message, or None where it takes the general way (or there is none)."""
    catalog = work.catalog
    state = catalog.by_name.get(op.queue)
    if state is None or op.limit != 1 or state.policy.fifo or (op.finish and not _leaves_nothing(state)):
        return None
    lanes = state.lanes if op.lane is None else (state.lane_ids.get(op.lane),)
    priorities = state.buckets.get(lanes[0]) if len(lanes) == 1 and lanes[0] is not None else None
    if priorities is None or len(priorities) != 1:
        return None
    policy, now = state.policy, work.now
    lease = Lease(new_token(), now + (policy.visibility_ms if op.lease_ms is None else op.lease_ms), op.by)
    last_attempt = policy.max_attempts or NEVER
    head = (state.id, lanes[0], priorities[0], now, last_attempt, catalog.version)
    if op.finish:
        return _take(work, state, head, lease)
    # To the end: the statement commits when its last row has been read.
    rows = work.execute_at_once(work.sql.claim_head, (*head, lease.expires_at, lease.token, op.by)).fetchall()
    if not rows:
        return None
    row = rows[0]
    id, attempts, since = row[0], row[3], row[4]
    body = _intact_body(work, row)
    if body is None:
        work.execute_at_once(work.sql.unclaim, (id, lease.token))
        return None
    message = delivered(state, lease, row, body, attempts, since, work.now)
    work.facts.append(Fact("received", state.name, message.lane, id, attempts, op.by, now - since))
    if attempts >= last_attempt:
        tell_dead_letter_queue(work, state)
    return Received([message])


def _take(work: Work, state: QueueState, head: Row, lease: Lease) -> Received | None:
    """Receive for good."""
    rows = work.execute_at_once(work.sql.take_head, head).fetchall()
    if not rows:
        return None
    row = rows[0]
    id, attempts, since = row[0], row[3] + 1, row[16]
    body = _intact_body(work, row)
    if body is None:
        work.execute_at_once(work.sql.put_back, (*row, state.id))
        return None
    message = delivered(state, lease, row, body, attempts, since, work.now)
    lane = message.lane
    work.facts.append(Fact("received", state.name, lane, id, attempts, lease.by, work.now - since))
    work.facts.append(Fact("acked", state.name, lane, id, attempts))
    return Received([message])


def _intact_body(work: Work, row: Row) -> bytes | None:
    """The body of a row of {delivered}; None if it is not what was sent."""
    # Positions: id 0, is_text 12, checksum 13, headers 14, body 15.
    is_text, headers, body = row[12], row[14], row[15]
    if body is None:
        body = body_of(work, row[0], None)
    intact: bool = (checksum(body, headers, is_text) if headers else crc32(body, is_text)) == row[13]
    return body if intact else None


def _leaves_nothing(state: QueueState) -> bool:
    """Whether a finished message is only deleted: not archived, and not counted against a quota."""
    return state.policy.keep == "delete" and state.depth is None


def ack(work: Work, op: Ack) -> list[Settled] | None:
    """The one answer, or None where it takes the general way."""
    if len(op.refs) != 1 or op.queue is None or op.in_time:
        return None
    catalog = work.catalog
    state = catalog.by_name.get(op.queue)
    if state is None or not _leaves_nothing(state):
        return None
    ref = op.refs[0]
    rows = work.execute_at_once(
        work.sql.finish_plain, (ref.id, state.id, ref.token, ref.by, catalog.version)
    ).fetchall()
    if not rows:
        return None
    lane_id, attempts, by, received_at = rows[0]
    age_ms = work.now - (received_at or work.now)
    work.facts.append(Fact("acked", state.name, state.lane_names[lane_id], ref.id, attempts, by, age_ms))
    return [Settled(ref.id)]


SHORTCUTS: dict[type[Operation[Any]], Callable[[Work, Any], Any]] = {Send: send, Receive: receive, Ack: ack}
"""Those that are a transaction of their own."""

WITHIN: dict[type[Operation[Any]], Callable[[Work, Any], Any]] = {Receive: receive, Ack: ack}
"""Those that are also quicker as a part of one."""
