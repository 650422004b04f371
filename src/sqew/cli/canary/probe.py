"""A canary: a queue that sends itself messages, and measures how long each takes to come back."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

from msgspec import Struct

from sqew.errors import BadValue, QueueNotFound, SqewError
from sqew.model import Message, QueueInfo
from sqew.observe.exposition import family, histograms, labelled
from sqew.observe.histogram import Histogram

QUEUE = "sqew-canary"
LEASE_SECONDS = 60
LIFETIME_MS = 600_000
"""Milliseconds until messages that a dead canary left behind expire."""
POLICY = {"max_attempts": None, "dead_letter": None, "ttl_ms": LIFETIME_MS}
"""The policy by which a canary's queue is told from any other."""

Result = Literal["ok", "late", "lost", "failed"]
RESULTS: tuple[Result, ...] = ("ok", "late", "lost", "failed")
STEPS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The buckets of the histograms, in seconds."""


_LATENCIES_KEPT = 10_000


class CanaryQueues(Protocol):
    """The queues that a canary uses: a `sqew.Queue`, or a `sqew.Client`."""

    def create(self, name: str, *, exist_ok: bool = False, **policy: Any) -> QueueInfo: ...

    def enqueue(self, queue: str, body: Any, /) -> int: ...

    def claim(self, queue: str, /, *, lease_seconds: float, wait_seconds: float) -> Message | None: ...

    def ack(self, message: Message, /) -> None: ...

    def nack(self, message: Message, /, *, delay_seconds: float | None = None, reason: str = "") -> None: ...


class Round(Struct, frozen=True):
    """A message's way there and back. ``latency_ms`` is from before the send until it was received."""

    number: int
    result: Result
    send_ms: float | None = None
    latency_ms: float | None = None
    ack_ms: float | None = None
    error: str = ""


class Canary:
    """A probe that sends itself one message at a time."""

    def __init__(
        self, queues: CanaryQueues, queue: str = QUEUE, *, max_ms: int | None = None, timeout_ms: int = 10_000
    ) -> None:
        self._queues, self._queue = queues, queue
        self._max_ms, self._timeout_s = max_ms, max(timeout_ms, max_ms or 0) / 1000
        self._number = 0
        # So that what an earlier canary left behind is not taken for a message of this one.
        self._run = secrets.token_hex(8)
        self._is_ready = False

    def sing(self) -> Round:
        """Send one message, wait until it comes back, and ack it."""
        self._number += 1
        try:
            return self._sing()
        except SqewError as error:
            if isinstance(error, QueueNotFound):
                self._is_ready = False
            return Round(self._number, "failed", error=str(error))

    def _make_ready(self) -> None:
        """Create the canary's queue. Refuse a queue made for something else: it may hold messages that others need."""
        made = self._queues.create(self._queue, exist_ok=True, **POLICY)
        if any(getattr(made.policy, field) != value for field, value in POLICY.items()):
            raise BadValue(f"Queue '{self._queue}' was not made for a canary. Give the canary a queue of its own.")
        self._is_ready = True

    def _sing(self) -> Round:
        if not self._is_ready:
            self._make_ready()
        began = time.perf_counter()
        self._queues.enqueue(self._queue, {"run": self._run, "number": self._number})
        sent = time.perf_counter()
        message = self._wait(began + self._timeout_s)
        received = time.perf_counter()
        if message is None:
            return Round(self._number, "lost", _ms(began, sent))
        self._queues.ack(message)
        acked = time.perf_counter()
        latency_ms = _ms(began, received)
        is_late = latency_ms > (self._timeout_s * 1000 if self._max_ms is None else self._max_ms)
        return Round(self._number, "late" if is_late else "ok", _ms(began, sent), latency_ms, _ms(received, acked))

    def _wait(self, deadline: float) -> Message | None:
        """Wait for this round's message. Ack other messages of a canary: their round or their run is over."""
        while True:
            left_s = max(deadline - time.perf_counter(), 0)
            message = self._queues.claim(self._queue, lease_seconds=LEASE_SECONDS, wait_seconds=left_s)
            if message is None:
                return None
            if message.value == {"run": self._run, "number": self._number}:
                return message
            if not _is_canarys(message):
                self._queues.nack(message, delay_seconds=0, reason="it was sent to a canary")
                raise BadValue(
                    f"Queue '{self._queue}' holds messages that are not a canary's. Give the canary a queue of its own."
                )
            self._queues.ack(message)


def _is_canarys(message: Message) -> bool:
    match message.value:
        case {"run": str(), "number": int(), **others}:
            return not others
        case _:
            return False


def _ms(start: float, end: float) -> float:
    return round((end - start) * 1000, 3)


def rounds(
    canary: Canary, interval_s: float, count: int | None, wait: Callable[[float], object] = time.sleep
) -> Iterator[Round]:
    """Yield rounds at an interval, from the start of one to that of the next; ``count`` of them, or without end."""
    next_at = time.monotonic()
    while count is None or count > 0:
        yield canary.sing()
        if count is not None:
            count -= 1
        next_at = max(next_at + interval_s, time.monotonic())
        if count != 0:
            wait(max(next_at - time.monotonic(), 0))


def _rank(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


class CanaryCounters:
    """The results of a canary so far, for Prometheus."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results = dict.fromkeys(RESULTS, 0)
        self._histograms = {name: Histogram(STEPS_S) for name in ("latency", "send", "ack")}
        self._last_ok_at = 0.0
        # Of a canary that sings for weeks, only the last.
        self._latencies: deque[float] = deque(maxlen=_LATENCIES_KEPT)

    def add(self, sung: Round) -> None:
        """Count a round."""
        with self._lock:
            self._results[sung.result] += 1
            for name, ms in (("latency", sung.latency_ms), ("send", sung.send_ms), ("ack", sung.ack_ms)):
                if ms is not None:
                    self._histograms[name].add(ms / 1000)
            if sung.latency_ms is not None:
                self._latencies.append(sung.latency_ms)
            if sung.result == "ok":
                self._last_ok_at = time.time()

    @property
    def is_good(self) -> bool:
        """True if all messages came back in time."""
        with self._lock:
            return all(count == 0 for result, count in self._results.items() if result != "ok")

    def summary(self) -> str:
        """Return a sentence with the number of messages by result, and their latencies."""
        with self._lock:
            results, latencies = dict(self._results), sorted(self._latencies)
        sent = sum(results.values())
        summary = ", ".join(f"{count} {result}" for result, count in results.items() if count) or "none"
        took = f"; latency p50 {_rank(latencies, 0.5):.3g} ms, highest {latencies[-1]:.3g} ms" if latencies else ""
        return f"{sent} sent: {summary}{took}."

    def prometheus(self) -> str:
        """Return the metrics in Prometheus' text format."""
        with self._lock:
            return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from family(
            "sqew_canary_rounds_total",
            "counter",
            "Messages that the canary sent itself, by what became of them.",
            ((labelled(result=result), count) for result, count in self._results.items()),
        )
        for name, text in (
            ("latency", "From before the send until the message was received."),
            ("send", "How long a send takes."),
            ("ack", "How long an ack takes."),
        ):
            yield from histograms(f"sqew_canary_{name}_seconds", text, [("", self._histograms[name])])
        yield from family(
            "sqew_canary_last_ok_timestamp_seconds",
            "gauge",
            "When a message last came back in time; 0: not yet.",
            [("", round(self._last_ok_at, 3))],
        )
