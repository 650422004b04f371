"""Catalog of the queues as one connection of a server knows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqew.errors import StoreUnusable
from sqew.stores.sql.catalog import Catalog, QueueState

UNFINISHED = "A move into {} was not finished, and not all messages are there. Finish it: run `sqew migrate` again."

_MOST_CHANGES = 100
"""Most changes of a queue's depth that are kept before they are added up."""


class DatabaseCatalog(Catalog):
    """A catalog in PostgreSQL. Ids come from a sequence: all servers draw from it at once.

    The number of messages in a queue with a quota is the sum of what all servers have recorded: each transaction that
    adds or takes messages writes how many to a row of its own, for which no other waits. Only senders add these rows
    up, one at a time: they hold the queue's lock. (Counting the messages takes 100 ms for 300,000.)
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Of queues with a quota, `QueueState.depth` is what was added in this transaction. And by a queue's number:
        # what was added before the queue was read anew, and how many messages it held when the transaction began.
        self._added: Counter[int] = Counter()
        self._held: dict[int, int] = {}
        # (lane, priority) that this transaction is the first to use, each after the number of its queue.
        self._new_buckets: set[tuple[int, int, int]] = set()

    def take_ids(self, count: int) -> Sequence[int]:
        """Return ids that were never given out before, in order."""
        return [row[0] for row in self._execute(self._sql.draw_ids, (count,))]

    def _add_bucket(self, queue_id: int, lane: int, priority: int) -> None:
        self._new_buckets.add((queue_id, lane, priority))

    def changed(self) -> None:
        """Make other processes, and this one, read the queues again."""
        # These too.
        self._write_buckets()
        super().changed()

    def _write_buckets(self) -> None:
        """Write the new buckets.

        The version comes first: two transactions that add the same wait there, whatever else they add.
        """
        if not self._new_buckets:
            return
        version = self._execute(self._sql.bump_catalog).get
        # If others have changed something since the transaction began, the next one must look what.
        self.version = version if version == self.version + 1 else -1
        for bucket in sorted(self._new_buckets):
            self._execute(self._sql.insert_bucket, bucket)
        self._new_buckets.clear()

    def refresh(self) -> None:
        """Drop what is outdated at the start of a transaction. Raise if a move into the database is unfinished."""
        before = self.version
        super().refresh()
        if self.version != before and self._execute(self._sql.is_moved_into).fetchone() is not None:
            raise StoreUnusable(UNFINISHED.format("this database"))
        self._begin_to_count()

    def forget(self) -> None:
        """Drop what was learned in a transaction that was rolled back."""
        self._new_buckets.clear()
        super().forget()
        self._begin_to_count()

    def _begin_to_count(self) -> None:
        self._added.clear()
        self._held.clear()
        for state in self._by_id.values():
            state.depth = _nothing_added(state)

    def _load(self, *row: Any) -> QueueState:
        state = super()._load(*row)
        state.depth = _nothing_added(state)
        return state

    def _drop_queues(self) -> None:
        self._collect_added()
        super()._drop_queues()

    def _collect_added(self) -> None:
        for state in self._by_id.values():
            if state.depth:
                self._added[state.id] += state.depth
                state.depth = 0

    def depth(self, state: QueueState) -> int:
        """Return the number of messages in a queue, which must be locked and have a quota."""
        added = self._added[state.id] + (state.depth or 0)
        if state.id not in self._held:
            self._held[state.id] = self._add_up(state.id, added)
        return self._held[state.id] + added

    def _add_up(self, queue_id: int, added: int) -> int:
        """Return the number of messages that the queue held when the transaction began."""
        held, changes, is_known = self._execute(self._sql.read_depth, (queue_id,)).fetchall()[0]
        if not is_known:
            return int(self._execute(self._sql.count_depth, (queue_id, added)).get)
        if changes > _MOST_CHANGES:
            self._execute(self._sql.add_up_depth, (queue_id,))
        return int(held)

    def write_added(self) -> None:
        """Write the changes of depths, and new buckets, for other servers, before the transaction ends."""
        self._collect_added()
        for queue_id, added in self._added.items():
            if added:
                self._execute(self._sql.change_depth, (queue_id, added))
        self._added.clear()
        # Last: who has the version, which others wait for, must not wait for anybody.
        self._write_buckets()


def _nothing_added(state: QueueState) -> int | None:
    return None if state.policy.quota is None else 0
