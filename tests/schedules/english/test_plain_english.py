"""``when``: plain English is understood, or refused with the word, its place and the nearest forms."""

import pytest

from sqew.schedules import understand
from sqew.schedules.english.parse import EXAMPLES
from tests.schedules.reading import BERLIN, NOW, canonical, refusal, utc

REPEATING = {
    "every weekday at 9am": "0 9 * * 1-5",
    "Every Weekday At 9 AM": "0 9 * * 1-5",
    "at 9am every weekday": "0 9 * * 1-5",
    "each weekday at 9 a.m.": "0 9 * * 1-5",
    "weekdays 9:00": "0 9 * * 1-5",
    "every weekday": "0 0 * * 1-5",
    "monday to friday at 9": "0 9 * * 1-5",
    "from mon through fri at 9 o'clock": "0 9 * * 1-5",
    "every monday and thursday at 18:30": "30 18 * * 1,4",
    "monday and thursday at 18:30": "30 18 * * 1,4",
    "every mon, wed & fri at 06:00:30": "30 0 6 * * 1,3,5",
    "friday to monday at noon": "0 12 * * 1,5,6,0",
    "sundays": "0 0 * * 0",
    "weekends at 10:15": "15 10 * * 6,0",
    "every day at noon": "0 12 * * *",
    "daily at midnight": "0 0 * * *",
    "every day at 9am and 5pm": "0 9,17 * * *",
    "every day at 12am, 8am and 4pm": "0 0,8,16 * * *",
    "weekly on friday at 5pm": "0 17 * * 5",
    "every week": "0 0 * * 1",
    "monthly": "0 0 1 * *",
    "every month on the 15th at noon": "0 12 15 * *",
    "1st and 15th of the month at midnight": "0 0 1,15 * *",
    "on the 1st of every month at 7am": "0 7 1 * *",
    "first day of the month at 7am": "0 7 1 * *",
    "last day of the month at 23:59": "59 23 L * *",
    "last weekday of the month at 4pm": "0 16 LW * *",
    "first monday of the month at noon": "0 12 * * 1#1",
    "first and third tuesday of the month at 14:00": "0 14 * * 2#1,2#3",
    "last friday of the month at 5pm": "0 17 * * 5L",
    "every 2nd monday of january and july at noon": "0 12 * 1,7 1#2",
    "every january 1st at 00:00": "0 0 1 1 *",
    "every 24 december at 6pm": "0 18 24 12 *",
    "yearly on the 1st of july": "0 0 1 7 *",
    "every year": "0 0 1 1 *",
    "every sunday in july at midnight": "0 0 * 7 0",
    "every minute": "* * * * *",
    "every second": "* * * * * *",
    "every 15 minutes": "*/15 * * * *",
    "every hour": "0 * * * *",
    "hourly": "0 * * * *",
    "every 2 hours on sundays": "0 */2 * * 0",
    "every 15 minutes between 9am and 5pm on weekdays": "*/15 9-16 * * 1-5",
    "every 15 minutes between 10pm and 6am": "*/15 22-23,0-5 * * *",
    "every 15 minutes from 9pm to midnight": "*/15 21-23 * * *",
    "every 3 hours between 8am and 6pm": "0 8-17/3 * * *",
    "every 3 hours between 8pm and 6am": "0 20,23,2,5 * * *",
    "every 10 minutes between 9am and 10am": "*/10 9 * * *",
    "every 90 minutes": "@every 1h30m",
    "every other day": "@every 2d",
    "every second day": "@every 2d",
    "twice a day": "0 */12 * * *",
    "4 times an hour": "*/15 * * * *",
    "once a day at 9am": "0 9 * * *",
    "once a week on friday at 5pm": "0 17 * * 5",
    "once a month": "0 0 1 * *",
    "every half hour": "*/30 * * * *",
    "every half an hour": "*/30 * * * *",
    "every 2 days at 9am": "@every 2d at 09:00",
    "at 06:00:30 every other day": "@every 2d at 06:00:30",
    "every 7 days at 9am": "0 9 * * 1",
    "every other monday": "@every 2w",
    "every other friday at 5pm": "@every 2w on 5 at 17:00",
    "every 2 weeks on sunday": "@every 2w on 0",
}
ONCE = {
    "tomorrow at 6pm": "2026-11-17T17:00:00Z",
    "at 6pm tomorrow": "2026-11-17T17:00:00Z",
    "tomorrow": "2026-11-16T23:00:00Z",
    "today at 18:01": "2026-11-16T17:01:00Z",
    "tonight at 8": "2026-11-16T19:00:00Z",
    "tonight at 8pm": "2026-11-16T19:00:00Z",
    "tonight at midnight": "2026-11-16T23:00:00Z",
    "tonight at 1am": "2026-11-17T00:00:00Z",
    "the day after tomorrow at noon": "2026-11-18T11:00:00Z",
    "in half an hour": "2026-11-16T17:30:00Z",
    "next friday at noon": "2026-11-20T11:00:00Z",
    "next monday at 9am": "2026-11-23T08:00:00Z",
    "next sunday": "2026-11-21T23:00:00Z",
    "in 2 hours": "2026-11-16T19:00:00Z",
    "in 90 minutes": "2026-11-16T18:30:00Z",
    "in 1 hour and 30 minutes": "2026-11-16T18:30:00Z",
    "in an hour": "2026-11-16T18:00:00Z",
    "on 24 december 2026 at 6pm": "2026-12-24T17:00:00Z",
    "on the 24th of december 2026 at 6pm": "2026-12-24T17:00:00Z",
    "dec 24, 2026 at 6 p.m.": "2026-12-24T17:00:00Z",
    "2026-12-24 18:00": "2026-12-24T17:00:00Z",
    "2026-12-24T18:00": "2026-12-24T17:00:00Z",
    "2026-12-24": "2026-12-23T23:00:00Z",
    "2027-03-28 at 2:30": "2027-03-28T01:00:00Z",
}


@pytest.mark.parametrize(("written", "stored"), REPEATING.items())
def test_what_repeats_becomes_a_cron_string_or_an_interval(written, stored):
    assert canonical("when", written) == stored


@pytest.mark.parametrize(("written", "stored"), ONCE.items())
def test_what_happens_once_becomes_an_instant(written, stored):
    assert canonical("when", written) == stored


@pytest.mark.parametrize("form", EXAMPLES)
def test_every_form_that_is_suggested_is_understood(form):
    rule = understand("when", form, BERLIN, utc("2026-11-16"))

    assert rule.next_after(utc("2026-11-16")) is not None


def test_tomorrow_is_the_day_after_the_local_one():
    just_past_midnight_in_auckland = utc("2026-11-16T11:30:00")

    stored = canonical("when", "tomorrow at noon", "Pacific/Auckland", just_past_midnight_in_auckland)

    assert stored == "2026-11-17T23:00:00Z"


def test_a_time_from_now_is_not_rounded_into_the_past():
    assert canonical("when", "in 1 second", now=NOW + 1) == "2026-11-16T17:00:02Z"


@pytest.mark.parametrize(
    ("written", "word", "position", "nearest"),
    [
        ("evry weekday at 9am", "evry", 1, "every weekday at 9am"),
        ("every weekdy at 9am", "weekdy", 7, "every weekday at 9am"),
        ("every morning at 9am", "morning", 7, "every weekday at 9am"),
        ("fist monday of the month at noon", "fist", 1, "first monday of the month at noon"),
        ("tomorow at 6pm", "tomorow", 1, "tomorrow at 6pm"),
        ("next week", "week", 6, "every weekday at 9am"),
        ("last of the month", "of", 6, "last friday of the month at 5pm"),
        ("every 15 minutes between 9am or 5pm", "or", 30, "every 15 minutes"),
        ("twice a fortnight", "fortnight", 9, "twice a day"),
        ("0 9 * * *", "0", 1, "every day at noon"),
    ],
)
def test_a_word_that_is_not_understood_is_named_with_the_nearest_forms(written, word, position, nearest):
    sentence, place = refusal("when", written)

    assert place == position
    assert sentence.startswith(f"'{word}' at position {position} is not understood. Nearest forms: ")
    assert f"'{nearest}'" in sentence


TIMES = "they go from 00:00 to 23:59, or from 1 to 12 with am or pm."


@pytest.mark.parametrize(
    ("written", "sentence", "position"),
    [
        (
            "today at 8am",
            (
                "'today at 8am' is in the past: it was 2026-11-16T08:00:00+01:00, "
                "and it is 2026-11-16T18:00:00+01:00 now. Give a time to come."
            ),
            None,
        ),
        (
            "yesterday at noon",
            (
                "'yesterday at noon' is in the past: it was 2026-11-15T12:00:00+01:00, "
                "and it is 2026-11-16T18:00:00+01:00 now. Give a time to come."
            ),
            None,
        ),
        ("tonight", "'tonight' at position 1 does not say at what time: add it, as in 'tonight at 8pm'.", 1),
        (
            "tonight at noon",
            "'at noon' at position 9 is not at night, which is from 5pm to 5am: say 'today', or another time.",
            9,
        ),
        (
            "every 2 days at 9am and 5pm",
            "'at 9am and 5pm' at position 14 has more than one time for every 2 days: make a schedule for each.",
            14,
        ),
        (
            "every 2 weeks on monday and friday",
            "'every 2 weeks' at position 1 can't be kept to these days: use whole weeks, and one day of the week.",
            1,
        ),
        (
            "every 2 days in july",
            "'july' at position 17 can't be joined with 'every 2 days' at position 1: leave one out.",
            17,
        ),
        (
            "twice a week",
            (
                "'twice' at position 1 does not divide the week evenly: "
                "say on which days, as in 'every monday and thursday'."
            ),
            1,
        ),
        ("every day at 25:00", f"'25:00' at position 14 is not a time of day: {TIMES}", 14),
        ("every day at 13pm", f"'13pm' at position 14 is not a time of day: {TIMES}", 14),
        ("every day at 9:99", f"'9:99' at position 14 is not a time of day: {TIMES}", 14),
        (
            "every day at dawn",
            "'dawn' at position 14 is not a time of day. Write it as in 9am, 18:30, noon or midnight.",
            14,
        ),
        (
            "every day at",
            "The text ends where a time of day should be. Write it as in 9am, 18:30, noon or midnight.",
            13,
        ),
        (
            "every day at 9:15 and 17:30",
            "'at 9:15 and 17:30' at position 11 has times at different minutes of the hour: make a schedule for each.",
            11,
        ),
        (
            "tomorrow at 9 and 10",
            "'at 9 and 10' at position 10 has more than one time for one day: make a schedule for each.",
            10,
        ),
        ("every tomorrow", "'tomorrow' at position 7 is one day only: leave 'every' out.", 7),
        (
            "in 2 hours at 9am",
            "'at 9am' at position 12 can't be joined with 'in 2 hours' at position 1: leave one out.",
            12,
        ),
        (
            "next monday and friday",
            "'friday' at position 17 can't be joined with 'next monday' at position 1: leave one out.",
            17,
        ),
        (
            "every 15 minutes at 9am",
            "'at 9am' at position 18 can't be joined with 'every 15 minutes' at position 1: leave one out.",
            18,
        ),
        (
            "every 15 minutes every hour",
            "'every hour' at position 18 can't be joined with 'every 15 minutes': leave one out.",
            18,
        ),
        (
            "every friday and on the 13th",
            "'friday' at position 7 can't be joined with '13th' at position 25: leave one out.",
            7,
        ),
        (
            "every 90 minutes on weekdays",
            (
                "'every 90 minutes' at position 1 can't be kept to certain days or hours: "
                "use one that divides an hour or a day evenly."
            ),
            1,
        ),
        (
            "every 15 minutes between 9:30 and 5pm",
            (
                "The time at position 26 can't be kept to: it must go from one full hour to another, "
                "as in 'between 9am and 5pm'."
            ),
            26,
        ),
        (
            "weekdays between 9am and 5pm",
            "'between 9am and 5pm' at position 10 does not say how often: add 'every 15 minutes', for example.",
            10,
        ),
        (
            "monday at 9am",
            "'monday' at position 1 may mean once or every week: say 'next' or 'every' before the day.",
            1,
        ),
        (
            "24 december at 6pm",
            "'24 december' at position 1 may mean once or every year: add the year, or say 'every'.",
            1,
        ),
        (
            "the 15th at noon",
            ("'15th' at position 5 may mean once or every month: say 'of the month', or add the month and the year."),
            5,
        ),
        ("at noon", "'at noon' at position 1 names no day: add 'every day' or 'tomorrow'.", 1),
        ("every second monday", "'second monday' at position 7 does not say of what: add 'of the month'.", 7),
        ("32nd of the month", "'32nd' at position 1 is not a day of any month: they are 1 to 31.", 1),
        ("6th monday of the month", "'6th monday' at position 1 is in no month: use first to fifth, or last.", 1),
        (
            "first weekday of the month",
            (
                "'weekday' can't be counted from position 1 on: only the last weekday of the month can, "
                "or a named day ('first monday of the month')."
            ),
            1,
        ),
        ("31 june 2027 at 9am", "'31 june 2027' at position 1 is not a date: the days of June 2027 are 1 to 30.", 1),
        ("june 2027 at 9am", "A year at position 6 needs one day and one month before it.", 6),
        (
            "every february 30th",
            "'every february 30th' never fires: no day is on the 30th of February. Choose another day.",
            None,
        ),
        (
            "7 times a day",
            "'7' at position 1 does not divide the day into whole seconds: say at which times instead.",
            1,
        ),
        (
            "in 2 fortnights",
            "'fortnights' at position 6 is not a unit of time. Use seconds, minutes, hours, days or weeks.",
            6,
        ),
        ("", "The expression is empty. Write when in plain English, as in 'every weekday at 9am'.", 1),
    ],
)
def test_what_can_not_be_is_said_with_its_place(written, sentence, position):
    assert refusal("when", written) == (sentence, position)


@pytest.mark.parametrize(
    ("written", "start"),
    [("every", "The text ends too early. Nearest forms: 'every hour', "), ("on the", "The text ends too early. ")],
)
def test_a_text_that_ends_too_early_is_refused_with_the_nearest_forms(written, start):
    sentence, position = refusal("when", written)

    assert sentence.startswith(start)
    assert position == len(written) + 1
