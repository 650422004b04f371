"""Changed retentions: rows dated by a former one are dated anew, in steps of upkeep.

Rows carry the time at which they are over, so that a sweep finds them by an index. When a policy changes, a note of
it makes the sweeper go through the queue's rows once. What a longer archive retention keeps needs no note: the sweeper
asks the policy before it deletes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from sqew.model import Policy
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.rows import DAMAGE
from sqew.stores.sql.transaction import Work

_ARCHIVE = ("done", "dead")
_EVERY = 1 << 62
_BYTES_AT_ONCE = 4 << 20
"""Bytes of bodies that a step rewrites, give or take a body: SQLite writes a whole row to change a column of it."""
_IDS_PER_ROW = 5
"""Ids per row of a step: those of other queues are passed over in an index, so that many more fit."""


class _Note(NamedTuple):
    """A row of sqew_redating."""

    queue_id: int
    kind: str
    since: int
    former: str
    reached: str

    @property
    def last_id(self) -> int:
        return int(self.reached or 0)


def note_changes(work: Work, state: QueueState, policy: Policy) -> None:
    """Note which rows of a queue are to be dated anew, now that its policy changes."""
    before = state.policy
    if _is_shorter(policy.archive_retention_ms, before.archive_retention_ms):
        for kind in _ARCHIVE:
            work.execute(work.sql.begin_redating, (state.id, kind, work.now, "[]"))
    if policy.key_retention_ms < before.key_retention_ms:
        work.execute(work.sql.begin_redating, (state.id, "keys", work.now, "[]"))
    if policy.ttl_ms != before.ttl_ms:
        former = set(msgspec.json.decode(work.execute(work.sql.former_lifetimes, (state.id,)).get or "[]"))
        former = (former | {before.ttl_ms}) - {policy.ttl_ms}
        encoded = msgspec.json.encode(sorted(former, key=lambda ms: ms or 0)).decode()
        work.execute(work.sql.begin_redating, (state.id, "messages", work.now, encoded))


def _is_shorter(new_ms: int | None, old_ms: int | None) -> bool:
    return new_ms is not None and (old_ms is None or new_ms < old_ms)


def redate(work: Work, limit: int) -> int:
    """Date some rows anew; return how many there were to look at (0: no policy has changed)."""
    row = work.execute(work.sql.next_redating).fetchone()
    if row is None:
        return 0
    note = _Note._make(row)
    state = work.catalog.queue_by_id(note.queue_id)
    try:
        reached = None if state is None else _step(work, state, note, limit)
    except DAMAGE:
        # The note itself is damaged: the rows keep the dates that they have.
        reached = None
    if reached is None:
        work.execute(work.sql.end_redating, (note.queue_id, note.kind))
    else:
        work.execute(work.sql.redating_reached, (note.queue_id, note.kind, reached))
    return limit


def _step(work: Work, state: QueueState, note: _Note, limit: int) -> str | None:
    """Date the next rows anew; return the last one reached (None: the end)."""
    if note.kind == "keys":
        return _redate_keys(work, state, note, limit)
    if note.kind == "messages":
        return _redate_messages(work, state, note, limit * _IDS_PER_ROW)
    return _redate_archive(work, state, note, limit)


def _redate_keys(work: Work, state: QueueState, note: _Note, limit: int) -> str | None:
    """Shorten the retention of keys, as if their messages had gone when the policy was changed at the latest."""
    last: str | None = work.execute(work.sql.keys_end, (state.id, note.reached, limit)).get
    if last is not None:
        until = note.since + state.policy.key_retention_ms
        work.execute(work.sql.redate_keys, (state.id, note.reached, last, until))
    return last


def _redate_messages(work: Work, state: QueueState, note: _Note, limit: int) -> str | None:
    first = note.last_id
    [(last, _)] = work.execute(work.sql.scan_end, (first, _EVERY, limit)).fetchall()
    if last is None:
        return None
    for former in msgspec.json.decode(note.former):
        work.execute(work.sql.redate_messages, (first, last, state.id, former, state.policy.ttl_ms))
    return str(last)


def _redate_archive(work: Work, state: QueueState, note: _Note, limit: int) -> str | None:
    rows = work.execute(work.sql.archive_to_redate, (state.id, note.kind, note.last_id, limit)).fetchall()
    found = []
    size, reached = 0, None
    for id, finished_at, purge_at, body_bytes in rows:
        reached, due_at = str(id), _due_at(state, finished_at)
        if due_at is not None and (purge_at is None or purge_at > due_at):
            found.append((id, finished_at))
            size += body_bytes
            if size > _BYTES_AT_ONCE:
                break
    _settle(work, state.id, state, found)
    return reached


def sweep_archive(work: Work, limit: int) -> tuple[int, int]:
    """Delete what is over in archives; return how many rows seemed over, and how many were by the current policy."""
    rows = work.execute(work.sql.seem_over_in_archive, (work.now, limit)).fetchall()
    found: dict[int, list[tuple[int, int]]] = {}
    for id, queue_id, finished_at in rows:
        found.setdefault(queue_id, []).append((id, finished_at))
    # In one order, here and below: two servers that sweep the same rows would otherwise wait for each other.
    deleted = (_settle(work, id, work.catalog.queue_by_id(id), found[id]) for id in sorted(found))
    return len(rows), sum(deleted)


def _settle(work: Work, queue_id: int, state: QueueState | None, archived: list[tuple[int, int]]) -> int:
    """Delete archived messages (id, finished_at) that are over, and date the others anew; return the number deleted."""
    over, late = [], []
    for id, finished_at in sorted(archived):
        due_at = work.now if state is None else _due_at(state, finished_at)
        if due_at is not None and due_at <= work.now:
            over.append((id, queue_id, finished_at))
        else:
            late.append((id, finished_at, due_at))
    if late:
        work.executemany(work.sql.redate_archived, late)
    return len(work.executemany(work.sql.delete_finished, over).fetchall()) if over else 0


def _due_at(state: QueueState, finished_at: int) -> int | None:
    """Return when a message that finished then is to leave the archive, by the current policy (None: never)."""
    retention = state.policy.archive_retention_ms
    return None if retention is None else finished_at + retention
