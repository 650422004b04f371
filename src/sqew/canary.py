"""A canary: a queue that sends itself messages, and tells how long each took to come back."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

from msgspec import Struct

from sqew.errors import SqewError
from sqew.model import Message

QUEUE = "sqew-canary"
LEASE_SECONDS = 60
LIFETIME_MS = 600_000
"""What a canary that died left behind is gone after this."""

Result = Literal["ok", "late", "lost", "failed"]
RESULTS: tuple[Result, ...] = ("ok", "late", "lost", "failed")
STEPS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The steps of the histograms."""


class Queues(Protocol):
    """What a canary sings in: a `sqew.Queue`, or a `sqew.Client`."""

    def create(self, name: str, *, exist_ok: bool = False, **policy: Any) -> object: ...

    def enqueue(self, queue: str, body: Any, /) -> int: ...

    def claim(self, queue: str, /, *, lease_seconds: float, wait_seconds: float) -> Message | None: ...

    def ack(self, message: Message, /) -> None: ...


class Round(Struct, frozen=True):
    """One message's way there and back. ``latency_ms`` is from before the send until it was received."""

    number: int
    result: Result
    send_ms: float | None = None
    latency_ms: float | None = None
    ack_ms: float | None = None
    error: str = ""


class Canary:
    """Sends itself a message at a time."""

    def __init__(
        self, queues: Queues, queue: str = QUEUE, *, max_ms: int | None = None, timeout_ms: int = 10_000
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
            return Round(self._number, "failed", error=str(error))

    def _sing(self) -> Round:
        if not self._is_ready:
            self._queues.create(self._queue, exist_ok=True, max_attempts=None, dead_letter=None, ttl_ms=LIFETIME_MS)
            self._is_ready = True
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
        is_late = self._max_ms is not None and latency_ms > self._max_ms
        return Round(self._number, "late" if is_late else "ok", _ms(began, sent), latency_ms, _ms(received, acked))

    def _wait(self, deadline: float) -> Message | None:
        """This round's message. Any other was given up, by this canary or by an earlier one."""
        while True:
            left_s = max(deadline - time.perf_counter(), 0)
            message = self._queues.claim(self._queue, lease_seconds=LEASE_SECONDS, wait_seconds=left_s)
            if message is None:
                return None
            if message.value == {"run": self._run, "number": self._number}:
                return message
            self._queues.ack(message)


def _ms(start: float, end: float) -> float:
    return round((end - start) * 1000, 3)


def rounds(
    canary: Canary, interval_s: float, count: int | None, wait: Callable[[float], object] = time.sleep
) -> Iterator[Round]:
    """Rounds at an interval, from the start of one to that of the next; ``count`` of them, or without end."""
    next_at = time.monotonic()
    while count is None or count > 0:
        yield canary.sing()
        if count is not None:
            count -= 1
        next_at = max(next_at + interval_s, time.monotonic())
        if count != 0:
            wait(max(next_at - time.monotonic(), 0))


class Histogram:
    """Counts of durations by steps."""

    def __init__(self) -> None:
        self._counts = [0] * (len(STEPS_S) + 1)
        self._sum_s = 0.0

    def add(self, ms: float) -> None:
        seconds = ms / 1000
        self._counts[next((place for place, step in enumerate(STEPS_S) if seconds <= step), len(STEPS_S))] += 1
        self._sum_s += seconds

    def lines(self, name: str) -> Iterator[str]:
        so_far = 0
        for step, count in zip((*STEPS_S, "+Inf"), self._counts, strict=True):
            so_far += count
            yield f'{name}_bucket{{le="{step}"}} {so_far}'
        yield f"{name}_sum {self._sum_s:.6f}"
        yield f"{name}_count {so_far}"


class Figures:
    """What a canary has seen so far, for Prometheus."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results = dict.fromkeys(RESULTS, 0)
        self._histograms = {"latency": Histogram(), "send": Histogram(), "ack": Histogram()}
        self._last_ok_at = 0.0

    def add(self, round: Round) -> None:
        """Count a round."""
        with self._lock:
            self._results[round.result] += 1
            for name, ms in (("latency", round.latency_ms), ("send", round.send_ms), ("ack", round.ack_ms)):
                if ms is not None:
                    self._histograms[name].add(ms)
            if round.result == "ok":
                self._last_ok_at = time.time()

    @property
    def is_good(self) -> bool:
        """Whether all messages came back in time."""
        with self._lock:
            return all(count == 0 for result, count in self._results.items() if result != "ok")

    def prometheus(self) -> str:
        """The metrics in Prometheus' text format."""
        with self._lock:
            return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield "# HELP sqew_canary_rounds_total Messages that the canary sent itself, by what became of them."
        yield "# TYPE sqew_canary_rounds_total counter"
        for result, count in self._results.items():
            yield f'sqew_canary_rounds_total{{result="{result}"}} {count}'
        for name, text in (
            ("latency", "From before the send until the message was received."),
            ("send", "How long a send takes."),
            ("ack", "How long an ack takes."),
        ):
            yield f"# HELP sqew_canary_{name}_seconds {text}"
            yield f"# TYPE sqew_canary_{name}_seconds histogram"
            yield from self._histograms[name].lines(f"sqew_canary_{name}_seconds")
        yield "# HELP sqew_canary_last_ok_timestamp_seconds When a message last came back in time; 0: not yet."
        yield "# TYPE sqew_canary_last_ok_timestamp_seconds gauge"
        yield f"sqew_canary_last_ok_timestamp_seconds {self._last_ok_at:.3f}"
