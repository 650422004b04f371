"""Instants: ``fire_at``, in ISO 8601.

>>> read_instant("2026-12-24T18:00", "Europe/Berlin", 0)
1798131600000
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date

from sqew.errors import BadExpression
from sqew.schedules.cron_fields import MONTHS
from sqew.schedules.zones import DAY, LAST_YEAR, instant_of, local_time

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_OFFSET = re.compile(r"[Zz]|([+-])([0-9]{2}):?([0-9]{2})")
_EXAMPLES = "Write it as in 2026-12-24T18:00:00Z, 2026-12-24T18:00:00+01:00 or 2026-12-24T18:00 (local time)"
_FIRST_DAY = date(1970, 1, 1).toordinal()


def read_instant(text: str, zone: str, now_ms: int) -> int:
    """Parse an instant; raise `BadExpression` if it is none, or has passed."""
    ms = parse_instant(text.rstrip(), zone)
    check_future(ms, text.strip(), zone, now_ms)
    return ms


def check_future(ms: int, text: str, zone: str, now_ms: int) -> None:
    """Raise `BadExpression` unless the instant is in the future."""
    if ms <= now_ms:
        raise BadExpression(
            f"'{text}' is in the past: it was {local_time(ms, zone)}, and it is {local_time(now_ms, zone)} now. "
            "Give a time to come."
        )


def parse_instant(text: str, zone: str) -> int:
    """Parse an instant, which may have passed."""
    days, at = _take_date(text)
    if at == len(text):
        date_only = text.strip()
        raise BadExpression(
            f"'{date_only}' has no time of day: write it after the date, as in {date_only}T09:00.", at + 1
        )
    if text[at] not in "Tt ":
        raise BadExpression(f"'{text[at:]}' at position {at + 1} is not understood. {_EXAMPLES}.", at + 1)
    seconds, ms, at = _take_time(text, at + 1)
    local = days * DAY + seconds
    if at == len(text):
        return instant_of(local, zone) * 1000 + ms
    return (local - _take_offset(text, at)) * 1000 + ms


def _take_date(text: str) -> tuple[int, int]:
    start = len(text) - len(text.lstrip())
    found = _DATE.match(text, start)
    if not found:
        raise BadExpression(f"'{text.strip()}' does not begin with a date. {_EXAMPLES}.", start + 1)
    return day_number(int(found[1]), int(found[2]), int(found[3]), found[0], start + 1), found.end()


def day_number(year: int, month: int, day: int, text: str, position: int) -> int:
    """Return a date's number, counted from 1970-01-01; raise `BadExpression` if there is no such date."""
    wrong = _wrong_date(year, month, day)
    if wrong:
        raise BadExpression(f"'{text}' at position {position} is not a date: {wrong}.", position)
    return date(year, month, day).toordinal() - _FIRST_DAY


def _wrong_date(year: int, month: int, day: int) -> str | None:
    if not 1970 <= year <= LAST_YEAR:
        return f"years are 1970 to {LAST_YEAR}"
    if not 1 <= month <= 12:
        return "months are 1 to 12"
    last = monthrange(year, month)[1]
    return None if 1 <= day <= last else f"the days of {MONTHS[month - 1]} {year} are 1 to {last}"


def _take_time(text: str, at: int) -> tuple[int, int, int]:
    """Return the second of the day, the milliseconds beyond it, and the position at which the text goes on."""
    found = _TIME.match(text, at)
    if not found:
        raise BadExpression(f"'{text[at:]}' at position {at + 1} is not a time of day. {_EXAMPLES}.", at + 1)
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise BadExpression(f"'{found[0]}' at position {at + 1} is not a time of day: the last is 23:59:59.", at + 1)
    fraction = (found[4] or "").ljust(3, "0")
    return hour * 3_600 + minute * 60 + second, int(fraction[:3]), found.end()


def _take_offset(text: str, at: int) -> int:
    found = _OFFSET.fullmatch(text, at)
    if not found or int(found[2] or 0) > 23 or int(found[3] or 0) > 59:
        raise BadExpression(
            f"'{text[at:]}' at position {at + 1} is not an offset from UTC. "
            "Write Z, +01:00, or nothing for local time.",
            at + 1,
        )
    seconds = int(found[2] or 0) * 3_600 + int(found[3] or 0) * 60
    return -seconds if found[1] == "-" else seconds
