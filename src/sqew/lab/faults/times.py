"""A time of day that jumps."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqew.clock import Clock
from sqew.lab.config.model import ClockJump
from sqew.lab.drivers.base import Place
from sqew.lab.timing import EPOCH_MS, Time


def clock_of(place: Place) -> Clock:
    """The clock of an engine: as the configuration says, its wall clock jumps while the steady one goes on."""
    jumps = place.config.faults.clock_jump
    if not jumps:
        return place.time.clock()
    if place.time.is_virtual:

        def virtual_ns() -> int:
            return EPOCH_MS * 1_000_000 + place.time.now_us() * 1000

        return Clock(lambda: virtual_ns() + _jumped_ns(jumps, place.time), virtual_ns)
    return Clock(lambda: time.time_ns() + _jumped_ns(jumps, place.time))


def _jumped_ns(jumps: Sequence[ClockJump], time: Time) -> int:
    now_s = time.now_us() / 1e6
    return round(sum(jump.by_s for jump in jumps if now_s >= jump.at_s) * 1e9)
