"""Damaged dates in the archive and damaged notes of changed retentions: the sweeper passes them by."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqew.model import NewMessage, Policy, Ref
from sqew.operations import Ack, CreateQueue, ListArchive, Send, Sweep, SweepDue, UpdateQueue
from sqew.stores.sqlite import SQLiteStore
from tests.stores.sqlite.backlog import open_store

NOW = 1_700_000_000_000
KEPT = Policy(keep="archive", archive_retention_ms=1_000)


@pytest.fixture
def store(tmp_path: Path):
    store = open_store(tmp_path / "queue.db")
    [_, sent] = store.run([CreateQueue("jobs", KEPT), Send("jobs", [NewMessage(b"1")] * 3)], NOW).results
    store.run([Ack("jobs", [Ref(one.id) for one in sent])], NOW)
    yield store
    store.close()


def archived(store: SQLiteStore) -> int:
    return len(store.run([ListArchive("jobs")], NOW).results[0].messages)


@pytest.mark.parametrize("value", ["'x'", "x'00ff'", "1.5"])
@pytest.mark.parametrize("column", ["finished_at", "queue_id"])
def test_a_row_with_an_odd_date_or_queue_is_in_no_others_way(store, column, value):
    store.connection.execute(f"UPDATE sqew_archive SET {column} = {value} WHERE id = 1")

    store.run([Sweep()], NOW + 5_000)

    left = store.connection.execute("SELECT id FROM sqew_archive").fetchall()
    assert left in ([], [(1,)])


@pytest.mark.parametrize("damage", ["reached = 'x'", "former = 'x', kind = 'messages'", "kind = 'x'", "queue_id = 77"])
def test_a_damaged_note_is_dropped(store, damage):
    store.run([UpdateQueue("jobs", {"archive_retention_ms": 500})], NOW)
    store.connection.execute(f"UPDATE sqew_redating SET {damage} WHERE kind = 'dead'")

    for _ in range(5):
        store.run([Sweep()], NOW)

    assert not store.run([SweepDue()], NOW).results[0]
    assert archived(store) == 3
