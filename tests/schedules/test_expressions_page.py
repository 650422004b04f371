"""The page docs/schedule-expressions.md: every row of its tables is tried."""

import re
from pathlib import Path

import pytest

from sqew.schedules import local_time, rule_from, understand
from sqew.schedules.cron import WORDS
from tests.schedules.reading import BERLIN, NOW, refusal, utc

PAGE = (Path(__file__).parents[2] / "docs" / "schedule-expressions.md").read_text()


def rows(heading):
    """Return the cells of each row below a heading, without the quotes of code round a whole cell."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]
    lines = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)[1:]
    return [tuple(re.sub(r"^`(.*)`$", r"\1", cell) for cell in line.split(" | ")) for line in lines]


EXAMPLES = [(kind, *row) for kind in ("cron", "every", "when", "fire_at") for row in rows(f"`{kind}`")]


@pytest.mark.parametrize(("kind", "written", "stored", "sentence"), EXAMPLES)
def test_every_example_is_understood_as_it_is_said(kind, written, stored, sentence):
    rule = understand(kind, written, BERLIN, NOW)

    suffix = "" if rule.sentence.endswith("elapsed time") else ", Europe/Berlin time"
    assert (rule.canonical, rule.sentence) == (stored, sentence + suffix)


@pytest.mark.parametrize(("stored", "in_march", "in_october"), rows("When the clocks change"))
def test_the_fires_shown_for_a_change_of_the_clock_are_the_real_ones(stored, in_march, in_october):
    march = fires(stored, utc("2026-03-29T00:00:00"), utc("2026-03-29T02:00:00"))
    october = fires(stored, utc("2026-10-24T23:00:00"), utc("2026-10-25T03:00:00"))

    assert (march, october) == (in_march, in_october)


def fires(stored, start, end):
    shown = []
    at = rule_from(stored, BERLIN).next_after(start)
    while at <= end:
        shown.append(re.sub(r".*T(\d\d:\d\d):\d\d(.*)", r"\1\2", local_time(at, BERLIN)))
        at = rule_from(stored, BERLIN).next_after(at)
    return ", ".join(shown)


@pytest.mark.parametrize(("kind", "written", "sentence"), rows("What is refused"))
def test_what_is_refused_is_refused_with_the_sentence_shown(kind, written, sentence):
    assert refusal(kind, written)[0] == sentence


def test_every_word_of_cron_is_explained():
    explained = {written for kind, written, _, _ in EXAMPLES if kind == "cron"}

    assert set(WORDS) <= explained
