"""Files that are mended while others write to them: no intact row is taken for a damaged one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from sqew.model import NewMessage, Policy, Ref
from sqew.operations import Ack, CreateQueue, ListArchive, Receive, Send
from sqew.stores.sql.catalog import Catalog
from sqew.stores.sql.ready_rows import ReadyRows
from sqew.stores.sql.subscription_cache import Bindings
from sqew.stores.sql.transaction import Work
from sqew.stores.sqlite import SQLiteStore, store
from sqew.stores.sqlite.connection import SQL, SQLiteConnection, connect
from sqew.stores.sqlite.disk_space import DiskSpace
from sqew.stores.sqlite.repair import mend
from tests.faults.power import Disk

NOW = 1_700_000_000_000


def open_store(path: Path) -> SQLiteStore:
    return SQLiteStore(path, now=NOW, durability="fast")


def keyed(key: str) -> Send:
    return Send("jobs", [NewMessage(b"1", key=key)])


def damage(path: Path, table: str, row: int, *, rowid: bool) -> None:
    """Flip a bit in the length of a record's header; all of the table is in one page."""
    with closing(apsw.Connection(str(path))) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    content = bytearray(path.read_bytes())
    first = (root - 1) * 4096
    place = first + 8 + 2 * row
    # Behind the length of the row, and its id: of one byte each.
    content[first + int.from_bytes(content[place : place + 2]) + 1 + rowid] ^= 0x40
    path.write_bytes(content)


def watch(monkeypatch: pytest.MonkeyPatch, see: Callable[[str], object]) -> None:
    """See statements before they are executed to mend a file."""

    def trace(_cursor: apsw.Cursor, statement: str, _values: object) -> bool:
        see(statement)
        return True

    def traced(*args: Any, **options: Any) -> apsw.Connection:
        connection = connect(*args, **options)
        connection.exec_trace = trace
        return connection

    monkeypatch.setattr(store, "connect", traced)


def meddle(monkeypatch: pytest.MonkeyPatch, before: str, act: Callable[[], object]) -> None:
    """Call ``act`` once, as another process, just before a statement is executed that begins in this way."""
    left = [act]

    def see(statement: str) -> None:
        if left and statement.startswith(before):
            left.pop()()

    watch(monkeypatch, see)


def test_a_key_that_was_sent_while_others_were_counted_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "queue.db"
    with closing(open_store(path)) as one:
        one.run([CreateQueue("jobs", Policy())], NOW)
        one.run([keyed(f"key-{n}") for n in range(5)], NOW)
    damage(path, "sqew_key", 3, rowid=False)

    with closing(open_store(path)) as one, closing(open_store(path)) as other:
        behind = "SELECT CAST(queue_id AS BLOB), CAST(key AS BLOB), CAST(message_id AS BLOB), CAST(expires_at AS BLOB)"
        meddle(monkeypatch, f"{behind} FROM sqew_key ORDER BY queue_id DESC", lambda: other.run([keyed("key-")], NOW))
        one.run([keyed("key-3")], NOW)

        known = [key for (key,) in one.connection.execute("SELECT key FROM sqew_key ORDER BY key")]

    assert known == ["key-", "key-0", "key-1", "key-2", "key-3", "key-4"]


def test_a_row_behind_one_that_others_took_out_was_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "queue.db"
    with closing(open_store(path)) as one:
        one.run([CreateQueue("jobs", Policy(keep="archive"))], NOW)
        one.run([keyed(f"key-{n}") for n in range(5)], NOW)
        taken = one.run([Receive("jobs", 5)], NOW).results[0].messages
        one.run([Ack("jobs", [Ref(message.id) for message in taken])], NOW)
    damage(path, "sqew_archive", 2, rowid=True)

    with closing(open_store(path)) as one, closing(open_store(path)) as other:
        by_id = "SELECT id FROM sqew_archive NOT INDEXED"
        meddle(monkeypatch, by_id, lambda: other.read([ListArchive("jobs")], NOW))
        [archive] = one.read([ListArchive("jobs")], NOW)

    assert sorted(found.message.key for found in archive.messages) == ["key-0", "key-1", "key-3", "key-4"]


def test_all_messages_were_read_for_each_queue_while_others_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "queue.db"
    with closing(open_store(path)) as one:
        one.run([CreateQueue("jobs", Policy())], NOW)
        one.run([CreateQueue(f"queue-{n}", Policy()) for n in range(20)], NOW)
        one.run([Send("jobs", [NewMessage(b"1"), NewMessage(b"2")])], NOW)
    damage(path, "sqew_message", 0, rowid=True)
    executed: Counter[str] = Counter()

    with closing(open_store(path)) as one:
        watch(monkeypatch, lambda statement: executed.update([statement]))
        assert len(one.run([Receive("jobs", 2)], NOW).results[0].messages) == 1

    assert max(count for statement, count in executed.items() if "FROM sqew_message" in statement) < 5


@pytest.mark.parametrize("table", ["sqew_message", "sqew_key", "sqew_bucket", "sqew_meta"])
def test_a_power_cut_amid_mending_loses_nothing_that_is_intact(scratch: Path, table: str) -> None:
    sample = scratch / "sample.db"
    with closing(open_store(sample)) as one:
        one.run([CreateQueue("jobs", Policy()), CreateQueue("other", Policy(lanes={"a": 1, "b": 1}))], NOW)
        one.run([keyed(f"key-{n}") for n in range(9)], NOW)
        one.run([Send("other", [NewMessage(b"1", lane=lane) for lane in "ab"])], NOW)
    damage(sample, table, 0, rowid=table in ("sqew_message", "sqew_meta"))
    cuts = 0
    while (images := _cut_amid_mending(scratch / f"{cuts}", sample.read_bytes(), cuts + 1)) is not None:
        cuts += 1
        left = scratch / f"left {cuts}"
        left.mkdir()
        for name, image in images.items():
            (left / name).write_bytes(image)
        with closing(open_store(left / "queue.db")) as one:
            received = [
                message.body
                for queue in ("jobs", "other")
                for message in one.run([Receive(queue, 20)], NOW).results[0].messages
            ]
            assert len(received) == 11 - (table == "sqew_message")
            sent = [one.run([keyed(f"key-{n}")], NOW).results[0][0].duplicate for n in range(9)]
            assert sent.count(False) <= 1
            assert one.connection.pragma("integrity_check") == "ok"

    assert cuts > 3


def _cut_amid_mending(folder: Path, content: bytes, at: int) -> dict[str, bytes] | None:
    """Mend a file, and return what a power cut after so many events has left of it; None: there were fewer."""
    folder.mkdir()
    disk = Disk(f"mended-{folder}", folder, Random(at))
    disk.load({"queue.db": content})
    found: list[dict[str, bytes]] = []
    disk.on_cut, disk.cut_at = found.append, at
    path = str(folder / "queue.db")
    with closing(connect(path, create=False, vfs=disk.name)) as connection:
        link = SQLiteConnection(connection)
        work = Work(link, SQL, Catalog(link.execute, SQL), Bindings(), ReadyRows(), DiskSpace(path, 0), Random(0))
        work.now = NOW
        assert mend(work, connection, indexes=True)
    return found[0] if found else None
