"""Draft of a schedule: the result so far of parsing a plain English text."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from sqew.schedules.english.times import Time

Period = Literal["day", "week", "month", "year"]
Part = Literal["period", "interval", "minute", "times", "window", "weekdays", "weekday_marks", "days", "months", "day"]


class Phrase(Struct, frozen=True):
    """A few words with one meaning, and their position."""

    text: str
    position: int


class Draft:
    """The result so far of parsing a text."""

    def __init__(self) -> None:
        self.repeats = False
        """True if a phrase says that it fires again and again."""
        self.period: Period | None = None
        self.interval: int | None = None
        self.minute = 0
        """The minute of the hour at which it fires, if it fires every so many hours."""
        self.times: list[Time] = []
        self.bare_hour = False
        """True if a time without am or pm could be one of the morning or of the afternoon."""
        self.window: tuple[int, int] | None = None
        """The hours from and until which it fires."""
        self.weekdays: list[int] = []
        self.weekday_marks: list[str] = []
        """Weekdays by their number in the month: ``1#1``, ``5L``."""
        self.of_the_month = False
        self.days: list[str] = []
        self.months: list[int] = []
        self.day: int | None = None
        """The one day on which it fires, counted from 1970-01-01."""
        self.tonight = False
        """True for the night that begins on that day."""
        self.instant: int | None = None
        """The one second at which it fires."""
        self.said: dict[Part, Phrase] = {}
        """The first phrase that set each part."""
        self.said_again: set[Part] = set()
        """Parts that more than one phrase set."""
        self.said_after_and: set[Part] = set()
        """Parts that were first set after an "and"."""


class NotUnderstood(Exception):
    """A word that has no meaning here; empty at the end of the text."""

    def __init__(self, word: str, position: int) -> None:
        self.word, self.position = word, position
        super().__init__(word)
