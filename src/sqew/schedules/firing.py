"""Instants at which a schedule fires, from its local times, whatever the clock does in between.

When a clock is set forward, some local times never come; when it is set back, some come twice. A rule of fixed times
(``30 2 * * *``) fires once for each of them: right after the gap, or the first time round. A rule that repeats
(``*/5 * * * *``) follows the time that passes. For as long as the clock was moved by, it looks at two clocks, the old
and the new: set forward, it fires when either shows a time of the rule, so that none is skipped; set back, only when
both do, so that none fires twice.
"""

from __future__ import annotations

from typing import Protocol

from sqew.schedules.zones import DAY, END_OF_TIME, Stretch, stretch_at

NEVER = 1 << 60


class Slots(Protocol):
    """The local times of a rule, in seconds since 1970-01-01 00:00 local time."""

    @property
    def repeats(self) -> bool:
        """True if the rule follows the time that passes rather than the clock."""
        ...

    def after(self, local: int) -> int:
        """Return the first of them after this one; `NEVER` if there is none."""
        ...

    def has(self, local: int) -> bool:
        """Return True if this is one of them."""
        ...


def next_fire(slots: Slots, zone: str, second: int) -> int | None:
    """Return the first fire after this instant, or None."""
    find = _next_by_passing_time if slots.repeats else _next_by_the_clock
    while second < END_OF_TIME:
        stretch = stretch_at(zone, second + 1)
        fire = find(slots, stretch, second)
        if fire < stretch.end:
            return fire
        # Another offset may bring it nearer, but never by more than a day.
        second = max(stretch.end, fire - DAY) - 1
    return None


def _next_by_the_clock(slots: Slots, stretch: Stretch, second: int) -> int:
    # The stretch owes what the clock would have shown from its start on, had it not been changed: after a gap that
    # is what was left out, and after going back that is nothing until the clock has caught up.
    reached = stretch.start + stretch.before - 1
    if second >= stretch.start:
        reached = max(reached, second + stretch.offset)
    return max(slots.after(reached) - stretch.offset, stretch.start)


def _next_by_passing_time(slots: Slots, stretch: Stretch, second: int) -> int:
    fire = slots.after(second + stretch.offset) - stretch.offset
    settled = stretch.start + abs(stretch.offset - stretch.before)
    if second + 1 >= settled:
        return fire
    if stretch.offset > stretch.before:
        by_old_clock = slots.after(second + stretch.before) - stretch.before
        return min(fire, by_old_clock) if by_old_clock < settled else fire
    while fire < settled and not slots.has(fire + stretch.before):
        fire = slots.after(fire + stretch.offset) - stretch.offset
    return fire
