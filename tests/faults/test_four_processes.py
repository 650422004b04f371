"""Processes on one file: claims, sends and the first opening."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from sqew.model import NewMessage, Policy
from sqew.operations import CreateQueue, Receive, Send
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.connection import connect
from sqew.stores.sqlite.migrate import migrate, version_of
from tests.faults.children import Children
from tests.faults.consistency import problems_of
from tests.faults.history import Event, check
from tests.faults.test_kills import drain

SENDS = 250  # calls of each of two producers, of up to 20 messages each


class NewIds:
    """A watcher of ids as they become visible: a new one must be above every one that was there before."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._highest = 0
        self._seen: set[int] = set()
        self.late: list[int] = []

    def look(self) -> None:
        # One statement is one snapshot: what others commit meanwhile is for the next look.
        ids = {id for (id,) in self._connection.execute("SELECT id FROM sqew_message")}
        self.late += [id for id in ids - self._seen if id < self._highest]
        self._seen |= ids
        self._highest = max(ids, default=self._highest)

    def close(self) -> None:
        self._connection.close()


def test_four_processes_claim_from_one_file_without_double_claims_or_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Children(tmp_path) as children, closing(NewIds(children.path)) as new_ids:
        producers = [children.start("producer", messages=SENDS, batch=20) for _ in range(2)]
        consumers = [children.start("consumer", batch=10) for _ in range(4)]
        deadline = time.monotonic() + 60
        while any(child.process.poll() is None for child in producers + consumers):
            assert time.monotonic() < deadline
            new_ids.look()
            if all(child.process.poll() is not None for child in producers):
                children.stop_file.touch()
            time.sleep(0.01)

        # StoreBusy, and any other error, ends a child with a traceback.
        assert children.complaints() == []
        history = children.histories()
    verdict = check(history + drain(children.path))
    with closing(apsw.Connection(str(children.path))) as connection:
        assert not problems_of(connection)

    with capsys.disabled():
        print(f"\nfour processes: {verdict}")  # noqa: T201
    assert not verdict.violations
    assert not verdict.unknown
    assert len(verdict.sent) > 3_000
    assert len(verdict.acked) > 2_000
    assert new_ids.late == []
    assert sends_against_the_order_of_ids(history) == []


def sends_against_the_order_of_ids(history: list[Event]) -> list[Event]:
    """Return the sends that were called after another was answered and yet got a lower id."""
    highest, wrong = 0, []
    floor: dict[tuple[str, int], int] = {}
    for event in history:
        if event.action != "send":
            continue
        if event.step == "call":
            floor[event.process, event.call] = highest
        elif event.step == "ok":
            ids = [entry.id for entry in event.entries]
            if ids != sorted(set(ids)) or ids[0] <= floor[event.process, event.call]:
                wrong.append(event)
            highest = max(highest, ids[-1])
    return wrong


def test_two_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Check a regression: the second had a stale picture of the schema and failed with "table already exists"."""
    path = str(tmp_path / "queue.db")
    with closing(connect(path)) as first, closing(connect(path)) as second:
        # Both have looked and found nothing.
        assert (version_of(first), version_of(second)) == (0, 0)

        migrate(first, path, now=1)
        migrate(second, path, now=2)

        assert version_of(second) == version_of(first) > 0


def test_six_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    children = Children(tmp_path)
    for file in tmp_path.glob("queue.db*"):
        file.unlink()
    with children:
        started = [children.start("producer", messages=3) for _ in range(6)]
        for child in started:
            child.process.wait(timeout=30)

        assert children.complaints() == []


def test_opening_a_file_that_is_up_to_date_writes_nothing_to_it(tmp_path: Path) -> None:
    """Check a regression: PRAGMA auto_vacuum wrote its setting at each opening, under the write lock, with an fsync."""
    path = tmp_path / "queue.db"
    SQLiteStore(path, now=1).close()
    before = path.read_bytes()

    with closing(SQLiteStore(path, now=2)):
        wal = path.with_name("queue.db-wal")
        assert not wal.exists() or wal.stat().st_size == 0

    assert path.read_bytes() == before


def test_a_file_can_be_opened_while_another_process_writes_to_it(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    with closing(SQLiteStore(path, now=1)) as writer:
        writer.begin(1)

        SQLiteStore(path, now=1, busy_timeout_ms=50).close()

        writer.rollback()


def test_one_receive_never_hands_out_a_message_twice(tmp_path: Path) -> None:
    """Check a regression: with a lease of no length a FIFO group's head was ready again within the same receive."""
    with closing(SQLiteStore(tmp_path / "queue.db", now=1)) as store:
        store.run([CreateQueue("q.fifo", Policy(fifo=True))], 1)
        store.run([Send("q.fifo", [NewMessage(b"1"), NewMessage(b"2")])], 2)

        received = store.run([Receive("q.fifo", limit=5, lease_ms=0)], 3).results[0]

        assert [message.body for message in received.messages] == [b"1", b"2"]
