"""Fires when Berlin's clocks change: from 2:00 to 3:00 on 29 March, from 3:00 back to 2:00 on 25 October."""

from sqew.schedules import local_time, rule_from
from tests.schedules.reading import BERLIN, utc

MIDNIGHT_IN_MARCH, MIDNIGHT_IN_OCTOBER = utc("2026-03-28T23:00:00"), utc("2026-10-24T22:00:00")


def times(cron, start, count, zone=BERLIN):
    """Return the local times of the next fires, with the offset where the clock is ambiguous."""
    rule = rule_from(cron, zone)
    shown = []
    for _ in range(count):
        start = rule.next_after(start)
        shown.append(local_time(start, zone)[11:16] + local_time(start, zone)[19:22])
    return shown


def test_a_time_that_is_skipped_fires_once_right_after_the_gap():
    assert times("30 2 * * *", MIDNIGHT_IN_MARCH, 2) == ["03:00+02", "02:30+02"]


def test_several_times_that_are_skipped_fire_once_together():
    assert times("0,15,30,45 2 * * *", MIDNIGHT_IN_MARCH, 2) == ["03:00+02", "02:00+02"]


def test_a_time_that_comes_twice_fires_the_first_time():
    assert times("30 2 * * *", MIDNIGHT_IN_OCTOBER, 2) == ["02:30+02", "02:30+01"]


def test_asked_between_the_two_a_time_that_comes_twice_is_over():
    between = utc("2026-10-25T01:15:00")

    assert rule_from("30 2 * * *", BERLIN).next_after(between) == utc("2026-10-26T01:30:00")


def test_every_hour_goes_on_hour_by_hour():
    assert times("30 * * * *", MIDNIGHT_IN_MARCH, 3) == ["00:30+01", "01:30+01", "03:30+02"]
    assert times("30 * * * *", MIDNIGHT_IN_OCTOBER, 5) == ["00:30+02", "01:30+02", "02:30+02", "02:30+01", "03:30+01"]


def test_every_two_hours_is_neither_skipped_nor_doubled():
    assert times("0 */2 * * *", MIDNIGHT_IN_MARCH, 3) == ["03:00+02", "04:00+02", "06:00+02"]
    assert times("0 */2 * * *", MIDNIGHT_IN_OCTOBER, 3) == ["02:00+02", "04:00+01", "06:00+01"]


def test_a_repeating_hour_that_is_skipped_is_made_up_for_in_the_next():
    assert times("*/30 2 * * *", MIDNIGHT_IN_MARCH, 3) == ["03:00+02", "03:30+02", "02:00+02"]


def test_a_repeating_hour_that_comes_twice_fires_once():
    assert times("*/30 2 * * *", MIDNIGHT_IN_OCTOBER, 3) == ["02:00+02", "02:30+02", "02:00+01"]


def test_a_window_around_the_change_goes_on_through_it():
    fires = times("*/30 1-4 * * *", utc("2026-10-24T23:59:00"), 4)

    assert fires == ["02:00+02", "02:30+02", "02:00+01", "02:30+01"]


def test_midnight_fires_on_a_day_that_begins_at_one():
    just_before = utc("2026-03-07T05:00:00")

    assert times("0 0 * * *", just_before, 2, "America/Havana") == ["01:00-04", "00:00-04"]
