"""Schedules: messages by the clock."""

import contextlib

import pytest

from sqew.errors import BadExpression, BadName, BadZone, ScheduleExists, ScheduleNotFound
from tests.surfaces.surface import Refused, refused


@pytest.fixture
def scheduled(surface, queue):
    """Yield the name of a schedule that never fires by itself in a test."""
    surface.create(queue)
    surface.schedule(queue, queue, {"tick": 1}, cron="0 9 29 2 *")
    yield queue
    with contextlib.suppress(Refused):
        surface.unschedule(queue)


def test_a_schedule_is_shown_paused_and_resumed(surface, scheduled):
    shown = surface.scheduled(scheduled)
    assert (shown["status"], shown["canonical"], shown["fired"]) == ("active", "0 9 29 2 *", 0)

    surface.pause(scheduled)
    assert surface.scheduled(scheduled) == shown | {"status": "paused"}
    surface.resume(scheduled)
    assert surface.scheduled(scheduled) == shown


def test_it_fires_when_it_is_told_to(surface, scheduled):
    [id] = surface.run_schedule(scheduled)

    sent = surface.get(scheduled, id)
    assert sent.value == {"tick": 1}
    assert sent.headers["_schedule"]["name"] == scheduled
    assert sent.headers["_schedule"]["out_of_band"] is True


def test_what_is_deleted_is_unknown(surface, scheduled):
    with refused(ScheduleExists):
        surface.schedule(scheduled, scheduled, 1, every="1 hour")
    surface.unschedule(scheduled)

    for ask in (surface.scheduled, surface.pause, surface.resume, surface.run_schedule):
        with refused(ScheduleNotFound):
            ask(scheduled)


def test_bad_words_are_refused(surface, queue):
    surface.create(queue)

    with refused(BadExpression):
        surface.schedule(queue, queue, 1, cron="61 * * * *")
    with refused(BadZone):
        surface.schedule(queue, queue, 1, cron="0 9 * * *", timezone="Mars/Olympus")
    with refused(BadName):
        surface.schedule("no spaces", queue, 1, cron="0 9 * * *")
    with refused(ScheduleNotFound):
        surface.scheduled(queue)


@pytest.mark.parametrize(
    ("timing", "canonical"),
    [
        ({"cron": "0 9 * * 1-5"}, "0 9 * * 1-5"),
        ({"every": "5 minutes"}, "*/5 * * * *"),
        ({"when": "first monday of the month at noon", "timezone": "Europe/Berlin"}, "0 12 * * 1#1"),
    ],
)
def test_a_preview_says_when(surface, timing, canonical):
    found = surface.preview(**timing, count=3)

    assert (found["canonical"], found["fires"]) == (canonical, 3)
    assert found["sentence"]
