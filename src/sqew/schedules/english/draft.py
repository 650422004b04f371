"""What a plain English text has said so far of when to fire."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from sqew.schedules.english.times import Time

Period = Literal["day", "week", "month", "year"]
Part = Literal["period", "interval", "minute", "times", "window", "weekdays", "weekday_marks", "days", "months", "day"]


class Phrase(Struct, frozen=True):
    """A few words that say one thing, and where they stand."""

    text: str
    position: int


class Draft:
    """What has been said so far."""

    def __init__(self) -> None:
        self.repeats = False
        """Something says that it is to fire again and again."""
        self.period: Period | None = None
        self.interval: int | None = None
        self.minute = 0
        """The minute of the hour at which it fires, where it fires every so many hours."""
        self.times: list[Time] = []
        self.bare_hour = False
        """A time has neither am nor pm, and could be of the morning as well as of the afternoon."""
        self.window: tuple[int, int] | None = None
        """The hours from and until which it fires."""
        self.weekdays: list[int] = []
        self.weekday_marks: list[str] = []
        """Which one of the month a weekday is: ``1#1``, ``5L``."""
        self.of_the_month = False
        self.days: list[str] = []
        self.months: list[int] = []
        self.day: int | None = None
        """The one day on which it fires, counted from 1970-01-01."""
        self.tonight = False
        """The night that begins on that day."""
        self.instant: int | None = None
        """The one second at which it fires."""
        self.said: dict[Part, Phrase] = {}
        """The phrase that said each of these first."""
        self.said_again: set[Part] = set()
        """What more than one phrase said."""
        self.said_after_and: set[Part] = set()
        """What was first said after an "and"."""


class NotUnderstood(Exception):
    """A word that says nothing here; empty at the end of the text."""

    def __init__(self, word: str, position: int) -> None:
        self.word, self.position = word, position
        super().__init__(word)
