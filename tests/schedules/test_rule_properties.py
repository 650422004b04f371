"""Properties of every rule."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError
from hypothesis import assume, given
from hypothesis import strategies as st

from sqew.errors import BadExpression
from sqew.schedules import local_time, rule_from, understand
from tests.schedules.reading import BERLIN, NOW

MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS = (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)


@st.composite
def term(draw, low, high):
    form = draw(st.sampled_from(["*", "*/{step}", "{a}", "{a}-{b}", "{a}-{b}/{step}"]))
    # The other implementation takes 8-8/2 for 8/2.
    a, b = sorted(draw(st.sets(st.integers(low, high), min_size=2, max_size=2)))
    return form.format(a=a, b=b, step=draw(st.integers(1, high - low)))


@st.composite
def field(draw, low, high, *special):
    return ",".join(draw(st.lists(term(low, high) | st.sampled_from(special or ("*",)), min_size=1, max_size=3)))


days = st.tuples(field(*DAYS, "L", "LW"), field(*MONTHS), field(*WEEKDAYS, "1#2", "5L")).map(" ".join)
crons = st.tuples(field(*MINUTES), field(*HOURS), days).map(" ".join)
crons_with_seconds = st.tuples(field(*MINUTES), crons).map(" ".join)
instants = st.integers(NOW, NOW + 10 * 365 * 86_400_000)
zones = st.sampled_from([BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])


@given(crons | crons_with_seconds, zones)
def test_the_canonical_form_of_a_cron_string_is_a_fixed_point(written, zone):
    rule = _understood("cron", written, zone)

    assert understand("cron", rule.canonical, zone, NOW).canonical == rule.canonical


@given(st.integers(1, 10_000_000))
def test_the_canonical_form_of_an_interval_is_a_fixed_point(seconds):
    stored = understand("every", f"{seconds}s", BERLIN, NOW).canonical

    kind = "every" if stored.startswith("@") else "cron"

    assert understand(kind, stored, BERLIN, NOW).canonical == stored


@given(instants, zones)
def test_the_canonical_form_of_an_instant_is_a_fixed_point(ms, zone):
    written = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")

    stored = understand("fire_at", written, zone, 0).canonical

    assert understand("fire_at", stored, zone, 0).canonical == stored
    assert rule_from(stored, zone).next_after(0) == ms


@given(crons | crons_with_seconds, zones, instants)
def test_fires_come_one_after_the_other_and_none_is_left_out_when_asked_in_between(written, zone, start):
    rule = _understood("cron", written, zone)

    first = rule.next_after(start)
    second = rule.next_after(first)

    assert start < first < second
    assert rule.next_after(first - 1) == first
    assert rule.next_after((first + second) // 2) == second


@given(crons, instants)
def test_in_utc_every_fire_is_where_another_implementation_has_it(written, start):
    rule = _understood("cron", written, "UTC")
    try:
        other = CronSim(written, datetime.fromtimestamp(start // 1000, UTC))
    except CronSimError:
        assume(False)

    for _ in range(5):
        fire = next(other)
        start = rule.next_after(start)
        assert start == int(fire.timestamp()) * 1000


@given(crons, zones, instants)
def test_every_fire_satisfies_the_fields_on_the_clock_or_on_the_one_before_a_change(written, zone, start):
    rule = _understood("cron", written, zone)
    matches = CronSim(written, datetime(2026, 1, 1, tzinfo=UTC))

    fire = _local(rule.next_after(start), zone)

    shifts = (timedelta(minutes=minutes) for minutes in range(0, 61, 30))
    clocks = [(fire - shift).replace(tzinfo=None) for shift in shifts]
    assert any(_fits(matches, clock) for clock in clocks) or _just_after_a_gap(fire, zone)


@given(st.sampled_from(["cron", "every", "when", "fire_at"]), st.text(max_size=60))
def test_any_text_is_understood_or_refused(kind, text):
    with suppress(BadExpression):
        understand(kind, text, BERLIN, NOW)


PHRASES = (
    "every", "weekday", "monday", "mondays", "and", "to", "at", "9am", "18:30", "noon", "first", "last", "2nd", "15",
    "day", "month", "of the month", "january", "between", "from", "minutes", "hour", "hours", "tomorrow", "next", "in",
    "twice", "a", "2026", "2026-12-24", "24 december", "on", "the", "second", "other", "times", "week", "year", "half",
    "once", "tonight", "the day after tomorrow", "2 days", "months", "ms", "UTC", "5", ",", "weekdays", "8:30",
)  # fmt: skip


@given(st.lists(st.sampled_from(PHRASES), min_size=1, max_size=8).map(" ".join))
def test_any_words_in_any_order_are_refused_or_mean_a_time_to_come(text):
    with suppress(BadExpression):
        rule = understand("when", text, BERLIN, NOW)

        assert rule.next_after(NOW) is not None


def _understood(kind, text, zone):
    try:
        return understand(kind, text, zone, NOW)
    except BadExpression as refused:
        assume("never fires" not in str(refused))
        raise


def _local(ms, zone):
    return datetime.fromisoformat(local_time(ms, zone))


def _fits(matches, clock):
    return clock.minute in matches.minutes and clock.hour in matches.hours and matches.match_day(clock.date())


def _just_after_a_gap(fire, zone):
    before = _local(int(fire.timestamp() - 1) * 1000, zone)
    return fire.utcoffset() > before.utcoffset()
