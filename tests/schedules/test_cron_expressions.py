"""Cron expressions are understood, or refused with the field, the position and what is allowed."""

import pytest

from sqew.schedules import rule_from, understand
from tests.schedules.reading import BERLIN, NOW, canonical, refusal, utc

MINUTES = "Minutes are 0 to 59, as in 0, 0,30 or */15."
HOURS = "Hours are 0 to 23, as in 9, 9-17, 8,12,18 or */2."
DAYS = "Days are 1 to 31, as in 1, 1,15, L (the last) or LW."
MONTHS = "Months are 1 to 12 or JAN to DEC, as in 1, JAN,JUL or */3."
WEEKDAYS = "Days of the week are 0 to 7 (0 and 7: Sunday) or SUN to SAT, as in 1-5, MON,THU, MON#1 (the first) or 5L."
YEAR = "is a year, and years are not known here. Leave it out, or use `fire_at` for one date."
COUNT = (
    "A cron expression has 5 fields (minute, hour, day of the month, month, day of the week), "
    "or 6 with the second first; this one has "
)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("0 9 * * 1-5", "0 9 * * 1-5"),
        ("  0\t09   * *  mon-FRI ", "0 9 * * 1-5"),
        ("0 9 * January,jul Sunday", "0 9 * 1,7 0"),
        ("0 9 * * 7", "0 9 * * 0"),
        ("*/1 */2 * * *", "* */2 * * *"),
        ("5/15 * * * *", "5-59/15 * * * *"),
        ("0 0 l * *", "0 0 L * *"),
        ("0 0 1,lw * *", "0 0 1,LW * *"),
        ("0 0 * * friL,MON#1", "0 0 * * 5L,1#1"),
        ("0 0 9 * * *", "0 9 * * *"),
        ("*/10 0 9 * * *", "*/10 0 9 * * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        (" @daily ", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_the_canonical_form_has_numbers_only(written, stored):
    assert canonical("cron", written) == stored


@pytest.mark.parametrize(
    ("written", "sentence", "position"),
    [
        ("60 * * * *", f"Field 1 (minute) at position 1: '60' is above 59. {MINUTES}", 1),
        ("0 25 * * *", f"Field 2 (hour) at position 3: '25' is above 23. {HOURS}", 3),
        ("0 0 0 * *", f"Field 3 (day of the month) at position 5: '0' is below 1. {DAYS}", 5),
        ("0 0 * 1,13 *", f"Field 4 (month) at position 9: '13' is above 12. {MONTHS}", 9),
        ("0 0 * * 8", f"Field 5 (day of the week) at position 9: '8' is above 7. {WEEKDAYS}", 9),
        (
            "61 0 0 * * *",
            "Field 1 (second) at position 1: '61' is above 59. Seconds are 0 to 59, as in 0, 0,30 or */10.",
            1,
        ),
        ("x * * * *", f"Field 1 (minute) at position 1: 'x' is not a number. {MINUTES}", 1),
        ("٣ * * * *", f"Field 1 (minute) at position 1: '٣' is not a number. {MINUTES}", 1),
        ("0,,5 * * * *", f"Field 1 (minute) at position 3: a value is missing next to a comma. {MINUTES}", 3),
        ("5- * * * *", f"Field 1 (minute) at position 3: a number is missing. {MINUTES}", 3),
        ("*/0 * * * *", f"Field 1 (minute) at position 3: a step of 0 goes nowhere. {MINUTES}", 3),
        (
            "*/x * * * *",
            f"Field 1 (minute) at position 3: 'x' is not a step: write a whole number after the slash. {MINUTES}",
            3,
        ),
        (
            "*/90 * * * *",
            (
                "Field 1 (minute) at position 3: a step of 90 is longer than the field, whose longest is 59 "
                f"(for every 90 minutes use `every` instead). {MINUTES}"
            ),
            3,
        ),
        (
            "0 22-2 * * *",
            f"Field 2 (hour) at position 3: '22-2' runs backwards: to go past the end, write 22-23,0-2. {HOURS}",
            3,
        ),
        (
            "0 0 * dec-jan *",
            "Field 4 (month) at position 7: 'dec-jan' runs backwards: to go past the end, write 12,1. " + MONTHS,
            7,
        ),
        (
            "0 0 * * MOM",
            "Field 5 (day of the week) at position 9: 'MOM' is neither a number nor a name (did you mean 'MON'?). "
            + WEEKDAYS,
            9,
        ),
        (
            "0 0 12 * * ?",
            f"Field 6 (day of the week) at position 12: '?' is not known here: write * for any. {WEEKDAYS}",
            12,
        ),
        (
            "0 0 15W * *",
            (
                "Field 3 (day of the month) at position 5: '15W' (the nearest weekday) is not known here, "
                f"only LW (the last weekday). {DAYS}"
            ),
            5,
        ),
        (
            "0 0 * * 1#6",
            "Field 5 (day of the week) at position 11: '6' after # can't be: it counts them in the month, 1 to 5. "
            + WEEKDAYS,
            11,
        ),
        ("0 0 * * L", f"Field 5 (day of the week) at position 9: 'L' is neither a number nor a name. {WEEKDAYS}", 9),
        ("*", f"{COUNT}1 field.", None),
        ("0 9", f"{COUNT}2 fields. Did you mean '0 9 * * *'?", None),
        ("0 9 * *", f"{COUNT}4 fields. Did you mean '0 9 * * *'?", None),
        ("0 0 12 * * ? *", f"{COUNT}7 fields (years are not known). Did you mean '0 0 12 * * *'?", None),
        ("0 0 0 1 1 * 2026", f"Field 7 at position 13: '2026' {YEAR} Did you mean '0 0 0 1 1 *'?", 13),
        ("0 9 24 12 * 2026", f"Field 6 at position 13: '2026' {YEAR} Did you mean '0 9 24 12 *'?", 13),
        ("0 9 24 12 2026", f"Field 5 at position 11: '2026' {YEAR} Did you mean '0 9 24 12 *'?", 11),
        (
            "0 0 L-3 * *",
            (
                "Field 3 (day of the month) at position 5: 'L-3' (days before the last) is not known here, "
                f"only L (the last) and LW. {DAYS}"
            ),
            5,
        ),
        ("1234567890 * * * *", f"Field 1 (minute) at position 1: '1234567890' is above 59. {MINUTES}", 1),
        (
            "@dayly",
            (
                "'@dayly' at position 1 is not known (did you mean '@daily'?). "
                "The words are: @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly."
            ),
            1,
        ),
        ("@every 5m", "'@every' is not a cron expression: use `every` with '5m' instead.", 1),
        ("0 0 30 2 *", "'0 0 30 2 *' never fires: no day is on the 30th of February. Choose another day.", None),
        (
            "0 0 31 apr,jun *",
            "'0 0 31 apr,jun *' never fires: no day is on the 31st of April and June. Choose another day.",
            None,
        ),
        (" ", "The expression is empty. Write five fields, as in '0 9 * * 1-5' for 9:00 on Monday to Friday.", 1),
        ("0 " * 200, "The expression has 400 characters; 300 are allowed. Shorten it.", None),
    ],
)
def test_what_is_wrong_is_said_with_its_place(written, sentence, position):
    assert refusal("cron", written) == (sentence, position)


def test_a_day_that_comes_once_in_decades_is_found():
    rule = understand("cron", "0 0 * 2 MON#5", "UTC", NOW)

    assert rule.next_after(NOW) == utc("2044-02-29")


def test_29_february_is_found_across_the_leap_day_that_2100_lacks():
    rule = rule_from("0 0 29 2 *", "UTC")

    assert rule.next_after(utc("2096-02-29")) == utc("2104-02-29")


def test_either_day_field_is_enough_when_both_are_given():
    rule = rule_from("0 0 12 * 5", "UTC")

    fires = [rule.next_after(utc("2026-11-06")), rule.next_after(utc("2026-11-12"))]

    assert fires == [utc("2026-11-12"), utc("2026-11-13")]


def test_both_day_fields_must_match_when_one_has_a_star():
    rule = rule_from("0 0 */2 * 1", "UTC")

    assert rule.next_after(utc("2026-11-01")) == utc("2026-11-09")


def test_the_last_weekday_of_a_month_that_ends_on_a_sunday_is_a_friday():
    rule = rule_from("0 0 LW * *", "UTC")

    assert rule.next_after(utc("2027-02-01")) == utc("2027-02-26")


def test_a_rule_ends_with_the_calendar():
    rule = rule_from("0 0 * * *", BERLIN)

    assert rule.next_after(utc("9900-01-01")) is None
