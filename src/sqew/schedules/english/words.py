"""Words of a plain English text, read one after the other."""

from __future__ import annotations

import re

from sqew.errors import BadExpression
from sqew.schedules.cron_fields import MONTHS, WEEKDAYS

_WORD = re.compile(
    r"""
      [0-9]{4}-[0-9]{2}-[0-9]{2}                  # a date
    | [0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?           # a time
    | :[0-9]{1,2}                                 # a minute of the hour
    | [0-9]+(?:st|nd|rd|th)\b                     # an ordinal
    | [0-9]+(?:\.[0-9]+)?                         # a number
    | [ap]\.m\.                                   # half a day
    | [^\W\d_]+(?:['’][^\W\d_]+)*                 # a word
    | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)

NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "other": 2,
}  # fmt: skip
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
UNITS = {
    name: seconds
    for names, seconds in (
        (("s", "sec", "secs", "second", "seconds"), 1),
        (("m", "min", "mins", "minute", "minutes"), 60),
        (("h", "hr", "hrs", "hour", "hours"), 3_600),
        (("d", "day", "days"), 86_400),
        (("w", "wk", "wks", "week", "weeks"), 604_800),
    )
    for name in names
}


class Words:
    """A text's words, in lower case and without commas, with their positions. Past the last, words are empty."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = [(word[0].casefold().replace(".m.", "m"), word.start() + 1) for word in _WORD.finditer(text)]
        self._words = [word for word, _ in found if word != ","]
        self._positions = [position for word, position in found if word != ","]
        self._next = 0

    def __bool__(self) -> bool:
        return self._next < len(self._words)

    @property
    def position(self) -> int:
        """The position of the next word, counted from 1."""
        return self._positions[self._next] if self else len(self.text) + 1

    @property
    def after_comma(self) -> bool:
        """True if a comma stands before the next word."""
        return self.text[: self.position - 1].rstrip().endswith(",")

    def since(self, position: int) -> str:
        """Return the text from this position on, up to the next word."""
        return self.text[position - 1 : self.position - 1].strip(" ,\t\r\n")

    def peek(self, further: int = 0) -> str:
        """Return the next word, or one further on, without consuming it."""
        place = self._next + further
        return self._words[place] if place < len(self._words) else ""

    def take(self) -> str:
        """Consume the next word and return it."""
        word = self.peek()
        self._next += 1
        return word

    def accept(self, *words: str) -> bool:
        """Consume the next word if it is one of these, and return True if so."""
        accepted = self.peek() in words and bool(self)
        self._next += accepted
        return accepted

    def original(self) -> str:
        """Return the next word as it was written."""
        found = _WORD.match(self.text, self.position - 1)
        return found[0] if found else ""

    def wrong(self, what: str) -> BadExpression:
        """Return an error about the next word."""
        return BadExpression(what, self.position)


def weekday_of(word: str) -> int | None:
    """Return the number of a day of the week: 0 for ``sun``, ``sunday`` and ``sundays``."""
    return _number_of(word.removesuffix("s"), WEEKDAYS) if word not in _SHORT_DAYS else _SHORT_DAYS[word]


def month_of(word: str) -> int | None:
    """Return the number of a month: 1 for ``jan`` and ``january``."""
    place = _number_of(word, MONTHS)
    return None if place is None else place + 1


_SHORT_DAYS = {"tues": 2, "thur": 4, "thurs": 4}


def _number_of(word: str, names: tuple[str, ...]) -> int | None:
    for place, name in enumerate(names):
        if word in (name.casefold(), name[:3].casefold()):
            return place
    return None


def ordinal_of(word: str) -> int | None:
    """Return the number of ``1st``, ``2nd`` and ``first``."""
    if word in ORDINALS:
        return ORDINALS[word]
    digits = word.rstrip("stndrh")
    return int(digits) if digits != word and digits.isascii() and digits.isdigit() and len(digits) <= 9 else None
