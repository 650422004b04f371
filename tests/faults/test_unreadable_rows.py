"""Rows of which SQLite reads nothing: a flipped bit made a column longer than its record."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from sqew.errors import StoreDamaged
from sqew.model import NewMessage, Policy, Ref
from sqew.operations import Ack, CreateQueue, ListArchive, Peek, Receive, Send
from sqew.stores.sqlite import SQLiteStore

NOW = 1_700_000_000_000
COUNT = 60
PAGE = 4096


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "queue.db"
    with closing(SQLiteStore(path, now=NOW, durability="fast")) as store:
        store.run([CreateQueue("jobs", Policy()), CreateQueue("jobs.fifo", Policy(fifo=True))], NOW)
        store.run([Send("jobs", [NewMessage(b'"plain %03d"' % n, priority=n % 2) for n in range(COUNT)])], NOW)
        store.run([Send("jobs.fifo", [NewMessage(b'"ordered %03d"' % n, group="g") for n in range(COUNT)])], NOW)
    return path


def flips_in_header(path: Path, body: bytes, to: Path) -> Iterator[int]:
    """Copy the file with a bit flipped in the header of the row that has this body, where SQLite can't read it then."""
    content = path.read_bytes()
    [cell] = cells(content, body)
    # Behind the length of the record and its id.
    for at in range(cell + 3, cell + 30):
        for bit in (1, 4, 6):
            altered = bytearray(content)
            altered[at] ^= 1 << bit
            to.write_bytes(altered)
            if unreadable(to):
                to.write_bytes(altered)
                yield at


def cells(content: bytes, body: bytes) -> Iterator[int]:
    """Yield the places where rows with this body begin. It may also stand where a row was that has been moved."""
    for found in re.finditer(re.escape(body), content):
        first = found.start() // PAGE * PAGE
        page = content[first : first + PAGE]
        places = [first + int.from_bytes(page[8 + 2 * n : 10 + 2 * n]) for n in range(int.from_bytes(page[3:5]))]
        cell = max((place for place in places if place < found.start()), default=0)
        # Its length is one byte.
        if found.end() == cell + content[cell] + 2 + (content[cell + 1] > 0x7F):
            yield cell


def unreadable(path: Path) -> int:
    """Count the messages that can't be read, while their ids can."""
    lost = 0
    with closing(apsw.Connection(str(path))) as connection:
        for (id,) in connection.execute("SELECT id FROM sqew_message NOT INDEXED").fetchall():
            try:
                connection.execute("SELECT * FROM sqew_message WHERE id = ?", (id,)).fetchall()
            except apsw.CorruptError:
                lost += 1
    return lost


def drain(store: SQLiteStore, queue: str) -> list[bytes]:
    bodies = []
    while (received := store.run([Receive(queue, 7)], NOW + 1).results[0]).messages:
        bodies += [message.body for message in received.messages]
        store.run([Ack(queue, [Ref(message.id, message.lease.token) for message in received.messages])], NOW + 1)
    return bodies


@pytest.mark.parametrize(("queue", "name"), [("jobs", b"plain"), ("jobs.fifo", b"ordered")])
def test_a_row_that_sqlite_can_not_read_blocked_its_queue(
    sample: Path, tmp_path: Path, queue: str, name: bytes
) -> None:
    path = tmp_path / "altered.db"
    bodies = [b'"%b %03d"' % (name, n) for n in range(COUNT)]
    lost = bodies[COUNT // 2]
    flips = 0
    for _ in flips_in_header(sample, lost, path):
        flips += 1
        with closing(SQLiteStore(path, now=NOW, durability="fast")) as store:
            delivered = drain(store, queue)
            [archived] = store.run([ListArchive(queue)], NOW).results[0].messages

            assert sorted(delivered) == [body for body in bodies if body != lost]
            assert archived.reason == "damaged"
            assert store.connection.pragma("integrity_check") == "ok"

    assert flips > 3


@pytest.mark.parametrize(("queue", "name"), [("jobs", b"plain"), ("jobs.fifo", b"ordered")])
def test_a_row_that_is_odd_and_unreadable_was_not_mended_when_looked_at(
    sample: Path, tmp_path: Path, queue: str, name: bytes
) -> None:
    path = tmp_path / "altered.db"
    flips = 0
    for _ in flips_in_header(sample, b'"%b %03d"' % (name, COUNT // 2), path):
        flips += 1
        with closing(SQLiteStore(path, now=NOW, durability="fast")) as store:
            [messages] = store.read([Peek(queue, 2 * COUNT)], NOW)

            assert len([message for message in messages if not message.damaged]) >= COUNT - 1
            assert len(drain(store, queue)) == COUNT - 1

    assert flips > 3


def test_a_file_that_could_not_be_mended_was_read_whole_by_every_request(
    sample: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "altered.db"
    shutil.copy(sample, path)
    content = bytearray(path.read_bytes())
    # How many cells a page has.
    content[content.index(b'"plain 030"') // PAGE * PAGE + 3] ^= 0x40
    path.write_bytes(content)

    with closing(SQLiteStore(path, now=NOW, durability="fast")) as store:
        refusals = 0
        for _ in range(COUNT):
            try:
                store.run([Receive("jobs", 10)], NOW)
            except StoreDamaged:
                refusals += 1

    assert refusals > 1
    assert [record.message for record in caplog.records] == ["the file is damaged, and could not be mended"]
