"""Counters of a server's own work: requests, failures, transactions.

Every request pays for this, so counting is a few dictionary lookups and a bisect: 0.4 µs for a request, and for its
operation 0.2 to 0.3 µs among others in a transaction, 1 µs alone. Keeping responses to count 256 at once, as the meter
does with facts, was measured and costs as much. They are rendered when they are scraped.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from sqew.errors import SqewError, StoreError
from sqew.http.telemetry.access_log import AccessLog
from sqew.http.telemetry.queue_errors import QueueErrors
from sqew.model import Delivered, Settled
from sqew.observe.exposition import family, histograms, labelled
from sqew.observe.histogram import Histogram, merged
from sqew.observe.labels import BY_ID, OTHERS, QueueLabels
from sqew.observe.tracing import Tracing
from sqew.operations import Ack, Extend, Nack, Operation, Receive, Send
from sqew.settings import Settings

if TYPE_CHECKING:
    from sqew.http.wire.exchange import Request, Response

_log = logging.getLogger("sqew.server")

_REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
_STORE_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_DELIVERY_S = (0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_MESSAGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

_LOG_EVERY_S, _REASONS = 10.0, 100
"""Seconds after which the log repeats a reason of the store to refuse, and most reasons that are told apart."""

UNKNOWN_PATH = "(unknown)"
"""Label for all paths without a route."""
_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
_DURATIONS: dict[type[Operation[Any]], tuple[str, str]] = {
    Send: ("queue_message_send_duration_seconds", "How long the transactions took that sent messages."),
    Receive: ("queue_message_receive_duration_seconds", "How long the transactions took that received messages."),
    Ack: ("queue_message_delete_duration_seconds", "How long the transactions took that acknowledged messages."),
}
_SETTLING = frozenset({Ack, Nack, Extend})


class RequestCounters:
    """Counts since the server's start. One thread counts; any may read."""

    def __init__(self, settings: Settings, labels: QueueLabels, tracing: Tracing | None = None) -> None:
        self.tracing = tracing
        self._labels = labels
        self._access = AccessLog(settings)
        self._logged_from, self._slow_s = self._access.logged_from, self._access.slow_s
        self._slow_transaction_s = settings.slow_ms / 1000
        # By method, identity of the route, and status.
        self._requests: dict[tuple[bytes, int, int], Histogram] = {}
        self._described: dict[tuple[bytes, int, int], tuple[str, str]] = {}
        self._errors: Counter[str] = Counter()
        self._of_queues = QueueErrors(labels)
        self._log_again_at: dict[str, float] = {}
        self._transactions = Histogram(_STORE_S)
        self._flushes = Histogram(_MESSAGES)
        self._operations = Histogram(_MESSAGES)
        # Under the queue's name as the operation has it; and under its label, for those that share one.
        self._timed: dict[type[Operation[Any]], dict[str | None, Histogram]] = {kind: {} for kind in _DURATIONS}
        self._shared: dict[tuple[type[Operation[Any]], str], Histogram] = {}
        self._deliveries = {"success": Histogram(_DELIVERY_S), "failure": Histogram(_DELIVERY_S)}
        self._exhausted = 0
        self._fires = {"success": 0, "failure": 0}

    # Counting

    def answered(self, request: Request, status: int, size: int) -> None:
        """Count a request that was answered, with a body of that size."""
        seconds = monotonic() - request.started
        histogram = self._histogram(request, status)
        histogram.counts[bisect_left(_REQUEST_S, seconds)] += 1
        histogram.sum += seconds
        if status >= self._logged_from or seconds >= self._slow_s:
            self._access.note(request, status, seconds, size)
        if request.trace is not None:
            _end_trace(request, status)

    def answered_all(self, requests: Sequence[Request], responses: Sequence[Response]) -> None:
        """Count requests to one route that were handled together. None of them is traced."""
        now = monotonic()
        histograms: dict[int, Histogram] = {}
        for request, response in zip(requests, responses, strict=True):
            seconds, status = now - request.started, response.status
            histogram = histograms.get(status)
            if histogram is None:
                histogram = histograms[status] = self._histogram(request, status)
            histogram.counts[bisect_left(_REQUEST_S, seconds)] += 1
            histogram.sum += seconds
            if status >= self._logged_from or seconds >= self._slow_s:
                self._access.note(request, status, seconds, len(response.body))

    @property
    def notes_all(self) -> bool:
        """True if even a quick response that is no refusal leaves more behind than a count."""
        return self._logged_from == 0 or self.tracing is not None

    def failed(self, error: SqewError, queue: str | None = None) -> None:
        """Count the refusal of a request, or of one message of a batch. ``queue``: the queue it names, if any."""
        self._errors[error.code] += 1
        self._of_queues.refused(queue, error)
        if isinstance(error, StoreError):
            self._note_why(error)

    def _note_why(self, error: StoreError) -> None:
        """Log why the store refused, which the client is not told, once in a while."""
        now, why = monotonic(), str(error)
        if why != error.public_text and now >= self._log_again_at.get(why, 0.0):
            if len(self._log_again_at) >= _REASONS:
                self._log_again_at.clear()
            self._log_again_at[why] = now + _LOG_EVERY_S
            _log.warning("the store refused", extra={"fields": {"error": why, "code": error.code}})

    def observe_batch(self, operations: Sequence[Operation[Any]], results: Sequence[Any], seconds: float) -> None:
        """Count a transaction that is over."""
        bucket = bisect_left(_STORE_S, seconds)
        self._transactions.counts[bucket] += 1
        self._transactions.sum += seconds
        self._operations.counts[bisect_left(_MESSAGES, len(operations))] += 1
        self._operations.sum += len(operations)
        timed, sent = self._timed, 0
        operation: Any  # told apart by `is`, which costs a third of isinstance
        for operation, result in zip(operations, results, strict=True):
            kind = type(operation)
            if kind is Send:
                sent += len(operation.messages)
            elif kind in _SETTLING and type(result) is list:
                for settled in result:
                    if type(settled) is not Settled:
                        self._of_queues.answered(operation, settled)
                        self.failed(settled)
            if isinstance(result, SqewError):
                self._of_queues.answered(operation, result)
            if kind in timed:
                histogram = timed[kind].get(operation.queue)
                if histogram is None:
                    histogram = self._new_duration(kind, operation.queue, result)
                histogram.counts[bucket] += 1
                histogram.sum += seconds
        if sent:
            self._flushes.counts[bisect_left(_MESSAGES, sent)] += 1
            self._flushes.sum += sent
        if seconds >= self._slow_transaction_s:
            _note_slow(operations, seconds)
        if self.tracing is not None:
            self.tracing.observe_batch(operations, seconds)

    def delivery(self, is_delivered: bool, seconds: float, ended: Delivered) -> None:
        """Count a post to an endpoint."""
        histogram = self._deliveries["success" if is_delivered else "failure"]
        histogram.counts[bisect_left(_DELIVERY_S, seconds)] += 1
        histogram.sum += seconds
        self._exhausted += ended == "exhausted"

    def fire(self, has_fired: bool) -> None:
        """Count a schedule that was due."""
        self._fires["success" if has_fired else "failure"] += 1

    def _histogram(self, request: Request, status: int) -> Histogram:
        key = (request.method, id(request.route), status)
        histogram = self._requests.get(key)
        if histogram is None:
            method, path = request.method, UNKNOWN_PATH if request.route is None else request.route.pattern
            self._described[key] = (method.decode() if method in _METHODS else "OTHER", path)
            histogram = self._requests[key] = Histogram(_REQUEST_S)
        return histogram

    def _new_duration(self, kind: type[Operation[Any]], queue: str | None, result: Any) -> Histogram:
        if isinstance(result, Exception):
            # Perhaps there is no such queue. Names that somebody made up are not remembered.
            return Histogram(_STORE_S)
        label = BY_ID if queue is None else self._labels.of(queue)
        histogram = self._shared.setdefault((kind, label), Histogram(_STORE_S))
        if label is not OTHERS:
            self._timed[kind][queue] = histogram
        return histogram

    def keep(self, queues: set[str]) -> None:
        """Forget the counts of queues that are gone."""
        self._of_queues.keep(queues)
        for kind, timed in self._timed.items():
            for queue in [queue for queue in timed if queue is not None and queue not in queues]:
                del timed[queue]
                self._shared.pop((kind, queue or ""), None)

    # Telling

    def request_lines(self) -> Iterator[str]:
        """Yield requests, failures and transactions as metrics."""
        known = list(self._requests.items())
        totals: Counter[tuple[str, str, int]] = Counter()
        by_route: dict[tuple[str, str], list[Histogram]] = {}
        for key, histogram in known:
            method, path = self._described[key]
            totals[method, path, key[2]] += sum(histogram.counts)
            by_route.setdefault((method, path), []).append(histogram)
        yield from family(
            "http_requests_total",
            "counter",
            "Requests answered.",
            (
                (labelled(method=method, path=path, status=str(status)), count)
                for (method, path, status), count in sorted(totals.items())
            ),
        )
        yield from histograms(
            "http_request_duration_seconds",
            "How long requests took from their head to their answer, the time they chose to wait included.",
            (
                (labelled(method=method, path=path), merged(found, _REQUEST_S))
                for (method, path), found in sorted(by_route.items())
            ),
        )
        yield from family(
            "http_errors_total",
            "counter",
            "Refusals by their code, those of single messages in a batch included.",
            ((labelled(code=code), count) for code, count in sorted(self._errors.items())),
        )
        yield from histograms(
            "db_transaction_duration_seconds", "How long transactions took.", [("", self._transactions)]
        )
        yield from histograms(
            "db_transaction_operations", "Operations that were carried out together.", [("", self._operations)]
        )
        yield from histograms(
            "queue_coalescer_flush_batch_size", "Messages that were sent in one transaction.", [("", self._flushes)]
        )

    def error_lines(self) -> Iterator[str]:
        """Return refusals by queue, as metrics."""
        return self._of_queues.lines()

    def background_lines(self) -> Iterator[str]:
        """Yield deliveries and fires as metrics."""
        yield from family(
            "queue_delivery_attempts_total",
            "counter",
            "Events posted to endpoints.",
            ((labelled(outcome=outcome), sum(found.counts)) for outcome, found in self._deliveries.items()),
        )
        yield from histograms(
            "queue_delivery_attempt_duration_seconds",
            "How long endpoints took.",
            ((labelled(outcome=outcome), found) for outcome, found in self._deliveries.items()),
        )
        yield from family("queue_delivery_exhausted_total", "counter", "Deliveries given up.", [("", self._exhausted)])
        yield from family(
            "queue_schedule_fires_total",
            "counter",
            "Schedules that were due.",
            ((labelled(outcome=outcome), count) for outcome, count in self._fires.items()),
        )

    def duration_lines(self) -> Iterator[str]:
        """Yield the durations of operations by queue, as metrics."""
        shared = sorted(self._shared.items(), key=lambda entry: entry[0][1])
        for kind, (metric, text) in _DURATIONS.items():
            yield from histograms(
                metric, text, ((labelled(queue=label), histogram) for (of, label), histogram in shared if of is kind)
            )


def _end_trace(request: Request, status: int) -> None:
    route = request.route
    request.trace.end(  # type: ignore[union-attr]  # the caller has looked
        method=request.method.decode("latin-1"),
        route=None if route is None else route.pattern,
        path=request.path.decode("latin-1"),
        status=status,
        request_id=request.id.decode("latin-1"),
        rows=request.rows,
    )


def _note_slow(operations: Sequence[Operation[Any]], seconds: float) -> None:
    kinds = Counter(type(operation).__name__ for operation in operations)
    _log.warning("slow tick", extra={"fields": {"duration_ms": round(seconds * 1000, 1), "operations": dict(kinds)}})
