"""Inspection of a queue without touching it."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import chain
from operator import attrgetter, itemgetter
from typing import cast

from sqew.errors import MessageNotFound
from sqew.model import Activity, ArchivedMessage, ArchivePage, Depths, LaneDepth, Message, Page, Recent
from sqew.operations import Ages, Get, LastId, ListArchive, ListRecent, Measure, Peek, ReadActivity, ReadSalt, Scan
from sqew.stores.sql.rows import (
    INLINE_BODY_BYTES,
    archived_message,
    message_state,
    not_too_much,
    part_of,
    sized_archived,
    stored_message,
)
from sqew.stores.sql.transaction import Row, Work


def get(work: Work, op: Get) -> Message:
    row = work.execute(work.sql.get_message, (op.id,)).fetchone()
    # Position of queue_id in {stored}: 1. The queue of a message may have been deleted.
    if row is not None and work.catalog.queue_by_id(row[1]) is not None:
        message = stored_message(work, row)
        if op.queue in (None, message.queue):
            return message
    if op.queue is not None:
        work.catalog.queue(op.queue)
    raise MessageNotFound(op.id, op.queue)


def last_id(work: Work, _op: LastId) -> int:
    return work.execute(work.sql.last_id).get or 0


def read_salt(work: Work, _op: ReadSalt) -> int:
    return cast("int", work.execute(work.sql.salt).get)


def peek(work: Work, op: Peek) -> list[Message]:
    state = work.catalog.queue(op.queue)
    lanes = state.lanes if op.lane is None else (state.lane(op.lane),)
    buckets = [(lane, priority) for lane in lanes for priority in state.priorities(lane)]

    def rows(statement: str) -> list[Row]:
        return list(
            chain.from_iterable(
                work.execute(work.sql[statement], (state.id, lane, priority, work.now, op.limit))
                for lane, priority in buckets
            )
        )

    # Positions in {stored}: id 0, priority 3, due_at 4.
    found = sorted(rows("peek_ready"), key=lambda row: (-row[3], row[4], row[0]))[: op.limit]
    if len(found) < op.limit:
        found += sorted(rows("peek_waiting"), key=lambda row: (row[4], -row[3], row[0]))[: op.limit - len(found)]
    if len(found) < op.limit and state.policy.fifo:
        space = op.limit - len(found)
        blocked = chain.from_iterable(work.execute(work.sql.peek_blocked, (state.id, lane, space)) for lane in lanes)
        found += sorted(blocked)[:space]
    return list(not_too_much(stored_message(work, row) for row in found))


def list_recent(work: Work, op: ListRecent) -> list[Recent]:
    found = [*_of_queues(work, op.limit), *_of_archives(work, op.limit)]
    return sorted(found, key=attrgetter("id"), reverse=True)[: op.limit]


def _of_queues(work: Work, limit: int) -> Iterator[Recent]:
    for id, queue_id, due_at, lease_until, attempts, created_at, body, size in work.execute(
        work.sql.recent_messages, (limit,)
    ).fetchall():
        queue = work.catalog.queue_by_id(queue_id)
        # (Without one it is on its way out, with its queue.)
        if queue is not None:
            leased = lease_until is not None and lease_until > work.now
            state = message_state(due_at, leased, work.now)
            yield Recent(
                id, queue.name, state, attempts, created_at, None if state == "ready" else due_at, body, size or 0
            )


def _of_archives(work: Work, limit: int) -> Iterator[Recent]:
    for id, queue_id, outcome, attempts, created_at, finished_at, body, size in work.execute(
        work.sql.recent_archived, (limit, INLINE_BODY_BYTES)
    ).fetchall():
        queue = work.catalog.queue_by_id(queue_id)
        if queue is not None:
            yield Recent(id, queue.name, outcome, attempts, created_at, finished_at, body, size)


def measure(work: Work, op: Measure) -> Depths:
    state = work.catalog.queue(op.queue)
    counts = {lane: [0, 0, 0, 0] for lane in state.lane_names}  # ready, delayed, leased, blocked
    oldest: int | None = None
    for lane, count in counts.items():
        for priority in state.priorities(lane):
            bucket = (state.id, lane, priority, work.now)
            ready, since = work.execute(work.sql.count_ready, bucket).fetchall()[0]
            waiting, leased = work.execute(work.sql.count_waiting, bucket).fetchall()[0]
            count[0] += ready
            count[1] += waiting - leased
            count[2] += leased
            if since is not None and (oldest is None or since < oldest):
                oldest = since
    if state.policy.fifo:
        for lane, followers, leased in work.execute(work.sql.count_blocked, (state.id, work.now)):
            counts[lane][2] += leased
            counts[lane][3] += followers - leased
    archived: dict[str, int] = dict(work.execute(work.sql.count_archived, (state.id,)).fetchall())
    return Depths(
        lanes={state.lane_names[lane]: LaneDepth(*count) for lane, count in counts.items()},
        dead=work.execute(work.sql.count_dead_letters, (state.name,)).get + archived.get("dead", 0),
        archived=archived.get("done", 0),
        oldest_ready_at=oldest,
    )


def ages(work: Work, op: Ages) -> tuple[int, int] | None:
    state = work.catalog.queue(op.queue)
    ends = [
        work.execute(work.sql.ends_of_bucket, (state.id, lane, priority)).fetchall()[0]
        for lane, priorities in state.buckets.items()
        for priority in priorities
    ]
    ends += work.execute(work.sql.ends_of_groups, (state.id,)).fetchall()
    ids = [id for pair in ends for id in pair if id is not None]
    if not ids:
        return None
    # Ids go up with time.
    oldest, newest = (work.execute(work.sql.created_at, (id,)).get for id in (min(ids), max(ids)))
    return oldest, newest


def scan(work: Work, op: Scan) -> Page:
    state = work.catalog.queue(op.queue)
    # A step is so many rows of whatever queues, so that it takes as long in a file that holds much else.
    end, count = work.execute_at_once(work.sql.scan_end, (op.after, op.up_to, op.limit)).fetchall()[0]
    rows = work.execute_at_once(work.sql.scan, (op.after, end or op.after, state.id)).fetchall()
    messages = list(not_too_much(stored_message(work, row) for row in rows))
    if len(messages) < len(rows):
        return Page(messages, messages[-1].id)
    return Page(messages, end if count == op.limit else None)


def everything(work: Work, queue: str) -> Iterator[Message]:
    """Yield every message of a queue, whatever its state."""
    state = work.catalog.queue(queue)
    for lane, priorities in state.buckets.items():
        for priority in priorities:
            for row in work.execute(work.sql.export_bucket, (state.id, lane, priority)):
                yield stored_message(work, row)
    for row in work.execute(work.sql.export_blocked, (state.id,)):
        yield stored_message(work, row)


def whole_archive(work: Work, queue: str) -> Iterator[ArchivedMessage]:
    """Yield every archived message of a queue."""
    state = work.catalog.queue(queue)
    for row in work.execute(work.sql.export_archive, (state.id,)):
        yield archived_message(state, row)


def list_archive(work: Work, op: ListArchive) -> ArchivePage:
    state = work.catalog.queue(op.queue)
    outcomes = ("done", "dead") if op.outcome is None else (op.outcome,)
    # One more than are wanted: it tells whether there are more.
    of_outcomes = [work.read(work.sql.list_archive, (state.id, op.after, op.limit + 1, each)) for each in outcomes]
    rows = merge(*of_outcomes, key=itemgetter(0))
    return ArchivePage(*part_of((sized_archived(state, row) for row in rows), op.limit))


def read_activity(work: Work, op: ReadActivity) -> list[Activity]:
    state = work.catalog.queue(op.queue)
    rows = work.execute(work.sql.activity, (state.id,))
    return [Activity(state.name, lane, minute, name, count) for lane, name, minute, count in rows]
