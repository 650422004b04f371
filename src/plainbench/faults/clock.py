"""A time of day that jumps."""

from __future__ import annotations

import time

from plainbench.drivers.base import Place
from plainbench.run.clock import EPOCH_MS
from sqew.clock import Clock


def clock_of(place: Place) -> Clock:
    """Return the clock of an engine: its wall clock jumps as the configuration says, while the steady one goes on.

    All drivers of one process share it, as they would an engine.
    """
    if not place.config.faults.clock_jump:
        return place.time.clock()
    clocks = place.time.jumping
    if place.process not in clocks:
        wall = _JumpingWall(place)
        clocks[place.process] = Clock(wall.now_ns, wall.steady_ns) if place.time.is_virtual else Clock(wall.now_ns)
    return clocks[place.process]


class _JumpingWall:
    """The wall clock of a machine that is set by hand, or corrected by a time server."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._recorded: set[int] = set()

    def steady_ns(self) -> int:
        return EPOCH_MS * 1_000_000 + self._place.time.now_us() * 1000

    def now_ns(self) -> int:
        true_ns = self.steady_ns() if self._place.time.is_virtual else time.time_ns()
        return true_ns + round(self._jumped_s() * 1e9)

    def _jumped_s(self) -> float:
        now_s, jumped_s = self._place.time.now_us() / 1e6, 0.0
        for index, jump in enumerate(self._place.config.faults.clock_jump):
            if now_s >= jump.at_s and self._place.allows("clock_jump", index):
                jumped_s += jump.by_s
                if index not in self._recorded:
                    self._recorded.add(index)
                    self._place.note("clock_jump", "clock", "clock_jump", index, jump.by_s * 1000)
        return jumped_s
