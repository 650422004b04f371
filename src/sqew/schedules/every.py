"""Intervals: ``5 minutes``, ``1h30m``, ``2 days``.

What a cron string can say becomes one. All others are counted from 1970: whole days in local midnights, everything
else in time that passed. Thus the same interval has the same slots wherever and whenever it is asked for.

    >>> canonical_interval(read_interval("every 15 minutes")), canonical_interval(read_interval("90m"))
    ('*/15 * * * *', '@every 1h30m')
"""

from __future__ import annotations

import re
from decimal import Decimal

from sqew.errors import BadExpression, nearest
from sqew.schedules.words import NUMBERS, UNITS, Words

LONGEST_DAYS = 36_500
_DAY, _WEEK = 86_400, 604_800
_LETTERS = {"w": _WEEK, "d": _DAY, "h": 3_600, "m": 60, "s": 1}
_CANONICAL = re.compile(r"@every (?:[1-9][0-9]{0,11}[wdhms])+")
_EXAMPLES = "Write it as in '5 minutes', '1h30m' or '2 days'"
_NOT_FIXED = {"month": "1st of the month at midnight", "year": "every january 1st at midnight"}


def read_interval(text: str) -> int:
    """The seconds of an interval; raises `BadExpression`."""
    words = Words(text)
    if words.accept("@") and not words.accept("every"):
        raise words.wrong(f"'@' at position 0 is not an interval. {_EXAMPLES}.")
    words.accept("every", "each")
    if not words:
        raise words.wrong(f"The interval is missing. {_EXAMPLES}.")
    if "*" in text:
        raise BadExpression(f"'{text}' is a cron expression, not an interval. Use `cron` for it.", text.index("*"))
    seconds = take_interval(words)
    if words:
        raise words.wrong(f"'{words.original()}' at position {words.position} is not part of an interval. {_EXAMPLES}.")
    return seconds


def take_interval(words: Words) -> int:
    """The seconds of the interval that the next words say: at least one number with its unit, or a unit alone."""
    position = words.position
    total = _take_part(words)
    while words:
        joined = words.peek() == "and"
        if not _is_number(words.peek(joined)) or words.peek(joined + 1) not in UNITS:
            break
        words.accept("and")
        total += _take_part(words)
    if total % 1 != 0 or not 1 <= total <= LONGEST_DAYS * _DAY:
        raise BadExpression(
            f"An interval of {total.normalize():f} seconds can't be: "
            f"it must be whole seconds, at least 1 and at most {LONGEST_DAYS} days.",
            position,
        )
    return int(total)


def _take_part(words: Words) -> Decimal:
    amount = Decimal(1)
    if _is_number(words.peek()):
        amount = _take_number(words)
    if words.peek() in UNITS:
        return amount * UNITS[words.take()]
    kind = words.peek().removesuffix("s")
    if kind in _NOT_FIXED:
        raise words.wrong(f"'{words.original()}' at position {words.position} is not always the same length. "
                     f"Use `when` with '{_NOT_FIXED[kind]}' instead.")  # fmt: skip
    if not words:
        raise words.wrong(f"A unit is missing at position {words.position}: seconds, minutes, hours, days or weeks.")
    raise words.wrong(
        f"'{words.original()}' at position {words.position} is not a unit of time{nearest(words.peek(), UNITS)}. "
        "Use seconds, minutes, hours, days or weeks."
    )


def _is_number(word: str) -> bool:
    return word in NUMBERS or word[:1].isdecimal()


def _take_number(words: Words) -> Decimal:
    position, word = words.position, words.original()
    text = words.take()
    if text in NUMBERS:
        return Decimal(NUMBERS[text])
    if not re.fullmatch(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", text):
        raise BadExpression(f"'{word}' at position {position} can't be a number of anything. {_EXAMPLES}.", position)
    return Decimal(text)


def canonical_interval(seconds: int) -> str:
    """An interval as it is stored: a cron string if there is one for it."""
    if seconds < 60 and 60 % seconds == 0:
        return f"{_each(seconds)} * * * * *"
    minutes, hours = seconds // 60, seconds // 3_600
    if seconds % 60 == 0 and minutes < 60 and 60 % minutes == 0:
        return f"{_each(minutes)} * * * *"
    if seconds % 3_600 == 0 and hours < 24 and 24 % hours == 0:
        return f"0 {_each(hours)} * * *"
    if seconds == _DAY:
        return "0 0 * * *"
    if seconds == _WEEK:
        return "0 0 * * 1"
    return f"@every {_letters(seconds)}"


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


def stored_interval(canonical: str) -> int:
    """The seconds of a stored ``@every``; raises `BadExpression` if it is not one."""
    if not _CANONICAL.fullmatch(canonical):
        raise BadExpression(f"'{canonical[:60]}' is not an interval as it would be stored.")
    parts = re.findall("([0-9]+)([a-z])", canonical.removeprefix("@every "))
    return sum(int(count) * _LETTERS[letter] for count, letter in parts)
