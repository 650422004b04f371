"""Queues: creating, changing, listing and deleting them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sqew.errors import BadValue, ChangedMeanwhile, Conflict, QueueExists
from sqew.model import UPDATED, Policy, QueueInfo
from sqew.operations import CreateQueue, DeleteQueue, GetQueue, ListDeadLetterSources, ListQueues, UpdateQueue
from sqew.rules.names import check_new_queue_name
from sqew.rules.policies import checked_changes, dead_letter_policy
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.changed_retentions import note_changes
from sqew.stores.sql.keys import delete_keys_of
from sqew.stores.sql.statements import names
from sqew.stores.sql.transaction import Work

_encode = msgspec.json.Encoder().encode
_ALL = 1 << 62


def create_queue(work: Work, op: CreateQueue) -> QueueInfo:
    existing = work.catalog.find(op.name)
    other = work.catalog.find(op.apart_from)
    if other is not None and (existing is None or op.policy.fifo):
        raise QueueExists(other.name, existing=other.info)
    if existing is not None:
        return _existing(existing.info, op)
    _check_dead_letter_queue(work, op.policy, op.dead_letters)
    _make_dead_letter_queue(work, op.policy, op.dead_letters)
    id = _insert(work, op.name, op.policy, op.extras)
    work.catalog.changed()
    return QueueInfo(op.name, op.policy, work.now, dict(op.extras), id or 0)


def _existing(info: QueueInfo, op: CreateQueue) -> QueueInfo:
    """Return the existing queue, if it is as the new one was to be; otherwise raise `QueueExists`."""
    if op.new:
        raise QueueExists(op.name, existing=info)
    if not op.exist_ok and info.policy != op.policy:
        asked = (f for f in Policy.__struct_fields__ if f not in op.assumed)
        differs = next((f for f in asked if getattr(info.policy, f) != getattr(op.policy, f)), None)
        if differs is not None:
            raise QueueExists(op.name, differs, info)
    return info


def _check_dead_letter_queue(work: Work, policy: Policy, dead_letters: Policy | None) -> None:
    """Raise if a dead-letter queue would be created under a name that only an existing one may have."""
    if dead_letters is not None and work.catalog.find(policy.dead_letter) is None:
        check_new_queue_name(policy.dead_letter)


def _make_dead_letter_queue(work: Work, policy: Policy, dead_letters: Policy | None) -> None:
    """Create the dead-letter queue that a policy names, if there is none."""
    if dead_letters is not None and policy.dead_letter is not None and work.catalog.find(policy.dead_letter) is None:
        _insert(work, policy.dead_letter, dead_letters, {})


def dead_letter_queue(work: Work, state: QueueState) -> QueueState | None:
    """Find the dead-letter queue of a queue. None: it has none.

    If it was deleted since, create it anew: it is still named, and dead messages must not be kept for a week only.
    """
    name = state.policy.dead_letter
    target = work.catalog.find(name)
    if target is None and name is not None:
        _make_dead_letter_queue(work, state.policy, dead_letter_policy(name))
        target = work.catalog.find(name)
    return target


def _insert(work: Work, name: str, policy: Policy, extras: Mapping[str, Any]) -> int | None:
    row = (name, _encode(policy).decode(), work.now, _encode(extras).decode(), policy.dead_letter)
    id: int | None = work.execute(work.sql.insert_queue, row).get
    if id is None:
        # A dead-letter queue, which another server has made in this moment.
        return None
    for lane_id, lane in enumerate(policy.lanes):
        work.execute(work.sql.insert_lane, (id, lane_id, lane))
    return id


def update_queue(work: Work, op: UpdateQueue) -> QueueInfo:
    state = work.catalog.queue(op.name)
    if op.known is not None and op.known != state.info:
        raise ChangedMeanwhile(f"Queue '{op.name}'")
    policy = _changed_policy(state, checked_changes(op.changes))
    gone = [lane for lane in state.policy.lanes if lane not in policy.lanes]
    for lane in gone:
        if work.execute(work.sql.lane_in_use, (state.id, state.lane_ids[lane])).get:
            raise Conflict(
                f"Lane '{lane}' of queue '{op.name}' still holds messages, so it can't be dropped. "
                "Consume or purge them first; a lane of weight 1 beside heavier ones is served last."
            )
    for lane in gone:
        work.execute(work.sql.delete_lane, (state.id, state.lane_ids[lane]))
    next_id = max(state.lane_ids.values()) + 1
    for lane_id, lane in enumerate((lane for lane in policy.lanes if lane not in state.lane_ids), next_id):
        work.execute(work.sql.insert_lane, (state.id, lane_id, lane))
    _check_dead_letter_queue(work, policy, op.dead_letters)
    _make_dead_letter_queue(work, policy, op.dead_letters)
    extras = {name: value for name, value in {**state.extras, **op.extras}.items() if value is not None}
    if op.changes:
        extras[UPDATED] = work.now
    row = (state.id, _encode(policy).decode(), _encode(extras).decode(), policy.dead_letter)
    work.execute(work.sql.update_policy, row)
    note_changes(work, state, policy)
    work.catalog.changed()
    # A waiting receiver may have to look again: what is due has not changed, but the lanes may have.
    work.woken.add(op.name)
    return QueueInfo(op.name, policy, state.created_at, extras, state.id)


def _changed_policy(state: QueueState, changes: dict[str, Any]) -> Policy:
    if changes.get("fifo", state.policy.fifo) != state.policy.fifo:
        raise BadValue(
            f"Queue '{state.name}' can't change between FIFO and standard. Create another queue and move the messages."
        )
    if changes.get("dead_letter") == state.name:
        raise BadValue(f"Queue '{state.name}' can't be its own dead-letter queue. Name another, or none.")
    return msgspec.structs.replace(state.policy, **changes)


def delete_queue(work: Work, op: DeleteQueue) -> None:
    state = work.catalog.queue(op.name)
    work.execute(work.sql.forget_queue, (state.id,))
    delete_keys_of(work, state.id)
    # (Receives that may be repeated expire by themselves: no other queue gets its number.)
    work.execute(work.sql.delete_moves_of, (state.id,))
    work.execute(work.sql.end_redatings_of, (state.id,))
    work.execute(work.sql.end_stagings_of, (state.id, work.now))
    work.catalog.changed()
    work.woken.add(op.name)


def get_queue(work: Work, op: GetQueue) -> QueueInfo:
    return work.catalog.queue(op.name).info


def list_queues(work: Work, op: ListQueues) -> list[QueueInfo]:
    limit = _ALL if op.limit is None else op.limit
    return [
        QueueInfo(name, msgspec.json.decode(policy, type=Policy), created_at, msgspec.json.decode(extras), id)
        for id, name, policy, created_at, extras in work.execute(
            work.sql.list_queues, (*names(op.prefix, op.after), limit)
        )
    ]


def list_dead_letter_sources(work: Work, op: ListDeadLetterSources) -> list[str]:
    work.catalog.queue(op.queue)
    return [row[0] for row in work.execute(work.sql.dead_letter_sources, (op.queue, op.after, op.limit))]
