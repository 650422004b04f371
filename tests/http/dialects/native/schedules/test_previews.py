"""Previews over a real socket: the meaning of an expression, before anything is stored."""

from datetime import datetime

import pytest

from tests.http.dialects.native.schedules.nightly import make
from tests.http.dialects.vocabularies import new_queue
from tests.support.serving import serving


def test_a_preview_says_how_an_expression_is_understood(shared_server):
    preview = shared_server.call(
        "POST", "/v1/previews", {"when": "every weekday at 9am", "timezone": "America/New_York"}
    )

    assert preview.status == 200
    assert (preview.json["canonical"], preview.json["timezone"]) == ("0 9 * * 1-5", "America/New_York")
    assert preview.json["human_readable"] == "At 09:00 on weekdays, America/New_York time"
    fires = list(zip(preview.json["next_fires"], preview.json["next_fires_local"], strict=True))
    assert len(fires) == 5
    for utc, shown in fires:
        local = datetime.fromisoformat(shown)
        assert (local.hour, local.minute, local.weekday() < 5) == (9, 0, True)
        assert local == datetime.fromisoformat(utc)


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ({"when": "every weekday at 9am"}, {"cron": "0 9 * * 1-5"}),
        ({"every": "5m"}, {"cron": "*/5 * * * *"}),
        ({"every": "90 minutes"}, {}),
        ({"fire_at": "2099-01-01T01:02:03.123456789+01:00"}, {"fire_at": "2099-01-01T00:02:03.123Z"}),
        ({"cron": "0 9 * * *", "color": "red"}, {"cron": "0 9 * * *"}),
    ],
)
def test_a_preview_says_as_what_an_expression_is_stored(shared_server, body, stored):
    preview = shared_server.call("POST", "/v1/previews", body).json

    assert {kind: preview[kind] for kind in ("cron", "fire_at") if kind in preview} == stored


@pytest.mark.parametrize(
    ("body", "count"),
    [({"every": "5 minutes", "count": 100}, 100), ({"fire_at": "2099-01-01T00:00:00Z", "count": 3}, 1)],
)
def test_a_preview_shows_as_many_fires_as_are_asked_for_and_exist(shared_server, body, count):
    assert len(shared_server.call("POST", "/v1/previews", body).json["next_fires"]) == count


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, "Give one of cron, every, when and fire_at."),
        ({"cron": "* * * * *", "every": "1h"}, "in several ways: cron and every"),
        ({"cron": "0 9 *"}, "has 3 fields"),
        ({"every": "soon"}, "soon"),
        ({"when": "now and then"}, "Nearest forms:"),
        ({"fire_at": "tomorrow"}, "does not begin with a date"),
        ({"every": "1h", "timezone": "Mars/Olympus"}, "There is no time zone 'Mars/Olympus'"),
        ({"every": "1h", "count": 0}, "count can't be 0: it must be a whole number from 1 to 100."),
        ({"every": "1h", "count": 101}, "count can't be 101"),
        ({"evry": "1h"}, "Give one of cron, every, when and fire_at."),
    ],
)
def test_a_bad_preview_is_refused(shared_server, body, wrong):
    answer = shared_server.call("POST", "/v1/previews", body)

    assert answer.status == 400
    assert wrong in answer.json["error"]


def test_a_server_shows_as_many_fires_as_it_was_told_to(tmp_path):
    with serving(tmp_path, "--durability", "fast", "--schedule-preview-count", "2") as server:
        made = make(server, target=new_queue(server))
        preview = server.call("POST", "/v1/previews", {"every": "1h"}).json

    assert (len(made["next_fires"]), len(preview["next_fires"])) == (2, 2)
