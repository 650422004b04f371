"""Figures in few characters."""

from __future__ import annotations

import re

_UNITS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))
_CLOCK = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?)\s*s?$")


def count(value: float) -> str:
    """Return a number in at most five characters.

    >>> [count(value) for value in (0, 0.4, 7.25, 12, 9999, 12_345, 2_500_000)]
    ['0', '0.4', '7.2', '12', '9999', '12.3k', '2.5M']
    """
    if value < 10 and value != int(value):
        return f"{value:.1f}"
    if round(value) < 10_000:
        return f"{value:.0f}"
    for size, unit in _UNITS:
        if value >= size:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if scaled < 100 else f"{scaled:.0f}{unit}"
    raise AssertionError("it is larger than the smallest unit")


def duration(us: float) -> str:
    """Return milliseconds without their unit; from a second on, seconds with it.

    >>> [duration(us) for us in (42, 3_140, 44_100, 441_000, 5_046_000, 250_000_000)]
    ['0.04', '3.14', '44.1', '441', '5.0s', '250s']
    """
    ms = us / 1000
    if ms < 10:
        return f"{ms:.2f}"
    if ms < 1000:
        return f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"
    return f"{ms / 1000:.1f}s" if ms < 100_000 else f"{ms / 1000:.0f}s"


def clock(us: int) -> str:
    """Return a time of the run, as it is shown.

    >>> clock(62_500_000), clock(3_723_000_000)
    ('1:02.5', '1:02:03.0')
    """
    tenths = max(0, us) // 100_000
    seconds, tenth = divmod(tenths, 10)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}.{tenth}" if hours else f"{minute}:{second:02}.{tenth}"


def time_of(text: str) -> int | None:
    """Return the time that was typed, in microseconds; None if it is none.

    >>> time_of("90"), time_of("1:30"), time_of("1:00:00.5"), time_of("12.5s"), time_of("orders")
    (90000000, 90000000, 3600500000, 12500000, None)
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        return None
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return round((hours * 3600 + minutes * 60 + seconds) * 1e6)
