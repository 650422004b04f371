"""Sentences that describe rules to people."""

import pytest

from sqew.schedules import rule_from
from tests.schedules.reading import BERLIN, utc

SENTENCES = {
    "0 9 * * *": "At 09:00 every day",
    "0 9,17 * * *": "At 09:00 and 17:00 every day",
    "30 5 2 * * *": "At 02:05:30 every day",
    "0 9 * * 1-5": "At 09:00 on weekdays",
    "0 9 * * 1,4,0": "At 09:00 on Monday, Thursday and Sunday",
    "0 9 * * 5-7": "At 09:00 on Friday to Sunday",
    "0 9 * * 1-5/2": "At 09:00 on Monday, Wednesday and Friday",
    "0 9 * 1-3 1-5": "At 09:00 on weekdays in January to March",
    "0 9 * 7 *": "At 09:00 every day in July",
    "0 12 * * 1#1": "At 12:00 on the first Monday of the month",
    "0 12 * 1,7 1#1": "At 12:00 on the first Monday of January and July",
    "0 0 * * 5L,1": "At 00:00 on Monday and the last Friday of the month",
    "0 0 1,15 * *": "At 00:00 on the 1st and 15th of the month",
    "0 0 2,3,11,22 * *": "At 00:00 on the 2nd, 3rd, 11th and 22nd of the month",
    "0 0 1-7 * *": "At 00:00 on the 1st to 7th of the month",
    "0 0 1,L * *": "At 00:00 on the 1st and the last day of the month",
    "0 0 LW * *": "At 00:00 on the last weekday of the month",
    "0 0 */10 * *": "At 00:00 on every 10th day from the 1st to the 31st of the month",
    "0 0 1 */3 *": "At 00:00 on the 1st of January, April, July and October",
    "0 0 13 * 5": "At 00:00 on the 13th of the month and on Friday",
    "0 0 */2 * 1": "At 00:00 on every 2nd day from the 1st to the 31st of the month if that is Monday",
    "* * * * *": "Every minute",
    "*/15 * * * *": "Every 15 minutes",
    "*/7 * * * *": "Every 7 minutes from each full hour on",
    "*/15 9-16 * * 1-5": "Every 15 minutes from 09:00 to 16:45 on weekdays",
    "*/15 22-23,0-5 * * *": "Every 15 minutes from 22:00 to 05:45",
    "*/15 9,12 * * *": "Every 15 minutes of hours 9 and 12",
    "* 9 * * *": "Every minute from 09:00 to 09:59",
    "*/20 */2 * * *": "Every 20 minutes of every 2nd hour",
    "0 * * * *": "Every hour",
    "5 * * * *": "Every hour at 5 minutes past",
    "1 */2 * * 0": "Every 2 hours at 1 minute past on Sunday",
    "0 */5 * * *": "Every 5 hours from 00:00 to 20:00",
    "30 9-17 * * *": "Every hour from 09:30 to 17:30",
    "0 9-16 * * *": "Every hour from 09:00 to 16:00",
    "0 22-23,0-5 * * *": "Every hour from 22:00 to 05:00",
    "0 8-17/3 * * *": "Every 3 hours from 08:00 to 17:00",
    "5,35 * * * *": "At minutes 5 and 35 of every hour",
    "0,30 9-17 * * *": "At minutes 0 and 30 of hours 9 to 17 every day",
    "* * * * * *": "Every second",
    "*/10 * * * * *": "Every 10 seconds",
    "*/7 * * * * *": "Every 7 seconds from each full minute on",
    "*/30 * 9-16 * * *": "Every 30 seconds from 09:00 to 16:59:30",
    "* * 22-23,0-5 * * *": "Every second from 22:00 to 05:59:59",
    "*/10 30 2 * * *": "Every 10 seconds of minute 30 of hour 2",
    "0,30 */5 * * * *": "At seconds 0 and 30 of every 5th minute of every hour",
    "30 */5 * * * *": "Every 5 minutes, at second 30",
    "@every 2d": "At 00:00 every 2 days",
    "@every 2w": "At 00:00 on Monday every 2 weeks",
    "@every 2d at 09:00": "At 09:00 every 2 days",
    "@every 2w on 5 at 17:00:30": "At 17:00:30 on Friday every 2 weeks",
}


@pytest.mark.parametrize(("stored", "sentence"), SENTENCES.items())
def test_the_sentence_says_what_the_rule_does_and_where(stored, sentence):
    assert rule_from(stored, BERLIN).sentence == f"{sentence}, Europe/Berlin time"


def test_utc_is_called_by_its_name():
    assert rule_from("0 9 * * *", "UTC").sentence == "At 09:00 every day, UTC"


def test_an_interval_of_elapsed_time_says_so():
    assert rule_from("@every 1d1h1m2s", BERLIN).sentence == "Every 1 day 1 hour 1 minute 2 seconds of elapsed time"


def test_an_instant_is_shown_in_local_time():
    once = rule_from("2026-12-24T17:00:05Z", BERLIN)

    assert once.sentence == "Once, on Thursday 24 December 2026 at 18:00:05, Europe/Berlin time"


def test_the_sentence_of_an_instant_has_the_local_day():
    once = rule_from("2026-12-24T23:30:00Z", BERLIN)

    assert once.sentence == "Once, on Friday 25 December 2026 at 00:30, Europe/Berlin time"
    assert once.next_after(0) == utc("2026-12-24T23:30:00")
