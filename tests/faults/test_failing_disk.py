"""EIO on fsync: the contents of the disk are unknown then, and only reading it anew can tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import apsw
import pytest

from sqew.errors import StoreClosed, StoreError, StoreFull
from sqew.model import NewMessage
from sqew.operations import GetQueue, Receive, Send
from sqew.stores.sqlite import SQLiteStore
from tests.faults.client import STANDARD, Client, body, create_queues
from tests.faults.failing import FailingDisk
from tests.faults.history import Event, check

_names = count()


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk(f"failing-{next(_names)}")
    yield disk
    disk.unregister()


def send(client: Client, *values: str) -> None:
    client.send(STANDARD, [(value, NewMessage(body(value))) for value in values])


def shut(store: SQLiteStore) -> None:
    """Close the store whatever state it is in: close's answer to a failing disk is another test's concern."""
    with suppress(StoreError, apsw.Error):
        store.close()


def test_a_failed_fsync_is_told_and_shuts_the_store(tmp_path: Path, disk: FailingDisk) -> None:
    store = SQLiteStore(tmp_path / "queue.db", now=1, vfs=disk.name)
    create_queues(store, 1)

    disk.syncs_fail = True
    with pytest.raises(StoreError) as failure:
        store.run([Send(STANDARD, [NewMessage(b"1")])], 2)

    assert not isinstance(failure.value, StoreFull | StoreClosed)
    disk.syncs_fail = False
    # A second fsync would succeed and prove nothing: the kernel has dropped what the first could not write.
    for operation in (Send(STANDARD, [NewMessage(b"1")]), Receive(STANDARD), GetQueue(STANDARD)):
        with pytest.raises(StoreClosed, match="opened again"):
            store.run([operation], 3)
    shut(store)


def test_a_failed_fsync_of_the_shortest_way_is_told_and_shuts_the_store(tmp_path: Path, disk: FailingDisk) -> None:
    store = SQLiteStore(tmp_path / "queue.db", now=1, vfs=disk.name)
    create_queues(store, 1)
    for _ in range(2):
        store.run([Send(STANDARD, [NewMessage(b"1")] * 2)], 1)

    disk.syncs_fail = True
    with pytest.raises(StoreError) as failure:
        store.send_plain(STANDARD, b"1", "json", 2)

    assert not isinstance(failure.value, StoreFull | StoreClosed)
    disk.syncs_fail = False
    assert store.send_plain(STANDARD, b"1", "json", 3) is None
    with pytest.raises(StoreClosed, match="opened again"):
        store.run([Send(STANDARD, [NewMessage(b"1")])], 3)
    shut(store)


def test_after_a_failed_fsync_nothing_acknowledged_is_missing_when_opened_again(
    tmp_path: Path, disk: FailingDisk
) -> None:
    events: list[Event] = []
    path = tmp_path / "queue.db"
    store = SQLiteStore(path, now=1, vfs=disk.name, wal_autocheckpoint_pages=4)
    create_queues(store, 1)
    client = Client(store, events.append, "client", lambda: 2)
    for number in range(20):
        send(client, f"before-{number}")
    client.ack(client.receive(STANDARD, 3, 1_000))

    disk.syncs_fail = True
    with pytest.raises(StoreError):
        send(client, "during")
    with pytest.raises(StoreError):
        send(client, "after")
    disk.syncs_fail = False
    shut(store)

    again = SQLiteStore(path, now=3)
    Client(again, events.append, "drain", lambda: 3).drain()
    again.close()
    verdict = check(events)
    assert not verdict.violations
    assert len(verdict.sent) == 20
    assert "after" not in verdict.received


def test_a_fsync_that_fails_while_the_file_is_made_is_told(tmp_path: Path, disk: FailingDisk) -> None:
    disk.syncs_fail = True
    with pytest.raises(StoreError):
        SQLiteStore(tmp_path / "queue.db", now=1, vfs=disk.name)

    disk.syncs_fail = False
    SQLiteStore(tmp_path / "queue.db", now=1, vfs=disk.name).close()


def test_closing_on_a_failing_disk_raises_our_own_error_or_none(tmp_path: Path, disk: FailingDisk) -> None:
    """Check a regression: close let SQLite's own IOError through."""
    store = SQLiteStore(tmp_path / "queue.db", now=1, vfs=disk.name)
    create_queues(store, 1)

    disk.syncs_fail = True

    with suppress(StoreError):
        store.close()


def test_a_closed_store_says_that_it_is_closed(tmp_path: Path) -> None:
    """Check a regression: SQLite's own ConnectionClosedError came through."""
    store = SQLiteStore(tmp_path / "queue.db", now=1)
    store.close()

    with pytest.raises(StoreClosed):
        store.run([GetQueue(STANDARD)], 1)
    with pytest.raises(StoreClosed):
        store.run([Send(STANDARD, [NewMessage(b"1")])], 1)
    store.close()


def test_a_disk_that_fills_up_anywhere_in_a_transaction_loses_nothing(tmp_path: Path, disk: FailingDisk) -> None:
    path = tmp_path / "queue.db"
    events: list[Event] = []
    random = Random(1)
    store = SQLiteStore(path, now=1, vfs=disk.name)
    create_queues(store, 1)
    client = Client(store, events.append, "client", lambda: 2)
    refused = 0
    for number in range(60):
        # A batch that does not fit into the WAL as it is, and a place somewhere in it where the disk ends.
        size = path.with_name("queue.db-wal").stat().st_size
        disk.room = random.randrange(60_000)
        try:
            client.send(STANDARD, [(f"{number}-{n}", NewMessage(body(f"{number}-{n}", size // 10))) for n in range(10)])
        except StoreFull:
            refused += 1
        send(client, f"{number}")
    disk.room = None
    send(client, "room again")
    shut(store)

    again = SQLiteStore(path, now=3)
    Client(again, events.append, "drain", lambda: 3).drain()
    again.close()
    verdict = check(events)
    assert 10 < refused < 60
    assert not verdict.violations
    assert not verdict.unknown
