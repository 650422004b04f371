"""Metrics in the text format that Prometheus scrapes (version 0.0.4): what the file itself can tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqew.model import QueueStats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS = {
    "queue_messages_sent_total": ("sent", "Messages sent."),
    "queue_messages_received_total": ("received", "Messages delivered to receivers, redeliveries included."),
    "queue_messages_deleted_total": ("acked", "Messages acknowledged."),
    "queue_messages_redelivered_total": ("redelivered", "Messages delivered for the second time or later."),
    "queue_messages_nacked_total": ("nacked", "Messages given back by their receivers."),
    "queue_messages_expired_total": ("expired", "Messages removed at the end of their time to live."),
    "queue_messages_dead_total": ("dead", "Messages that became dead letters."),
}


def prometheus(stats: Sequence[QueueStats], now_ms: int) -> str:
    """The metrics of queues, at the given time."""
    return "".join(line + "\n" for line in _lines(stats, now_ms))


def _lines(stats: Sequence[QueueStats], now_ms: int) -> Iterator[str]:
    for metric, (name, text) in _COUNTERS.items():
        yield from _heading(metric, "counter", text)
        for queue in stats:
            yield _sample(metric, {"queue": queue.queue}, queue.totals.get(name, 0))
    yield from _heading("queue_depth", "gauge", "Messages that are due: ready, or behind the head of their group.")
    for queue in stats:
        visible = queue.depths.total("ready") + queue.depths.total("blocked")
        yield _sample("queue_depth", {"queue": queue.queue}, visible)
    yield from _heading("queue_in_flight", "gauge", "Messages that are leased or delayed.")
    for queue in stats:
        hidden = queue.depths.total("leased") + queue.depths.total("delayed")
        yield _sample("queue_in_flight", {"queue": queue.queue}, hidden)
    yield from _heading("queue_messages", "gauge", "Messages by lane and state.")
    for queue in stats:
        for lane, depth in queue.depths.lanes.items():
            for state in depth.__struct_fields__:
                labels = {"queue": queue.queue, "lane": lane, "state": state}
                yield _sample("queue_messages", labels, getattr(depth, state))
    yield from _heading("queue_dead_letters", "gauge", "Dead letters of the queue that are kept.")
    for queue in stats:
        yield _sample("queue_dead_letters", {"queue": queue.queue}, queue.depths.dead)
    yield from _heading(
        "queue_oldest_ready_age_seconds", "gauge", "For how long the longest-waiting ready message has been ready."
    )
    for queue in stats:
        since = queue.depths.oldest_ready_at
        age_ms = 0 if since is None else max(now_ms - since, 0)
        yield _sample("queue_oldest_ready_age_seconds", {"queue": queue.queue}, age_ms / 1000)


def _heading(metric: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"


def _sample(metric: str, labels: dict[str, str], value: float) -> str:
    pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return f"{metric}{{{pairs}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
