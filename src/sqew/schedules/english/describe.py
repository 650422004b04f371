"""Descriptions of rules, in a sentence for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

from sqew.schedules.cron import Cron
from sqew.schedules.cron_fields import MONTHS, WEEKDAYS, Field, Term
from sqew.schedules.english.times import Time, clock

_MOST_TIMES = 6
"""The most times of day that are listed one by one; more are described by their hours and minutes."""
_WHICH = {"#1": "first", "#2": "second", "#3": "third", "#4": "fourth", "#5": "fifth", "L": "last"}
_NAMED_DAYS = {frozenset(range(1, 6)): "weekdays", frozenset((0, 6)): "weekends"}
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def cron_sentence(cron: Cron, zone: str) -> str:
    """Describe a cron expression: ``At 09:00 on weekdays, Europe/Berlin time``."""
    time, day = _time(cron), day_phrase(cron)
    each_day = " every day" if cron.any_day and time.startswith("At") and not cron.repeats else ""
    return f"{time}{each_day}{day}, {_zone(zone)}"


def days_sentence(days: int, time: Time, weekday: int, zone: str) -> str:
    """Describe an interval of days: ``At 09:00 every 2 days``, ``At 09:00 on Friday every 2 weeks``."""
    if days % 7 == 0:
        return f"At {clock(time)} on {WEEKDAYS[weekday]} every {days // 7} weeks, {_zone(zone)}"
    return f"At {clock(time)} every {days} days, {_zone(zone)}"


def elapsed_sentence(seconds: int) -> str:
    """Describe an interval of elapsed time: ``Every 1 hour 30 minutes of elapsed time``."""
    parts = []
    for unit, length in _UNITS:
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return f"Every {' '.join(parts)} of elapsed time"


def instant_sentence(ms: int, zone: str) -> str:
    """Describe an instant: ``Once, on Thursday 24 December 2026 at 18:00, Europe/Berlin time``."""
    when = datetime.fromtimestamp(ms // 1000, ZoneInfo(zone))
    weekday, month = WEEKDAYS[when.isoweekday() % 7], MONTHS[when.month - 1]
    time = clock((when.hour, when.minute, when.second))
    return f"Once, on {weekday} {when.day} {month} {when.year} at {time}, {_zone(zone)}"


def _zone(zone: str) -> str:
    return "UTC" if zone == "UTC" else f"{zone} time"


def _time(cron: Cron) -> str:
    if cron.second.single is None:
        return _seconds(cron)
    named = _named_times(cron)
    if named:
        return f"At {_list(named)}"
    return _often(cron) + (f", at second {cron.second.single}" if cron.second.single else "")


def _named_times(cron: Cron) -> list[str]:
    if cron.repeats or len(cron.hour.values) * len(cron.minute.values) > _MOST_TIMES:
        return []
    return [
        clock((hour, minute, cron.second.single or 0))
        for hour in sorted(cron.hour.values)
        for minute in sorted(cron.minute.values)
    ]


def _seconds(cron: Cron) -> str:
    cadence = _cadence(cron.second)
    if cadence and cron.minute.everything:
        return cadence + _within_hours(cron, (0, 0), (59, max(cron.second.values)))
    seconds = cadence or f"At {_numbered(cron.second)}"
    return f"{seconds} of {_numbered(cron.minute)} of {_numbered(cron.hour)}"


def _often(cron: Cron) -> str:
    cadence = _cadence(cron.minute)
    if cadence:
        return cadence + _within_hours(cron, (0, 0), (max(cron.minute.values), 0))
    if cron.minute.single is not None:
        hours = _each_hour(cron, cron.minute.single)
        if hours:
            return hours
    return f"At {_numbered(cron.minute)} of {_numbered(cron.hour)}"


def _cadence(field: Field) -> str | None:
    """Return ``Every 15 minutes`` if the field is a star with or without a step, or None."""
    only = field.terms[0]
    if len(field.terms) > 1 or not only.star:
        return None
    every = f"Every {field.name}" if only.step == 1 else f"Every {only.step} {field.name}s"
    whole = "hour" if field.name == "minute" else "minute"
    return every if 60 % only.step == 0 else f"{every} from each full {whole} on"


def _within_hours(cron: Cron, begin: tuple[int, int], end: tuple[int, int]) -> str:
    """Describe the hours, from a minute and second of the first to those of the last fire."""
    if cron.hour.everything:
        return ""
    window = _window(cron.hour)
    if window:
        return f" from {clock((window[0], *begin))} to {clock((window[1], *end))}"
    return f" of {_numbered(cron.hour)}"


def _window(hours: Field) -> tuple[int, int] | None:
    """Return the first and the last hour if they follow each other, perhaps past midnight."""
    first, last = hours.terms[0], hours.terms[-1]
    over_midnight = len(hours.terms) == 2 and (first.high, last.low) == (23, 0)
    if (len(hours.terms) == 1 or over_midnight) and first.step == last.step == 1:
        return first.low, last.high
    return None


def _each_hour(cron: Cron, minute: int) -> str | None:
    window = _window(cron.hour)
    if len(cron.hour.terms) == 2 and window:
        return f"Every hour from {clock((window[0], minute, 0))} to {clock((window[1], minute, 0))}"
    only = cron.hour.terms[0]
    if len(cron.hour.terms) > 1 or only.low == only.high:
        return None
    every = "Every hour" if only.step == 1 else f"Every {only.step} hours"
    if not only.star or 24 % only.step:
        return f"{every} from {clock((only.low, minute, 0))} to {clock((only.values[-1], minute, 0))}"
    return every if minute == 0 else f"{every} at {minute} minute{'' if minute == 1 else 's'} past"


def _numbered(field: Field) -> str:
    """Describe a field's numbers: ``every minute``, ``every 5th minute``, ``minutes 5 and 10 to 20``."""
    if field.everything:
        return f"every {field.name}"
    only = field.terms[0]
    if len(field.terms) == 1 and only.star:
        return f"every {_ordinal(only.step)} {field.name}"
    return f"{field.name}{'' if field.single is not None else 's'} {_terms(field.terms, str)}"


def day_phrase(cron: Cron) -> str:
    """Describe the days: `` on the 30th of February``."""
    months = "" if cron.month.everything else f" in {_months(cron.month)}"
    of_months = f" of {_months(cron.month) or 'the month'}"
    if cron.any_day:
        return months
    if cron.day.everything:
        if not cron.weekday.everything and not any(term.mark for term in cron.weekday.terms):
            named = _NAMED_DAYS.get(frozenset(day % 7 for day in cron.weekday.values))
            if named:
                return f" on {named}{months}"
        counted = any(term.mark for term in cron.weekday.terms)
        return f" on {_weekdays(cron.weekday, of_months)}{'' if counted else months}"
    if cron.weekday.everything:
        return f" on {_days(cron.day)}{of_months}"
    if cron.both_days:
        return f" on {_days(cron.day)}{of_months} if that is {_weekdays(cron.weekday, of_months)}"
    return f" on {_days(cron.day)}{of_months} and on {_weekdays(cron.weekday, of_months)}{months}"


def _months(field: Field) -> str:
    if field.everything:
        return ""
    if field.repeats:
        return _list(MONTHS[month - 1] for month in sorted(field.values))
    return _terms(field.terms, lambda month: MONTHS[month - 1])


def _days(field: Field) -> str:
    marks = {"L": "the last day", "LW": "the last weekday"}
    parts = []
    for term in field.terms:
        if term.mark:
            parts.append(marks[term.mark])
        elif term.step > 1:
            parts.append(f"every {_ordinal(term.step)} day from the {_ordinal(term.low)} to the {_ordinal(term.high)}")
        else:
            parts.append(f"the {_term(term, _ordinal)}")
    return _list(parts).replace(" and the ", " and ").replace(", the ", ", ") if _plain(field) else _list(parts)


def _plain(field: Field) -> bool:
    return not any(term.mark or term.step > 1 for term in field.terms)


def _weekdays(field: Field, of_months: str) -> str:
    plain = [_term(term, lambda day: WEEKDAYS[day % 7]) for term in field.terms if not term.mark]
    counted = [f"the {_WHICH[term.mark]} {WEEKDAYS[term.low]}" for term in field.terms if term.mark]
    return _list(plain + counted) + (of_months if counted else "")


def _terms(terms: Iterable[Term], named: Callable[[int], str]) -> str:
    return _list(_term(term, named) for term in terms)


def _term(term: Term, named: Callable[[int], str]) -> str:
    if term.step > 1:
        return _list(named(value) for value in term.values)
    return named(term.low) if term.low == term.high else f"{named(term.low)} to {named(term.high)}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _list(parts: Iterable[str]) -> str:
    """Join parts as in ``a``, ``a and b``, ``a, b and c``."""
    *many, last = parts
    return f"{', '.join(many)} and {last}" if many else last
