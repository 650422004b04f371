"""Times of day in plain English: ``9am``, ``18:30``, ``noon``."""

from __future__ import annotations

from sqew.errors import BadExpression
from sqew.schedules.english.words import Words

Time = tuple[int, int, int]
"""Hour, minute and second."""
MIDNIGHT: Time = (0, 0, 0)
_NAMED: dict[str, Time] = {"noon": (12, 0, 0), "midnight": MIDNIGHT}


def is_time(words: Words, ahead: int = 0, bare: bool = False) -> bool:
    """Return True if a time of day comes next, or ``ahead`` words further on; with ``bare``, also without am or pm."""
    word = words.peek(ahead)
    if word in _NAMED or ":" in word[1:]:
        return True
    return word.isdecimal() and (bare or words.peek(ahead + 1) in ("am", "pm"))


def take_time(words: Words, bare: bool = False) -> Time:
    """Consume the time of day that comes next; raise `BadExpression` if none does."""
    if words.peek() in _NAMED:
        return _NAMED[words.take()]
    if not is_time(words, bare=bare):
        raise words.wrong(_missing(words))
    position, written = words.position, words.original()
    parts = [whole(part) for part in words.take().split(":")]
    half = words.take() if words.peek() in ("am", "pm") else ""
    words.accept("o'clock", "o’clock")
    time = _checked([part for part in parts if part is not None], half)
    if time is None or None in parts:
        raise BadExpression(
            f"'{written}{half}' at position {position} is not a time of day: "
            "they go from 00:00 to 23:59, or from 1 to 12 with am or pm.",
            position,
        )
    return time


def is_bare_hour(words: Words) -> bool:
    """Return True if the next word is an hour that may be one of the morning or of the afternoon."""
    word = words.peek()
    return word.isdecimal() and 1 <= (whole(word) or 0) <= 12 and words.peek(1) not in ("am", "pm")


def clock(time: Time) -> str:
    """Format a time as ``09:00``, with its second if that is not 0.

    >>> clock((9, 0, 0)), clock((16, 59, 30))
    ('09:00', '16:59:30')
    """
    hour, minute, second = time
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"


def _missing(words: Words) -> str:
    if not words:
        return "The text ends where a time of day should be. Write it as in 9am, 18:30, noon or midnight."
    return (
        f"'{words.original()}' at position {words.position} is not a time of day. "
        "Write it as in 9am, 18:30, noon or midnight."
    )


def _checked(parts: list[int], half: str) -> Time | None:
    hour, minute, second = (*parts, 0, 0, 0)[:3]
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


def whole(text: str) -> int | None:
    """Return the number that a string of digits says; None if it is anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else None
