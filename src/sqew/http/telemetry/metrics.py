"""The metrics at `/metrics`: the server's own counts are current, those of the queues a few seconds old.

Counting the queues' messages and rendering them takes a thread beside the loop, and with 1,000 busy queues 0.25 to
0.4 s on a busy machine. So it is done every few seconds at most, however often the metrics are scraped.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from sqew import __version__
from sqew.core.broker import Broker
from sqew.errors import SqewError
from sqew.http.telemetry.counters import RequestCounters
from sqew.http.wire.connection import Connection
from sqew.model import DeliveryCounts, QueueTotals
from sqew.observe.database_metrics import database_lines
from sqew.observe.exposition import age_lines, family, grouped, labelled, queue_lines
from sqew.observe.labels import OTHERS, QueueLabels
from sqew.operations import CountDeliveries

_log = logging.getLogger("sqew.server")

REFRESH_S = 5.0
_SHARE = 20
"""The next survey of the queues begins after at least this many times as long as the last one took: so surveys take at
most a twentieth of a core.
"""
_WAIT_S = 2.0
"""Seconds that a scrape waits for newer counts of the queues if it can have the last ones."""
_LINES_AT_A_TIME = 500
_PAUSE_S = 0.0002


class Scraper:
    """A renderer of a server's metrics."""

    def __init__(self, broker: Broker, counters: RequestCounters, labels: QueueLabels) -> None:
        self._broker, self._counters, self._labels = broker, counters, labels
        self._queues = b""
        self._due_at = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self._others: dict[str, int] = {}
        self._carried: dict[str, int] = {}
        self._started = time.time()

    async def render(self, connections: Iterable[Connection]) -> bytes:
        """Return all metrics, in the format of Prometheus."""
        if time.monotonic() >= self._due_at and self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh())
        if self._refreshing is not None:
            await asyncio.wait({self._refreshing}, timeout=_WAIT_S if self._queues else None)
        own = [
            *self._counters.request_lines(),
            *self._counters.error_lines(),
            *_connection_lines(connections),
            *self._process_lines(),
        ]
        if (database := self._broker.database()) is not None:
            own += database_lines(database, self._broker.backlog)
        return "\n".join(own).encode() + b"\n" + self._queues

    async def _refresh(self) -> None:
        began = time.monotonic()
        took = 0.0  # What fails is tried again soon, however long it took to fail.
        try:
            found = await self._broker.survey()
            (deliveries,) = await self._broker.read(CountDeliveries())
            await self._broker.measure_database()
            self._labels.keep(names := {queue.queue for queue in found})
            self._counters.keep(names)
            queues = self._never_falling(grouped(found, self._labels))
            self._queues = await asyncio.to_thread(self._text, queues, deliveries, self._broker.now())
            took = time.monotonic() - began
        except SqewError as error:
            _log.warning("the queues could not be counted for metrics", extra={"fields": {"error": str(error)}})
        finally:
            self._refreshing = None
            self._due_at = time.monotonic() + max(REFRESH_S, _SHARE * took)

    def _never_falling(self, queues: list[QueueTotals]) -> list[QueueTotals]:
        """Return the counts, with those of deleted queues that had no label of their own: a counter must not fall."""
        if not queues or queues[-1].queue != OTHERS:
            return queues
        last = queues[-1]
        for name, count in self._others.items():
            fallen = count - last.totals.get(name, 0)
            if fallen > 0:
                self._carried[name] = self._carried.get(name, 0) + fallen
        self._others = last.totals
        totals = {
            name: last.totals.get(name, 0) + self._carried.get(name, 0) for name in {**last.totals, **self._carried}
        }
        return [*queues[:-1], QueueTotals(OTHERS, last.depths, totals)]

    def _text(self, queues: list[QueueTotals], deliveries: DeliveryCounts, now_ms: int) -> bytes:
        lines: list[str] = []
        counters = self._counters
        lots = (
            queue_lines(queues, now_ms),
            age_lines(queues),
            counters.duration_lines(),
            counters.background_lines(),
            _delivery_lines(deliveries),
        )
        for lot in lots:
            for line in lot:
                lines.append(line)
                if len(lines) % _LINES_AT_A_TIME == 0:
                    # Python would let the loop's thread wait for 5 ms at a time.
                    time.sleep(_PAUSE_S)
        lines.append("")
        return "\n".join(lines).encode()

    def _process_lines(self) -> Iterator[str]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield from family("sqew_info", "gauge", "The version that runs.", [(labelled(version=__version__), 1)])
        yield from family(
            "process_start_time_seconds", "gauge", "When the server started.", [("", round(self._started, 3))]
        )
        yield from family(
            "process_cpu_seconds_total",
            "counter",
            "Processor time spent.",
            [("", round(usage.ru_utime + usage.ru_stime, 3))],
        )
        if (resident := _resident_bytes()) is not None:
            yield from family("process_resident_memory_bytes", "gauge", "Memory in use.", [("", resident)])


def _delivery_lines(counts: DeliveryCounts) -> Iterator[str]:
    yield from family(
        "queue_deliveries",
        "gauge",
        "Events that wait to be posted to endpoints, and those that were given up and are still there.",
        [(labelled(state="waiting"), counts.waiting), (labelled(state="exhausted"), counts.exhausted)],
    )


def _connection_lines(connections: Iterable[Connection]) -> Iterator[str]:
    found = list(connections)
    yield from family(
        "http_connections_active",
        "gauge",
        "Requests in flight, this one included.",
        [("", sum(connection.is_busy for connection in found))],
    )
    yield from family("http_connections_open", "gauge", "Connections, idle ones included.", [("", len(found))])
    yield from family(
        "http_buffered_bytes",
        "gauge",
        "What is held of the bodies of large requests.",
        [("", sum(connection.buffered_bytes for connection in found))],
    )


def _resident_bytes() -> int | None:
    """Return the memory that the process has, in bytes; None where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
