"""Time for leases and delays: epoch milliseconds that never run backwards within a process."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """The wall clock, made monotonic.

    When the wall clock jumps forward, time follows it. When it jumps back, time goes on from where it was at the pace
    of the monotonic clock: leases still run out and delays still end.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        # How far the wall is ahead of the steady clock; only ever grows.
        self._offset_ns = wall_ns() - steady_ns()

    def now_us(self) -> int:
        """Epoch microseconds."""
        steady = self._steady_ns()
        offset = self._wall_ns() - steady
        if offset > self._offset_ns:
            self._offset_ns = offset
        return (steady + self._offset_ns) // 1000

    def now(self) -> int:
        """Epoch milliseconds."""
        # now_us again, spelled out: every operation asks for the time.
        steady = self._steady_ns()
        offset = self._wall_ns() - steady
        if offset > self._offset_ns:
            self._offset_ns = offset
        return (steady + self._offset_ns) // 1_000_000


class ManualClock(Clock):
    """A clock that moves only when told to: for tests and for virtual time in the lab."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self.wall_ms = start_ms
        super().__init__(wall_ns=lambda: self.wall_ms * 1_000_000, steady_ns=lambda: 0)

    def advance(self, ms: int) -> None:
        """Move the wall clock: forwards, or backwards (which ``now`` will not follow)."""
        self.wall_ms += ms


def timestamp(ms: int) -> str:
    """Epoch milliseconds in ISO 8601, in UTC.

    >>> timestamp(1_700_000_000_042)
    '2023-11-14T22:13:20.042Z'
    """
    seconds, rest = divmod(ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03}Z"
