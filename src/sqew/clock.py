"""The clock for leases and delays: epoch milliseconds, which run backwards only if the wall clock was far ahead."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from msgspec import Struct

SMALLEST_CORRECTION_MS = 5_000
"""Milliseconds: a wall clock set back by less is not followed; time stays ahead, as if it had gained a little."""

_CORRECTION_NS = SMALLEST_CORRECTION_MS * 1_000_000
_LOOKS = 3
_MOST_JUMPS = 8
_AS_FAR_MS = 60_000
"""The largest tolerance for taking two jumps as a jump and its return, which is otherwise a tenth of the jump.

The wall clock may have been adjusted a little in between.
"""


class Correction(Struct, frozen=True):
    """A correction: the wall clock was set back, and time has followed it."""

    ahead_ms: int
    """The milliseconds that time was ahead."""
    since_ms: int | None
    """The time it showed when it got ahead; None: it was ahead from the start, or was right and is slow now."""


class Clock:
    """The wall clock, made monotonic as far as this does no harm.

    When the wall clock jumps forward, time follows it: a machine may boot in 1970. When it is set back by a little,
    time goes on from where it was at the pace of the monotonic clock, so that it does not run backwards: leases still
    run out and delays still end. When it is set back by more, time follows that as well, and `correction` says so:
    otherwise all that is stored from then on would be dated in the future, for as long as the process lives.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        # How far the wall is ahead of the steady clock, as far as it is followed.
        self._offset_ns = wall_ns() - steady_ns()
        self._least_ns = self._offset_ns - _CORRECTION_NS
        # Jumps that no other has taken back: what time showed then, and how far it went (back: less than 0).
        self._jumps: list[tuple[int, int]] = []
        self.correction: Correction | None = None
        """The last correction not handled yet: dates stored while the clock was ahead lie in the future."""

    def now_us(self) -> int:
        """Return epoch microseconds."""
        steady = self._steady_ns()
        offset = self._wall_ns() - steady
        if offset > self._offset_ns or offset < self._least_ns:
            self._follow()
        return (steady + self._offset_ns) // 1000

    def now(self) -> int:
        """Return epoch milliseconds."""
        # now_us again, spelled out: every operation asks for the time.
        steady = self._steady_ns()
        offset = self._wall_ns() - steady
        if offset > self._offset_ns or offset < self._least_ns:
            self._follow()
        return (steady + self._offset_ns) // 1_000_000

    def _follow(self) -> None:
        # The two clocks are not read at once: where the process was stopped in between, the wall seems to have jumped.
        offset = min(self._wall_ns() - self._steady_ns() for _ in range(_LOOKS))
        gained = offset - self._offset_ns
        if -_CORRECTION_NS <= gained <= 0:
            return
        shown_ms = (self._steady_ns() + offset) // 1_000_000
        if abs(gained) > _CORRECTION_NS:
            gained_ms = gained // 1_000_000
            began_ms = self._take_back(gained_ms)
            if began_ms is None:
                self._jumps = [*self._jumps[-_MOST_JUMPS:], (shown_ms, gained_ms)]
            if gained < 0:
                self.postpone(Correction(-gained_ms, began_ms))
        self._offset_ns, self._least_ns = offset, offset - _CORRECTION_NS

    def _take_back(self, ms: int) -> int | None:
        """Forget the last jump of about the same size the other way; return the time after it (None: there is none).

        A clock that was slow for a moment, and is right again, was not set ahead. If it is slow once more, that cancels
        no jump: messages would expire too early.
        """
        far_ms = max(SMALLEST_CORRECTION_MS, min(_AS_FAR_MS, abs(ms) // 10))
        jumps = self._jumps
        for place in reversed(range(len(jumps))):
            shown_ms, jump_ms = jumps[place]
            if jump_ms * ms < 0 and abs(jump_ms + ms) < far_ms:
                self._jumps = jumps[:place] + jumps[place + 1 :]
                return shown_ms
        return None

    def postpone(self, correction: Correction) -> None:
        """Remember a correction to be handled later, together with an earlier one that was not handled."""
        if (other := self.correction) is not None:
            both = (correction.since_ms, other.since_ms)
            since_ms = None if None in both else min(ms for ms in both if ms is not None)
            correction = Correction(max(correction.ahead_ms, other.ahead_ms), since_ms)
        self.correction = correction


class ManualClock(Clock):
    """A clock that moves only when advanced: for tests and for virtual time in the lab."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self.wall_ms = start_ms
        super().__init__(wall_ns=lambda: self.wall_ms * 1_000_000, steady_ns=lambda: 0)

    def advance(self, ms: int) -> None:
        """Move the wall clock: forwards, or backwards (which ``now`` will not follow if it is little)."""
        self.wall_ms += ms


def timestamp(ms: int) -> str:
    """Format epoch milliseconds in ISO 8601, in UTC.

    >>> timestamp(1_700_000_000_042)
    '2023-11-14T22:13:20.042Z'
    """
    seconds, rest = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest:03}Z"


@functools.lru_cache(256)
def _second(seconds: int) -> str:
    """Format a second. Most are close to now, and many messages share one: the cache takes a fifth of the time."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
