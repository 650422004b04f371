"""Paths that can't hold a queue: each is our own error, with a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import apsw
import pytest

from sqew.errors import SqewError, StoreDamaged, StoreTooNew, StoreUnusable
from sqew.model import NewMessage, Policy
from sqew.operations import CreateQueue, Receive, Send
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.connection import translated
from tests.faults.damage import NOW, Sample, build, open_and_drain
from tests.faults.mounts import in_own_mounts, make_read_only


def open_store(path: Path) -> SQLiteStore:
    return SQLiteStore(path, now=NOW)


def use(path: Path) -> None:
    """Make a queue in the file, and send and receive through it."""
    with closing(open_store(path)) as store:
        store.run([CreateQueue("q", Policy(), exist_ok=True), Send("q", [NewMessage(b"1")])], NOW)
        assert [m.body for m in store.run([Receive("q")], NOW).results[0].messages] == [b"1"]


def refused(path: Path, error: type[SqewError], says: str) -> None:
    """Check that opening raises exactly this error, in a sentence that names the place."""
    with pytest.raises(error, match=says) as refusal:
        open_store(path)
    assert type(refusal.value) is error
    assert path.name in str(refusal.value) or path.parent.name in str(refusal.value)
    assert str(refusal.value).endswith(".")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "queue.db"
    yield path
    # Refused or not, no file is left open or locked.
    if path.is_file():
        path.rename(tmp_path / "renamed")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "missing" / "queue.db", StoreUnusable, "does not exist. Create it")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    refused(folder, StoreUnusable, "is a folder. Name a file")


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    refused(tmp_path / "file" / "queue.db", StoreUnusable, "does not exist")


def test_an_empty_file_is_a_new_database(path: Path) -> None:
    path.touch()

    use(path)


def test_a_text_file_is_refused_and_left_as_it_is(path: Path) -> None:
    text = "dear diary, " * 500
    path.write_text(text)

    refused(path, StoreDamaged, "is not a SQLite database")
    assert path.read_text() == text


def test_a_short_text_file_is_refused_and_left_as_it_is(path: Path) -> None:
    path.write_text("hello")

    refused(path, StoreDamaged, "is not a SQLite database")
    assert path.read_text() == "hello"


def test_a_database_of_another_application_can_hold_a_queue_beside_its_tables(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as application:
        application.execute(
            "CREATE TABLE message (id INTEGER PRIMARY KEY, body TEXT); CREATE INDEX i ON message (body)"
        )
        application.execute("INSERT INTO message VALUES (1, 'mine'), (2, 'too'); PRAGMA user_version = 42")

    use(path)

    with closing(apsw.Connection(str(path))) as application:
        assert application.execute("SELECT * FROM message ORDER BY id").fetchall() == [(1, "mine"), (2, "too")]
        assert application.pragma("user_version") == 42
        assert application.pragma("integrity_check") == "ok"
        names = {name for (name,) in application.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert {name for name in names if not name.startswith(("sqew_", "sqlite_"))} == {"message"}


def test_a_file_of_a_newer_version_is_refused_and_left_as_it_is(path: Path) -> None:
    use(path)
    with closing(apsw.Connection(str(path))) as newer:
        newer.execute("INSERT INTO sqew_migration VALUES (9999, 'from_the_future', 0)")
    before = path.read_bytes()

    refused(path, StoreTooNew, "newer Sqew .* Upgrade")
    assert path.read_bytes() == before


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return build(tmp_path_factory.mktemp("truncated") / "sample")


def test_a_truncated_file_delivers_what_is_whole_or_says_that_it_is_damaged(sample: Sample, scratch: Path) -> None:
    random = Random(1)
    damaged = 0
    for number in range(60):
        path = sample.copy(scratch / str(number), with_wal=False)
        content = path.read_bytes()
        # Half of them at a page, as file systems do, and half anywhere.
        size = random.randrange(1, len(content))
        path.write_bytes(content[: size // 4096 * 4096 if number % 2 else size])

        outcome = open_and_drain(path, sample.sent)

        assert outcome.altered == []
        assert outcome.foreign == [], number
        damaged += outcome.errors["StoreDamaged"] > 0
    assert damaged > 30


def test_a_truncated_wal_leaves_an_earlier_state(sample: Sample, scratch: Path) -> None:
    random = Random(2)
    for number in range(40):
        path = sample.copy(scratch / str(number), with_wal=True)
        wal = path.with_name("queue.db-wal")
        wal.write_bytes(wal.read_bytes()[: random.randrange(wal.stat().st_size)])

        outcome = open_and_drain(path, sample.sent)

        assert outcome.altered == []
        assert outcome.foreign == [], number
        assert set(outcome.errors) <= {"QueueNotFound", "MessageNotFound"}


@in_own_mounts
def test_a_read_only_folder_is_refused_for_a_new_file(tmp_path: Path) -> None:
    make_read_only(tmp_path)

    refused(tmp_path / "queue.db", StoreUnusable, "is read-only. Make it writable")


@in_own_mounts
def test_a_file_in_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    use(tmp_path / "queue.db")
    make_read_only(tmp_path)

    refused(tmp_path / "queue.db", StoreUnusable, "read-only; a queue must write both")


@in_own_mounts
def test_a_read_only_file_in_a_writable_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    use(path)
    make_read_only(path)

    refused(path, StoreUnusable, "read-only; a queue must write both")


@in_own_mounts
def test_a_file_that_sqlite_finds_read_only_is_told_in_our_words(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    use(path)
    make_read_only(path)

    # Past the check at the door, as on a file system that the kernel remounts after an error.
    with closing(apsw.Connection(str(path))) as connection, pytest.raises(StoreUnusable), translated(str(path)):
        connection.execute("CREATE TABLE x (x)")
