"""A disk without room: sends are refused, and what is stored can still be worked off."""

from __future__ import annotations

import os
import shutil
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

from sqew.clock import ManualClock
from sqew.errors import SqewError, StoreFull
from sqew.model import NewMessage, Settled
from sqew.operations import Ack, CorrectDates, Measure, Send
from sqew.stores.sqlite import SQLiteStore
from tests.faults.client import STANDARD, Client, Held, body, create_queues
from tests.faults.consistency import problems_of
from tests.faults.history import Event, check
from tests.faults.mounts import in_own_mounts, mount_small_disk

MIB = 1024 * 1024
SIZE = 48 * MIB
DAY_MS = 86_400_000
RESERVE = 16 * MIB


class SmallDisk:
    """A store on a disk of 48 MiB, and a client that fills it. Time goes on: the store checks its room now and then."""

    def __init__(self, folder: Path) -> None:
        self.folder = mount_small_disk(folder, SIZE)
        self.path = folder / "queue.db"
        self.clock = ManualClock()
        self.events: list[Event] = []
        self.store = SQLiteStore(self.path, now=self.now())
        create_queues(self.store, self.now())
        self.client = Client(self.store, self.events.append, "client", self.now)
        self.sent = 0

    def now(self) -> int:
        self.clock.advance(10)
        return self.clock.now()

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.folder).free

    def send(self, padding: int = 20_000) -> None:
        value = f"message-{self.sent}"
        self.client.send(STANDARD, [(value, NewMessage(body(value, padding)))])
        self.sent += 1

    def fill(self) -> None:
        """Send until the store refuses."""
        with suppress(StoreFull):
            while True:
                self.send()
        assert self.sent > 100
        assert self.free > 0, "the reserve is gone"

    def take_everything_else(self) -> Path:
        """Fill the disk to its last block, as another program might."""
        ballast = self.folder / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        assert self.free == 0
        return ballast

    def receive_all(self) -> list[Held]:
        held: list[Held] = []
        while more := self.client.receive(STANDARD, 10, 3_600_000):
            held += more
        return held

    def judge(self) -> None:
        """Check that no acknowledged message is lost, and that the file is sound."""
        Client(self.store, self.events.append, "drain", self.now).drain()
        verdict = check(self.events)
        assert not verdict.violations, str(verdict)
        assert not problems_of(self.store.connection)


@in_own_mounts
def test_a_full_disk_refuses_sends_and_lets_everything_stored_be_worked_off(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.fill()

    for _ in range(3):
        assert_refused(disk)
    held = disk.receive_all()
    assert len(held) == disk.sent
    for start in range(0, len(held), 10):
        assert all(isinstance(settled, Settled) for settled in disk.client.ack(held[start : start + 10]))

    assert disk.store.run([Measure(STANDARD)], disk.now()).results[0].total() == 0
    disk.judge()


@in_own_mounts
def test_sends_work_again_when_space_was_freed(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    (tmp_path / "other").write_bytes(bytes(20 * MIB))
    disk.fill()
    assert_refused(disk)

    (tmp_path / "other").unlink()

    disk.send()
    disk.judge()


@in_own_mounts
def test_sends_work_again_when_the_queue_was_worked_off_and_vacuumed(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.fill()
    disk.client.ack(disk.receive_all())

    disk.store.maintain()

    disk.send()
    disk.judge()


@in_own_mounts
def test_a_disk_that_messages_had_filled_stayed_refused_after_all_were_acked_while_somebody_kept_trying(
    tmp_path: Path,
) -> None:
    disk = SmallDisk(tmp_path)
    disk.fill()
    assert_refused(disk)
    filled = disk.sent

    # Nobody is ever idle: nothing is given back to the disk.
    disk.client.ack(disk.receive_all())
    disk.fill()

    assert disk.sent > filled * 1.5
    assert disk.free > RESERVE // 4, "sends took the room for acks"
    held = disk.receive_all()
    assert all(isinstance(settled, Settled) for settled in disk.client.ack(held))
    disk.judge()


@in_own_mounts
def test_a_log_that_grew_beside_a_long_reader_on_a_full_disk_kept_sends_refused_for_good(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.fill()
    disk.client.ack(disk.receive_all())
    with closing(apsw.Connection(str(disk.path))) as reader:
        reader.execute("BEGIN; SELECT count(*) FROM sqew_message").fetchall()
        # All that is written goes to the end of the log.
        disk.fill()
        assert disk.free >= RESERVE // 2 - MIB, "sends took the room for acks"
        held = disk.receive_all()
        assert all(isinstance(settled, Settled) for settled in disk.client.ack(held))

    for _ in range(500):
        disk.send()

    disk.judge()


@in_own_mounts
def test_a_store_that_finds_a_grown_log_on_a_full_disk_takes_its_first_message(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.fill()
    disk.client.ack(disk.receive_all())
    with closing(apsw.Connection(str(disk.path))) as reader:
        reader.execute("BEGIN; SELECT count(*) FROM sqew_message").fetchall()
        disk.fill()
    disk.client.ack(disk.receive_all())
    (tmp_path / "other").write_bytes(bytes(MIB))

    for messages in (1, 2):
        with closing(SQLiteStore(disk.path, now=disk.now())) as other:
            [sent] = other.run([Send(STANDARD, [NewMessage(b"1")] * messages)], disk.now()).results
            assert isinstance(sent, list), sent


@in_own_mounts
def test_acks_go_on_beside_a_sender_that_never_stops_trying(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.fill()
    sent = 0
    with closing(apsw.Connection(str(disk.path))) as reader:
        for turn in range(1_000):
            if turn == 300:
                reader.execute("BEGIN; SELECT count(*) FROM sqew_message").fetchall()
            if turn == 350:
                reader.execute("COMMIT")
            before = disk.sent
            with suppress(StoreFull):
                disk.send()
            sent += disk.sent - before
            for one in disk.client.receive(STANDARD, 1, 3_600_000):
                assert disk.client.ack([one]) == [Settled(one.entry.id)]

    assert sent > 600, sent
    disk.judge()


@in_own_mounts
def test_free_pages_are_no_room_where_others_have_filled_the_disk_to_the_last_block(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.fill()
    disk.client.ack(disk.receive_all())
    ballast = disk.take_everything_else()

    assert_refused(disk)

    ballast.unlink()
    disk.send()
    disk.judge()


@in_own_mounts
def test_the_disk_was_not_looked_at_for_a_day_after_the_clock_was_set_back(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.clock.advance(DAY_MS)
    disk.send()
    disk.clock.advance(-DAY_MS)
    # As an engine does when its clock says so.
    disk.store.run([CorrectDates(DAY_MS)], disk.now())

    disk.fill()

    assert disk.free > RESERVE // 4, "sends took the room for acks"
    disk.judge()


@in_own_mounts
def test_on_a_full_disk_an_ack_takes_effect_beside_a_send_that_is_refused(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.fill()
    [one] = disk.client.receive(STANDARD, 1, 3_600_000)
    send = Send(STANDARD, [NewMessage(body("refused", 20_000))])

    results = disk.store.run([send, Ack(STANDARD, [one.ref]), send], disk.now()).results

    assert [type(result) for result in results] == [StoreFull, list, StoreFull]
    assert results[1] == [Settled(one.entry.id)]
    assert disk.store.run([Measure(STANDARD)], disk.now()).results[0].total() == disk.sent - 1


@in_own_mounts
def test_a_batch_larger_than_what_is_left_is_refused_whole_and_harms_nothing(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.send()
    values = [f"large-{number}" for number in range(60)]

    with pytest.raises(StoreFull):
        disk.client.send(STANDARD, [(value, NewMessage(body(value, MIB))) for value in values])

    # The failed transaction left a WAL that fills the disk; settling must find its room inside.
    [one] = disk.receive_all()
    assert disk.client.ack([one]) == [Settled(one.entry.id)]
    disk.judge()


@in_own_mounts
def test_a_disk_filled_to_the_last_block_by_others_loses_nothing_and_recovers(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    for _ in range(100):
        disk.send()
    held = disk.client.receive(STANDARD, 10, 3_600_000)
    ballast = disk.take_everything_else()

    assert_refused(disk)
    answers = [attempt(disk, index, one) for index, one in enumerate(held)]

    # There may be no room even to delete: then it says so, and goes on when there is.
    assert all(isinstance(answer, Settled | StoreFull) for answer in answers)
    ballast.unlink()
    disk.send()
    disk.judge()


def attempt(disk: SmallDisk, index: int, one: Held) -> Settled | SqewError:
    try:
        if index % 2:
            return disk.client.ack([one])[0]
        return disk.client.nack([one], 0)[0]
    except SqewError as error:
        return error


@in_own_mounts
def test_acks_go_on_on_a_disk_filled_to_the_last_block_once_the_wal_was_put_back(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    for _ in range(200):
        disk.send()
    held = disk.receive_all()
    # From here on the WAL is written from its start, within the size that it has.
    disk.store.idle()
    disk.take_everything_else()

    done = [disk.client.ack([one])[0] for one in held]

    assert done == [Settled(one.entry.id) for one in held]


@in_own_mounts
def test_a_store_on_a_full_disk_can_be_opened_and_worked_off(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.fill()
    disk.store.close()

    disk.store = disk.client.store = SQLiteStore(disk.path, now=disk.now())

    # Closing gave the WAL's room back.
    disk.fill()
    assert_refused(disk)
    held = disk.receive_all()
    assert len(held) == disk.sent
    assert all(isinstance(settled, Settled) for settled in disk.client.ack(held))
    disk.judge()


@in_own_mounts
def test_opening_on_a_disk_without_a_single_block_says_that_it_is_full(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path)
    disk.send()
    disk.store.close()
    ballast = disk.take_everything_else()

    for path in (disk.path, tmp_path / "new.db"):
        with pytest.raises(StoreFull):
            SQLiteStore(path, now=disk.now()).close()

    ballast.unlink()
    with closing(SQLiteStore(disk.path, now=disk.now())) as disk.store:
        disk.judge()


def assert_refused(disk: SmallDisk) -> None:
    disk.clock.advance(1_000)
    with pytest.raises(StoreFull, match="free some space"):
        disk.send()


def test_the_small_disk_is_small_and_ends_with_its_test(tmp_path: Path) -> None:
    @in_own_mounts
    def test(folder: Path) -> None:
        assert shutil.disk_usage(mount_small_disk(folder, SIZE)).total == SIZE
        (folder / "inside").touch()

    test(tmp_path)

    assert os.listdir(tmp_path) == []  # noqa: PTH208
