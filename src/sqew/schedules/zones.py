"""Time zones: their names, the local times of their clocks, and the changes of these.

Local times are counted in seconds as if the local clock had always run evenly since 1970-01-01 00:00: a local time is
an instant plus the offset that holds there. zoneinfo answers for one instant; here its answers become stretches of even
time, so that finding the next fire is plain arithmetic.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Struct

from sqew.errors import BadZone
from sqew.spelling import closest

DAY = 86_400
LAST_YEAR = 9_899
"""The last year of a schedule. Python's dates end with 9999; stopping earlier leaves room to look ahead."""
END_OF_TIME = 250_246_627_200
"""The first second after that year."""
_LONGEST_NAME = 64
_NO_PLACES = {"Factory", "localtime", "posixrules"}
"""Entries that some systems list among the zones: their own setting, which differs between them, or none at all."""
_SHORT_NAMES = frozenset(
    [
        "acst",
        "aedt",
        "aest",
        "akst",
        "bst",
        "cdt",
        "cest",
        "cst",
        "edt",
        "eest",
        "hkt",
        "ist",
        "jst",
        "kst",
        "mdt",
        "nzdt",
        "nzst",
        "pdt",
        "pst",
        "z",
    ]
)
"""Names that people use for zones, though IANA has no zone of that name."""
_PERIOD = 1 << 25
"""Seconds (388 days) for which changes are looked up at a time."""
_OFFSET = re.compile(r"(?:utc|gmt)?\s*([+-])\s*([0-9]{1,2})(?::?00)?", re.IGNORECASE)


class Stretch(Struct, frozen=True, gc=False):
    """A time during which the clock runs evenly: from its start, until just before its end."""

    start: int
    end: int
    before: int
    """Seconds that the clock was ahead of UTC until the start."""
    offset: int
    """Seconds that it is ahead of UTC from the start on."""


def check_zone(name: str) -> None:
    """Raise `BadZone` unless this is the name of a time zone."""
    if name in _names():
        return
    if len(name) > _LONGEST_NAME:
        raise _unknown(name)
    offset = _OFFSET.fullmatch(name)
    if offset:
        # POSIX counts westwards.
        same = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{int(offset[2])}"
        if same in _names():
            raise BadZone(f"'{name[:60]}' is an offset, not a time zone. Use {same}, or a place such as Europe/Berlin.")
    near = _nearest_names(name)
    raise _unknown(name, f" Nearest names: {', '.join(near)}." if near else "")


def _unknown(name: str, hint: str = "") -> BadZone:
    return BadZone(f"There is no time zone '{name[:60]}'.{hint} Use an IANA name such as Europe/Berlin, or UTC.")


def is_zone(name: str) -> bool:
    """Return True if people call a zone by this name, in whichever case, or write it for an offset.

    >>> is_zone("europe/berlin"), is_zone("PST"), is_zone("+02:00"), is_zone("weekday")
    (True, True, True, False)
    """
    known = name.casefold() in _SHORT_NAMES or name.casefold() in _names_in_lower_case()
    return known or _OFFSET.fullmatch(name) is not None


@lru_cache(maxsize=1)
def _names_in_lower_case() -> frozenset[str]:
    return frozenset(name.casefold() for name in _names())


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(available_timezones() - _NO_PLACES)


def _nearest_names(name: str) -> list[str]:
    """Return up to three names that were perhaps meant: of the same letters or the same place, or else similar."""
    wanted = name.casefold().strip().replace(" ", "_")
    by_text: dict[str, str] = {}
    for known in sorted(_names()):
        by_text.setdefault(known.rpartition("/")[2].casefold(), known)
        by_text[known.casefold()] = known
    close = closest(wanted, by_text, most=5, cutoff=0.7)
    return list(dict.fromkeys(by_text[text] for text in close))[:3]


def stretch_at(zone: str, second: int) -> Stretch:
    """Return the stretch that contains an instant."""
    starts, stretches = _stretches(zone, second // _PERIOD)
    return stretches[bisect_right(starts, second) - 1]


@lru_cache(maxsize=4_096)
def _stretches(zone: str, period: int) -> tuple[list[int], list[Stretch]]:
    tz = ZoneInfo(zone)
    start, end = period * _PERIOD, (period + 1) * _PERIOD
    # A change of the day before matters still: see `firing`.
    changes = _changes(tz, start - DAY, end)
    begins = [(start - DAY, _offset(tz, start - DAY)), *changes]
    stretches = [
        Stretch(at, ends, begins[max(place - 1, 0)][1], offset)
        for place, ((at, offset), ends) in enumerate(zip(begins, [*(at for at, _ in changes), end], strict=True))
    ]
    return [stretch.start for stretch in stretches], stretches


def _changes(tz: ZoneInfo, start: int, end: int) -> list[tuple[int, int]]:
    """Return each change of the clock after the start and before the end: its second, and the offset from then on."""
    changes: list[tuple[int, int]] = []
    offset = _offset(tz, start)
    for day in range(start, end, DAY):
        last = min(day + DAY, end) - 1
        if _offset(tz, last) == offset:
            continue
        early, late = day - 1, last
        while late - early > 1:
            middle = (early + late) // 2
            if _offset(tz, middle) == offset:
                early = middle
            else:
                late = middle
        offset = _offset(tz, late)
        changes.append((late, offset))
    return changes


def _offset(tz: ZoneInfo, second: int) -> int:
    offset = datetime.fromtimestamp(second, tz).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def instant_of(local: int, zone: str) -> int:
    """Return the instant of a local time: right after the gap if the clock skips it, the first if it comes twice."""
    stretch = stretch_at(zone, local - DAY)
    while local >= stretch.end + stretch.offset:
        stretch = stretch_at(zone, stretch.end)
    return max(local - stretch.offset, stretch.start)


def local_of(second: int, zone: str) -> int:
    """Return the local time at an instant."""
    return second + stretch_at(zone, second).offset


def local_time(ms: int, zone: str) -> str:
    """Format an instant as the zone's clock shows it, in ISO 8601 with the offset.

    >>> local_time(1_774_747_800_000, "Europe/Berlin")
    '2026-03-29T03:30:00+02:00'
    """
    return datetime.fromtimestamp(ms // 1000, ZoneInfo(zone)).isoformat()


def utc_time(ms: int) -> str:
    """Format an instant in UTC, with its milliseconds if these are not 0.

    >>> utc_time(1_794_848_400_000)
    '2026-11-16T17:00:00Z'
    """
    whole = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{ms % 1000:03}Z" if ms % 1000 else f"{whole}Z"
