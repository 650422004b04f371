"""Upkeep: sweeping what has expired, and correcting dates that a wrong clock gave."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from sqew.model.operation import Operation


class Corrected(Struct, frozen=True):
    """Counts of the dates in the future that were corrected."""

    ahead_ms: int
    """The milliseconds that the newest date was ahead."""
    messages: int
    others: int
    """The dates of claims' leases, deliveries, keys and the like."""


class Swept(Struct, frozen=True):
    """The result of one step of upkeep, and the time the next one is due (None: nothing is waiting)."""

    expired: int = 0
    dead: int = 0
    keys: int = 0
    archived: int = 0
    removed: int = 0
    deliveries: int = 0
    subscriptions: int = 0
    attempts: int = 0
    next_at: int | None = None
    staged: int = 0
    claimed: int = 0
    redated: int = 0

    @property
    def count(self) -> int:
        messages = self.expired + self.dead + self.archived + self.removed + self.staged + self.claimed
        return messages + self.keys + self.deliveries + self.subscriptions + self.attempts + self.redated


class Sweep(Operation[Swept], frozen=True):
    """Run one small step of upkeep: at most ``limit`` rows of each kind."""

    polls: ClassVar[bool] = True
    limit: int = 200


class SweepDue(Operation[bool], frozen=True):
    """Check whether there is anything to sweep."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class LookAhead(Operation[int], frozen=True):
    """Return the milliseconds that the newest date in the store lies in the future; 0: not, or only a little."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class ClockIsSlow(Operation[bool], frozen=True):
    """Check whether the clock's time is before the creation of the store, or of the oldest of its queues."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class CorrectDates(Operation[Corrected], frozen=True):
    """Correct dates that lie in the future: when they were stored, the clock was ahead by up to ``ahead_ms``.

    ``is_certain``: the clock was seen to come back from there; otherwise it may as well be slow now. ``since``: the
    time it showed when it got ahead, if that was seen.
    """

    polls: ClassVar[bool] = True
    ahead_ms: int = 0
    is_certain: bool = False
    since: int | None = None
