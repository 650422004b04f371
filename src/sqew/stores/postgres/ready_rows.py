"""Search for ready messages in a database that is a round trip away and keeps dead rows for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqew.model import Message
from sqew.stores.postgres.connection import SQL
from sqew.stores.postgres.watermarks import Bucket, Position, Watermarks
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.ready_rows import START, ReadyRows
from sqew.stores.sql.transaction import Row, Work

NEVER = 1 << 62


class MarkedReadyRows(ReadyRows):
    """Search of all buckets of a lane in one statement, each from the position that this server has reached."""

    def __init__(self, marks: Watermarks) -> None:
        self._marks = marks
        # By bucket: where the receive under way began to look.
        self._starts: dict[Bucket, Position] = {}
        # In which queues the transaction under way has come further.
        self._reached: set[str] = set()

    def committed(self) -> None:
        """Keep the positions reached: what was found in the transaction is taken."""
        self._reached.clear()

    def undone(self) -> None:
        """Forget the positions reached: what was found in the transaction is still there."""
        for queue in self._reached:
            self._marks.forget(queue)
        self._reached.clear()

    def _start(self, work: Work, state: QueueState, bucket: Bucket) -> Position:
        # In a FIFO queue the next of a group may have waited for its turn from long before.
        start = START if state.policy.fifo else self._marks.position(state.name, bucket, work.now)
        self._starts[bucket] = start
        return start

    def rows(self, work: Work, state: QueueState, lane: int, limit: int) -> Iterator[Row]:
        """Yield the ready rows of a lane in order, read ``limit`` at a time."""
        starts = [(priority, *self._start(work, state, (lane, priority))) for priority in state.priorities(lane)]
        while starts:
            rows = work.execute(SQL.ready_in_lane, (state.id, lane, work.now, limit, *_columns(starts))).fetchall()
            yield from rows
            if len(rows) < limit:
                return
            # Positions in {delivered}: id 0, priority 2, due_at 16.
            priority, due_at, id = rows[-1][2], rows[-1][16], rows[-1][0]
            starts = [(priority, due_at, id), *(start for start in starts if start[0] < priority)]

    def took(self, work: Work, state: QueueState, messages: Sequence[Message]) -> None:
        """Advance the positions past these messages: they are claimed, and no other receive is to find them."""
        # In the order of each bucket: the last of it counts.
        last = {(state.lane_ids[message.lane], message.priority): message for message in messages}
        for bucket, message in last.items():
            self._reach(work, state, bucket, self._starts[bucket], (message.available_at, message.id))

    def _reach(self, work: Work, state: QueueState, bucket: Bucket, start: Position, reached: Position) -> None:
        self._marks.reach(state.name, bucket, start, reached, work.now)
        self._reached.add(state.name)

    def first_due(self, work: Work, state: QueueState, lanes: Sequence[int]) -> int | None:
        """Return when the first message of these lanes is due, ready or not; None if there is none."""
        return _first_due(work, state, [(*bucket, *START, NEVER) for bucket in _buckets(state, lanes)])

    def next_look_at(self, work: Work, state: QueueState, lanes: Sequence[int]) -> int | None:
        """Return when to look for more, after none was found ready: at the latest when all is looked at again."""
        starts = {bucket: self._starts.get(bucket, START) for bucket in _buckets(state, lanes)}
        # Leases that ended early have left dead rows where they would have ended.
        looks = {
            bucket: NEVER if start == START else self._marks.next_look_at(state.name, bucket)
            for bucket, start in starts.items()
        }
        due = _first_due(work, state, [(*bucket, *start, looks[bucket]) for bucket, start in starts.items()])
        if state.policy.fifo or (due is not None and due <= work.now):
            # Who is at it may let it go again.
            return due
        for bucket, start in starts.items():
            self._reach(work, state, bucket, start, (work.now, 0))
        first = min([NEVER if due is None else due, *looks.values()])
        return None if first == NEVER else first


def _first_due(work: Work, state: QueueState, buckets: Sequence[Row]) -> int | None:
    """Return when the first message of these (lane, priority) is due, each after a position and before a time."""
    if not buckets:
        return None
    due: int | None = work.execute(SQL.first_due, (state.id, *_columns(buckets))).get
    return due


def _buckets(state: QueueState, lanes: Sequence[int]) -> list[Bucket]:
    return [(lane, priority) for lane in lanes for priority in state.priorities(lane)]


def _columns(rows: Sequence[Row]) -> list[list[int]]:
    return [list(column) for column in zip(*rows, strict=True)]
