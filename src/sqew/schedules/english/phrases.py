"""Parser of a plain English text, phrase by phrase and in any order.

Every phrase adds to a `Draft`; `sqew.schedules.english.parse` makes an expression of it.
"""

from __future__ import annotations

from sqew.errors import BadExpression
from sqew.schedules.english.days import AND, TO, DayReader
from sqew.schedules.english.draft import Draft, Part, Period, Phrase
from sqew.schedules.english.times import Time, is_bare_hour, is_time, take_time, whole
from sqew.schedules.english.words import NUMBERS, UNITS, month_of, ordinal_of, weekday_of
from sqew.schedules.instants import day_number
from sqew.schedules.intervals import is_amount, is_number, is_unit, take_interval

_HABITS: dict[str, Period] = {
    "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annually": "year",
}  # fmt: skip
_PERIODS: dict[str, Period] = {"day": "day", "week": "week", "month": "month", "year": "year"}
_ONCE_AT_MOST: tuple[Part, ...] = ("period", "interval", "minute", "window", "day")
_DAYS_FROM_NOW = {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1}
_AFTER_ORDINAL = ("day", "and", "of", "last")
_LAST_MINUTE = 59
_NOON: Time = (12, 0, 0)


class PhraseReader(DayReader):
    """Parser of the phrases of a text. ``now`` is the present second, ``today`` its local day."""

    def __init__(self, text: str, now: int, today: int) -> None:
        super().__init__(text)
        self.now = now
        self.today = today
        self._after_and = self._after_comma = False

    def read(self) -> Draft:
        """Parse the whole text; raise `NotUnderstood` or `BadExpression`."""
        words, draft = self.words, self.draft
        while words:
            self._start = words.position
            self._after_comma |= words.after_comma
            self._parts.clear()
            self._phrase()
            phrase = Phrase(words.since(self._start), self._start)
            for part in self._parts:
                self._note(part, phrase)
            if self._parts:
                self._after_and = self._after_comma = False
        return draft

    def _note(self, part: Part, phrase: Phrase) -> None:
        draft = self.draft
        if part not in draft.said:
            draft.said[part] = phrase
            if self._after_and:
                draft.said_after_and.add(part)
            return
        alone = part == "weekdays" and not (self._after_and or self._after_comma)
        if alone or part in _ONCE_AT_MOST:
            raise BadExpression(
                f"'{phrase.text}' at position {phrase.position} can't be joined with '{draft.said[part].text}': "
                f"leave one out{', or make a schedule for each' if alone else ''}.",
                phrase.position,
            )
        draft.said_again.add(part)

    def _phrase(self) -> None:
        words, draft = self.words, self.draft
        word = words.peek()
        if word in ("on", "the", "of", "and", "each", "every", "in"):
            self._joining_word()
        elif word == "at" and words.peek(1)[:1] == ":":
            words.take()
            self._minute_past()
        elif word == "at":
            words.take()
            self._times(bare=True)
        elif is_time(words):
            self._times()
        elif word in ("between", "from"):
            self._window_or_days()
        elif word in _DAYS_FROM_NOW or word == "next" or self._is_day_after_tomorrow():
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
        elif is_amount(words):
            take_interval(words)
            raise BadExpression(
                f"'{words.since(self._start)}' at position {self._start} may mean once or again and again: "
                "say 'in' or 'every' before it.",
                self._start,
            )
        else:
            raise self._not_understood()

    def _joining_word(self) -> None:
        words, draft = self.words, self.draft
        word = words.take()
        if word in ("each", "every"):
            draft.repeats = True
            self._every()
        elif word == "in" and is_number(words.peek()):
            self._parts.append("day")
            draft.instant = self.now + take_interval(words, once=True)
        elif word == "and":
            self._after_and = True
        if not words and not self._parts:
            raise self._not_understood()

    def _every(self) -> None:
        """Parse the words after "every": an interval, or nothing if the next phrase gives the days."""
        words, draft = self.words, self.draft
        word, following = words.peek(), words.peek(1)
        if ordinal_of(word) is not None and is_unit(following) and words.peek(2) != "of":
            self._every_nth()
        elif ordinal_of(word) is not None and (self._is_weekday(following) or following in _AFTER_ORDINAL):
            return
        elif word in ("weekdays", "weekends"):
            raise words.wrong(
                f"'{words.original()}' at position {words.position} can't follow 'every'. "
                f"Write 'every {word.removesuffix('s')}', or 'on {word}'."
            )
        elif word == "other" and weekday_of(following) is not None:
            self._parts.append("interval")
            words.take()
            draft.interval = 2 * UNITS["week"]
        elif word in _PERIODS:
            self._parts.append("period")
            draft.period = _PERIODS[words.take()]
        elif word in UNITS or is_amount(words):
            self._parts.append("interval")
            draft.interval = take_interval(words)

    def _every_nth(self) -> None:
        """Parse "every 3rd day" as an interval."""
        words = self.words
        self._parts.append("interval")
        position, count = words.position, ordinal_of(words.take()) or 0
        self.draft.interval = take_interval(words, count)
        if count == 1:
            raise BadExpression(
                f"'{words.since(position)}' at position {position} does not say of what: add 'of the month'.", position
            )

    def _so_many_times(self) -> None:
        words, draft = self.words, self.draft
        self._parts.append("interval")
        position, first = words.position, words.take()
        count = {"once": 1, "twice": 2}.get(first) or NUMBERS.get(first) or whole(first)
        words.accept("times")
        if not words.accept("a", "an", "per", "every", "each"):
            raise self._not_understood()
        unit = words.peek()
        if unit in _PERIODS and unit != "day":
            self._once_a(_PERIODS[words.take()], count, first, position)
            return
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

    def _once_a(self, period: Period, count: int | None, written: str, position: int) -> None:
        if count != 1:
            raise BadExpression(
                f"'{written}' at position {position} does not divide the {period} evenly: "
                "say on which days, as in 'every monday and thursday'.",
                position,
            )
        self._parts = ["period"]
        self.draft.period, self.draft.repeats = period, True

    def _times(self, bare: bool = False) -> None:
        words, draft = self.words, self.draft
        self._parts.append("times")
        while True:
            draft.bare_hour |= is_bare_hour(words)
            draft.times.append(take_time(words, bare))
            if not (is_time(words, 0, bare) or (words.peek() in AND and is_time(words, 1, bare))):
                return
            words.accept(*AND)

    def _minute_past(self) -> None:
        """Parse ":30", the minute of the hour."""
        words = self.words
        self._parts.append("minute")
        position, written = words.position, words.original()
        minute = whole(words.take().removeprefix(":"))
        if minute is None or minute > _LAST_MINUTE:
            raise BadExpression(
                f"'{written}' at position {position} is not a minute of the hour: they go from :00 to :59.", position
            )
        self.draft.minute = minute

    def _window_or_days(self) -> None:
        words = self.words
        words.take()
        if self._is_weekday(words.peek()):
            self._weekdays()
            return
        self._parts.append("window")
        position = words.position
        begin = take_time(words, bare=True)
        if not words.accept("and", *TO):
            raise self._not_understood()
        bare_end = is_bare_hour(words)
        end = take_time(words, bare=True)
        if bare_end and end < begin <= _NOON:
            raise BadExpression(
                f"'{words.since(self._start)}' at position {self._start} ends before it begins: "
                "say am or pm, as in 'from 9am to 5pm'.",
                self._start,
            )
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
        if self._is_day_after_tomorrow():
            draft.day = self.today + 2
            for _ in ("day", "after", "tomorrow"):
                words.take()
            return
        word = words.take()
        if word in _DAYS_FROM_NOW:
            draft.day, draft.tonight = self.today + _DAYS_FROM_NOW[word], word == "tonight"
            return
        wanted = weekday_of(words.peek())
        if wanted is None:
            raise self._not_understood()
        words.take()
        # 1970-01-01 was a Thursday.
        draft.day = self.today + ((wanted - self.today - 5) % 7) + 1

    def _is_day_after_tomorrow(self) -> bool:
        return [self.words.peek(ahead) for ahead in range(3)] == ["day", "after", "tomorrow"]

    def _iso_date(self) -> None:
        self._parts.append("day")
        position, text = self.words.position, self.words.take()
        when = text.split("-")
        self.draft.day = day_number(int(when[0]), int(when[1]), int(when[2]), text, position)
        self.words.accept("t")
