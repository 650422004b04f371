"""Send."""

from __future__ import annotations

import hashlib

from sqew.errors import QuotaExceeded, RateLimited
from sqew.model import Fact, NewMessage, Sent
from sqew.operations import Send
from sqew.stores.sqlite.catalog import QueueState
from sqew.stores.sqlite.rows import INLINE_BODY_BYTES, checksum, encode_headers
from sqew.stores.sqlite.statements import sql
from sqew.stores.sqlite.work import Row, Work

_INSERT_MESSAGE = sql("insert_message")
_INSERT_BODY = sql("insert_body")
_GROUP_EXISTS = sql("group_exists")
_KEY_OWNER = sql("key_owner")
_CLAIM_KEY = sql("claim_key")

SOLE_GROUP = ""
"""The group of FIFO messages that name none: together they are in order."""


def send(work: Work, op: Send) -> list[Sent]:
    state = work.catalog.queue(op.queue)
    policy = state.policy
    work.room.check(work.now)
    # Whatever can be refused is refused before the first write, so that a failed send leaves no trace.
    lanes = [state.default_lane if message.lane is None else state.lane(message.lane) for message in op.messages]
    if policy.quota is not None and work.catalog.depth(state) + len(op.messages) > policy.quota:
        raise QuotaExceeded(state.name, policy.quota)
    if policy.rate_limit is not None:
        wait_ms = work.catalog.throttle(state).take(len(op.messages), policy.rate_limit, work.now)
        if wait_ms:
            raise RateLimited(state.name, policy.rate_limit, wait_ms)

    first = work.catalog.take_ids(len(op.messages))
    rows: list[Row] = []
    sent: list[Sent] = []
    facts = work.facts
    groups_seen: set[str] = set()
    for id, (message, lane) in enumerate(zip(op.messages, lanes, strict=True), first):
        key = message.key
        if key is None and policy.deduplicate == "content":
            key = hashlib.sha256(message.body).hexdigest()
        if key is not None:
            owner = _claim_key(work, state, key, id)
            if owner is not None:
                sent.append(Sent(owner, duplicate=True))
                continue
        rows.append(_row(work, state, id, lane, key, message, groups_seen))
        work.catalog.ensure_bucket(state, lane, message.priority)
        sent.append(Sent(id))
        facts.append(Fact("sent", state.name, state.lane_names[lane], id, 0))
    if len(rows) == 1:
        work.execute(_INSERT_MESSAGE, rows[0])
    else:
        work.executemany(_INSERT_MESSAGE, rows)
    if state.depth is not None:
        state.depth += len(rows)
    work.stirred.add(state.name)
    return sent


def _row(
    work: Work, state: QueueState, id: int, lane: int, key: str | None, message: NewMessage, groups_seen: set[str]
) -> Row:
    policy, now = state.policy, work.now
    available_at = now + (policy.delay_ms if message.delay_ms is None else message.delay_ms)
    ttl_ms = policy.ttl_ms if message.ttl_ms is None else message.ttl_ms
    headers = encode_headers(message.headers).decode() if message.headers else None
    body: bytes | None = message.body
    check = checksum(message.body, headers)
    if len(message.body) > INLINE_BODY_BYTES:
        work.execute(_INSERT_BODY, (id, body))
        body = None
    due_at: int | None = available_at
    group = message.group
    if policy.fifo:
        group = group or SOLE_GROUP
        if group in groups_seen or work.execute(_GROUP_EXISTS, (state.id, group)).get is not None:
            due_at = None
        groups_seen.add(group)
    return (
        id,
        state.id,
        lane,
        message.priority,
        due_at,
        available_at,
        now,
        None if ttl_ms is None else now + ttl_ms,
        key,
        group,
        message.format == "text",
        check,
        headers,
        body,
    )


def _claim_key(work: Work, state: QueueState, key: str, id: int) -> int | None:
    """Register the key for this message; or, where it is taken, the id it stands for."""
    owner: int | None = work.execute(_KEY_OWNER, (state.id, key, work.now)).get
    if owner is None:
        work.execute(_CLAIM_KEY, (state.id, key, id, work.now))
    return owner
