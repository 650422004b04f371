"""SQL over the lake and the queues of a server."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sqew.errors import BadValue
from sqew.spark.jobs.query import query, views_of
from tests.spark.lake.lakes import NOON, archive_of, finished


@pytest.fixture
def views(spark):
    messages = [finished(id, NOON + timedelta(hours=5 * id), priority=id % 2) for id in range(1, 6)]
    return {"lake": lambda: archive_of(spark, messages), "queue_orders": lambda: archive_of(spark, messages[:2])}


def test_a_question_is_answered(spark, views):
    sql = "SELECT priority, count(*) AS n FROM lake GROUP BY priority ORDER BY priority;"

    found = query(spark, sql, views, limit=10)

    assert (found.columns, found.rows, found.more) == (["priority", "n"], [[0, 2], [1, 3]], False)


def test_views_can_be_joined(spark, views):
    sql = "WITH waiting AS (SELECT id FROM queue_orders) SELECT lake.id FROM lake JOIN waiting USING (id) ORDER BY id"

    assert query(spark, sql, views, limit=10).rows == [[1], [2]]


def test_more_rows_than_asked_for_are_not_shown_and_told_of(spark, views):
    found = query(spark, "SELECT id FROM lake ORDER BY id DESC", views, limit=2)

    assert (found.rows, found.more) == ([[5], [4]], True)


def test_what_a_question_does_not_name_is_not_opened(spark, views):
    def opened():
        raise AssertionError("nobody asked for it")

    found = query(spark, "SELECT max(id) FROM lake", {**views, "archive_orders": opened}, limit=1)

    assert found.rows == [[5]]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM queue_order", "There is no view 'queue_order' (did you mean 'queue_orders'?)."),
        ("SELECT bdy FROM lake", "That can't be asked: "),
        ("SELEC 1", "That is no SQL question: "),
        ("DROP VIEW lake", "That is no SQL question: "),
    ],
)
def test_a_question_that_can_not_be_answered_is_one_sentence(spark, views, sql, said):
    with pytest.raises(BadValue) as raised:
        query(spark, sql, views, limit=1)

    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_of_two_queues_with_one_view_name_the_one_called_so_has_it():
    for queues in (["mail-out", "mail_out"], ["mail_out", "mail-out"]):
        views = views_of(queues, lambda queue: ("queue", queue), lambda queue: ("archive", queue))

        assert views["queue_mail_out"]() == ("queue", "mail_out")
        assert views["archive_mail_out"]() == ("archive", "mail_out")
