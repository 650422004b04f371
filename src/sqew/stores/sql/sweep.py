"""Upkeep in small steps: removal of what time has ended, and of what a deletion left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqew.model import Progress, Swept
from sqew.operations import DeleteArchived, Purge, RecordActivity, Sweep, SweepDue
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.changed_retentions import redate, sweep_archive
from sqew.stores.sql.consumers import delete_consumers_of, sweep_claims
from sqew.stores.sql.deliveries import forget_exhausted, has_forgettable
from sqew.stores.sql.removal import EXHAUSTED, Held, discard, move_to_dead_letters
from sqew.stores.sql.staging import sweep_staged
from sqew.stores.sql.subscriptions import end_unconfirmed
from sqew.stores.sql.transaction import Row, Work

KEPT_MINUTES = 60
"""Minutes for which figures are kept by the minute; older ones are added up."""

_EVERYTHING = (1 << 63) - 1
_NO_ID = 1
"""Id below which there is no message."""


def sweep(work: Work, op: Sweep) -> Swept:
    expired = _sweep_expired(work, op.limit)
    dead = _sweep_exhausted(work, op.limit)
    keys = _changes(work, "forget_keys", work.now, op.limit)
    over, archived = sweep_archive(work, op.limit)
    attempts = _changes(work, "forget_attempts", work.now, op.limit)
    removed = _sweep_deleted_queue(work, op.limit)
    deliveries = forget_exhausted(work, op.limit)
    subscriptions = end_unconfirmed(work, op.limit)
    staged = sweep_staged(work) + _changes(work, "forget_writers", work.now, op.limit)
    claimed = sweep_claims(work, op.limit)
    redated = redate(work, op.limit)
    full_steps = (expired, dead, keys, over, attempts, deliveries, subscriptions)
    if op.limit in full_steps or removed or staged or claimed or redated:
        next_at: int | None = work.now
    else:
        next_at = work.execute(work.sql.next_sweep).get
    return Swept(
        expired, dead, keys, archived, removed, deliveries, subscriptions, attempts, next_at, staged, claimed, redated
    )


def is_due(work: Work, _op: SweepDue) -> bool:
    next_at = work.execute(work.sql.next_sweep).get
    return (
        (next_at is not None and next_at <= work.now)
        or work.execute(work.sql.expired, (work.now, 1)).fetchone() is not None
        or work.execute(work.sql.any_deleted_queue).fetchone() is not None
        or work.execute(work.sql.any_redating).fetchone() is not None
        or has_forgettable(work)
    )


def _changes(work: Work, statement: str, *parameters: int) -> int:
    work.execute(work.sql[statement], parameters)
    return work.changes()


def _sweep_expired(work: Work, limit: int) -> int:
    count = 0
    for doomed in work.execute(work.sql.expired, (work.now, limit)).fetchall():
        state = work.catalog.queue_by_id(doomed[1])
        if state is not None:
            discard(work, state, doomed, "expired")
            count += 1
    return count


def _sweep_exhausted(work: Work, limit: int) -> int:
    count = 0
    for row in work.execute(work.sql.exhausted, (work.now, limit)).fetchall():
        held = Held._make(row)
        state = work.catalog.queue_by_id(held.queue_id)
        if state is None:
            continue
        max_attempts = state.policy.max_attempts
        if max_attempts is not None and held.attempts >= max_attempts:
            move_to_dead_letters(work, state, held, EXHAUSTED)
            count += 1
        else:
            work.execute(work.sql.spare, (held.id,))
    return count


def purge(work: Work, op: Purge) -> Progress:
    state = work.catalog.queue(op.queue)
    # As who brings dead letters back does: see dead_letters.py.
    work.hold(state)
    keys_below = op.keys_below or _first_id_to_keep(work, state)
    count = 0 if op.after_key else _purge(work, state, op.up_to, op.limit)
    if count == op.limit:
        return Progress(count, False, keys_below=keys_below)
    last = _forget_keys(work, state, keys_below, op.after_key, op.limit)
    return Progress(count, last is None, keys_below=keys_below, after_key=last or "")


def _first_id_to_keep(work: Work, state: QueueState) -> int:
    """Return the id from which on keys stay remembered: messages sent later have higher ones, or there are no keys."""
    has_keys = work.execute(work.sql.keys_end, (state.id, "", 1)).get is not None
    return work.catalog.take_ids(1)[0] if has_keys else _NO_ID


def _forget_keys(work: Work, state: QueueState, below: int, after: str, limit: int) -> str | None:
    """Forget some keys of messages that are gone, with ids below one; return the last key looked at (None: no more)."""
    last: str | None = work.execute(work.sql.keys_end, (state.id, after, limit)).get
    if last is not None:
        work.execute(work.sql.forget_keys_between, (state.id, after, last, below))
    return last


def delete_archived(work: Work, op: DeleteArchived) -> int:
    state = work.catalog.queue(op.queue)
    # In one order: two that delete the same ones would wait for each other.
    which = sorted({(one.id, state.id, one.finished_at) for one in op.finished})
    return len(work.executemany(work.sql.delete_finished, which).fetchall()) if which else 0


def _purge(work: Work, state: QueueState, up_to: int, limit: int) -> int:
    count = 0
    for doomed in _purgeable(work, state, up_to, limit):
        discard(work, state, doomed, "purged")
        count += 1
    return count


def _purgeable(work: Work, state: QueueState, up_to: int, limit: int) -> Iterator[Row]:
    if state.policy.fifo:
        yield from work.execute(work.sql.purgeable_grouped, (state.id, up_to, limit)).fetchall()
        return
    for lane, priorities in state.buckets.items():
        for priority in priorities:
            rows = work.execute(work.sql.purgeable_claimable, (state.id, lane, priority, up_to, limit)).fetchall()
            yield from rows
            limit -= len(rows)
            if not limit:
                return


def _sweep_deleted_queue(work: Work, limit: int) -> int:
    """Remove a step's worth of what a deleted queue left; the queue's own row goes last."""
    state = work.catalog.deleted_queue()
    if state is None:
        return 0
    id = state.id
    facts = len(work.facts)
    # First: what they have claimed can't be given back to it, and others' claims are looked at after theirs.
    count = delete_consumers_of(work, id, limit)
    if count < limit:
        count += _purge(work, state, _EVERYTHING, limit)
    # Its messages ended with the queue: nothing happened to each.
    del work.facts[facts:]
    if count < limit:
        count += _changes(work, "delete_archive_of", id, limit)
    if count < limit:
        count += _changes(work, "delete_keys_of", id, limit)
    if count < limit:
        count += _changes(work, "delete_writers_of", id, limit)
    if count < limit:
        for statement in ("delete_activity_of", "delete_buckets_of", "delete_lanes_of", "delete_queue"):
            work.execute(work.sql[statement], (id,))
        count += 1
    return count


def record_activity(work: Work, op: RecordActivity) -> None:
    oldest_kept = work.now // 60_000 - KEPT_MINUTES
    rows = []
    # In one order: servers that store theirs at the same time would wait for each other.
    for activity in sorted(op.counts, key=lambda one: (one.queue, one.lane, one.name, one.minute)):
        state = work.catalog.find(activity.queue)
        if state is not None:
            rows.append((state.id, activity.lane, activity.name, activity.minute, activity.count))
    if rows:
        work.executemany(work.sql.add_activity, rows)
        queues = [(id, oldest_kept) for id in sorted({row[0] for row in rows})]
        folded: Counter[Row] = Counter()
        for *which, count in work.executemany(work.sql.fold_activity, queues).fetchall():
            folded[tuple(which)] += count
        work.executemany(work.sql.add_activity, [(*which, 0, count) for which, count in sorted(folded.items())])
