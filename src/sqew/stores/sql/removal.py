"""Removal of messages from their queue: finished, dead, expired or removed. Every way out of a queue is here."""

from __future__ import annotations

import logging
from typing import NamedTuple

from sqew.model import Fact, FactKind, Outcome
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.fifo import put_in_front, refresh_head
from sqew.stores.sql.queues import dead_letter_queue
from sqew.stores.sql.send import SOLE_GROUP
from sqew.stores.sql.transaction import Row, Work

_log = logging.getLogger("sqew.store")

EXHAUSTED = "max_attempts"
DAMAGED = "damaged"


class Held(NamedTuple):
    """A row of {held}: the fields needed to settle a message."""

    id: int
    queue_id: int
    lane_id: int
    priority: int
    attempts: int
    lease_until: int | None
    leased_by: str | None
    received_at: int | None
    key: str | None
    group: str | None
    large: int


def forget(work: Work, state: QueueState, id: int, key: str | None, group: str | None, large: int) -> None:
    """Delete the large body of a message whose row has left the queue, and do what `forget_moved` does."""
    if large:
        work.execute(work.sql.delete_body, (id,))
    forget_moved(work, state, id, key, group)


def forget_moved(work: Work, state: QueueState, id: int, key: str | None, group: str | None) -> None:
    """Update the key, group and depth of a queue that a message has left, for another or for good."""
    if key is not None and state.policy.key_retention_from == "gone":
        work.execute(work.sql.retire_key, (state.id, key, id, work.now + state.policy.key_retention_ms))
    if group is not None and state.policy.fifo:
        refresh_head(work, state, group)
    if state.depth is not None:
        state.depth -= 1


def discard(work: Work, state: QueueState, doomed: Row, kind: FactKind) -> None:
    """Delete a message and keep nothing of it. ``doomed`` is a row of {doomed}. A purge forgets its key, too."""
    id, _queue_id, lane_id, attempts, key, group, large = doomed
    work.execute(work.sql.delete_message, (id,))
    if key is not None and kind == "purged":
        work.execute(work.sql.forget_key, (state.id, key, id))
        key = None
    forget(work, state, id, key, group, large)
    work.facts.append(Fact(kind, state.name, state.lane_names[lane_id], id, attempts))


def archive(work: Work, state: QueueState, held: Held, outcome: Outcome, reason: str | None = None) -> None:
    """Move a message to the archive."""
    retention = state.policy.archive_retention_ms
    purge_at = None if retention is None else work.now + retention
    lane = state.lane_names[held.lane_id]
    work.execute(work.sql.archive_message, (held.id, lane, work.now, purge_at, outcome, reason, held.attempts))
    work.execute(work.sql.delete_message, (held.id,))
    forget(work, state, held.id, held.key, held.group, held.large)


def move_to_dead_letters(work: Work, state: QueueState, held: Held, reason: str) -> None:
    """Move a dead message to the dead-letter queue, or to the archive if the policy names none.

    A damaged message goes to the archive in any case: from a queue it would be delivered. If a dead-letter queue has
    attempts of its own to give, they are counted anew: otherwise it could not be received even once.
    """
    target = None if reason == DAMAGED else dead_letter_queue(work, state)
    if reason == DAMAGED:
        found = {"queue": state.name, "id": held.id}
        _log.warning("a message is not what was sent, and goes to the archive", extra={"fields": found})
    lane = state.lane_names[held.lane_id]
    if target is None or target is state:
        archive(work, state, held, "dead", reason)
    else:
        group = held.group
        if target.policy.fifo:
            group = group or SOLE_GROUP
        ttl_ms = target.policy.ttl_ms
        work.catalog.ensure_bucket(target, target.default_lane, held.priority)
        work.execute(
            work.sql.move_to_dead_letter,
            (
                held.id,
                target.id,
                target.default_lane,
                None if target.policy.fifo else work.now,
                work.now,
                None if ttl_ms is None else work.now + ttl_ms,
                state.name,
                lane,
                reason,
                held.attempts if target.policy.max_attempts is None else 0,
                group,
            ),
        )
        if target.policy.fifo and group is not None:
            put_in_front(work, target, group)
        forget_moved(work, state, held.id, held.key, held.group)
        if target.depth is not None:
            target.depth += 1
        work.woken.add(target.name)
    work.facts.append(Fact("dead", state.name, lane, held.id, held.attempts, by=held.leased_by, reason=reason))
