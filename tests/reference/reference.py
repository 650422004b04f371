"""A reference for stores, written from the specification: lists, sorts, and no thought of speed.

Where the specification leaves a store free (when an expired message is removed, which ones a step of a purge takes),
the model is given what the store did, checks that it was allowed to, and follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqew.model import DEFAULT_LANE, NewMessage, Policy, Ref


@dataclass
class Item:
    """A message in a queue."""

    id: int
    queue: str
    lane: str
    priority: int
    available_at: int
    expires_at: int | None
    group: str | None
    key: str | None
    attempts: int = 0
    lease_until: int | None = None
    token: str | None = None
    by: str | None = None
    origin: str | None = None
    origin_lane: str | None = None
    reason: str | None = None

    def is_leased(self, now: int) -> bool:
        return self.lease_until is not None and self.lease_until > now


@dataclass
class Finished:
    """A message in the archive."""

    item: Item
    outcome: str
    reason: str
    forget_at: int | None


@dataclass
class Key:
    id: int
    forget_at: int | None = None


class Reference:
    """Queues and messages."""

    def __init__(self, policies: dict[str, Policy]) -> None:
        self.policies = policies
        self.items: dict[int, Item] = {}
        self.archive: dict[int, Finished] = {}
        self.keys: dict[tuple[str, str], Key] = {}
        self.turns: dict[str, dict[str, int]] = {}
        for queue in policies:
            self.clear(queue)

    def clear(self, queue: str) -> None:
        """Clear a queue that was deleted, and made again."""
        self.items = {id: item for id, item in self.items.items() if item.queue != queue}
        self.archive = {id: entry for id, entry in self.archive.items() if entry.item.queue != queue}
        self.keys = {place: key for place, key in self.keys.items() if place[0] != queue}
        self.turns[queue] = dict.fromkeys(self.policies[queue].lanes, 0)

    def in_queue(self, queue: str) -> list[Item]:
        return [item for item in self.items.values() if item.queue == queue]

    def default_lane(self, queue: str) -> str:
        lanes = self.policies[queue].lanes
        return DEFAULT_LANE if DEFAULT_LANE in lanes else next(iter(lanes))

    # Where a message stands.

    def group_of(self, item: Item) -> list[Item]:
        """Return the messages of an item's FIFO group, in order."""
        members = [other for other in self.in_queue(item.queue) if other.group == item.group]
        return sorted(members, key=lambda other: other.id)

    def due_at(self, item: Item) -> int | None:
        """Return when an item may be received; None: not before those in front of it."""
        if not self.policies[item.queue].fifo:
            return item.available_at if item.lease_until is None else item.lease_until
        group = self.group_of(item)
        return _group_due(group) if group[0] is item else None

    def state(self, item: Item, now: int) -> str:
        if item.is_leased(now):
            return "leased"
        due_at = self.due_at(item)
        if due_at is None:
            return "blocked"
        return "ready" if due_at <= now else "delayed"

    def is_expired(self, item: Item, now: int) -> bool:
        return item.expires_at is not None and item.expires_at <= now and not item.is_leased(now)

    def is_exhausted(self, item: Item, now: int) -> bool:
        limit = self.policies[item.queue].max_attempts
        return limit is not None and item.attempts >= limit and not item.is_leased(now)

    def is_over(self, item: Item, now: int) -> bool:
        """Return True if an item will never be delivered, and may be removed at any time."""
        return self.is_expired(item, now) or self.is_exhausted(item, now)

    # Sending.

    def known(self, queue: str, key: str | None, now: int) -> int | None:
        """Return the id that a key stands for."""
        found = None if key is None else self.keys.get((queue, key))
        if found is None or (found.forget_at is not None and found.forget_at <= now):
            return None
        return found.id

    def add(self, queue: str, message: NewMessage, id: int, now: int) -> None:
        policy = self.policies[queue]
        delay_ms = policy.delay_ms if message.delay_ms is None else message.delay_ms
        ttl_ms = policy.ttl_ms if message.ttl_ms is None else message.ttl_ms
        self.items[id] = Item(
            id,
            queue,
            message.lane or self.default_lane(queue),
            message.priority,
            now + delay_ms,
            None if ttl_ms is None else now + ttl_ms,
            (message.group or "") if policy.fifo else message.group,
            message.key,
        )
        if message.key is not None:
            self.keys[queue, message.key] = Key(id)

    # Receiving.

    def next_ones(self, queue: str, limit: int, lane: str | None, now: int) -> list[Item]:
        """Return the messages that a receive must take, in order. The lanes take their turns."""
        lanes = list(self.policies[queue].lanes) if lane is None else [lane]
        pick = self._next_groups if self.policies[queue].fifo else self._next_messages
        return pick(queue, limit, lanes, now)

    def _next_messages(self, queue: str, limit: int, lanes: list[str], now: int) -> list[Item]:
        waiting = {lane: self._ready(queue, lane, now) for lane in lanes}
        taken: list[Item] = []
        while len(taken) < limit and (ready := [lane for lane in lanes if waiting[lane]]):
            taken.append(waiting[self._turn(queue, ready, lanes)].pop(0))
        return taken

    def _ready(self, queue: str, lane: str, now: int) -> list[Item]:
        ready = [
            (-item.priority, due_at, item.id, item)
            for item in self.in_queue(queue)
            if item.lane == lane and (due_at := self.due_at(item)) is not None and due_at <= now
            and not self.is_over(item, now)
        ]  # fmt: skip
        return [item for *_, item in sorted(ready)]

    def _next_groups(self, queue: str, limit: int, lanes: list[str], now: int) -> list[Item]:
        taken: list[Item] = []
        groups = {item.group: self.group_of(item) for item in self.in_queue(queue)}
        while len(taken) < limit:
            heads = []
            for group in groups.values():
                # What is over goes as soon as a receive meets it, and the next one steps up.
                while group and group[0].lane in lanes and _group_due(group) <= now and self.is_over(group[0], now):
                    group.pop(0)
                if group and group[0].lane in lanes and _group_due(group) <= now:
                    heads.append((-group[0].priority, _group_due(group), group[0].id, group))
            if not heads:
                break
            heads.sort()
            lane = self._turn(queue, [lane for lane in lanes if any(head[3][0].lane == lane for head in heads)], lanes)
            group = next(head[3] for head in heads if head[3][0].lane == lane)
            taken += self._from_group(group, limit - len(taken), now)
            del groups[group[0].group]
        return taken

    def _from_group(self, group: list[Item], limit: int, now: int) -> list[Item]:
        """Return the head and what stands behind it, up to the first that is delayed or in another lane."""
        taken = [group[0]]
        for item in group[1:]:
            if len(taken) == limit or item.lane != group[0].lane or item.available_at > now:
                break
            if not self.is_over(item, now):
                taken.append(item)
        return taken

    def _turn(self, queue: str, ready: list[str], lanes: list[str]) -> str:
        """Choose a lane with work by smooth weighted round-robin: of equals the heavier, then the first named."""
        if len(lanes) == 1:
            return ready[0]
        weights, turns = self.policies[queue].lanes, self.turns[queue]
        for lane in ready:
            turns[lane] += weights[lane]
        served = max(ready, key=lambda lane: (turns[lane], weights[lane], -list(weights).index(lane)))
        turns[served] -= sum(weights[lane] for lane in ready)
        return served

    def lease(self, item: Item, until: int, token: str, by: str | None) -> None:
        item.attempts += 1
        item.lease_until, item.token, item.by = until, token, by

    # Settling.

    def refusal(self, queue: str | None, ref: Ref) -> str | None:
        """Return the code of the error that an ack, nack or extend must get; None: it is allowed."""
        item = self.items.get(ref.id)
        if item is None or queue not in (None, item.queue):
            return "message_not_found"
        if (ref.token is not None and ref.token != item.token) or (ref.by is not None and ref.by != item.by):
            return "stale_lease"
        return None

    def finish(self, id: int, now: int) -> None:
        item = self.items[id]
        self.leave(id, now)
        if self.policies[item.queue].keep == "archive":
            self._archive(item, "done", "", now)

    def release(self, id: int, due_at: int) -> None:
        item = self.items[id]
        item.available_at = due_at
        item.lease_until = item.token = item.by = None

    def backoff(self, id: int) -> int:
        item = self.items[id]
        backoff = self.policies[item.queue].backoff
        if backoff.kind == "fixed":
            return backoff.base_ms
        return int(min(backoff.cap_ms, backoff.base_ms * 2 ** max(item.attempts - 1, 0)))

    def extend(self, id: int, until: int) -> None:
        item = self.items[id]
        if item.lease_until is None:
            item.available_at = until
        else:
            item.lease_until = until

    def leave(self, id: int, now: int) -> None:
        """Take a message out of its queue; its key is remembered for a while."""
        item = self.items.pop(id)
        key = None if item.key is None else self.keys.get((item.queue, item.key))
        if key is not None and key.id == id:
            key.forget_at = now + self.policies[item.queue].key_retention_ms

    def forget_keys(self, queue: str, purged: set[int], up_to_key: str) -> None:
        """Forget the keys of messages that a purge deleted, and of those gone before, up to a key."""
        for place, key in list(self.keys.items()):
            is_gone = key.id not in self.items or self.items[key.id].queue != queue
            if place[0] == queue and is_gone and (key.id in purged or place[1] <= up_to_key):
                del self.keys[place]

    # Dying and coming back.

    def die(self, id: int, reason: str, now: int) -> None:
        item = self.items[id]
        self.leave(id, now)
        target = self.policies[item.queue].dead_letter
        if target is None:
            self._archive(item, "dead", reason, now)
            return
        ttl_ms = self.policies[target].ttl_ms
        self.items[id] = replace(
            item,
            queue=target,
            lane=self.default_lane(target),
            available_at=now,
            expires_at=None if ttl_ms is None else now + ttl_ms,
            lease_until=None,
            token=None,
            by=None,
            # Where the dead-letter queue has attempts of its own to give, they are counted anew.
            attempts=item.attempts if self.policies[target].max_attempts is None else 0,
            origin=item.queue,
            origin_lane=item.lane,
            reason=reason,
        )

    def _archive(self, item: Item, outcome: str, reason: str, now: int) -> None:
        retention = self.policies[item.queue].archive_retention_ms
        self.archive[item.id] = Finished(item, outcome, reason, None if retention is None else now + retention)

    def dead_letters(self, queue: str) -> list[int]:
        """Return the dead letters of a queue that lie in a queue."""
        return sorted(item.id for item in self.items.values() if item.origin == queue)

    def dead_in_archive(self, queue: str) -> list[int]:
        return sorted(id for id, entry in self.archive.items() if entry.item.queue == queue and entry.outcome == "dead")

    def free(self, ids: Iterable[int], now: int) -> list[int]:
        """Return the messages that are not leased."""
        return [id for id in ids if not self.items[id].is_leased(now)]

    def bring_back(self, id: int, queue: str, now: int) -> None:
        if id in self.archive:
            item = self.archive.pop(id).item
            lane = item.lane
        else:
            item = self.items[id]
            self.leave(id, now)
            lane = item.origin_lane or ""
        policy = self.policies[queue]
        self.items[id] = Item(
            id,
            queue,
            lane if lane in policy.lanes else self.default_lane(queue),
            item.priority,
            now,
            None if policy.ttl_ms is None else now + policy.ttl_ms,
            (item.group or "") if policy.fifo else item.group,
            item.key,
        )
        if item.key is not None and self.known(queue, item.key, now) in (None, id):
            self.keys[queue, item.key] = Key(id)

    # Upkeep.

    def forget(self, now: int) -> tuple[int, int]:
        """Drop outlived keys and archived messages; return the number of each."""
        keys = [place for place, key in self.keys.items() if key.forget_at is not None and key.forget_at <= now]
        entries = [id for id, entry in self.archive.items() if entry.forget_at is not None and entry.forget_at <= now]
        for place in keys:
            del self.keys[place]
        for id in entries:
            del self.archive[id]
        return len(keys), len(entries)

    def next_sweep(self, now: int) -> int | None:
        """Return when the next thing is to be swept that is not yet."""
        times = [key.forget_at for key in self.keys.values()]
        times += [entry.forget_at for entry in self.archive.values()]
        for item in self.items.values():
            lease_end = item.lease_until if item.is_leased(now) else None
            if item.expires_at is not None:
                times.append(max(item.expires_at, lease_end or 0))
            limit = self.policies[item.queue].max_attempts
            if limit is not None and item.attempts >= limit:
                times.append(lease_end)
        return min((time for time in times if time is not None), default=None)


def _group_due(group: list[Item]) -> int:
    """Return when a group is free: its head is available and no lease in it is running any more."""
    return max([group[0].available_at, *(item.lease_until for item in group if item.lease_until is not None)])
