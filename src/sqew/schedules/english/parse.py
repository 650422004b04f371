"""Plain English: ``every weekday at 9am``, ``first monday of the month at noon``, ``tomorrow at 6pm``.

>>> canonical_when("every weekday at 9am", "Europe/Berlin", now_ms=0)
'0 9 * * 1-5'
"""

from __future__ import annotations

import re

from sqew.errors import BadExpression
from sqew.schedules.english.draft import Draft, NotUnderstood, Part
from sqew.schedules.english.phrases import PhraseReader
from sqew.schedules.english.times import MIDNIGHT
from sqew.schedules.instants import check_future
from sqew.schedules.intervals import canonical_days, canonical_interval
from sqew.schedules.zones import DAY, instant_of, is_zone, local_of, utc_time
from sqew.spelling import LONGEST_COMPARED, closest

EXAMPLES = (
    "every weekday at 9am",
    "every monday and thursday at 18:30",
    "every day at noon",
    "daily at 06:00 and 18:00",
    "monday to friday at 8:30",
    "weekends at 10:15",
    "first monday of the month at noon",
    "last friday of the month at 5pm",
    "1st and 15th of the month at midnight",
    "last day of the month at 23:59",
    "last weekday of the month at 4pm",
    "every january 1st at 00:00",
    "every month on the 15th at noon",
    "every hour",
    "hourly at :30",
    "every 15 minutes",
    "every 15 minutes between 9am and 5pm on weekdays",
    "every 2 hours on sundays",
    "twice a day",
    "tomorrow at 6pm",
    "today at 17:00",
    "next friday at noon",
    "in 2 hours",
    "on 24 december 2026 at 6pm",
    "2026-12-24 18:00",
)
_EVENING, _MORNING = 17, 5
"""The hours at which a night begins and ends."""
_HOUR = 3_600
_PAIRED: tuple[Part, ...] = ("times", "weekdays", "weekday_marks", "days", "months")
_ZONE = re.compile(r"[A-Za-z_]+(?:[/_+-][A-Za-z0-9_]+)*|[+-][0-9:]+")


def canonical_when(text: str, zone: str, now_ms: int) -> str:
    """Return the canonical form of a text: a cron string, an interval or an instant. Raise `BadExpression`."""
    # Not before what was asked for, if the present second has begun already.
    now = -(-now_ms // 1000)
    try:
        draft = PhraseReader(text, now, local_of(now, zone) // DAY).read()
    except NotUnderstood as error:
        raise BadExpression(_not_understood(text, error), error.position) from None
    if not draft.said:
        raise BadExpression(f"The text says no time. {_nearest_forms(text)}", 1)
    if draft.day is not None or draft.instant is not None:
        return _once(draft, text, zone, now_ms)
    if draft.interval is not None and draft.interval != DAY:
        return _interval(draft)
    return _calendar(draft)


def _not_understood(text: str, error: NotUnderstood) -> str:
    zone = _ZONE.match(text, error.position - 1)
    if zone and is_zone(zone[0]):
        return (
            f"'{zone[0]}' at position {error.position} is a time zone: "
            "leave it out of the text, and give it as timezone instead."
        )
    what = f"'{error.word}' at position {error.position} is not understood" if error.word else "The text ends too early"
    return f"{what}. {_nearest_forms(text)}"


def _nearest_forms(text: str) -> str:
    near = closest(text.casefold()[:LONGEST_COMPARED], EXAMPLES, most=3, cutoff=0)
    return f"Nearest forms: {', '.join(repr(form) for form in near)}."


def _once(draft: Draft, text: str, zone: str, now_ms: int) -> str:
    _check_alone(draft, "day", "period", "interval", "minute", "window", "weekdays", "weekday_marks", "days", "months")
    if draft.repeats:
        raise _wrong(draft, "day", "is one day only: leave 'every' out")
    if draft.instant is not None:
        _check_alone(draft, "day", "times")
        return utc_time(draft.instant * 1000)
    if len(draft.times) > 1:
        raise _wrong(draft, "times", "has more than one time for one day: make a schedule for each")
    hour, minute, second = draft.times[0] if draft.times else MIDNIGHT
    if draft.tonight:
        hour = _hour_of_the_night(draft, hour)
    assert draft.day is not None
    ms = instant_of(draft.day * DAY + hour * 3_600 + minute * 60 + second, zone) * 1000
    check_future(ms, text, zone, now_ms)
    return utc_time(ms)


def _hour_of_the_night(draft: Draft, hour: int) -> int:
    """Return the hour, counted from the midnight before: hours after the next midnight are 24 and more."""
    if not draft.times:
        raise _wrong(draft, "day", "does not say at what time: add it, as in 'tonight at 8pm'")
    if draft.bare_hour and _MORNING <= hour < 12:
        hour += 12
    if _MORNING <= hour < _EVENING:
        raise _wrong(draft, "times", "is not at night, which is from 5pm to 5am: say 'today', or another time")
    return hour if hour >= _EVENING else hour + 24


def _interval(draft: Draft) -> str:
    assert draft.interval is not None
    if draft.interval % DAY == 0:
        return _every_nth_day(draft, draft.interval // DAY)
    _check_alone(draft, "interval", "times", "period")
    _check_one_night(draft)
    canonical = canonical_interval(draft.interval)
    if "minute" in draft.said:
        if draft.interval % _HOUR or canonical.startswith("@"):
            raise _wrong(draft, "minute", "is a minute of the hour: say 'every hour' or 'every 2 hours' with it")
        canonical = canonical.replace("0 ", f"{draft.minute} ", 1)
    if len(draft.said) == 1:
        return canonical
    if canonical.startswith("@"):
        raise _wrong(
            draft, "interval", "can't be kept to certain days or hours: use one that divides an hour or a day evenly"
        )
    *seconds, minute, hour, _, _, _ = canonical.split()
    if draft.window:
        hour = _hours_within(draft.window, draft.interval)
    return " ".join([*seconds, minute, hour, *_days(draft)])


def _every_nth_day(draft: Draft, days: int) -> str:
    _check_alone(draft, "interval", "period", "minute", "window", "weekday_marks", "days", "months")
    if draft.weekdays and (days % 7 or len(set(draft.weekdays)) > 1):
        raise _wrong(draft, "interval", "can't be kept to these days: use whole weeks, and one day of the week")
    if len(set(draft.times)) > 1:
        raise _wrong(draft, "times", f"has more than one time for every {days} days: make a schedule for each")
    time = draft.times[0] if draft.times else MIDNIGHT
    return canonical_days(days, time, draft.weekdays[0] if draft.weekdays else 1)


def _check_one_night(draft: Draft) -> None:
    """Refuse hours past midnight on certain days: the second half of them would be on the day after."""
    if draft.window and 0 < draft.window[1] < draft.window[0]:
        for part in ("weekdays", "weekday_marks", "days"):
            if part in draft.said:
                raise _wrong(
                    draft,
                    "window",
                    f"goes past midnight, so it can't be joined with '{draft.said[part].text}': "
                    "make one schedule until midnight and one from midnight on",
                )


def _hours_within(window: tuple[int, int], interval: int) -> str:
    """Return the hours of a window, without the hour at which it ends."""
    begin, end = window
    step = max(interval // 3_600, 1)
    if begin < end:
        return _range(begin, end - 1, step)
    if step > 1:
        return ",".join(str(hour % 24) for hour in range(begin, end + 24, step))
    return _range(begin, 23) + ("," + _range(0, end - 1) if end else "")


def _range(low: int, high: int, step: int = 1) -> str:
    if low == high:
        return str(low)
    return f"{low}-{high}" + (f"/{step}" if step > 1 else "")


def _calendar(draft: Draft) -> str:
    if "minute" in draft.said:
        raise _wrong(
            draft, "minute", "is a minute of the hour: say 'every hour' with it, or a time of day such as 9:30"
        )
    if draft.window:
        raise _wrong(draft, "window", "does not say how often: add 'every 15 minutes', for example")
    if not draft.repeats:
        _check_clear(draft)
    times = sorted(set(draft.times)) or [MIDNIGHT]
    if len({time[1:] for time in times}) > 1:
        raise _wrong(draft, "times", "has times at different minutes of the hour: make a schedule for each")
    _, minute, second = times[0]
    fields = [str(minute), _listed([hour for hour, _, _ in times]), *_days(draft)]
    return " ".join([str(second), *fields] if second else fields)


def _check_clear(draft: Draft) -> None:
    """Refuse texts that may mean once or again and again."""
    if draft.months and draft.days:
        raise _wrong(draft, "months", "may mean once or every year: add the year, or say 'every'")
    if draft.days:
        raise _wrong(draft, "days", "may mean once or every month: say 'of the month', or add the month and the year")
    if len(set(draft.weekdays)) == 1:
        raise _wrong(draft, "weekdays", "may mean once or every week: say 'next' or 'every' before the day")
    if not draft.weekdays and not draft.weekday_marks:
        raise _wrong(draft, "times" if draft.times else "months", "names no day: add 'every day' or 'tomorrow'")


def _check_pairs(draft: Draft) -> None:
    """Refuse several values in two parts, such as other times on other days: a rule holds for all its days alike."""
    several = [part for part in _PAIRED if part in draft.said_again and len(set(getattr(draft, part))) > 1]
    if len(several) > 1:
        raise _wrong(draft, several[0], "does not hold for all that is said: make a schedule for each")


def _check_period(draft: Draft) -> None:
    """Refuse days that contradict the period or interval."""
    often: Part = "period" if draft.period else "interval"
    if "weekdays" in draft.said_after_and and often in draft.said:
        raise _joined(draft, "weekdays", often, "make a schedule for each")
    if draft.period in ("day", "week"):
        _check_alone(draft, "period", "days", "weekday_marks")
    elif draft.period and draft.weekdays:
        raise _joined(draft, "weekdays", "period", "say which one, as in 'first monday of the month'")
    elif draft.period == "year" and not draft.months and (draft.days or draft.weekday_marks):
        raise _wrong(draft, "days" if draft.days else "weekday_marks", "does not say of which month: add 'of january'")


def _days(draft: Draft) -> tuple[str, str, str]:
    """Return the day of the month, the month and the day of the week."""
    _check_pairs(draft)
    _check_period(draft)
    if draft.weekday_marks and not (draft.of_the_month or draft.months or draft.period in ("month", "year")):
        raise _wrong(draft, "weekday_marks", "does not say of what: add 'of the month'")
    _check_alone(draft, "weekday_marks", "weekdays")
    _check_alone(draft, "days", "weekdays", "weekday_marks")
    # From Monday on, as people count them.
    weekdays = ",".join(draft.weekday_marks) or _listed(sorted(set(draft.weekdays), key=lambda day: (day - 1) % 7))
    days = ",".join(dict.fromkeys(draft.days))
    months = sorted(set(draft.months))
    if draft.period == "week" and not weekdays:
        weekdays = "1"
    if not weekdays and not days and (draft.period in ("month", "year") or _is_every_month(draft)):
        days = "1"
    if draft.period == "year" and not months:
        months = [1]
    return days or "*", _listed(months) or "*", weekdays or "*"


def _is_every_month(draft: Draft) -> bool:
    """Return True if months are named and nothing more, as in "every january"."""
    return bool(draft.months) and draft.period is None and draft.interval is None


def _listed(values: list[int]) -> str:
    """Return numbers as a field writes them: three and more in a row as a range."""
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]}-{values[-1]}"
    return ",".join(str(value) for value in values)


def _check_alone(draft: Draft, part: Part, *others: Part) -> None:
    """Refuse each of the others beside this part."""
    for other in others:
        if part in draft.said and other in draft.said:
            raise _joined(draft, other, part, "leave one out")


def _joined(draft: Draft, part: Part, other: Part, instead: str) -> BadExpression:
    said = draft.said[other]
    return _wrong(draft, part, f"can't be joined with '{said.text}' at position {said.position}: {instead}")


def _wrong(draft: Draft, part: Part, what: str) -> BadExpression:
    said = draft.said.get(part) or next(iter(draft.said.values()))
    return BadExpression(f"'{said.text}' at position {said.position} {what}.", said.position)
