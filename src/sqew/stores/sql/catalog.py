"""A store's memory between transactions: queues, their lanes and buckets, and the next message id.

All of it is a cache of what is stored. It is true inside a transaction, because `Catalog.refresh` runs at its start,
unless the database tells that no other connection has written since: a version row tells if one changed a queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sqew.errors import QueueNotFound, StoreDamaged, UnknownLane
from sqew.model import DEFAULT_LANE, Policy, QueueInfo
from sqew.rules.throttle import Throttle
from sqew.stores.sql.similar_names import names_near
from sqew.stores.sql.statements import Statements
from sqew.stores.sql.transaction import Execute

# Ids are reserved on disk in blocks: AUTOINCREMENT would write one more page for every transaction. A block is as large
# as what was taken before it, up to this, so that a process that sends one message leaves no gap.
_LARGEST_ID_BLOCK = 256

_decode_policy = msgspec.json.Decoder(Policy).decode


class QueueState:
    """A queue as the store needs it: numbers instead of names, and what was learned on the way."""

    __slots__ = (
        "buckets", "created_at", "default_lane", "depth", "extras", "id", "lane_ids", "lane_names", "lanes", "name",
        "policy", "takes_one_at_a_time", "takes_plain", "turns",
    )  # fmt: skip

    def __init__(
        self, id: int, name: str, policy: Policy, created_at: int, extras: dict[str, Any], lane_ids: dict[str, int]
    ) -> None:
        self.id, self.name, self.policy, self.created_at, self.extras = id, name, policy, created_at, extras
        self.lane_ids = lane_ids
        self.lane_names = {lane_id: lane for lane, lane_id in lane_ids.items()}
        self.lanes = tuple(lane_ids.values())
        # Whether a message without key, group or headers may be sent without looking at anything else.
        self.takes_plain = (
            not policy.fifo
            and policy.deduplicate == "key"
            and policy.quota is policy.rate_limit is policy.max_body_bytes is None
        )
        # Whether who sends to it looks at what is there: at its groups, or at the number for its quota.
        self.takes_one_at_a_time = policy.fifo or policy.quota is not None
        # The lane of a message that names none.
        self.default_lane = lane_ids.get(DEFAULT_LANE, self.lanes[0])
        # lane id → the priorities it holds messages of, highest first
        self.buckets: dict[int, list[int]] = {}
        # The standing of the lanes in the round-robin; None: to be read again.
        self.turns: dict[int, int] | None = None
        # How many messages it holds, for its quota; None: to be counted again.
        self.depth: int | None = None

    @property
    def info(self) -> QueueInfo:
        return QueueInfo(self.name, self.policy, self.created_at, self.extras, self.id)

    def lane(self, name: str | None) -> int:
        """Return the number of a lane."""
        if name is None:
            return self.default_lane
        lane = self.lane_ids.get(name)
        if lane is None:
            raise UnknownLane(self.name, name, self.lane_ids)
        return lane

    def priorities(self, lane: int) -> list[int]:
        """Return the priorities that a lane may hold messages of, highest first."""
        return self.buckets.get(lane, [])


class Catalog:
    """The queues by name and by id, read when first asked for."""

    def __init__(self, execute: Execute, sql: Statements, throttles: dict[int, Throttle] | None = None) -> None:
        """Share ``throttles``, by the number of the queue, with all connections of the process."""
        self._execute, self._sql = execute, sql
        self.version = -1
        self.epoch = 0
        """Number that goes up whenever queues are forgotten: a `QueueState` that was kept must be asked for again."""
        # Queues that were read before: they are still so if the stored version is `version`.
        self.by_name: dict[str, QueueState] = {}
        self._by_id: dict[int, QueueState] = {}
        self._throttles = {} if throttles is None else throttles
        self.next_id = 0
        self.reserved_below = 0
        self.taken_ids = 0

    def touch(self) -> int:
        """Read the version row: a reader's snapshot begins with its first read."""
        return self._meta("catalog_version")

    def _meta(self, statement: str) -> int:
        value = self._execute(self._sql[statement]).get
        if not isinstance(value, int):
            raise StoreDamaged("The store is damaged: sqew_meta has lost its row. Restore it from a backup.")
        return value

    def refresh(self) -> None:
        """Drop what is outdated: another connection has written since the last transaction."""
        self.next_id = self.reserved_below = self.taken_ids = 0
        version = self.touch()
        if version != self.version:
            self.version = version
            self._drop_queues()
        for state in self._by_id.values():
            state.turns = state.depth = None

    def forget(self) -> None:
        """Drop what was learned in a transaction that was rolled back."""
        self.version = -1
        self.next_id = self.reserved_below = self.taken_ids = 0
        self._drop_queues()

    def changed(self) -> None:
        """Make other processes, and this one, read the queues again."""
        self.version = self._execute(self._sql.bump_catalog).get
        self._drop_queues()

    def _drop_queues(self) -> None:
        self.by_name.clear()
        self._by_id.clear()
        self.epoch += 1

    def queue(self, name: str) -> QueueState:
        """Return the queue of that name, or raise `QueueNotFound`."""
        state = self.by_name.get(name) or self._read("queue_by_name", name)
        if state is None:
            raise QueueNotFound(name, names_near(self._execute, self._sql.queues_near, name))
        return state

    def find(self, name: str | None) -> QueueState | None:
        """Return the queue of that name, if there is one."""
        if name is None:
            return None
        return self.by_name.get(name) or self._read("queue_by_name", name)

    def queue_by_id(self, id: int) -> QueueState | None:
        """Return the queue of that number, unless it was deleted."""
        return self._by_id.get(id) or self._read("queue_by_id", id)

    def known_by_id(self, id: int) -> QueueState | None:
        """Return the queue of that number, if it was read before."""
        return self._by_id.get(id)

    def deleted_queue(self) -> QueueState | None:
        """Return a queue that can't be named any more and still has rows, for the sweeper alone."""
        row = self._execute(self._sql.deleted_queue).fetchone()
        if row is None:
            return None
        id, policy, created_at = row
        return self._load(id, "", policy, created_at)

    def _read(self, statement: str, name_or_id: str | int) -> QueueState | None:
        row = self._execute(self._sql[statement], (name_or_id,)).fetchone()
        if row is None:
            return None
        state = self._load(*row)
        self.by_name[state.name] = self._by_id[state.id] = state
        return state

    def _load(self, id: int, name: str, policy: str, created_at: int, extras: str = "{}") -> QueueState:
        lane_ids = {lane: lane_id for lane_id, lane in self._execute(self._sql.lanes, (id,))}
        if not lane_ids or {*map(type, lane_ids), type(name)} != {str}:
            raise StoreDamaged(f"The store is damaged: queue {id} has lost its name or its lanes. Restore a backup.")
        state = QueueState(id, name, _decode_policy(policy), created_at, msgspec.json.decode(extras), lane_ids)
        for lane_id, priority in self._execute(self._sql.buckets, (state.id,)):
            state.buckets.setdefault(lane_id, []).append(priority)
        return state

    def ensure_bucket(self, state: QueueState, lane: int, priority: int) -> None:
        """Let receivers know that they must look into a (lane, priority), before a message is put there."""
        priorities = state.buckets.get(lane)
        if priorities is not None and priority in priorities:
            return
        self._add_bucket(state.id, lane, priority)
        priorities = state.buckets.setdefault(lane, [])
        priorities.append(priority)
        priorities.sort(reverse=True)

    def _add_bucket(self, queue_id: int, lane: int, priority: int) -> None:
        self._execute(self._sql.insert_bucket, (queue_id, lane, priority))
        self.version = self._execute(self._sql.bump_catalog).get

    def take_ids(self, count: int) -> Sequence[int]:
        """Return ids that were never given out before, in order."""
        if self.next_id + count > self.reserved_below:
            # Ids are given out in the order of transactions, whichever process runs them, so a block that another
            # process may have continued is left behind.
            if not self.next_id:
                self.next_id = self._meta("next_id")
            self.reserved_below = self.next_id + count + min(self.taken_ids, _LARGEST_ID_BLOCK)
            self._execute(self._sql.reserve_ids, (self.reserved_below,))
        first = self.next_id
        self.next_id += count
        self.taken_ids += count
        return range(first, first + count)

    def throttle(self, state: QueueState) -> Throttle:
        """Return what is left of a queue's rate limit in this process. It outlives changes of the queue."""
        return self._throttles.setdefault(state.id, Throttle())

    def depth(self, state: QueueState) -> int:
        """Return the number of messages in the queue. They are counted once; then those added or taken are counted."""
        if state.depth is None:
            claimable = sum(
                self._execute(self._sql.count_claimable, (state.id, lane, priority)).get
                for lane, priorities in state.buckets.items()
                for priority in priorities
            )
            blocked = sum(row[1] for row in self._execute(self._sql.count_blocked, (state.id, 0)))
            state.depth = claimable + blocked
        return state.depth
