"""Intervals: ``5 minutes``, ``1h30m``, ``2 days``.

An interval that a cron string can express becomes one. All others are counted from 1970: whole days in local midnights,
everything else in elapsed time. Thus the same interval has the same slots wherever and whenever it is asked for.

    >>> canonical_interval(read_interval("every 15 minutes")), canonical_interval(read_interval("90m"))
    ('*/15 * * * *', '@every 1h30m')
"""

from __future__ import annotations

import re
from decimal import Decimal

from msgspec import Struct

from sqew.errors import BadExpression, nearest
from sqew.schedules.english.times import MIDNIGHT, Time, clock
from sqew.schedules.english.words import NUMBERS, UNITS, Words, month_of

LONGEST_DAYS = 36_500
_DAY, _WEEK = 86_400, 604_800
_MONDAY = 1
_LETTERS = {"w": _WEEK, "d": _DAY, "h": 3_600, "m": 60, "s": 1}
_CANONICAL = re.compile(
    r"@every ((?:[1-9][0-9]{0,11}[wdhms])+)(?: on ([0-6]))?"
    r"(?: at ([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?)?"
)
_EXAMPLES = "Write it as in '5 minutes', '1h30m' or '2 days'"
_NOT_FIXED = {"month": "1st of the month at midnight", "year": "every january 1st at midnight"}
_TOO_SHORT = ("ms", "msec", "msecs", "millis", "millisecond", "milliseconds")
_NO_UNITS = ("am", "pm", "and", "at", "in", "of", "on", "or", "the", "through", "till", "times", "to", "until")
"""Words that may follow a number that is not an amount of time."""


class Interval(Struct, frozen=True):
    """An interval as it is stored. Whole days have a time of day, and whole weeks a day of the week."""

    seconds: int
    weekday: int = _MONDAY
    time: Time = MIDNIGHT


def canonical_every(text: str) -> str:
    """Return the stored form of an interval as written; raise `BadExpression`. A stored form is accepted as well."""
    stored = _CANONICAL.fullmatch(text.strip())
    if not stored or not (stored[2] or stored[3]):
        return canonical_interval(read_interval(text))
    interval = stored_interval(stored[0])
    _check_length(Decimal(interval.seconds), 1)
    return canonical_days(interval.seconds // _DAY, interval.time, interval.weekday)


def read_interval(text: str) -> int:
    """Parse an interval into seconds; raise `BadExpression`."""
    words = Words(text)
    if words.accept("@") and not words.accept("every"):
        position = text.index("@") + 1
        raise BadExpression(f"'@' at position {position} is not an interval. {_EXAMPLES}.", position)
    words.accept("every", "each")
    if not words:
        raise words.wrong(f"The interval is missing. {_EXAMPLES}.")
    if "*" in text:
        raise BadExpression(f"'{text}' is a cron expression, not an interval. Use `cron` for it.", text.index("*") + 1)
    seconds = take_interval(words)
    if words.peek() in ("at", "between", "from", "on"):
        raise words.wrong(
            f"'{words.original()}' at position {words.position} is not part of an interval. "
            "For certain days or times of day use `when`, as in 'every 2 days at 9am'."
        )
    if words:
        raise words.wrong(f"'{words.original()}' at position {words.position} is not part of an interval. {_EXAMPLES}.")
    return seconds


def take_interval(words: Words, count: int = 1, once: bool = False) -> int:
    """Consume an interval, at least one number with its unit or a unit alone, and return its seconds.

    ``count`` multiplies its first part. ``once``: it is a delay rather than a repetition.
    """
    position = words.position
    total = _take_part(words, once, count)
    while words:
        joined = words.peek() == "and"
        if not is_number(words.peek(joined)) or words.peek(joined + 1) not in UNITS:
            break
        words.accept("and")
        total += _take_part(words, once)
    _check_length(total, position)
    return int(total)


def _check_length(seconds: Decimal, position: int) -> None:
    if seconds % 1 != 0 or not 1 <= seconds <= LONGEST_DAYS * _DAY:
        raise BadExpression(
            f"An interval of {seconds.normalize():f} seconds can't be: "
            f"it must be whole seconds, at least 1 and at most {LONGEST_DAYS} days.",
            position,
        )


def is_amount(words: Words) -> bool:
    """Return True if a number comes next, followed by a unit or a word that is meant to be one."""
    number, word = words.peek(), words.peek(1)
    if is_unit(word) or number == "half":
        return is_number(number)
    digits = number.replace(".", "", 1).isdecimal()
    return digits and word.isalpha() and word not in _NO_UNITS and month_of(word) is None


def is_unit(word: str) -> bool:
    """Return True if a word is a unit of time, even one that is not always the same length."""
    return word in UNITS or word.removesuffix("s") in _NOT_FIXED


def is_number(word: str) -> bool:
    """Return True if a word may be a number."""
    return word in NUMBERS or word == "half" or word[:1].isdecimal()


def _take_part(words: Words, once: bool, count: int = 1) -> Decimal:
    amount = count * (_take_number(words) if is_number(words.peek()) else Decimal(1))
    if words.peek() in UNITS:
        return amount * UNITS[words.take()]
    unit = words.peek().removesuffix("s")
    if unit in _NOT_FIXED:
        raise words.wrong(
            f"'{words.original()}' at position {words.position} is not always the same length. "
            + ("Give the date instead, as in 'on 24 december 2026 at 6pm'." if once else _instead_of(unit, amount))
        )
    if words.peek() in _TOO_SHORT:
        raise words.wrong(f"'{words.original()}' at position {words.position} is too short: use whole seconds.")
    if not words:
        raise words.wrong(f"A unit is missing at position {words.position}: seconds, minutes, hours, days or weeks.")
    raise words.wrong(
        f"'{words.original()}' at position {words.position} is not a unit of time{nearest(words.peek(), UNITS)}. "
        "Use seconds, minutes, hours, days or weeks."
    )


def _instead_of(unit: str, amount: Decimal) -> str:
    if amount == 1:
        return f"Use `when` with '{_NOT_FIXED[unit]}' instead."
    if unit == "month" and amount in (2, 3, 4, 6):
        return f"Use `cron` with '0 0 1 */{amount} *' instead."
    return "Give it in days instead."


def _take_number(words: Words) -> Decimal:
    position, word = words.position, words.original()
    text = words.take()
    if text in NUMBERS:
        return Decimal(NUMBERS[text])
    if text == "half":
        words.accept("a", "an")
        return Decimal("0.5")
    if re.fullmatch(r"[0-9]{13,}(?:\.[0-9]+)?", text):
        raise BadExpression(
            f"'{word[:60]}' at position {position} is too large: the longest interval is {LONGEST_DAYS} days.", position
        )
    if not re.fullmatch(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", text):
        raise BadExpression(f"'{word}' at position {position} can't be a number of anything. {_EXAMPLES}.", position)
    return Decimal(text)


def canonical_interval(seconds: int) -> str:
    """Return the stored form of an interval: a cron string if there is one for it."""
    if seconds < 60 and 60 % seconds == 0:
        return f"{_each(seconds)} * * * * *"
    minutes, hours = seconds // 60, seconds // 3_600
    if seconds % 60 == 0 and minutes < 60 and 60 % minutes == 0:
        return f"{_each(minutes)} * * * *"
    if seconds % 3_600 == 0 and hours < 24 and 24 % hours == 0:
        return f"0 {_each(hours)} * * *"
    if seconds % _DAY == 0:
        return canonical_days(seconds // _DAY)
    return f"@every {_letters(seconds)}"


def canonical_days(days: int, time: Time = MIDNIGHT, weekday: int = _MONDAY) -> str:
    """Return the stored form of every so many days at a time of day. Whole weeks fall on a day of the week.

    >>> canonical_days(2, (9, 0, 0)), canonical_days(14, weekday=5)
    ('@every 2d at 09:00', '@every 2w on 5')
    """
    hour, minute, second = time
    if days in (1, 7):
        fields = f"{minute} {hour} * * {'*' if days == 1 else weekday}"
        return f"{second} {fields}" if second else fields
    text = f"@every {_letters(days * _DAY)}"
    if days % 7 == 0 and weekday != _MONDAY:
        text += f" on {weekday}"
    return text if time == MIDNIGHT else f"{text} at {clock(time)}"


def _each(count: int) -> str:
    return "*" if count == 1 else f"*/{count}"


def _letters(seconds: int) -> str:
    if seconds % _WEEK == 0:
        return f"{seconds // _WEEK}w"
    text = ""
    for letter in "dhms":
        count, seconds = divmod(seconds, _LETTERS[letter])
        text += f"{count}{letter}" if count else ""
    return text


def stored_interval(canonical: str) -> Interval:
    """Parse a stored ``@every``; raise `BadExpression` if it is not one."""
    found = _CANONICAL.fullmatch(canonical)
    if not found:
        raise BadExpression(f"'{canonical[:60]}' is not an interval as it would be stored.")
    parts = re.findall("([0-9]+)([a-z])", found[1])
    seconds = sum(int(count) * _LETTERS[letter] for count, letter in parts)
    if seconds % _DAY and (found[2] or found[3]):
        raise BadExpression(f"'{canonical[:60]}' is not an interval as it would be stored.")
    time = int(found[3] or 0), int(found[4] or 0), int(found[5] or 0)
    return Interval(seconds, int(found[2] or _MONDAY), time)
