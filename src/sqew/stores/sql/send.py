"""Sending of messages to a queue."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast
from zlib import crc32

from sqew.errors import BodyTooLarge, KeyMissing, QuotaExceeded, RateLimited
from sqew.formats.columns import checksums
from sqew.model import Fact, NewMessage, NewMessages, Policy, Sent
from sqew.operations import Publish, Send
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.rows import INLINE_BODY_BYTES, checksum, encode_headers, scoped_key, size_of
from sqew.stores.sql.transaction import NewRows, Row, Work

DEFERRING = frozenset({Send, Publish})
"""Operations whose messages may be written together with those of the next."""

SOLE_GROUP = ""
"""The group of FIFO messages that name none: together they are in order."""


def send(work: Work, op: Send) -> list[Sent]:
    state = work.catalog.queue(op.queue)
    messages = op.messages
    if isinstance(messages, NewMessages):
        if messages and state.takes_plain and messages.are_alike and are_small(messages):
            return _send_alike(work, state, messages)
        messages = list(messages)
    if len(messages) == 1 and state.takes_plain:
        row = plain_row(work, state, messages[0])
        if row is not None:
            if work.defers:
                work.deferred.small.append(row)
            else:
                work.execute_at_once(work.sql.insert_small, row)
            work.facts.append(sent_plain(work, state, row))
            work.woken.add(state.name)
            return [sent_by(row)]
    write_deferred(work)
    if op.keyed and state.policy.fifo and state.policy.deduplicate == "key":
        check_keyed(state, messages)
    lanes = accept(work, state, messages, apart=op.apart)
    sent = put(work, state, messages, lanes, work.deferred)
    write_deferred(work)
    return sent


def _send_alike(work: Work, state: QueueState, messages: NewMessages) -> list[Sent]:
    """Send messages that differ only in their bodies to a queue that has nothing else to check."""
    work.space.check(work.now)
    lane = state.lane(cast("str | None", messages.lanes))
    write_deferred(work)
    ids = put_alike(work, state, messages, lane, checksums(messages))
    due_at = due_at_of(state, work.now, cast("int | None", messages.delays_ms))
    return [Sent(id, False, due_at) for id in ids]


def check_keyed(state: QueueState, messages: Sequence[NewMessage]) -> None:
    if any(message.key is None for message in messages):
        raise KeyMissing(state.name)


def accept(work: Work, state: QueueState, messages: Sequence[NewMessage], *, apart: bool = False) -> list[int]:
    """Return the lanes of messages that the queue takes; raise if it does not, and then nothing was written.

    Whatever can be refused is refused before the first write, so that a failed send leaves no trace.
    """
    policy = state.policy
    if state.takes_one_at_a_time:
        work.hold(state)
    work.space.check(work.now)
    lanes = [state.default_lane if message.lane is None else state.lane(message.lane) for message in messages]
    most = policy.max_body_bytes
    if most is not None and (largest := max(map(size_of, messages), default=0)) > most:
        raise BodyTooLarge(state.name, largest, most)
    if policy.quota is not None and _exceeds(work, state, messages, policy.quota):
        raise QuotaExceeded(state.name, policy.quota)
    if policy.rate_limit is not None:
        wait_ms = work.catalog.throttle(state).take(len(messages), policy.rate_limit, work.now, apart=apart)
        if wait_ms:
            raise RateLimited(state.name, policy.rate_limit, wait_ms)
    return lanes


def put(
    work: Work, state: QueueState, messages: Sequence[NewMessage], lanes: Sequence[int], rows: NewRows
) -> list[Sent]:
    """Give accepted messages their ids, and add their rows to those that are to be written."""
    policy = state.policy
    now, queue_id, name, fifo = work.now, state.id, state.name, policy.fifo
    by_content = policy.deduplicate == "content"
    small, others = rows.small, rows.others
    sent: list[Sent] = []
    facts = work.facts
    groups_seen: set[str] = set()
    bucket_lane, bucket_priority = -1, 0
    ids = work.catalog.take_ids(len(messages))
    key: str | None
    for id, message, lane in zip(ids, messages, lanes, strict=True):
        body, key, group, priority = message.body, message.key, message.group, message.priority
        if key is not None or by_content:
            key = _key(policy, message)
        if key is not None:
            owner = _claim_key(work, state, key, id)
            if owner is not None:
                sent.append(Sent(owner, duplicate=True))
                continue
        if priority != bucket_priority or lane != bucket_lane:
            bucket_lane, bucket_priority = lane, priority
            work.catalog.ensure_bucket(state, lane, priority)
        delay_ms, ttl_ms = message.delay_ms, message.ttl_ms
        available_at = now + (policy.delay_ms if delay_ms is None else delay_ms)
        due_at: int | None = available_at
        if fifo:
            group = group or SOLE_GROUP
            due_at = None if _stands_behind(work, state, group, groups_seen) else available_at
        if ttl_ms is None:
            ttl_ms = policy.ttl_ms
        expires_at = None if ttl_ms is None else now + ttl_ms
        is_text = message.format == "text"
        headers = encode_headers(message.headers) if message.headers else None
        check = checksum(body, headers, is_text)
        if key is None and group is None and len(body) <= INLINE_BODY_BYTES:
            small.append((id, queue_id, lane, priority, due_at, now, expires_at, is_text, check, headers, body))
        else:
            inline: bytes | None = body
            if len(body) > INLINE_BODY_BYTES:
                work.execute(work.sql.insert_body, (id, body))
                inline = None
            others.append(
                (id, queue_id, lane, priority, due_at, available_at, now, expires_at, key, group, is_text, check,
                 headers, inline)
            )  # fmt: skip
        sent.append(Sent(id, False, available_at))
        if state.depth is not None:
            state.depth += 1
        facts.append(Fact("sent", name, state.lane_names[lane], id, 0))
    work.woken.add(name)
    return sent


def are_small(messages: NewMessages) -> bool:
    """Return True if all of the bodies are kept in the rows of the messages."""
    return max(map(len, messages.bodies)) <= INLINE_BODY_BYTES


def put_alike(work: Work, state: QueueState, messages: NewMessages, lane: int, checks: list[int]) -> Sequence[int]:
    """Do the same as `put` in a third of the time, for small messages that are alike; return their ids."""
    policy, now = state.policy, work.now
    said: Any = messages
    due_at = due_at_of(state, now, said.delays_ms)
    ttl_ms = policy.ttl_ms if said.ttls_ms is None else said.ttls_ms
    expires_at = None if ttl_ms is None else now + ttl_ms
    work.catalog.ensure_bucket(state, lane, said.priorities)
    ids = work.catalog.take_ids(len(messages))
    work.insert_alike(
        (state.id, lane, said.priorities, due_at, now, expires_at, int(said.formats == "text")),
        ids,
        checks,
        messages.bodies,
    )
    name, lane_name = state.name, state.lane_names[lane]
    work.facts += [Fact("sent", name, lane_name, id, 0) for id in ids]
    work.woken.add(name)
    if state.depth is not None:
        state.depth += len(messages)
    return ids


def plain_row(work: Work, state: QueueState, message: NewMessage) -> Row | None:
    """Return the row that `insert_small` takes for a message that needs nothing else; None if it needs more.

    The queue must be one that takes plain messages.
    """
    catalog = work.catalog
    lane = state.default_lane if message.lane is None else state.lane_ids.get(message.lane)
    priority, body, id = message.priority, message.body, catalog.next_id
    if (
        lane is None
        or priority not in state.buckets.get(lane, ())
        or id >= catalog.reserved_below
        or len(body) > INLINE_BODY_BYTES
        or message.key is not None
        or message.headers
        or message.group is not None
    ):
        return None
    now, policy = work.now, state.policy
    if now >= work.space.next_look_at:
        work.space.check(now)
    due_at = due_at_of(state, now, message.delay_ms)
    ttl_ms = policy.ttl_ms if message.ttl_ms is None else message.ttl_ms
    expires_at = None if ttl_ms is None else now + ttl_ms
    is_text = message.format == "text"
    return id, state.id, lane, priority, due_at, now, expires_at, is_text, crc32(body, is_text), None, body


def due_at_of(state: QueueState, now: int, delay_ms: int | None) -> int:
    """Return from when on a new message can be received: after its own delay, or after that of its queue."""
    return now + (state.policy.delay_ms if delay_ms is None else delay_ms)


def sent_by(row: Row) -> Sent:
    """Return what a row for `insert_small` says about its message: it begins as `plain_row` makes it."""
    return Sent(row[0], False, row[4])


def sent_plain(work: Work, state: QueueState, row: Row) -> Fact:
    """Mark the id of a plain message as taken, and return the fact to report."""
    catalog, id = work.catalog, row[0]
    catalog.next_id = id + 1
    catalog.taken_ids += 1
    return Fact("sent", state.name, state.lane_names[row[2]], id, 0)


def write_deferred(work: Work) -> None:
    """Write the messages that were deferred: together they take half as long."""
    rows = work.deferred
    if rows:
        work.deferred = NewRows()
        if rows.small:
            work.executemany(work.sql.insert_small, rows.small)
        for copies in rows.copies.values():
            work.insert_copies(copies)
            # Queue by queue: who counts them counts the runs.
            for place, target in enumerate(copies.targets):
                name, lane = target.queue, target.lane_name
                work.facts += [Fact("sent", name, lane, ids[place], 0) for ids in copies.ids]
        if rows.others:
            work.executemany(work.sql.insert_message, rows.others)


def _exceeds(work: Work, state: QueueState, messages: Sequence[NewMessage], quota: int) -> bool:
    """Return True if the queue would hold more than its quota. Duplicates add nothing."""
    space = quota - work.catalog.depth(state)
    if len(messages) <= space:
        return False
    keys = [_key(state.policy, message) for message in messages]
    known = {key for key in keys if key is not None and work.execute(work.sql.key_owner, (state.id, key, work.now)).get}
    return keys.count(None) + len(set(keys) - {None} - known) > space


def _key(policy: Policy, message: NewMessage) -> str | None:
    key = message.key
    if key is None and policy.deduplicate == "content":
        key = hashlib.sha256(message.body).hexdigest()
    return key if key is None else scoped_key(key, message.group, policy.deduplicate_within)


def _stands_behind(work: Work, state: QueueState, group: str, seen: set[str]) -> bool:
    """Return True if a new message of the group has others before it: stored ones, or of its own batch."""
    if group in seen:
        return True
    seen.add(group)
    return work.execute(work.sql.group_exists, (state.id, group)).get is not None


def _claim_key(work: Work, state: QueueState, key: str, id: int) -> int | None:
    """Register the key for this message; if it is taken, return the id it stands for."""
    while True:
        owner: int | None = work.execute(work.sql.key_owner, (state.id, key, work.now)).get
        if owner is not None:
            return owner
        claim_key(work, state, key, id)
        if work.changes():
            return None
        # Another server was at it and has committed meanwhile: now its message can be seen.


def claim_key(work: Work, state: QueueState, key: str, id: int) -> None:
    """Make a key stand for this message, unless it stands for another."""
    policy = state.policy
    expires_at = work.now + policy.key_retention_ms if policy.key_retention_from == "sent" else None
    work.execute(work.sql.claim_key, (state.id, key, id, work.now, expires_at))
