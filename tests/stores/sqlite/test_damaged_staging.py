"""Damaged staging: no altered message is delivered, and a check finds the damage."""

from __future__ import annotations

import pytest

from sqew.errors import StoreDamaged
from sqew.formats.columns import columns
from sqew.model import NewMessage
from sqew.operations import FinishPromotion, Peek, Promote, Receive, Stage, StepPromotion
from sqew.stores.sql.staging import LEFT_UNDONE_MS
from tests.stores.sqlite.backlog import NOW, create, open_store, run


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "queue.db")
    create(store, "jobs")
    yield store
    store.close()


def stage(store, **fields):
    messages = columns([NewMessage(b'"good"', **fields), NewMessage(b'"evil"', **fields)])
    run(store, Stage("jobs", "load", 0, "p", messages))


def damage(store, was, now):
    [(id, packed)] = store.connection.execute("SELECT id, packed FROM sqew_chunk").fetchall()
    assert was in packed
    store.connection.execute("UPDATE sqew_chunk SET packed = ? WHERE id = ?", (packed.replace(was, now), id))


def promote(store):
    run(store, Promote("jobs", "load", 0, {"p": 2}))
    return run(store, StepPromotion("jobs", "load", 0))


def test_a_check_finds_nothing_where_nothing_is_damaged(store):
    stage(store, headers={"trace": "x"})

    assert store.check().problems == []


@pytest.mark.parametrize("fields", [{}, {"headers": {"trace": "x"}}])
def test_a_check_finds_what_was_staged_and_is_damaged(store, fields):
    stage(store, **fields)
    damage(store, b"evil", b"well")

    assert store.check().problems == ["messages that writer 'load' has staged for queue 'jobs' (epoch 0) are damaged"]


def test_one_body_that_is_damaged_is_withheld_and_the_others_are_delivered(store):
    stage(store)
    damage(store, b"evil", b"well")

    promote(store)

    assert [message.damaged for message in run(store, Peek("jobs", 10))] == [False, True]
    assert [message.body for message in run(store, Receive("jobs", 10)).messages] == [b'"good"']


def test_headers_that_are_damaged_are_never_delivered(store):
    stage(store, headers={"trace": "abc"})
    damage(store, b"abc", b"abd")

    with pytest.raises(StoreDamaged, match="Restore it from a backup"):
        promote(store)

    assert run(store, Peek("jobs", 10)) == []


@pytest.mark.parametrize("now", [b"abd", b""])
def test_one_promotion_that_can_not_go_on_holds_up_no_other(store, caplog, now):
    stage(store, headers={"trace": "abc"})
    damage(store, b"abc", now)
    run(store, Promote("jobs", "load", 0, {"p": 2}))
    run(store, Stage("jobs", "other", 0, "p", columns([NewMessage(b"1")])))
    run(store, Promote("jobs", "other", 0, {"p": 1}))

    for _ in range(2):
        store.run([FinishPromotion()], NOW + LEFT_UNDONE_MS)

    assert [message.body for message in run(store, Peek("jobs", 10))] == [b"1"]
    assert [record.message for record in caplog.records] == ["a promotion can't go on"]
