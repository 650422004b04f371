"""Named receives: a caller that repeats one, not having got the answer, gets the same messages again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sqew.model import Fact, Lease, Message
from sqew.operations import Receive
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.rows import body_of, is_whole
from sqew.stores.sql.transaction import Row, Work

REMEMBERED_MS = 300_000
"""Milliseconds for which a receive may be repeated: five minutes, as SQS has it."""
# Positions in {delivered}.
_ID, _ATTEMPTS, _AVAILABLE_AT, _IS_TEXT, _CHECKSUM, _HEADERS, _BODY = 0, 3, 4, 12, 13, 14, 15

Same = tuple[Lease, list[tuple[Row, bytes]]]


def find(work: Work, state: QueueState, op: Receive, lease_ms: int) -> Same | None:
    """Return the lease of the receive of that name, renewed, and its rows with their bodies.

    Return None if there was none, or if one of its messages was settled, or given more or less time, since.
    """
    known = work.execute(work.sql.find_attempt, (state.id, op.attempt_id, work.now)).fetchone()
    if known is None:
        return None
    token, until, ids = known
    if until <= work.now:
        return None
    rows = []
    for id in msgspec.json.decode(ids):
        row = work.execute(work.sql.held_in_attempt, (id, state.id, token, until)).fetchone()
        if row is None:
            return None
        body = body_of(work, id, row[_BODY])
        if body is None or not is_whole(body, row[_HEADERS], row[_IS_TEXT], row[_CHECKSUM]):
            return None
        rows.append((row, body))
    lease = Lease(token, work.now + lease_ms, op.by)
    for row, _ in rows:
        work.execute(work.sql.renew_lease, (row[_ID], lease.expires_at))
        work.facts.append(Fact("extended", state.name, state.lane_names[row[1]], row[_ID], row[_ATTEMPTS], op.by))
    work.woken.add(state.name)
    return lease, rows


def remember(work: Work, state: QueueState, op: Receive, lease: Lease, messages: Sequence[Message]) -> None:
    """Remember a receive, so that it can be repeated. (The sweeper forgets those that can't be any more.)"""
    ids = msgspec.json.encode([message.id for message in messages]).decode()
    expires_at = work.now + REMEMBERED_MS
    work.execute(work.sql.save_attempt, (state.id, op.attempt_id, lease.token, lease.expires_at, ids, expires_at))
