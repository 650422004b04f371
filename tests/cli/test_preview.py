"""`sqew preview`, which needs neither a file nor a server."""

from datetime import datetime

import pytest


def previewed(sqew, *words):
    done = sqew(["preview", "--json", *words])
    assert done.code == 0, done.err
    return done.json


@pytest.mark.parametrize(
    ("text", "kind", "canonical"),
    [
        ("0 9 * * 1-5", "cron", "0 9 * * 1-5"),
        ("*/10 * * * * *", "cron", "*/10 * * * * *"),
        ("@daily", "cron", "0 0 * * *"),
        ("5 minutes", "every", "*/5 * * * *"),
        ("1h30m", "every", "@every 1h30m"),
        ("1 hour and 30 minutes", "every", "@every 1h30m"),
        ("@every 90m", "every", "@every 1h30m"),
        ("every weekday at 9am", "when", "0 9 * * 1-5"),
        ("1st and 15th of the month at midnight", "when", "0 0 1,15 * *"),
        ("first monday of the month at noon", "when", "0 12 * * 1#1"),
        ("every 2 days at 9am", "when", "@every 2d at 09:00"),
        ("2099-12-24T18:00:00Z", "fire_at", "2099-12-24T18:00:00Z"),
        ("2099-12-24 18:00", "fire_at", "2099-12-24T18:00:00Z"),
        ("2099-12-24 at 6pm", "when", "2099-12-24T18:00:00Z"),
        ("2099-12-24", "when", "2099-12-24T00:00:00Z"),
    ],
)
def test_an_expression_is_read_as_what_it_looks_like(sqew, text, kind, canonical):
    shown = previewed(sqew, text)

    assert (shown["kind"], shown["expression"], shown["canonical"]) == (kind, text, canonical)


@pytest.mark.parametrize(
    ("option", "text", "canonical"),
    [
        ("--cron", "@hourly", "0 * * * *"),
        ("--every", "2 days", "@every 2d"),
        ("--when", "every day at noon", "0 12 * * *"),
        ("--fire-at", "2099-12-24T18:00", "2099-12-24T17:00:00Z"),
    ],
)
def test_the_kind_may_be_said(sqew, option, text, canonical):
    assert previewed(sqew, option, text, "--timezone", "Europe/Berlin")["canonical"] == canonical


def test_people_see_a_sentence_and_the_next_fires(sqew):
    done = sqew(["preview", "every weekday at 9am", "--timezone", "Europe/Berlin", "--count", "2"])

    lines = done.out.splitlines()
    assert lines[0] == "fires    At 09:00 on weekdays, Europe/Berlin time"
    assert lines[1] == "read as  when: 0 9 * * 1-5"
    assert lines[3].split() == ["NEXT", "FIRES", "DAY", "UTC", "FROM", "NOW"]
    assert len(lines) == 6
    date, clock, offset, day, utc, *away = lines[4].split()
    local = datetime.fromisoformat(f"{date}T{clock}{offset}")
    assert local == datetime.fromisoformat(utc)
    assert f"{local:%H:%M %a}" == f"09:00 {day}"
    assert away[0] == "in"


def test_a_time_that_comes_once_fires_once(sqew):
    assert [fire["at"] for fire in previewed(sqew, "--fire-at", "2099-12-24T18:00:00Z")["next_fires"]] == [
        4_101_818_400_000
    ]


def test_neither_a_file_nor_a_server_is_asked(sqew, folder, monkeypatch):
    monkeypatch.setenv("SQEW_URL", "http://localhost:1")

    previewed(sqew, "@daily")

    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evry monday at 9am"], "'evry' at position 1 is not understood. Nearest forms:"),
        (["3 months"], "'months' at position 3 is not always the same length."),
        (["every 500 ms"], "'ms' at position 11 is too short"),
        (["2099-12-24T18:00:00+25:00"], "'+25:00' at position 20 is not an offset"),
        (["2099-02-30 18:00"], "the days of February 2099 are 1 to 28"),
        (["61 * * * *"], "'61' is above 59"),
        (["0 9 * *"], "Did you mean '0 9 * * *'"),
        (["--every", "5 minits"], "did you mean"),
        (["--fire-at", "2020-01-01T00:00"], "in the past"),
        (["@daily", "--timezone", "Europe/Berlni"], "Europe/Berlin"),
        (["@daily", "--count", "0"], "--count"),
        (["@daily", "--cron", "@daily"], "Give an expression, or one of"),
        (["--every", "5m", "--cron", "@daily"], "--cron and --every contradict each other"),
        ([], "Give an expression, or one of"),
        ([""], "The expression is empty"),
    ],
)
def test_a_mistake_is_told(sqew, words, said):
    done = sqew(["preview", *words])

    assert (done.code, done.out) == (2, "")
    assert said in done.err
