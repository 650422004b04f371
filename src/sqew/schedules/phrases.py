"""What a plain English text says of when to fire, phrase by phrase and in any order.

Every phrase adds to a `Draft`; `sqew.schedules.when` makes an expression of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from sqew.errors import BadExpression
from sqew.schedules.every import take_interval
from sqew.schedules.instants import day_number
from sqew.schedules.times import Time, is_time, take_time, whole
from sqew.schedules.words import NUMBERS, UNITS, Words, month_of, ordinal_of, weekday_of

Period = Literal["day", "week", "month", "year"]
Part = Literal["period", "interval", "times", "window", "weekdays", "weekday_marks", "days", "months", "day"]

_HABITS: dict[str, Period] = {
    "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annually": "year",
}  # fmt: skip
_PERIODS: dict[str, Period] = {"day": "day", "week": "week", "month": "month", "year": "year"}
_ONCE_AT_MOST: tuple[Part, ...] = ("period", "interval", "window", "day")
_GROUPS = {"weekday": (1, 2, 3, 4, 5), "weekend": (0, 6)}
_TO = ("to", "through", "until", "till", "-")
_AND = ("and", "or", "&")


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
        self.times: list[Time] = []
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
        self.instant: int | None = None
        """The one second at which it fires."""
        self.said: dict[Part, Phrase] = {}
        """The phrase that said each of these."""


class PhraseReader:
    """Reads the phrases of a text. ``now`` is the present second, ``today`` the local day of it."""

    def __init__(self, text: str, now: int, today: int) -> None:
        self.words = Words(text)
        self.now = now
        self.today = today
        self.draft = Draft()
        self._start = 0
        self._parts: list[Part] = []

    def read(self) -> Draft:
        """All that the text says; raises `NotUnderstood` or `BadExpression`."""
        words, draft = self.words, self.draft
        while words:
            self._start = words.position
            self._parts.clear()
            self._phrase()
            phrase = Phrase(words.text[self._start : words.position].strip(" ,"), self._start)
            for part in self._parts:
                self._check_first(part, phrase)
                draft.said.setdefault(part, phrase)
        return draft

    def _check_first(self, part: Part, phrase: Phrase) -> None:
        if part in _ONCE_AT_MOST and part in self.draft.said:
            other = self.draft.said[part].text
            raise BadExpression(
                f"'{phrase.text}' at position {phrase.position} can't be joined with '{other}': leave one out.",
                phrase.position,
            )

    def _phrase(self) -> None:
        words, draft = self.words, self.draft
        word = words.peek()
        if word in ("on", "the", "of", "and", "each", "every", "in"):
            self._joining_word()
        elif word == "at":
            words.take()
            self._times(bare=True)
        elif is_time(words):
            self._times()
        elif word in ("between", "from"):
            self._window_or_days()
        elif word in ("today", "tomorrow", "next"):
            self._day_from_now()
        elif word in _HABITS:
            self._parts.append("period")
            draft.period, draft.repeats = _HABITS[words.take()], True
        elif word == "hourly":
            self._parts.append("interval")
            words.take()
            draft.interval, draft.repeats = 3_600, True
        elif word in ("once", "twice") or words.peek(1) == "times":
            self._so_many_times()
        elif len(word) == 10 and word[4:5] == "-":
            self._iso_date()
        elif self._is_weekday(word):
            self._weekdays()
        elif word == "last" or ordinal_of(word) is not None:
            self._ordinals()
        elif month_of(word) is not None:
            self._months()
        elif word.isdecimal() and month_of(words.peek(1)) is not None:
            self._number_before_month()
        else:
            raise self._not_understood()

    def _joining_word(self) -> None:
        words, draft = self.words, self.draft
        word = words.take()
        if word in ("each", "every"):
            draft.repeats = True
            self._every()
        elif word == "in" and (words.peek() in NUMBERS or words.peek()[:1].isdecimal()):
            self._parts.append("day")
            draft.instant = self.now + take_interval(words)
        elif not words:
            raise self._not_understood()

    def _every(self) -> None:
        """What comes after "every": how often, or else the days, which the next phrase says."""
        words, draft = self.words, self.draft
        word, following = words.peek(), words.peek(1)
        if word == "second" and following in UNITS and words.peek(2) != "of":
            self._parts.append("interval")
            words.take()
            draft.interval = 2 * take_interval(words)
        elif ordinal_of(word) is not None and (self._is_weekday(following) or following in ("day", "and", "of")):
            return
        elif word in _PERIODS:
            self._parts.append("period")
            draft.period = _PERIODS[words.take()]
        elif word in UNITS or (following in UNITS and (word in NUMBERS or word[:1].isdecimal())):
            self._parts.append("interval")
            draft.interval = take_interval(words)
        elif not words:
            raise self._not_understood()

    def _so_many_times(self) -> None:
        words, draft = self.words, self.draft
        self._parts.append("interval")
        position, first = words.position, words.take()
        count = {"once": 1, "twice": 2}.get(first) or NUMBERS.get(first) or whole(first)
        words.accept("times")
        if not words.accept("a", "an", "per", "every", "each"):
            raise self._not_understood()
        unit = words.peek()
        if unit not in ("minute", "hour", "day"):
            raise self._not_understood()
        words.take()
        if not count or UNITS[unit] % count:
            raise BadExpression(
                f"'{first}' at position {position} does not divide the {unit} into whole seconds: "
                "say at which times instead.",
                position,
            )
        draft.interval, draft.repeats = UNITS[unit] // count, True

    def _times(self, bare: bool = False) -> None:
        words, draft = self.words, self.draft
        self._parts.append("times")
        draft.times.append(take_time(words, bare))
        while is_time(words, 0, bare) or (words.peek() in _AND and is_time(words, 1, bare)):
            words.accept(*_AND)
            draft.times.append(take_time(words, bare))

    def _window_or_days(self) -> None:
        words = self.words
        words.take()
        if self._is_weekday(words.peek()):
            self._weekdays()
            return
        self._parts.append("window")
        position = words.position
        begin = take_time(words, bare=True)
        if not words.accept("and", *_TO):
            raise self._not_understood()
        end = take_time(words, bare=True)
        if begin[1:] != (0, 0) or end[1:] != (0, 0) or begin == end:
            raise BadExpression(
                f"The time at position {position} can't be kept to: it must go from one full hour to another, "
                "as in 'between 9am and 5pm'.",
                position,
            )
        self.draft.window = begin[0], end[0]

    def _day_from_now(self) -> None:
        words, draft = self.words, self.draft
        self._parts.append("day")
        word = words.take()
        if word != "next":
            draft.day = self.today + (word == "tomorrow")
            return
        wanted = weekday_of(words.peek())
        if wanted is None:
            raise self._not_understood()
        words.take()
        # 1970-01-01 was a Thursday.
        draft.day = self.today + ((wanted - self.today - 5) % 7) + 1

    def _iso_date(self) -> None:
        self._parts.append("day")
        position, text = self.words.position, self.words.take()
        when = text.split("-")
        self.draft.day = day_number(int(when[0]), int(when[1]), int(when[2]), text, position)
        self.words.accept("t")

    def _is_weekday(self, word: str) -> bool:
        return word.removesuffix("s") in _GROUPS or weekday_of(word) is not None

    def _weekdays(self) -> None:
        words, draft = self.words, self.draft
        self._parts.append("weekdays")
        while True:
            word = words.take()
            single = weekday_of(word)
            if single is None:
                draft.weekdays += _GROUPS[word.removesuffix("s")]
                draft.repeats = True
            elif words.peek() in _TO and weekday_of(words.peek(1)) is not None:
                words.take()
                last = weekday_of(words.take()) or 0
                draft.weekdays += [(single + step) % 7 for step in range((last - single) % 7 + 1)]
            else:
                draft.weekdays.append(single)
                draft.repeats |= word.endswith("days")
            if not self._another(self._is_weekday):
                return

    def _another(self, fits: Callable[[str], bool]) -> bool:
        """Whether a list goes on, with or without an "and" between (commas are gone). The "and" is taken."""
        words = self.words
        joined = words.peek() in _AND
        if not fits(words.peek(joined)):
            return False
        words.accept(*_AND)
        return True

    def _ordinals(self) -> None:
        """ "1st and 15th", "first monday", "last day": days of the month, or which of its weekdays."""
        words = self.words
        position = words.position
        ordinals = [self._ordinal()]
        while self._another(lambda word: word == "last" or ordinal_of(word) is not None):
            ordinals.append(self._ordinal())
        if self._is_weekday(words.peek()):
            self._nth_weekdays(ordinals, position)
        else:
            self._parts.append("days")
            if not words.accept("day") and "last" in ordinals:
                raise self._not_understood()
            self.draft.days += ["L" if ordinal == "last" else str(ordinal) for ordinal in ordinals]
        self._of_the_month()

    def _ordinal(self) -> int | Literal["last"]:
        return "last" if self.words.accept("last") else self._day_in_month()

    def _nth_weekdays(self, ordinals: list[int | Literal["last"]], position: int) -> None:
        self._parts.append("weekday_marks")
        while True:
            written, word = self.words.original(), self.words.take()
            weekday = weekday_of(word)
            if weekday is None and (word != "weekday" or ordinals != ["last"]):
                raise BadExpression(
                    f"'{written}' can't be counted from position {position} on: "
                    "only the last weekday of the month can, or a named day ('first monday of the month').",
                    position,
                )
            for ordinal in ordinals:
                if weekday is None:
                    self.draft.days.append("LW")
                elif ordinal == "last":
                    self.draft.weekday_marks.append(f"{weekday}L")
                elif ordinal <= 5:
                    self.draft.weekday_marks.append(f"{weekday}#{ordinal}")
                else:
                    raise BadExpression(
                        f"'{ordinal}th {written}' at position {position} is in no month: use first to fifth, or last.",
                        position,
                    )
            if not self._another(lambda word: weekday_of(word) is not None):
                return

    def _of_the_month(self) -> None:
        """ "of the month", or "of january", which the next phrase reads."""
        words = self.words
        ahead = 1 if words.peek() in ("of", "in") else 0
        ahead += words.peek(ahead) in ("the", "every", "each", "a")
        if ahead and words.peek(ahead) == "month":
            for _ in range(ahead + 1):
                words.take()
            self.draft.repeats = self.draft.of_the_month = True

    def _months(self) -> None:
        """ "january", "january and july", "january 1st", "december 24 2026"."""
        words, draft = self.words, self.draft
        self._parts.append("months")
        draft.months.append(month_of(words.take()) or 0)
        while self._another(lambda word: month_of(word) is not None):
            draft.months.append(month_of(words.take()) or 0)
        following = words.peek()
        is_day = following.isdecimal() and len(following) <= 2 and words.peek(1) not in ("am", "pm")
        if not draft.days and (is_day or ordinal_of(following) is not None):
            self._parts.append("days")
            draft.days.append(str(self._day_in_month()))
        self._year()

    def _day_in_month(self) -> int:
        words = self.words
        position, written = words.position, words.original()
        number = ordinal_of(words.peek()) or whole(words.peek()) or 0
        words.take()
        if not 1 <= number <= 31:
            raise BadExpression(
                f"'{written}' at position {position} is not a day of any month: they are 1 to 31.", position
            )
        return number

    def _number_before_month(self) -> None:
        self._parts.append("days")
        self.draft.days.append(str(self._day_in_month()))
        self._months()

    def _year(self) -> None:
        words, draft = self.words, self.draft
        if not (words.peek().isdecimal() and len(words.peek()) == 4):
            return
        if len(draft.months) != 1 or len(draft.days) != 1 or not draft.days[0].isdecimal():
            raise words.wrong(f"A year at position {words.position} needs one day and one month before it.")
        position = draft.said.pop("days").position if "days" in draft.said else self._start
        year = int(words.take())
        text = words.text[position : words.position].strip(" ,")
        draft.day = day_number(year, draft.months.pop(), int(draft.days.pop()), text, position)
        self._parts = ["day"]

    def _not_understood(self) -> NotUnderstood:
        return NotUnderstood(self.words.original(), self.words.position)


class NotUnderstood(Exception):
    """A word that says nothing here; empty at the end of the text."""

    def __init__(self, word: str, position: int) -> None:
        self.word, self.position = word, position
        super().__init__(word)
