"""Intervals are understood, become a cron string where there is one, and have the same slots whenever asked."""

import pytest
from reading import BERLIN, canonical, refusal, utc

from sqew.errors import BadExpression
from sqew.schedules import rule_from

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
        ("5 hours", "@every 5h"),
        ("36h", "@every 1d12h"),
        ("2 days", "@every 2d"),
        ("48 hours", "@every 2d"),
        ("other day", "@every 2d"),
        ("14 days", "@every 2w"),
    ],
)
def test_an_interval_is_stored_in_one_form(written, stored):
    assert canonical("every", written) == stored


@pytest.mark.parametrize(
    ("written", "sentence", "position"),
    [
        ("0 minutes", f"An interval of 0 seconds can't be: {BOUNDS}", 0),
        ("0.5s", f"An interval of 0.5 seconds can't be: {BOUNDS}", 0),
        ("every 40000 days", f"An interval of 3456000000 seconds can't be: {BOUNDS}", 6),
        ("1.0000001 s", f"'1.0000001' at position 0 can't be a number of anything. {EXAMPLES}", 0),
        ("5", "A unit is missing at position 1: seconds, minutes, hours, days or weeks.", 1),
        ("5 lightyears", f"'lightyears' at position 2 is not a unit of time. {UNITS}", 2),
        ("5 minuets", f"'minuets' at position 2 is not a unit of time (did you mean 'minutes'?). {UNITS}", 2),
        (
            "2 months",
            (
                "'months' at position 2 is not always the same length. "
                "Use `when` with '1st of the month at midnight' instead."
            ),
            2,
        ),
        ("1h 30x", f"'30' at position 3 is not part of an interval. {EXAMPLES}", 3),
        ("5m!", f"'!' at position 2 is not part of an interval. {EXAMPLES}", 2),
        ("every", f"The interval is missing. {EXAMPLES}", 5),
        ("@daily", f"'@' at position 0 is not an interval. {EXAMPLES}", 1),
        ("*/5 * * * *", "'*/5 * * * *' is a cron expression, not an interval. Use `cron` for it.", 0),
        ("", "The expression is empty. Write an interval, as in '5 minutes'.", 0),
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


def test_a_stored_interval_that_was_damaged_is_refused():
    with pytest.raises(BadExpression, match="'@every banana' is not an interval as it would be stored"):
        rule_from("@every banana", BERLIN)
