"""Search for ready messages: in the buckets of a lane, the highest priority first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqew.model import Message
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.transaction import Row, Work

START = (-1, 0)
"""Position before the due_at and the id of every message."""


class ReadyRows:
    """Search of each bucket in turn, from its start: for a database that answers at once and keeps no dead rows."""

    def rows(self, work: Work, state: QueueState, lane: int, limit: int) -> Iterator[Row]:
        """Yield the ready rows of a lane in order, read ``limit`` at a time."""
        for priority in state.priorities(lane):
            due_at, id = START
            while True:
                rows = work.execute_at_once(
                    work.sql.ready, (state.id, lane, priority, work.now, due_at, id, limit)
                ).fetchall()
                yield from rows
                if len(rows) < limit:
                    break
                id, due_at = rows[-1][0], rows[-1][16]

    def took(self, work: Work, state: QueueState, messages: Sequence[Message]) -> None:
        """Note that these messages were found, and that no other receive is to find them."""

    def first_due(self, work: Work, state: QueueState, lanes: Sequence[int]) -> int | None:
        """Return when the first message of these lanes is due, ready or not; None if there is none."""
        dues = (
            work.execute(work.sql.next_due, (state.id, lane, priority)).get
            for lane in lanes
            for priority in state.priorities(lane)
        )
        return min((due for due in dues if due is not None), default=None)

    def next_look_at(self, work: Work, state: QueueState, lanes: Sequence[int]) -> int | None:
        """Return when to look for more, after none was found that is ready."""
        return self.first_due(work, state, lanes)
