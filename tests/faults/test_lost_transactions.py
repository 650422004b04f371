"""A write-ahead log that was damaged after a kill: SQLite drops committed transactions, and that is reported."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from sqew import Queue
from sqew.errors import StoreUnusable
from sqew.stores.sqlite import SQLiteStore, lost_transactions
from sqew.stores.sqlite.file_reader import SQLiteReader
from sqew.stores.sqlite.lost_transactions import recorded_losses
from sqew.stores.sqlite.snapshot import snapshot
from tests.faults.children import Children, kill_at_random

SENT = 30
SENDER = """
import sqlite3, sys, time
from sqew import Queue
q = Queue.open(sys.argv[1], durability=sys.argv[2])
q.create("jobs", exist_ok=True)
for n in range(int(sys.argv[3])):
    q.enqueue("jobs", n)
if sys.argv[4:]:
    with sqlite3.connect(sys.argv[1]) as connection:
        connection.execute("PRAGMA wal_checkpoint")
print("sent", flush=True)
time.sleep(60)
"""


def kill_a_sender(path: Path, durability: str = "fast", count: int = SENT, *, checkpoint: bool = False) -> None:
    arguments = [sys.executable, "-c", SENDER, str(path), durability, str(count), *["checkpoint"] * checkpoint]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"sent\n"
        os.kill(process.pid, signal.SIGKILL)


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def shm_of(path: Path) -> Path:
    return path.with_name(path.name + "-shm")


def flip(path: Path, offset: int) -> None:
    data = bytearray(wal_of(path).read_bytes())
    data[offset] ^= 1
    wal_of(path).write_bytes(data)


@pytest.mark.parametrize("durability", ["durable", "fast"])
@pytest.mark.parametrize("offset", [2, 17, 30, 40, 5_000, -5_000], ids=str)
def test_a_flipped_bit_in_a_live_wal_dropped_answered_messages_without_a_word(
    tmp_path: Path, durability: str, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "q.db"
    kill_a_sender(path, durability)
    flip(path, offset)

    with caplog.at_level(logging.ERROR, "sqew.store"), Queue.open(path) as q:
        report = q.check()

    assert not report.ok
    assert [problem for problem in report.problems if "frames of the write-ahead log were lost" in problem]
    # It is still known to whoever looks later.
    with Queue.open(path) as q:
        assert not q.check().ok
    path.with_name("q.db-lost").unlink()
    with Queue.open(path) as q:
        assert q.check().ok


def test_a_log_that_held_all_there_was_left_a_file_without_queues_and_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "q.db"
    kill_a_sender(path)
    flip(path, 40)

    with caplog.at_level(logging.ERROR, "sqew.store"), pytest.raises(StoreUnusable):
        Queue.open(path, create=False)

    assert "committed transactions are missing" in caplog.text
    assert recorded_losses(str(path))


def test_a_look_at_a_copy_hid_that_transactions_were_lost(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    kill_a_sender(path)
    flip(path, 5_000)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    snapshot(str(path), str(tmp_path / "copy.db"))

    assert {name: path.with_name(name).read_bytes() for name in before} == before
    with Queue.open(path) as q:
        assert not q.check().ok


@pytest.mark.parametrize("offset", [2, 17, 30, 40], ids=str)
def test_a_log_that_was_dropped_after_all_of_it_was_copied_into_the_file_was_called_a_loss(
    tmp_path: Path, offset: int
) -> None:
    path = tmp_path / "q.db"
    kill_a_sender(path, checkpoint=True)
    flip(path, offset)

    with Queue.open(path) as q:
        assert q.stats("jobs").depths.total() == SENT
        assert q.check().ok


def test_a_loss_that_only_a_reader_saw_was_never_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "q.db"
    kill_a_sender(path)
    flip(path, -5_000)

    with caplog.at_level(logging.ERROR, "sqew.store"), SQLiteReader(path, now=1):
        pass

    assert "committed transactions are missing" in caplog.text
    with Queue.open(path) as q:
        assert not q.check().ok


@pytest.mark.parametrize("durability", ["durable", "fast"])
def test_a_kill_alone_is_no_loss(tmp_path: Path, durability: str) -> None:
    path = tmp_path / "q.db"
    kill_a_sender(path, durability)
    kill_a_sender(path, durability)

    with Queue.open(path) as q:
        assert q.stats("jobs").depths.total() == 2 * SENT
        assert q.check().ok


def test_kills_of_the_only_process_on_a_file_are_no_losses(tmp_path: Path) -> None:
    with Children(tmp_path, durability="fast") as children:
        # Each that comes next recovers the log of the one before.
        assert len(list(kill_at_random(children, ["producer"], 12, Random(7)))) == 12
        children.kill_all()
        assert not children.complaints()

    with Queue.open(children.path) as q:
        assert q.check().ok


def test_a_log_that_was_cut_off_during_the_look_kept_a_file_from_being_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "q.db"
    find = lost_transactions._descriptor
    with closing(SQLiteStore(path, now=1)) as other:

        def cut_off_and_find(*arguments: Any) -> int:
            other.shrink_log()
            return find(*arguments)

        monkeypatch.setattr(lost_transactions, "_descriptor", cut_off_and_find)
        with Queue.open(path) as q:
            assert q.check().ok


def test_files_that_were_copied_apart_are_no_loss(tmp_path: Path) -> None:
    path, other = tmp_path / "q.db", tmp_path / "other.db"
    kill_a_sender(path)
    kill_a_sender(other, count=5)
    for file in (path, wal_of(path)):
        shutil.copy(file, other.with_name(file.name.replace("q.db", "other.db")))
    bare = tmp_path / "bare.db"
    shutil.copy(path, bare)
    shutil.copy(shm_of(path), shm_of(bare))
    alone = tmp_path / "alone.db"
    shutil.copy(path, alone)
    shutil.copy(wal_of(path), wal_of(alone))

    for copy in (other, bare, alone):
        with Queue.open(copy) as q:
            assert q.check().ok


def test_after_a_restart_of_the_machine_nothing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    kill_a_sender(path)
    flip(path, 5_000)
    os.utime(shm_of(path), (1, 1))

    with Queue.open(path) as q:
        assert q.check().ok


def test_another_program_that_writes_to_the_same_file_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    kill_a_sender(path)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE sale (sku); INSERT INTO sale VALUES (1)")
        for _ in range(3):
            with Queue.open(path) as q:
                q.enqueue("jobs", 1)
            connection.execute("INSERT INTO sale VALUES (1)")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.execute("INSERT INTO sale VALUES (1)")
        with Queue.open(path) as q:
            assert q.check().ok

    assert recorded_losses(str(path)) == []
