"""``fire_at``: one instant, with an offset or in local time."""

import pytest

from sqew.schedules import understand
from tests.schedules.reading import BERLIN, NOW, canonical, refusal, utc

EXAMPLES = "Write it as in 2026-12-24T18:00:00Z, 2026-12-24T18:00:00+01:00 or 2026-12-24T18:00 (local time)."


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("2026-12-24T18:00:00Z", "2026-12-24T18:00:00Z"),
        ("2026-12-24t18:00z", "2026-12-24T18:00:00Z"),
        ("2026-12-24T18:00:00+01:00", "2026-12-24T17:00:00Z"),
        ("2026-12-24T18:00:00-0530", "2026-12-24T23:30:00Z"),
        ("2026-12-24T18:00", "2026-12-24T17:00:00Z"),
        (" 2026-12-24 18:00:05 ", "2026-12-24T17:00:05Z"),
        ("2026-12-24T18:00:00.25Z", "2026-12-24T18:00:00.250Z"),
        ("2026-12-24T18:00:00.000Z", "2026-12-24T18:00:00Z"),
    ],
)
def test_an_instant_is_stored_in_utc(written, stored):
    assert canonical("fire_at", written) == stored


def test_a_local_time_that_the_clock_skips_is_right_after_the_gap():
    assert canonical("fire_at", "2027-03-28T02:30") == "2027-03-28T01:00:00Z"


def test_a_local_time_that_the_clock_shows_twice_is_the_first_of_them():
    assert canonical("fire_at", "2027-10-31T02:30") == "2027-10-31T00:30:00Z"


def test_it_fires_once():
    rule = understand("fire_at", "2026-12-24T18:00:00Z", BERLIN, NOW)

    assert rule.next_after(NOW) == utc("2026-12-24T18:00:00")
    assert rule.next_after(utc("2026-12-24T18:00:00")) is None


@pytest.mark.parametrize(
    ("written", "sentence", "position"),
    [
        ("2026-12-24", "'2026-12-24' has no time of day: write it after the date, as in 2026-12-24T09:00.", 11),
        (
            "2020-01-01T00:00Z",
            (
                "'2020-01-01T00:00Z' is in the past: it was 2020-01-01T01:00:00+01:00, "
                "and it is 2026-11-16T18:00:00+01:00 now. Give a time to come."
            ),
            None,
        ),
        (
            "2026-11-16T18:00",
            (
                "'2026-11-16T18:00' is in the past: it was 2026-11-16T18:00:00+01:00, "
                "and it is 2026-11-16T18:00:00+01:00 now. Give a time to come."
            ),
            None,
        ),
        ("2026-02-30T00:00", "'2026-02-30' at position 1 is not a date: the days of February 2026 are 1 to 28.", 1),
        (" 2028-02-30T00:00", "'2028-02-30' at position 2 is not a date: the days of February 2028 are 1 to 29.", 2),
        ("2026-13-01T00:00", "'2026-13-01' at position 1 is not a date: months are 1 to 12.", 1),
        ("9999-01-01T00:00Z", "'9999-01-01' at position 1 is not a date: years are 1970 to 9899.", 1),
        ("2026-12-24T24:00", "'24:00' at position 12 is not a time of day: the last is 23:59:59.", 12),
        ("2026-12-24T18", f"'18' at position 12 is not a time of day. {EXAMPLES}", 12),
        (
            "2026-12-24T18:00:00+1",
            "'+1' at position 20 is not an offset from UTC. Write Z, +01:00, or nothing for local time.",
            20,
        ),
        (
            "2026-12-24T18:00:00+25:00",
            "'+25:00' at position 20 is not an offset from UTC. Write Z, +01:00, or nothing for local time.",
            20,
        ),
        ("2026-12-24X18:00", f"'X18:00' at position 11 is not understood. {EXAMPLES}", 11),
        ("tomorrow", f"'tomorrow' does not begin with a date. {EXAMPLES}", 1),
        ("", "The expression is empty. Write a time, as in 2026-12-24T18:00:00Z.", 1),
    ],
)
def test_what_is_wrong_is_said_with_its_place(written, sentence, position):
    assert refusal("fire_at", written) == (sentence, position)
