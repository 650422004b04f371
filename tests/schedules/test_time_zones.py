"""Time zones are IANA names; others are refused with the nearest."""

import pytest

from sqew.errors import BadZone
from sqew.schedules import local_time, rule_from, understand
from tests.schedules.reading import NOW, utc

USE = "Use an IANA name such as Europe/Berlin, or UTC."


@pytest.mark.parametrize(
    ("zone", "nearest"),
    [("Europe/Berln", "Europe/Berlin"), ("europe/berlin", "Europe/Berlin"), ("New York", "America/New_York")],
)
def test_an_unknown_zone_is_refused_with_the_nearest_names_first(zone, nearest):
    with pytest.raises(BadZone, match=f"^There is no time zone '{zone}'. Nearest names: {nearest}") as refused:
        understand("every", "hour", zone, NOW)

    assert str(refused.value).endswith(USE)


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("PST", "PST"),
        ("", ""),
        ("../../etc/passwd", "../../etc/passwd"),
        ("localtime", "localtime"),
        ("posixrules", "posixrules"),
        ("Factory", "Factory"),
        ("Europe/Berlin" + "n" * 60, "Europe/Berlin" + "n" * 47),
        ("x" * 500, "x" * 60),
    ],
)
def test_a_zone_like_no_other_is_refused_with_an_example(zone, shown):
    with pytest.raises(BadZone) as refused:
        understand("every", "hour", zone, NOW)

    assert str(refused.value) == f"There is no time zone '{shown}'. {USE}"


@pytest.mark.parametrize(("zone", "same"), [("UTC+2", "Etc/GMT-2"), ("+02:00", "Etc/GMT-2"), ("GMT -5", "Etc/GMT+5")])
def test_an_offset_is_refused_with_the_zone_that_has_it(zone, same):
    with pytest.raises(BadZone) as refused:
        understand("every", "hour", zone, NOW)

    offset = f"'{zone}' is an offset, not a time zone."
    assert str(refused.value) == f"{offset} Use {same}, or a place such as Europe/Berlin."


def test_an_offset_that_is_too_long_to_be_a_name_is_cut_short():
    with pytest.raises(BadZone) as refused:
        understand("every", "hour", f"UTC{' ' * 500}+2", NOW)

    assert str(refused.value) == f"There is no time zone 'UTC{' ' * 57}'. {USE}"


def test_a_stored_rule_of_a_zone_that_is_gone_is_refused():
    with pytest.raises(BadZone, match="Atlantis"):
        rule_from("0 0 * * *", "Atlantis")


def test_local_time_has_the_offset_of_its_day():
    assert local_time(utc("2026-03-29T00:59:59"), "Europe/Berlin") == "2026-03-29T01:59:59+01:00"
    assert local_time(utc("2026-03-29T01:30:00") + 999, "Europe/Berlin") == "2026-03-29T03:30:00+02:00"
