"""A throttle for senders, by a queue's rate limit."""

from __future__ import annotations

import math


class Throttle:
    """A token bucket: one second's worth of burst, refilled steadily."""

    __slots__ = ("_at", "_tokens")

    def __init__(self) -> None:
        self._tokens = math.inf
        self._at = 0

    def take(self, count: int, rate: float, now: int, *, apart: bool = False) -> int:
        """Take ``count`` tokens, or return the milliseconds until they are there. ``apart``: they are no batch."""
        burst = max(rate, 1.0)
        # (Time may have been set back.)
        tokens = min(burst, self._tokens + max(now - self._at, 0) * rate / 1000)
        # A batch larger than the burst goes through when the bucket is full, and is paid for afterwards.
        needed = count if apart else min(count, burst)
        wait_ms = math.ceil((needed - tokens) * 1000 / rate) if tokens < needed else 0
        self._tokens = tokens if wait_ms else tokens - count
        self._at = now
        return wait_ms

    def give_back(self, count: int) -> None:
        """Put back tokens whose operation did not take place."""
        self._tokens += count
