"""Metrics in the text format that Prometheus scrapes (version 0.0.4).

Metrics of queues are made from stored figures, so they survive a restart, and a command on the file gives the same as a
server on it. A server's counters of its own work begin with its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqew.model import Depths, LaneDepth, QueueStats, QueueTotals
from sqew.observe.histogram import Histogram
from sqew.observe.labels import OTHERS, QueueLabels
from sqew.observe.meter import AGAIN, value_of

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

_AGE_S = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600)

Figures = QueueStats | QueueTotals
"""Statistics with a queue's name, its depths and its totals."""


def prometheus(stats: Sequence[Figures], now_ms: int) -> str:
    """Return the metrics of queues, at the given time."""
    return "".join(line + "\n" for line in queue_lines(stats, now_ms))


def queue_lines(stats: Sequence[Figures], now_ms: int) -> Iterator[str]:
    """Yield the metrics of queues that a store has."""
    labels = [labelled(queue=queue.queue) for queue in stats]
    for metric, (name, text) in _COUNTERS.items():
        yield from family(
            metric,
            "counter",
            text,
            ((label, queue.totals.get(name, 0)) for label, queue in zip(labels, stats, strict=True)),
        )
    depths = list(zip(labels, [queue.depths for queue in stats], strict=True))
    yield from family(
        "queue_depth",
        "gauge",
        "Messages that are due: ready, or behind the head of their group.",
        ((label, depth.total("ready") + depth.total("blocked")) for label, depth in depths),
    )
    yield from family(
        "queue_in_flight",
        "gauge",
        "Messages that are leased or delayed.",
        ((label, depth.total("leased") + depth.total("delayed")) for label, depth in depths),
    )
    yield from family("queue_messages", "gauge", "Messages by lane and state.", _by_lane_and_state(stats))
    yield from family(
        "queue_dead_letters",
        "gauge",
        "Dead letters of the queue that are kept.",
        ((label, depth.dead) for label, depth in depths),
    )
    yield from family(
        "queue_oldest_ready_age_seconds",
        "gauge",
        "For how long the longest-waiting ready message has been ready.",
        ((label, _age_ms(depth, now_ms) / 1000) for label, depth in depths),
    )


def _by_lane_and_state(stats: Sequence[Figures]) -> Iterator[tuple[str, int]]:
    for queue in stats:
        for lane, depth in queue.depths.lanes.items():
            for state in depth.__struct_fields__:
                yield labelled(queue=queue.queue, lane=lane, state=state), getattr(depth, state)


def _age_ms(depths: Depths, now_ms: int) -> int:
    return 0 if depths.oldest_ready_at is None else max(now_ms - depths.oldest_ready_at, 0)


def age_lines(queues: Sequence[QueueTotals]) -> Iterator[str]:
    """Yield histograms of how long messages had been ready when they were first received."""
    return histograms(
        "queue_message_age_at_receive_seconds",
        "How long a message had been ready at its first delivery, to within 12 %.",
        ((labelled(queue=queue.queue), _ages(queue.totals)) for queue in queues),
    )


def _ages(totals: dict[str, int]) -> Histogram:
    ages = Histogram(_AGE_S)
    for name, count in totals.items():
        kind, _, step = name.partition(":")
        if kind == "wait":
            # The stored waits are those of all deliveries.
            ages.add(value_of(int(step)) / 1000, count - totals.get(f"{AGAIN}:{step}", 0))
    return ages


def grouped(queues: Iterable[QueueTotals], labels: QueueLabels) -> list[QueueTotals]:
    """Return the queues that have a label of their own, and the others merged into one."""
    named: list[QueueTotals] = []
    others: list[QueueTotals] = []
    for queue in queues:
        (others if labels.of(queue.queue) is OTHERS else named).append(queue)
    return [*named, _as_one(others)] if others else named


def _as_one(queues: Sequence[QueueTotals]) -> QueueTotals:
    totals: dict[str, int] = {}
    states = dict.fromkeys(LaneDepth.__struct_fields__, 0)
    for queue in queues:
        for name, count in queue.totals.items():
            totals[name] = totals.get(name, 0) + count
        for depth in queue.depths.lanes.values():
            for state in states:
                states[state] += getattr(depth, state)
    oldest = [queue.depths.oldest_ready_at for queue in queues if queue.depths.oldest_ready_at is not None]
    depths = Depths(
        {OTHERS: LaneDepth(**states)},
        sum(queue.depths.dead for queue in queues),
        sum(queue.depths.archived for queue in queues),
        min(oldest, default=None),
    )
    return QueueTotals(OTHERS, depths, totals)


def family(metric: str, kind: str, text: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Yield a metric: its heading, and a line for each set of labels."""
    yield f"# HELP {metric} {text}"
    yield f"# TYPE {metric} {kind}"
    for labels, value in samples:
        yield f"{metric}{{{labels}}} {value}" if labels else f"{metric} {value}"


def histograms(metric: str, text: str, series: Iterable[tuple[str, Histogram]]) -> Iterator[str]:
    """Yield a metric that is a histogram for each set of labels."""
    yield f"# HELP {metric} {text}"
    yield f"# TYPE {metric} histogram"
    for labels, histogram in series:
        # A copy: whoever counts may go on meanwhile.
        counts, total = tuple(histogram.counts), 0
        before = f"{metric}_bucket{{{labels}," if labels else f"{metric}_bucket{{"
        for bound, count in zip(histogram.bounds, counts, strict=False):
            total += count
            yield f'{before}le="{bound:g}"}} {total}'
        total += counts[-1]
        after = f"{{{labels}}}" if labels else ""
        yield f'{before}le="+Inf"}} {total}'
        yield f"{metric}_sum{after} {round(histogram.sum, 9)}"
        yield f"{metric}_count{after} {total}"


def labelled(**labels: str) -> str:
    """Format labels as they stand in a line.

    >>> labelled(queue="orders", lane='a"b')
    'queue="orders",lane="a\\\\"b"'
    """
    return ",".join([f'{name}="{_escaped(text)}"' for name, text in labels.items()])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
