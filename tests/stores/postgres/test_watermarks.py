"""Watermarks: the place that a server remembers in a queue, and when it looks from the start again."""

from __future__ import annotations

import pytest

from sqew.stores.postgres.watermarks import Watermarks
from sqew.stores.sql.ready_rows import START

NOW = 1_700_000_000_000
BUCKET = (0, 0)
REACHED = (NOW - 5_000, 7)


@pytest.fixture
def marks() -> Watermarks:
    marks = Watermarks()
    marks.reach("orders", BUCKET, START, REACHED, NOW)
    marks.reach("mails", BUCKET, START, REACHED, NOW)
    return marks


def test_the_next_message_is_looked_for_after_the_last(marks: Watermarks) -> None:
    assert marks.position("orders", BUCKET, NOW) == REACHED


def test_after_a_late_commit_its_queue_is_looked_through_from_the_start(marks: Watermarks) -> None:
    marks.sent(["orders"], took_ms=60)

    assert marks.position("orders", BUCKET, NOW) == START
    assert marks.position("mails", BUCKET, NOW) == REACHED


def test_a_commit_in_time_changes_nothing(marks: Watermarks) -> None:
    marks.sent(["orders"], took_ms=20)

    assert marks.position("orders", BUCKET, NOW) == REACHED


def test_after_a_second_everything_is_looked_through_again(marks: Watermarks) -> None:
    assert marks.position("orders", BUCKET, NOW + 1_000) == START
