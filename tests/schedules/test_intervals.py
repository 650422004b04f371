"""Intervals: understood, turned into a cron string where there is one, with the same slots whenever asked."""

import pytest

from sqew.errors import BadExpression
from sqew.schedules import rule_from
from tests.schedules.reading import BERLIN, canonical, refusal, utc

EXAMPLES = "Write it as in '5 minutes', '1h30m' or '2 days'."
BOUNDS = "it must be whole seconds, at least 1 and at most 36500 days."
UNITS = "Use seconds, minutes, hours, days or weeks."


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("second", "* * * * * *"),
        ("10 seconds", "*/10 * * * * *"),
        ("minute", "* * * * *"),
        ("5 minutes", "*/5 * * * *"),
        ("every 5 minutes", "*/5 * * * *"),
        ("Every five min", "*/5 * * * *"),
        ("300s", "*/5 * * * *"),
        ("an hour", "0 * * * *"),
        ("2h", "0 */2 * * *"),
        ("day", "0 0 * * *"),
        ("24 hours", "0 0 * * *"),
        ("week", "0 0 * * 1"),
        ("7 days", "0 0 * * 1"),
        ("7 minutes", "@every 7m"),
        ("90s", "@every 1m30s"),
        ("1h30m", "@every 1h30m"),
        ("1 hour 30 minutes", "@every 1h30m"),
        ("1 hour, and 30 minutes", "@every 1h30m"),
        ("1.5 hours", "@every 1h30m"),
        ("@every 1h30m", "@every 1h30m"),
        ("@every 2d at 09:00", "@every 2d at 09:00"),
        (" @every 2w on 5 at 17:00:30 ", "@every 2w on 5 at 17:00:30"),
        ("@every 14d on 1 at 00:00", "@every 2w"),
        ("5 hours", "@every 5h"),
        ("36h", "@every 1d12h"),
        ("2 days", "@every 2d"),
        ("48 hours", "@every 2d"),
        ("other day", "@every 2d"),
        ("14 days", "@every 2w"),
        ("half hour", "*/30 * * * *"),
        ("half an hour", "*/30 * * * *"),
    ],
)
def test_an_interval_is_stored_in_one_form(written, stored):
    assert canonical("every", written) == stored


@pytest.mark.parametrize(
    ("written", "sentence", "position"),
    [
        ("0 minutes", f"An interval of 0 seconds can't be: {BOUNDS}", 1),
        ("0.5s", f"An interval of 0.5 seconds can't be: {BOUNDS}", 1),
        ("every 40000 days", f"An interval of 3456000000 seconds can't be: {BOUNDS}", 7),
        ("@every 40000d at 09:00", f"An interval of 3456000000 seconds can't be: {BOUNDS}", 1),
        ("1.0000001 s", f"'1.0000001' at position 1 can't be a number of anything. {EXAMPLES}", 1),
        ("5", "A unit is missing at position 2: seconds, minutes, hours, days or weeks.", 2),
        ("5 lightyears", f"'lightyears' at position 3 is not a unit of time. {UNITS}", 3),
        ("5 minuets", f"'minuets' at position 3 is not a unit of time (did you mean 'minutes'?). {UNITS}", 3),
        (
            "2 months",
            ("'months' at position 3 is not always the same length. Use `cron` with '0 0 1 */2 *' instead."),
            3,
        ),
        (
            "month",
            (
                "'month' at position 1 is not always the same length. "
                "Use `when` with '1st of the month at midnight' instead."
            ),
            1,
        ),
        ("500 ms", "'ms' at position 5 is too short: use whole seconds.", 5),
        ("9999999999999 s", "'9999999999999' at position 1 is too large: the longest interval is 36500 days.", 1),
        (
            "2 days at 9am",
            (
                "'at' at position 8 is not part of an interval. "
                "For certain days or times of day use `when`, as in 'every 2 days at 9am'."
            ),
            8,
        ),
        ("1h 30x", f"'30' at position 4 is not part of an interval. {EXAMPLES}", 4),
        ("5m!", f"'!' at position 3 is not part of an interval. {EXAMPLES}", 3),
        ("every", f"The interval is missing. {EXAMPLES}", 6),
        ("@daily", f"'@' at position 1 is not an interval. {EXAMPLES}", 1),
        ("*/5 * * * *", "'*/5 * * * *' is a cron expression, not an interval. Use `cron` for it.", 1),
        ("", "The expression is empty. Write an interval, as in '5 minutes'.", 1),
    ],
)
def test_what_is_wrong_is_said_with_its_place(written, sentence, position):
    assert refusal("every", written) == (sentence, position)


def test_an_interval_of_elapsed_time_is_aligned_to_1970():
    rule = rule_from("@every 7m", BERLIN)

    fire = rule.next_after(utc("2026-03-29T00:59:00"))

    assert fire % (7 * 60_000) == 0
    assert rule.next_after(fire) - fire == 7 * 60_000


def test_every_second_day_is_a_local_midnight_on_either_side_of_a_change():
    rule = rule_from("@every 2d", BERLIN)

    first = rule.next_after(utc("2026-03-28T12:00:00"))
    second = rule.next_after(first)

    assert (first, second) == (utc("2026-03-29T22:00:00"), utc("2026-03-31T22:00:00"))


def test_every_second_week_begins_on_a_monday():
    rule = rule_from("@every 2w", "UTC")

    assert rule.next_after(utc("1970-01-05") - 1) == utc("1970-01-05")


def test_every_second_day_at_a_time_follows_the_local_clock_through_both_changes():
    rule = rule_from("@every 2d at 09:00", BERLIN)

    march = rule.next_after(utc("2026-03-28T12:00:00"))
    october = rule.next_after(utc("2026-10-24T12:00:00"))

    assert (march, rule.next_after(march)) == (utc("2026-03-30T07:00:00"), utc("2026-04-01T07:00:00"))
    assert (october, rule.next_after(october)) == (utc("2026-10-26T08:00:00"), utc("2026-10-28T08:00:00"))


def test_every_second_week_falls_on_its_day_of_the_week():
    rule = rule_from("@every 2w on 0 at 12:30", "UTC")

    first = rule.next_after(utc("1970-01-05"))

    assert (first, rule.next_after(first)) == (utc("1970-01-11T12:30:00"), utc("1970-01-25T12:30:00"))


def test_an_interval_of_a_hundred_years_ends_with_the_calendar():
    rule = rule_from("@every 36499d1h", "UTC")

    last = rule.next_after(utc("9800-01-01"))

    assert last < utc("9900-01-01")
    assert rule.next_after(last) is None


@pytest.mark.parametrize(
    "stored", ["@every banana", "@every 2d at 24:00", "@every 1h30m at 09:00", "@every 5h on 1", "@every 2w on 7"]
)
def test_a_stored_interval_that_was_damaged_is_refused(stored):
    with pytest.raises(BadExpression, match=f"'{stored}' is not an interval as it would be stored"):
        rule_from(stored, BERLIN)
