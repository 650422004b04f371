"""A file opened for reading only: it is not changed, and one that can't be understood is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path

import apsw
import pytest

from sqew import Queue
from sqew.errors import QueueNotFound, StoreDamaged, StoreTooNew, StoreUnusable
from sqew.operations import ReadBounds, ReadColumns
from sqew.stores.sqlite.file_reader import SQLiteReader

NOW = 1_700_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with a queue of three messages."""
    path = tmp_path / "queue.db"
    with Queue.open(path) as queue:
        queue.create("orders")
        queue.enqueue_many("orders", [1, 2, 3])
    return path


def _set_version(file: Path, version: int) -> None:
    with contextlib.closing(apsw.Connection(str(file))) as connection:
        connection.execute("DELETE FROM sqew_migration WHERE version > ?", (version,))
        connection.execute("INSERT OR IGNORE INTO sqew_migration VALUES (?, 'a test', 0)", (version,))


def test_messages_are_read_and_the_file_stays_as_it_is(file: Path) -> None:
    before = file.read_bytes()

    with SQLiteReader(file, now=NOW) as reader:
        bounds = reader.read(ReadBounds("orders"))
        columns = reader.read(ReadColumns("orders", 0, bounds.last, 100))

    assert (bounds.first, bounds.last, bounds.count) == (1, 3, 3)
    assert list(columns.values["body"]) == [b"1", b"2", b"3"]
    assert file.read_bytes() == before


def test_it_sees_one_moment_while_others_write(file: Path) -> None:
    with SQLiteReader(file, now=NOW) as reader, Queue.open(file) as queue:
        before = reader.read(ReadBounds("orders")).count
        queue.enqueue("orders", 4)
        after = reader.read(ReadBounds("orders")).count

    assert (before, after) == (3, 3)


def test_an_unknown_queue_is_named(file: Path) -> None:
    with SQLiteReader(file, now=NOW) as reader, pytest.raises(QueueNotFound, match="did you mean 'orders'"):
        reader.read(ReadBounds("order"))


def test_what_is_no_file_of_queues_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    (tmp_path / "notes.txt").write_text("not a database, " * 100)

    with pytest.raises(StoreUnusable, match="is no file"):
        SQLiteReader(tmp_path / "none.db", now=NOW)
    with pytest.raises(StoreUnusable, match="holds no queues"):
        SQLiteReader(tmp_path / "empty.db", now=NOW)
    with pytest.raises(StoreDamaged, match="is not a SQLite database"):
        SQLiteReader(tmp_path / "notes.txt", now=NOW)


def test_a_file_of_another_version_is_refused_with_what_to_do(file: Path) -> None:
    _set_version(file, 1)
    with pytest.raises(StoreUnusable, match="was written by an older Sqew"):
        SQLiteReader(file, now=NOW)

    _set_version(file, 999)
    with pytest.raises(StoreTooNew, match="Upgrade Sqew"):
        SQLiteReader(file, now=NOW)
