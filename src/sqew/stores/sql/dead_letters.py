"""Dead letters: listing them, bringing them back, deleting them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from sqew.errors import BadValue, QueueNotFound
from sqew.model import Fact, Page, Progress
from sqew.operations import ListDead, PurgeDead, Redrive, RequeueDead
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.fifo import put_in_front
from sqew.stores.sql.removal import EXHAUSTED, discard, forget_moved
from sqew.stores.sql.rows import (
    INLINE_BODY_BYTES,
    is_whole,
    part_of,
    scoped_key,
    shown_key,
    sized_archived,
    sized_message,
)
from sqew.stores.sql.send import SOLE_GROUP, claim_key
from sqew.stores.sql.transaction import Row, Work

NO_ORIGIN = "no_origin"
"""Reason why a message can't go back: it was sent to the dead-letter queue directly."""
LET_GO = "let_go"
"""Reason why a message has not gone back, though it could now: it was leased when its turn came."""
_EVER = 1 << 62
_MOST_LOOKED_AT = 1_000
"""Most dead letters that one step of a redrive looks at, if it may move none of them."""
# Positions in {stored} and {archived}; the others only in {stored}.
_ID, _QUEUE_ID, _GROUP, _ORIGIN, _DIED_AT = 0, 1, 13, 14, 17
_ATTEMPTS, _REASON = 4, 9
"""Positions in {archived}."""


def list_dead(work: Work, op: ListDead) -> Page:
    state = work.catalog.queue(op.queue)
    # One more than are wanted: it tells whether there are more.
    dead_letters = work.read(work.sql.dead_letters, (state.name, op.after, op.limit + 1))
    archived = work.read(work.sql.dead_in_archive, (state.id, op.after, op.limit + 1))
    found = merge(
        (sized_message(work, row) for row in dead_letters),
        ((id, one.message, size) for id, one, size in (sized_archived(state, row) for row in archived)),
        key=itemgetter(0),
    )
    return Page(*part_of(found, op.limit))


def requeue_dead(work: Work, op: RequeueDead) -> Progress:
    state = work.catalog.queue(op.queue)
    _hold(work, state, work.catalog.find(state.policy.dead_letter))
    if op.unspent:
        return _requeue_unspent(work, state, op)
    count = 0
    for row in _dead_letters(work, state, op.ids, op.limit):
        _bring_back(work, state, row)
        count += 1
    archived = _archived(work, state, op.ids, op.limit)
    while count < op.limit and (found := next(archived, None)) is not None:
        count += _bring_back_archived(work, state, found)
    return Progress(count, count < op.limit)


def _requeue_unspent(work: Work, state: QueueState, op: RequeueDead) -> Progress:
    """Requeue some of the dead in the archive that have attempts left. (What is damaged stays.)"""
    allowed = state.policy.max_attempts
    rows = work.execute(work.sql.dead_in_archive, (state.id, op.after, op.limit)).fetchall()
    count = 0
    for row in rows:
        if row[_REASON] == EXHAUSTED and (allowed is None or row[_ATTEMPTS] < allowed):
            count += _bring_back_archived(work, state, row, keep_attempts=True)
    return Progress(count, len(rows) < op.limit, rows[-1][_ID] if rows else 0)


def redrive(work: Work, op: Redrive) -> Progress:
    dead_letters = work.catalog.queue(op.dead_letter)
    to = None if op.to is None else work.catalog.queue(op.to)
    if to is dead_letters:
        raise BadValue(f"Queue '{op.to}' can't be redriven into itself. Name another destination, or none.")
    until = _EVER if op.until is None else op.until
    _hold(work, dead_letters, to)
    if to is None:
        return _redrive_to_origins(work, dead_letters, op, until)
    count = 0
    for row in islice(_residents(work, dead_letters, op.limit, until), op.limit):
        _bring_back(work, to, row)
        count += 1
    return Progress(count, count < op.limit)


def _hold(work: Work, *queues: QueueState | None) -> None:
    """Lock the queues before any row: two that go through the same letters in another order would deadlock."""
    work.hold(*filter(None, queues))


def _redrive_to_origins(work: Work, dead_letters: QueueState, op: Redrive, until: int) -> Progress:
    """Move each letter to the queue it came from, in the order of ids, so that the next step looks at none again."""
    count, looked_at, after = 0, 0, op.after
    turns = _Turns(work, dead_letters, until)
    while looked_at < max(_MOST_LOOKED_AT, op.limit):
        rows = work.execute(work.sql.letters_after, (dead_letters.id, work.now, after, op.limit - count)).fetchall()
        for *row, may_go in rows:
            after = row[_ID]
            origin = _home(work, dead_letters, row)
            if origin is not None and row[_DIED_AT] <= until and turns.comes_to(row, may_go):
                _bring_back(work, origin, row)
                count += 1
        if count == op.limit:
            return Progress(count, False, after)
        if not rows:
            return Progress(count, True, after)
        looked_at += len(rows)
    return Progress(count, False, after)


class _Turns:
    """The turns of groups in a FIFO dead-letter queue, during one step of a redrive.

    No letter goes before another of its group and origin: not even before one that an earlier step had to leave because
    it was leased then.
    """

    def __init__(self, work: Work, dead_letters: QueueState, until: int) -> None:
        self._work, self._dead_letters, self._until = work, dead_letters, until
        self._come: dict[tuple[str, str], bool] = {}

    def comes_to(self, row: Sequence[Any], may_go: bool) -> bool:
        """Return True if a letter goes now. Letters must be asked about in the order of ids."""
        if not self._dead_letters.policy.fifo:
            return may_go
        group, origin = which = row[_GROUP], row[_ORIGIN]
        if which not in self._come:
            where = (self._dead_letters.id, group, origin, self._until)
            self._come[which] = self._work.execute(self._work.sql.first_letter, where).get == row[_ID]
        self._come[which] = self._come[which] and may_go
        return self._come[which]


def _home(work: Work, dead_letters: QueueState, row: Sequence[Any]) -> QueueState | None:
    """Return the queue that a dead letter came from, unless that is gone."""
    origin = work.catalog.find(row[_ORIGIN])
    return None if origin is dead_letters else origin


def left_behind(work: Work, dead_letters: QueueState, until: int) -> str | None:
    """Return why a redrive has left what is still there and not leased; None if there is nothing."""
    row = next(_residents(work, dead_letters, 1, until), None)
    if row is None:
        return None
    if row[_ORIGIN] is None:
        return NO_ORIGIN
    return QueueNotFound.code if _home(work, dead_letters, row) is None else LET_GO


def purge_dead(work: Work, op: PurgeDead) -> Progress:
    state = work.catalog.queue(op.queue)
    _hold(work, work.catalog.find(state.policy.dead_letter))
    count = 0
    for row in _dead_letters(work, state, op.ids, op.limit, out_of_turn=True):
        home = work.catalog.queue_by_id(row[_QUEUE_ID])
        if home is not None:
            id, queue_id, lane_id, attempts, key, group = row[0], row[1], row[2], row[5], row[12], row[13]
            discard(work, home, (id, queue_id, lane_id, attempts, key, group, row[-1] is None), "purged")
            count += 1
    archived = _archived(work, state, op.ids, op.limit)
    while count < op.limit and (found := next(archived, None)) is not None:
        work.execute(work.sql.delete_archived, (found[_ID],))
        if work.changes():
            work.facts.append(Fact("purged", state.name, found[2], found[_ID], found[4]))
            count += 1
    return Progress(count, count < op.limit)


def _dead_letters(
    work: Work, state: QueueState, ids: Iterable[int] | None, limit: int, *, out_of_turn: bool = False
) -> list[Row]:
    """Return dead letters of a queue that lie in dead-letter queues and are not leased.

    Unless they may go out of turn, no message before them in their FIFO group is leased either.
    """
    if ids is None:
        return work.execute(work.sql.returnable, (state.name, work.now, limit, out_of_turn)).fetchall()
    found = (
        work.execute(work.sql.find_dead_letter, (state.name, work.now, id, out_of_turn)).fetchone()
        for id in dict.fromkeys(ids)
    )
    return [row for row in found if row is not None][:limit]


def _archived(work: Work, state: QueueState, ids: Iterable[int] | None, limit: int) -> Iterator[Row]:
    """Yield dead messages of a queue that lie in its archive: each may be moved or left, or be gone by now."""
    if ids is not None:
        for id in ids:
            yield from work.execute(work.sql.find_dead_in_archive, (state.id, id)).fetchall()
        return
    after = 0
    while rows := work.execute(work.sql.dead_in_archive, (state.id, after, limit)).fetchall():
        yield from rows
        after = rows[-1][_ID]


def _residents(work: Work, dead_letters: QueueState, limit: int, until: int) -> Iterator[Row]:
    """Yield what lies in a dead-letter queue. A FIFO queue shows the head of each group: look until there is none."""
    found = True
    while found:
        found = False
        for lane, priorities in dead_letters.buckets.items():
            for priority in priorities:
                where = (dead_letters.id, lane, priority, work.now, limit, until)
                for row in work.execute(work.sql.residents, where).fetchall():
                    found = True
                    yield row


def _bring_back(work: Work, state: QueueState, row: Sequence[Any]) -> None:
    """Move a dead letter (a row of {stored}) to a queue, as if it had just been sent there."""
    id, home_id, priority, key, group, lane = row[0], row[1], row[3], row[12], row[13], row[15]
    home = work.catalog.queue_by_id(home_id)
    if state.policy.fifo:
        group = group or SOLE_GROUP
    there = _key_in(state, key, group)
    lane_id = _arrive(work, state, id, priority, there, lane)
    due_at = None if state.policy.fifo else work.now
    expires_at = None if state.policy.ttl_ms is None else work.now + state.policy.ttl_ms
    work.execute(work.sql.bring_back, (id, state.id, lane_id, due_at, work.now, expires_at, group, there))
    _arrived(work, state, id, lane_id, group)
    if home is not None:
        forget_moved(work, home, id, key, row[13])


def _bring_back_archived(work: Work, state: QueueState, row: Row, *, keep_attempts: bool = False) -> bool:
    """Move a dead message (a row of {archived}) out of the archive, unless it is damaged or not there any more."""
    (
        id, _queue_id, lane, priority, attempts, _available_at, created_at, _finished_at, _outcome, _reason, key,
        group, is_text, check, headers, body,
    ) = row  # fmt: skip
    if not is_whole(body, headers, is_text, check):
        return False
    work.execute(work.sql.delete_archived, (id,))
    if not work.changes():
        return False
    key = _key_in(state, key, group)
    lane_id = _arrive(work, state, id, priority, key, lane)
    inline = body if len(body) <= INLINE_BODY_BYTES else None
    if inline is None:
        work.execute(work.sql.insert_body, (id, body))
    due_at = None if state.policy.fifo else work.now
    expires_at = None if state.policy.ttl_ms is None else work.now + state.policy.ttl_ms
    work.execute(
        work.sql.insert_message,
        (id, state.id, lane_id, priority, due_at, work.now, created_at, expires_at, key, group, is_text, check, headers,
         inline),
    )  # fmt: skip
    if keep_attempts:
        work.execute(work.sql.count_attempts, (id, attempts))
    _arrived(work, state, id, lane_id, group)
    return True


def _key_in(state: QueueState, key: str | None, group: str | None) -> str | None:
    """Return a stored key as another queue stores it, or the same queue after its policy has changed."""
    return None if key is None else scoped_key(shown_key(key), group, state.policy.deduplicate_within)


def _arrive(work: Work, state: QueueState, id: int, priority: int, key: str | None, lane: str | None) -> int:
    """Make room for a message that comes back: its lane, its bucket, and its key unless another has taken it since."""
    lane_id = state.lane_ids.get(lane or "", state.default_lane)
    work.catalog.ensure_bucket(state, lane_id, priority)
    if key is not None:
        claim_key(work, state, key, id)
    return lane_id


def _arrived(work: Work, state: QueueState, id: int, lane_id: int, group: str | None) -> None:
    if state.policy.fifo and group is not None:
        put_in_front(work, state, group)
    if state.depth is not None:
        state.depth += 1
    work.facts.append(Fact("requeued", state.name, state.lane_names[lane_id], id, 0))
    work.woken.add(state.name)
