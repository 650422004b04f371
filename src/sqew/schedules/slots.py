"""Local times of a rule, counted in seconds since 1970-01-01 00:00 local time."""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from datetime import date

from sqew.schedules.cron import Cron
from sqew.schedules.firing import NEVER
from sqew.schedules.zones import DAY

_FIRST_DAY = date(1970, 1, 1).toordinal()
_LONGEST_SEARCH_YEARS = 50
"""Years to search at most: a weekday comes back to 29 February after 40 years at most (those round 2100)."""
_LAST_YEAR = 9_999


class CronSlots:
    """The local times of a cron expression."""

    def __init__(self, cron: Cron) -> None:
        self.repeats = cron.repeats
        self._seconds = sorted(cron.second.values)
        self._minutes = sorted(cron.minute.values)
        self._hours = sorted(cron.hour.values)
        self._first = self._hours[0] * 3600 + self._minutes[0] * 60 + self._seconds[0]
        self._days = CronDays(cron)

    def after(self, local: int) -> int:
        day, second = divmod(local + 1, DAY)
        if self._days.has(day):
            time = self._time_from(second)
            if time is not None:
                return day * DAY + time
        day = self._days.after(day)
        return day * DAY + self._first if day < NEVER else NEVER

    def has(self, local: int) -> bool:
        day, second = divmod(local, DAY)
        return self._days.has(day) and self._time_from(second) == second

    def _time_from(self, second: int) -> int | None:
        """Return the first time of day from this one on, or None."""
        hour, rest = divmod(second, 3600)
        minute, second = divmod(rest, 60)
        hours, minutes, seconds = self._hours, self._minutes, self._seconds
        place = bisect_left(hours, hour)
        if place == len(hours):
            return None
        if hours[place] > hour:
            return hours[place] * 3600 + minutes[0] * 60 + seconds[0]
        in_hour = bisect_left(minutes, minute)
        if in_hour < len(minutes) and minutes[in_hour] == minute:
            in_minute = bisect_left(seconds, second)
            if in_minute < len(seconds):
                return hour * 3600 + minute * 60 + seconds[in_minute]
            in_hour += 1
        if in_hour < len(minutes):
            return hour * 3600 + minutes[in_hour] * 60 + seconds[0]
        return hours[place + 1] * 3600 + minutes[0] * 60 + seconds[0] if place + 1 < len(hours) else None


class CronDays:
    """The days of a cron expression, counted from 1970-01-01."""

    def __init__(self, cron: Cron) -> None:
        self._every = cron.any_day and cron.month.everything
        self._months = cron.month.values
        self._both = cron.both_days
        self._days = cron.day.values
        self._marks = frozenset(term.mark for term in cron.day.terms)
        self._weekdays = frozenset(weekday % 7 for weekday in cron.weekday.values)
        self._weekday_marks = frozenset((term.low, term.mark) for term in cron.weekday.terms if term.mark)

    def has(self, day: int) -> bool:
        """Return True if this day is one of them."""
        if self._every:
            return True
        when = date.fromordinal(day + _FIRST_DAY)
        return when.month in self._months and self._matches(when, day)

    def after(self, day: int) -> int:
        """Return the first of them after this one; `NEVER` if there is none."""
        day += 1
        if self._every:
            return day
        when = date.fromordinal(day + _FIRST_DAY)
        last_year = min(when.year + _LONGEST_SEARCH_YEARS, _LAST_YEAR - 1)
        while when.year <= last_year:
            if when.month not in self._months:
                when = _month_after(when)
                day = when.toordinal() - _FIRST_DAY
                continue
            if self._matches(when, day):
                return day
            day += 1
            when = date.fromordinal(day + _FIRST_DAY)
        return NEVER

    def _matches(self, when: date, day: int) -> bool:
        # 1970-01-01 was a Thursday.
        weekday = (day + 4) % 7
        if self._both:
            return self._by_date(when, weekday) and self._by_weekday(when, weekday)
        return self._by_date(when, weekday) or self._by_weekday(when, weekday)

    def _by_date(self, when: date, weekday: int) -> bool:
        if when.day in self._days:
            return True
        if "L" in self._marks and when.day == _last_day(when):
            return True
        if "LW" not in self._marks or weekday in (0, 6):
            return False
        left = _last_day(when) - when.day
        return left == 0 or (weekday == 5 and left <= 2)

    def _by_weekday(self, when: date, weekday: int) -> bool:
        if weekday in self._weekdays:
            return True
        if not self._weekday_marks:
            return False
        if (weekday, f"#{(when.day + 6) // 7}") in self._weekday_marks:
            return True
        return (weekday, "L") in self._weekday_marks and when.day + 7 > _last_day(when)


class EveryNthDay:
    """A time of every n-th day, counted from 1970-01-01. Whole weeks are counted from the Monday after it, and fall on
    a day of the week."""

    repeats = False

    def __init__(self, days: int, weekday: int, second: int) -> None:
        first = 4 + (weekday - 1) % 7 if days % 7 == 0 else 0
        self._length = days * DAY
        self._first = first * DAY + second

    def after(self, local: int) -> int:
        return ((local - self._first) // self._length + 1) * self._length + self._first

    def has(self, local: int) -> bool:
        return (local - self._first) % self._length == 0


def _month_after(when: date) -> date:
    return date(when.year + when.month // 12, when.month % 12 + 1, 1)


def _last_day(when: date) -> int:
    return monthrange(when.year, when.month)[1]
