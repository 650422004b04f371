"""Views of queues, messages and figures: plain data for machines, tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from sqew.model import ArchivedMessage, Backoff, LaneDepth, Latency, Message, Policy, QueueInfo, QueueStats
from sqew.settings import duration
from sqew.terminal.output import Column, Facts, Part, Table, byte_count, moment, plural, span

_STATES = LaneDepth.__struct_fields__
# Only FIFO queues have blocked messages.
_STATE_COLUMNS = [Column(state, right=True, optional=state == "blocked") for state in _STATES]
_EXACT = duration(0, 0, "")


def message_document(message: Message) -> dict[str, Any]:
    """Return a message as the HTTP interface shows it: the payload as it was sent, times in epoch milliseconds."""
    made: dict[str, Any] = {
        "id": message.id,
        "queue": message.queue,
        "payload": _payload(message),
        "format": message.format,
        "headers": message.headers,
        "priority": message.priority,
        "lane": message.lane,
        "group": message.group,
        "key": message.key,
        "attempts": message.attempts,
        "created_at": message.created_at,
        "available_at": message.available_at,
        "expires_at": message.expires_at,
        "state": message.state,
    }
    if message.lease is not None:
        made |= {"token": message.lease.token or None, "lease_expires_at": message.lease.expires_at}
        made["leased_by"] = message.lease.by
    if message.death is not None:
        made["death"] = msgspec.to_builtins(message.death)
    if message.damaged:
        made["damaged"] = True
    return made


def messages_document(messages: Iterable[Message]) -> dict[str, Any]:
    """Return ``{"messages": […]}``."""
    return {"messages": [message_document(message) for message in messages]}


def taken_document(messages: Iterable[Message]) -> dict[str, Any]:
    """Return the same for messages that are gone from their queue: they have no state."""
    documents = [message_document(message) for message in messages]
    for document in documents:
        del document["state"]
    return {"messages": documents}


def _payload(message: Message) -> Any:
    if message.damaged:
        return None
    return Raw(message.body) if message.format == "json" else message.body.decode()


def payload_text(message: Message) -> str:
    """Return the body as people read it."""
    return "(damaged: withheld)" if message.damaged else message.body.decode()


def _headers_text(headers: dict[str, Any]) -> str:
    return msgspec.json.encode(headers).decode() if headers else ""


def _hidden_until(message: Message, now: int) -> str:
    if message.lease is not None and message.state == "leased":
        return moment(message.lease.expires_at, now)
    return moment(message.available_at, now) if message.state == "delayed" else ""


def waiting_messages(messages: Sequence[Message], now: int, empty: str) -> Table:
    """Return a table of messages that were peeked at."""
    columns = [
        Column("id", right=True),
        Column("state"),
        Column("lane"),
        Column("priority", right=True),
        Column("attempts", right=True),
        Column("hidden until", optional=True),
        Column("group", optional=True),
        Column("key", optional=True),
        Column("payload", cut=True),
    ]
    rows = [
        (m.id, m.state, m.lane, m.priority, m.attempts, _hidden_until(m, now), m.group, m.key, payload_text(m))
        for m in messages
    ]
    return Table(columns, rows, empty)


def received_messages(messages: Sequence[Message], now: int) -> list[Part]:
    """Return messages that were received, each in full. Those taken for good have no lease."""
    return [_received(message, now) for message in messages]


def _received(message: Message, now: int) -> Facts:
    pairs: list[tuple[str, object]] = [("id", message.id)]
    if message.lease is not None:
        pairs += [("token", message.lease.token), ("lease ends", moment(message.lease.expires_at, now))]
    pairs += [("lane", message.lane), ("attempts", message.attempts), ("group", message.group), ("key", message.key)]
    pairs += [("headers", _headers_text(message.headers)), ("payload", payload_text(message))]
    return Facts([pair for pair in pairs if pair[1] not in (None, "")])


def one_message(message: Message, now: int) -> Facts:
    """Return everything about one message."""
    pairs: list[tuple[str, object]] = [
        ("id", message.id),
        ("queue", message.queue),
        ("state", message.state),
        ("hidden until", _hidden_until(message, now)),
        ("lane", message.lane),
        ("priority", message.priority),
        ("attempts", message.attempts),
        ("created", moment(message.created_at, now)),
        ("expires", moment(message.expires_at, now)),
        ("leased by", message.lease.by if message.lease is not None else None),
        ("group", message.group),
        ("key", message.key),
        ("headers", _headers_text(message.headers)),
    ]
    if message.death is not None:
        pairs += [
            ("died", moment(message.death.at, now)),
            ("died in", message.death.queue),
            ("reason", message.death.reason),
        ]
    pairs.append(("payload", payload_text(message)))
    return Facts([pair for pair in pairs if pair[1] not in (None, "")])


def dead_letters(messages: Sequence[Message], now: int, empty: str) -> Table:
    """Return a table of messages that died, and why."""
    columns = [
        Column("id", right=True),
        Column("lane"),
        Column("attempts", right=True),
        Column("died"),
        Column("reason"),
        Column("payload", cut=True),
    ]
    rows = [
        (
            m.id,
            m.lane,
            m.attempts,
            *((moment(m.death.at, now), m.death.reason) if m.death else ("", "")),
            payload_text(m),
        )
        for m in messages
    ]
    return Table(columns, rows, empty)


def archived_document(archived: Sequence[ArchivedMessage]) -> dict[str, Any]:
    """Return ``{"messages": […]}``, each with its outcome."""
    document = taken_document(entry.message for entry in archived)
    for message, entry in zip(document["messages"], archived, strict=True):
        message |= {"outcome": entry.outcome, "finished_at": entry.finished_at, "reason": entry.reason or None}
    return document


def archived_messages(archived: Sequence[ArchivedMessage], now: int, empty: str) -> Table:
    """Return a table of finished messages, and how they ended."""
    columns = [
        Column("id", right=True),
        Column("outcome"),
        Column("lane"),
        Column("attempts", right=True),
        Column("finished"),
        Column("reason", optional=True),
        Column("payload", cut=True),
    ]
    rows = [
        (a.message.id, a.outcome, a.message.lane, a.message.attempts, moment(a.finished_at, now), a.reason,
         payload_text(a.message))
        for a in archived
    ]  # fmt: skip
    return Table(columns, rows, empty)


def queue_document(info: QueueInfo, stats: QueueStats | None = None) -> dict[str, Any]:
    """Return a queue, its policy and, if given, its figures."""
    document = {"name": info.name, "created_at": info.created_at, "policy": msgspec.to_builtins(info.policy)}
    return document if stats is None else document | {"stats": msgspec.to_builtins(stats)}


def queue_facts(info: QueueInfo, now: int) -> Facts:
    """Return a queue's policy in words."""
    policy = info.policy
    return Facts(
        [
            ("queue", info.name),
            ("created", moment(info.created_at, now)),
            ("visibility", _EXACT.show(policy.visibility_ms)),
            ("max attempts", _or(policy.max_attempts, "no limit")),
            ("dead letters", _or(policy.dead_letter, "kept in the archive")),
            ("backoff", _backoff_text(policy.backoff)),
            ("delay", _EXACT.show(policy.delay_ms)),
            ("time to live", _duration_or(policy.ttl_ms, "no limit")),
            ("order", "first in, first out in each group" if policy.fifo else "by priority, then by time"),
            ("lanes", ", ".join(f"{lane}={weight}" for lane, weight in policy.lanes.items())),
            ("when done", _keep_text(policy)),
            ("deduplicates", _deduplicates_text(policy)),
            ("rate limit", "no limit" if policy.rate_limit is None else f"{policy.rate_limit:g} a second"),
            ("quota", _or(policy.quota, "no limit")),
            *_seldom_set(policy),
        ]
    )


def _seldom_set(policy: Policy) -> Iterable[tuple[str, str]]:
    if policy.max_body_bytes is not None:
        yield "largest body", byte_count(policy.max_body_bytes)
    if policy.receive_wait_ms:
        yield "SQS receive", f"waits {_EXACT.show(policy.receive_wait_ms)}"


def _or(value: object, otherwise: str) -> object:
    return otherwise if value is None else value


def _duration_or(ms: int | None, otherwise: str) -> str:
    return otherwise if ms is None else _EXACT.show(ms)


def _backoff_text(backoff: Backoff) -> str:
    base, jitter = _EXACT.show(backoff.base_ms), _EXACT.show(backoff.jitter_ms)
    if backoff.kind == "fixed":
        return f"{base}, and up to {jitter} more"
    return f"{base}, doubling up to {_EXACT.show(backoff.cap_ms)}, and up to {jitter} more"


def _keep_text(policy: Policy) -> str:
    if policy.keep == "delete":
        return "deleted"
    return f"archived, {_duration_or(policy.archive_retention_ms, 'for ever')}"


def _deduplicates_text(policy: Policy) -> str:
    where = " in each group" if policy.deduplicate_within == "group" else ""
    since = " after it was sent" if policy.key_retention_from == "sent" else ""
    return f"by {policy.deduplicate}{where}, remembered for {_EXACT.show(policy.key_retention_ms)}{since}"


def queue_table(queues: Sequence[tuple[QueueInfo, QueueStats]]) -> Table:
    """Return a table with a line for each queue."""
    columns = [Column("name"), *_STATE_COLUMNS, Column("dead", right=True)]
    columns += [Column("max attempts", right=True), Column("visibility", right=True), Column("dead letters")]
    rows = [
        (
            info.name,
            *_by_state(stats),
            stats.depths.dead,
            _or(info.policy.max_attempts, "-"),
            _EXACT.show(info.policy.visibility_ms),
            _or(info.policy.dead_letter, "-"),
        )
        for info, stats in queues
    ]
    return Table(columns, rows, "There are no queues. Add one: sqew queue add --name orders")


def _by_state(stats: QueueStats) -> tuple[object, ...]:
    depths = stats.depths
    return depths.total("ready"), depths.total("delayed"), depths.total("leased"), depths.total("blocked") or ""


def depths_table(stats: QueueStats) -> Table:
    """Return a table of depths by lane and state."""
    columns = [Column("lane"), *_STATE_COLUMNS, Column("total", right=True)]
    rows = [
        (lane, depth.ready, depth.delayed, depth.leased, depth.blocked or "", depth.total)
        for lane, depth in stats.depths.lanes.items()
    ]
    return Table(columns, rows)


def stats_parts(stats: QueueStats, now: int) -> list[Part]:
    """Return the figures of one queue."""
    oldest = stats.depths.oldest_ready_at
    facts = Facts(
        [
            ("queue", stats.queue),
            ("dead letters", stats.depths.dead),
            ("archived", stats.depths.archived),
            ("oldest ready for", "-" if oldest is None else span(max(now - oldest, 0))),
        ]
    )
    counts = Table(
        [Column("messages"), Column("in all", right=True), Column("a second, last minute", right=True)],
        [(name, total, stats.rates.get(name, 0.0)) for name, total in stats.totals.items() if total],
    )
    latencies = Table(
        [Column("last hour"), Column("lane"), *(Column(name, right=True) for name in ("count", "p50", "p95", "p99"))],
        [*_latency_rows("ready to received", stats.wait), *_latency_rows("received to acked", stats.work)],
    )
    return [facts, depths_table(stats), *(table for table in (counts, latencies) if table.rows)]


def _latency_rows(name: str, lanes: dict[str, Latency]) -> list[tuple[object, ...]]:
    return [
        (name, lane, latency.count, *(f"{ms:.0f} ms" for ms in (latency.p50_ms, latency.p95_ms, latency.p99_ms)))
        for lane, latency in lanes.items()
    ]


def stats_table(stats: Sequence[QueueStats], now: int) -> Table:
    """Return a table of the figures of many queues, a line each."""
    columns = [Column("queue"), *_STATE_COLUMNS]
    columns += [
        Column(title, right=True) for title in ("dead", "archived", "oldest", "sent/s", "received/s", "acked/s")
    ]
    rows = [
        (
            queue.queue,
            *_by_state(queue),
            queue.depths.dead,
            queue.depths.archived,
            "-" if queue.depths.oldest_ready_at is None else span(max(now - queue.depths.oldest_ready_at, 0)),
            *(queue.rates[name] for name in ("sent", "received", "acked")),
        )
        for queue in stats
    ]
    return Table(columns, rows, "There are no queues. Add one: sqew queue add --name orders")


def sentence_of(count: int, done: str, noun: str = "message") -> str:
    """Return a sentence such as ``Purged 3 messages.``"""
    return f"{done} {plural(count, noun)}."
