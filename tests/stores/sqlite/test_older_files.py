"""A file written by an older Sqew: it is brought up to date, and keeps its contents."""

from __future__ import annotations

import contextlib
from pathlib import Path

import apsw
import pytest

from sqew import Queue
from sqew.stores.sql.migrations import migrations

_LATER = ("writer", "staging", "part", "chunk", "consumer", "claim", "claim_chunk", "redating")
"""The tables added by version 5 and later."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Return a file from before there were writers and consumers, with messages in every state."""
    path = tmp_path / "queue.db"
    with Queue.open(path) as queue:
        queue.create("orders", keep="archive")
        queue.enqueue_many("orders", list(range(5)))
        queue.ack(queue.claim("orders"))
        queue.claim("orders", lease_seconds=3_600)
        queue.enqueue("orders", "later", delay_seconds=3_600)
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        for table in _LATER:
            connection.execute(f"DROP TABLE sqew_{table}")
        connection.execute("DELETE FROM sqew_migration WHERE version > 4")
    return path


def test_what_an_older_file_holds_stays_as_it_was(older: Path) -> None:
    with Queue.open(older) as queue:
        found = [(message.value, message.state) for message in queue.peek("orders", 10)]

        assert dict(found) == {1: "leased", 2: "ready", 3: "ready", 4: "ready", "later": "delayed"}
        assert [archived.message.value for archived in queue.archive("orders")] == [0]


def test_an_older_file_takes_what_is_new(older: Path) -> None:
    with Queue.open(older) as queue:
        queue.writers.stage("orders", "load", 0, "p", ["new"])
        queue.writers.promote("orders", "load", 0, {"p": 1})
        epoch = queue.consumers.open("orders", "query", owner="me").epoch

        assert queue.consumers.claim("orders", "query", epoch, after=0).count == 4
    with contextlib.closing(apsw.Connection(str(older))) as connection:
        applied = [row[0] for row in connection.execute("SELECT version FROM sqew_migration ORDER BY version")]
        assert applied == [migration.version for migration in migrations("sqew.stores.sqlite")]


def test_a_consumer_of_an_older_file_goes_on_under_its_epoch(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    with Queue.open(path) as queue:
        queue.create("orders")
        queue.enqueue_many("orders", [1, 2])
        epoch = queue.consumers.open("orders", "query", owner="me").epoch
        assert queue.consumers.claim("orders", "query", epoch, after=0, limit=1).number == 1
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("ALTER TABLE sqew_consumer DROP COLUMN spent")
        connection.execute("DELETE FROM sqew_migration WHERE version > 7")

    with Queue.open(path) as queue:
        assert queue.consumers.claim("orders", "query", epoch, after=0).number == 1
        assert queue.consumers.claim("orders", "query", epoch, after=1).number == 2
