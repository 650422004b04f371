"""Twelve zones, three years: every fire is where brute force finds it."""

from datetime import date, timedelta

import pytest

from sqew.schedules import rule_from, understand
from tests.schedules.minute_oracle import FIRST, LAST, Clock, local_minutes

ZONES = (
    "Europe/Berlin",  # an hour forward at 2:00, back at 3:00
    "Europe/Dublin",  # its winter is the exception, by an hour less
    "America/New_York",
    "America/Havana",  # an hour forward at midnight
    "America/Santiago",  # back to 23:00 of the day before
    "Asia/Beirut",  # both changes at midnight
    "Africa/Casablanca",  # another time in Ramadan
    "Antarctica/Troll",  # two hours
    "Australia/Lord_Howe",  # half an hour
    "Pacific/Chatham",  # +12:45 and +13:45, at 2:45
    "Pacific/Tongatapu",  # always +13:00
    "Asia/Kathmandu",  # always +05:45
)


def every_day(_):
    return True


def is_weekday(day):
    return day.weekday() < 5


def is_month_end(day):
    return (day + timedelta(days=1)).day == 1


def is_first_monday(day):
    return day.weekday() == 0 and day.day <= 7


FIXED = {
    "0 0 * * *": (every_day, [0]),
    "30 0 * * *": (every_day, [30]),
    "30 1 * * *": (every_day, [90]),
    "30 2 * * *": (every_day, [150]),
    "50 2 * * *": (every_day, [170]),
    "0,20,40 2 * * *": (every_day, [120, 140, 160]),
    "30 0-3 * * *": (every_day, [30, 90, 150, 210]),
    "45 23 * * *": (every_day, [1425]),
    "0 9 * * MON-fri": (is_weekday, [540]),
    "59 23 L * *": (is_month_end, [1439]),
    "0 12 * * Mon#1": (is_first_monday, [720]),
    "0 8 * JAN,Jul 0": (lambda day: day.month in (1, 7) and day.weekday() == 6, [480]),
    "15 2 13 * 5": (lambda day: day.day == 13 or day.weekday() == 4, [135]),
    "@monthly": (lambda day: day.day == 1, [0]),
}
REPEATING = {
    "0 * * * *": (every_day, range(0, 1440, 60)),
    "30 * * * *": (every_day, range(30, 1440, 60)),
    "*/15 * * * *": (every_day, range(0, 1440, 15)),
    "0 */2 * * *": (every_day, range(0, 1440, 120)),
    "30 1-23/2 * * *": (every_day, range(90, 1440, 120)),
    "*/20 2 * * *": (every_day, [120, 140, 160]),
    "*/10 0-3 * * 1-5": (is_weekday, range(0, 240, 10)),
}
DENSE = {
    "*/5 * * * *": range(0, 1440, 5),
    "* * * * *": range(1440),
    "7/15 * * * *": [minute for minute in range(1440) if minute % 60 in (7, 22, 37, 52)],
    "*/20 * * * *": range(0, 1440, 20),
}


@pytest.fixture(scope="module", params=ZONES)
def zone(request):
    return request.param


@pytest.fixture(scope="module")
def clock(zone):
    return Clock(zone)


def fires(rule, start, end):
    """Yield every fire in seconds, from one minute until before another."""
    at = rule.next_after(start * 60_000 - 1)
    while at < end * 60_000:
        yield at // 1000
        at = rule.next_after(at)


def test_fixed_times_fire_once_each(zone, clock):
    for cron, days_and_times in FIXED.items():
        expected = [minute * 60 for minute in clock.fixed(local_minutes(*days_and_times))]
        assert list(fires(understand("cron", cron, zone, 0), FIRST, LAST)) == expected, cron


def test_repeating_rules_follow_the_time_that_passes(zone, clock):
    for cron, days_and_times in REPEATING.items():
        expected = [minute * 60 for minute in clock.repeating(local_minutes(*days_and_times))]
        assert list(fires(understand("cron", cron, zone, 0), FIRST, LAST)) == expected, cron


def test_rules_of_a_few_minutes_are_right_for_a_day_on_either_side_of_each_change(zone, clock):
    for change, _ in clock.changes or [(FIRST + 200_000, 0)]:
        start, end = max(change - 1440, FIRST), min(change + 1440, LAST)
        middle = date(1970, 1, 1) + timedelta(minutes=change)

        for cron, minutes in DENSE.items():
            nearby = local_minutes(lambda day, middle=middle: abs(day - middle) <= timedelta(days=3), minutes)
            expected = [minute * 60 for minute in clock.repeating(nearby) if start <= minute < end]
            assert list(fires(rule_from(cron, zone), start, end)) == expected, (cron, change)


def test_a_fixed_time_with_a_second_fires_at_that_second_or_right_after_the_gap(zone, clock):
    wanted = local_minutes(every_day, [150])

    expected = {clock.reaches(local) * 60 + (30 if clock.is_shown(local) else 0) for local in wanted}

    within = sorted(second for second in expected if FIRST <= second // 60 < LAST)
    assert list(fires(rule_from("30 30 2 * * *", zone), FIRST, LAST)) == within


def test_repeating_seconds_fire_in_every_minute_that_their_rule_would_fire_in(zone, clock):
    expected = clock.repeating(local_minutes(every_day, [30, 150]))

    with_seconds = [minute * 60 + second for minute in expected for second in (0, 20, 40)]

    assert list(fires(rule_from("*/20 30 0,2 * * *", zone), FIRST, LAST)) == with_seconds


def test_every_third_day_is_every_third_local_midnight(zone, clock):
    expected = clock.fixed(local for local in local_minutes(every_day, [0]) if local // 1440 % 3 == 0)

    assert list(fires(rule_from("@every 3d", zone), FIRST, LAST)) == [minute * 60 for minute in expected]


def test_every_third_day_at_a_time_is_that_time_of_the_local_clock(zone, clock):
    expected = clock.fixed(local for local in local_minutes(every_day, [150]) if local // 1440 % 3 == 0)

    assert list(fires(rule_from("@every 3d at 02:30", zone), FIRST, LAST)) == [minute * 60 for minute in expected]


def test_the_zones_change_their_clocks_as_this_test_needs_it():
    by_zone = {zone: {abs(by) for _, by in Clock(zone).changes} for zone in ("Antarctica/Troll", "Australia/Lord_Howe")}

    assert by_zone == {"Antarctica/Troll": {120}, "Australia/Lord_Howe": {30}}
