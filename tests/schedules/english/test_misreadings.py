"""``when``: phrases once misread are read as people mean them, or refused with the reason."""

import pytest

from tests.schedules.reading import canonical, refusal


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("every 3rd day", "@every 3d"),
        ("every 3rd day of the month", "0 0 3 * *"),
        ("every third day at 9am", "@every 3d at 09:00"),
        ("every january", "0 0 1 1 *"),
        ("every hour at :15", "15 * * * *"),
        ("hourly at :30 between 9am and 5pm", "30 9-16 * * *"),
        ("every january and july at 9am", "0 9 1 1,7 *"),
        ("every day in january", "0 0 * 1 *"),
        ("every hour in january", "0 * * 1 *"),
        ("every hour from 9 to 5pm", "0 9-16 * * *"),
        ("every hour from 22 to 6", "0 22-23,0-5 * * *"),
        ("every 15 minutes from 10pm to midnight on weekdays", "*/15 22-23 * * 1-5"),
        ("1st, last day of the month", "0 0 1,L * *"),
        ("first and last friday of the month", "0 0 * * 5#1,5L"),
        ("every day at 9am on weekdays", "0 9 * * 1-5"),
        ("every monday at 9am and every thursday at 9am", "0 9 * * 1,4"),
        ("every monday, every friday at 9", "0 9 * * 1,5"),
        ("every january 1st and july 1st", "0 0 1 1,7 *"),
    ],
)
def test_it_is_read_as_it_is_meant(written, stored):
    assert canonical("when", written) == stored


COUNTED = "only the last one can be counted from the end of the month."
AM_OR_PM = "ends before it begins: say am or pm, as in 'from 9am to 5pm'."
WHICH_ONE = "say which one, as in 'first monday of the month'."
EACH = "make a schedule for each."


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("2nd last day of the month", f"'2nd last' at position 1 can't be counted: {COUNTED}"),
        ("third last friday of the month", f"'third last' at position 1 can't be counted: {COUNTED}"),
        ("every second last day of the month", f"'second last' at position 7 can't be counted: {COUNTED}"),
        (
            "every weekdays at 9am",
            "'weekdays' at position 7 can't follow 'every'. Write 'every weekday', or 'on weekdays'.",
        ),
        (
            "every Weekends at noon",
            "'Weekends' at position 7 can't follow 'every'. Write 'every weekend', or 'on weekends'.",
        ),
        ("hourly at :60", "':60' at position 11 is not a minute of the hour: they go from :00 to :59."),
        (
            "every 5 minutes at :30",
            "'at :30' at position 17 is a minute of the hour: say 'every hour' or 'every 2 hours' with it.",
        ),
        (
            "every day at :30",
            "'at :30' at position 11 is a minute of the hour: say 'every hour' with it, or a time of day such as 9:30.",
        ),
        ("tomorrow at :30", "'at :30' at position 10 can't be joined with 'tomorrow' at position 1: leave one out."),
        ("every first day", "'first day' at position 7 does not say of what: add 'of the month'."),
        (
            "every month on monday",
            f"'monday' at position 16 can't be joined with 'every month' at position 1: {WHICH_ONE}",
        ),
        (
            "every year on monday",
            f"'monday' at position 15 can't be joined with 'every year' at position 1: {WHICH_ONE}",
        ),
        (
            "every week on the 15th",
            "'15th' at position 19 can't be joined with 'every week' at position 1: leave one out.",
        ),
        ("every year on the last day", "'last day' at position 19 does not say of which month: add 'of january'."),
        (
            "every weekday on monday",
            f"'monday' at position 18 can't be joined with 'weekday': leave one out, or {EACH}",
        ),
        ("every 10 minutes from 9 to 5 on weekdays", f"'from 9 to 5' at position 18 {AM_OR_PM}"),
        ("every hour from 9am to 5", f"'from 9am to 5' at position 12 {AM_OR_PM}"),
        (
            "every hour from 10pm to 6am on weekdays",
            (
                "'from 10pm to 6am' at position 12 goes past midnight, so it can't be joined with 'weekdays': "
                "make one schedule until midnight and one from midnight on."
            ),
        ),
        (
            "every monday at 9am and every thursday at 10am",
            f"'at 9am' at position 14 does not hold for all that is said: {EACH}",
        ),
        (
            "every january 1st and july 15th",
            f"'january 1st' at position 7 does not hold for all that is said: {EACH}",
        ),
        (
            "every hour on mondays in january and on fridays in july",
            f"'mondays' at position 15 does not hold for all that is said: {EACH}",
        ),
        (
            "every day at 9am and every monday at 10am",
            f"'monday' at position 28 can't be joined with 'every day' at position 1: {EACH}",
        ),
    ],
)
def test_what_can_not_be_said_in_one_rule_is_refused(written, sentence):
    assert refusal("when", written)[0] == sentence


@pytest.mark.parametrize("written", ["last weekday", "last weekday of the 8:30", "last weekday and the 8:30"])
def test_the_last_weekday_of_nothing_is_refused_rather_than_failing(written):
    sentence, position = refusal("when", written)

    assert sentence.startswith("'last weekday' at position 1 may mean once or every month: ")
    assert position == 1


def test_the_last_weekday_and_a_named_day_are_not_mixed():
    sentence, _ = refusal("when", "last weekday of the month and last friday of the month")

    assert sentence.startswith(
        "'last friday of the month' at position 31 can't be joined with 'last weekday of the month'"
    )


@pytest.mark.parametrize(
    ("written", "zone", "position"),
    [
        ("every day at 9am UTC", "UTC", 18),
        ("every day at 9am in Europe/Berlin", "Europe/Berlin", 21),
        ("weekdays at 9 pst", "pst", 15),
        ("2026-12-24 18:00+01:00", "+01:00", 17),
    ],
)
def test_a_zone_in_the_text_belongs_into_timezone(written, zone, position):
    sentence = (
        f"'{zone}' at position {position} is a time zone: leave it out of the text, and give it as timezone instead."
    )

    assert refusal("when", written) == (sentence, position)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("3 months", "'months' at position 3 is not always the same length. Use `cron` with '0 0 1 */3 *' instead."),
        (
            "every third month",
            "'month' at position 13 is not always the same length. Use `cron` with '0 0 1 */3 *' instead.",
        ),
        ("every 5 years", "'years' at position 9 is not always the same length. Give it in days instead."),
        ("every 500 ms", "'ms' at position 11 is too short: use whole seconds."),
        (
            "every 5 minuets",
            (
                "'minuets' at position 9 is not a unit of time (did you mean 'minutes'?). "
                "Use seconds, minutes, hours, days or weeks."
            ),
        ),
        ("5 minutes", "'5 minutes' at position 1 may mean once or again and again: say 'in' or 'every' before it."),
        (
            "in 1 month",
            (
                "'month' at position 6 is not always the same length. "
                "Give the date instead, as in 'on 24 december 2026 at 6pm'."
            ),
        ),
    ],
)
def test_what_looks_like_an_interval_is_refused_as_one(written, sentence):
    assert refusal("when", written)[0] == sentence
