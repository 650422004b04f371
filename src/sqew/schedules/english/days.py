"""Phrases for days: ``monday to friday``, ``first monday of the month``, ``24 december 2026``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sqew.errors import BadExpression
from sqew.schedules.english.draft import Draft, NotUnderstood, Part
from sqew.schedules.english.times import whole
from sqew.schedules.english.words import Words, month_of, ordinal_of, weekday_of
from sqew.schedules.instants import day_number

TO = ("to", "through", "until", "till", "-")
AND = ("and", "or", "&")
_GROUPS = {"weekday": (1, 2, 3, 4, 5), "weekend": (0, 6)}


class DayReader:
    """Parser of the phrases for days, into a draft."""

    def __init__(self, text: str) -> None:
        self.words = Words(text)
        self.draft = Draft()
        self._start = 1
        """The position at which the present phrase begins."""
        self._parts: list[Part] = []
        """The parts of the draft that the present phrase sets."""

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
            elif words.peek() in TO and weekday_of(words.peek(1)) is not None:
                words.take()
                last = weekday_of(words.take()) or 0
                draft.weekdays += [(single + step) % 7 for step in range((last - single) % 7 + 1)]
            else:
                draft.weekdays.append(single)
                draft.repeats |= word.endswith("days")
            if not self._another(self._is_weekday):
                return

    def _another(self, fits: Callable[[str], bool]) -> bool:
        """Return True if a list goes on, with or without an "and" between (commas are gone). Consume the "and"."""
        words = self.words
        joined = words.peek() in AND
        if not fits(words.peek(joined)):
            return False
        words.accept(*AND)
        return True

    def _ordinals(self) -> None:
        """Parse "1st and 15th", "first monday", "last day": days of the month, or its weekdays by their number."""
        words = self.words
        position = words.position
        ordinals = [self._ordinal()]
        while True:
            joined = words.peek() in AND or words.after_comma
            if not self._another(lambda word: word == "last" or ordinal_of(word) is not None):
                break
            ordinals.append(self._ordinal())
            if not joined and "last" in ordinals[-2:]:
                raise BadExpression(
                    f"'{words.since(position)}' at position {position} can't be counted: "
                    "only the last one can be counted from the end of the month.",
                    position,
                )
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
        if self.words.peek() == "weekday" and ordinals == ["last"]:
            self._parts.append("days")
            self.draft.days.append("LW")
            self.words.take()
            return
        self._parts.append("weekday_marks")
        while True:
            written, word = self.words.original(), self.words.take()
            weekday = weekday_of(word)
            if weekday is None:
                raise BadExpression(
                    f"'{written}' can't be counted from position {position} on: "
                    "only the last weekday of the month can, or a named day ('first monday of the month').",
                    position,
                )
            for ordinal in ordinals:
                if ordinal == "last":
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
        """Consume "of the month"; "of january" is left for the next phrase."""
        words = self.words
        ahead = 1 if words.peek() in ("of", "in") else 0
        ahead += words.peek(ahead) in ("the", "every", "each", "a")
        if ahead and words.peek(ahead) == "month":
            for _ in range(ahead + 1):
                words.take()
            self.draft.repeats = self.draft.of_the_month = True

    def _months(self) -> None:
        """Parse "january", "january and july", "january 1st", "december 24 2026"."""
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
        draft.day = day_number(year, draft.months.pop(), int(draft.days.pop()), words.since(position), position)
        self._parts = ["day"]

    def _not_understood(self) -> NotUnderstood:
        return NotUnderstood(self.words.original(), self.words.position)
