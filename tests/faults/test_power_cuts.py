"""Seeded power cuts. A failure names its seed, which replays it."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from random import Random

import apsw
import pytest

from sqew.errors import StoreError
from sqew.model import NewMessage
from sqew.operations import Receive, Send
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.connection import Durability
from tests.faults.client import STANDARD, body, create_queues
from tests.faults.consistency import problems_of
from tests.faults.lives import Story, live_and_die
from tests.faults.power import Content, Disk, Truncate, Write

# In two modes: 320 cuts in the test command.
SEEDS, LIVES = 16, 10


def stories(folder: Path, durability: Durability, seeds: range) -> list[Story]:
    return [live_and_die(seed, _made(folder / str(seed)), durability=durability, lives=LIVES) for seed in seeds]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _tell(capsys: pytest.CaptureFixture[str], name: str, told: list[Story]) -> tuple[int, int]:
    cuts = [cut for story in told for cut in story.cuts]
    lossy = sum(cut.transactions_lost > 0 for cut in cuts)
    lost = sum(cut.transactions_lost for cut in cuts)
    arrived = sum(cut.unfinished_arrived for cut in cuts)
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{name}: {len(cuts)} power cuts, {lossy} of them lost answered transactions ({lost} in all); "
            f"{arrived} times the unanswered one arrived"
        )
    return len(cuts), lossy


def test_durable_loses_nothing_to_power_cuts(scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = stories(scratch, "durable", range(SEEDS))

    cuts, lossy = _tell(capsys, "durable", told)
    assert [problem for story in told for problem in story.problems] == []
    assert [story.verdict.violations for story in told if story.verdict and story.verdict.violations] == []
    assert all(story.verdict for story in told)
    assert (cuts, lossy) == (SEEDS * LIVES, 0)


def test_fast_may_lose_recent_transactions_to_power_cuts_but_never_corrupts_nor_invents(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = stories(scratch, "fast", range(SEEDS))

    cuts, lossy = _tell(capsys, "fast", told)
    # Each file held exactly what some transaction had left: anything else is among the problems.
    assert [problem for story in told for problem in story.problems] == []
    assert cuts == SEEDS * LIVES
    assert lossy > 0, "the simulator cuts nothing off"


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["durable", "fast"])
@pytest.mark.parametrize("hundred", range(1, 6))
def test_thousands_of_power_cuts(scratch: Path, durability: Durability, hundred: int) -> None:
    told = stories(scratch, durability, range(100 * hundred, 100 * hundred + 100))

    assert [problem for story in told for problem in story.problems] == []
    assert [story.verdict.violations for story in told if story.verdict and story.verdict.violations] == []


def test_the_same_seed_tells_the_same_story(scratch: Path) -> None:
    first, second = (live_and_die(3, _made(scratch / name), durability="fast", lives=4) for name in ("a", "b"))

    assert first == second


def test_what_was_synced_survives_and_what_was_not_may_go() -> None:
    content = Content(b"old " * 256)
    content.pending += [Write(0, b"new!" * 128), Write(512, b"late" * 128)]

    assert content.after_cut(lambda: False) == b"old " * 256
    assert content.after_cut(lambda: True) == b"new!" * 128 + b"late" * 128
    content.sync()
    assert content.after_cut(lambda: False) == b"new!" * 128 + b"late" * 128


def test_a_write_tears_at_sectors() -> None:
    content = Content(bytes(2048))
    content.pending.append(Write(256, b"x" * 1024))
    arrivals = iter([True, False, True])

    image = content.after_cut(lambda: next(arrivals))

    assert image == bytes(256) + b"x" * 256 + bytes(512) + b"x" * 256 + bytes(768)


def test_the_writes_of_one_sector_arrive_in_order() -> None:
    content = Content(bytes(512))
    content.pending += [Write(0, b"1"), Write(0, b"2"), Write(0, b"3")]
    arrivals = iter([True, False])

    assert content.after_cut(lambda: next(arrivals))[:1] == b"1"


def test_a_file_may_have_grown_without_its_data() -> None:
    content = Content()
    content.pending.append(Write(0, b"x" * 512))
    arrivals = iter([False, True])

    assert content.after_cut(lambda: next(arrivals)) == bytes(512)


def test_a_truncation_may_not_have_arrived() -> None:
    content = Content(b"x" * 1024)
    content.pending.append(Truncate(0))

    assert content.after_cut(lambda: False) == b"x" * 1024
    assert content.after_cut(lambda: True) == b""


def test_a_deleted_file_may_come_back_until_its_folder_is_synced(tmp_path: Path) -> None:
    disk = Disk("folder-test", tmp_path, Random(0))
    disk.load({"a": b"old"})
    disk.xDelete(str(tmp_path / "a"), False)

    assert {frozenset(disk.after_cut()) for _ in range(50)} == {frozenset(), frozenset({"a"})}
    disk.sync_folder()
    assert {frozenset(disk.after_cut()) for _ in range(50)} == {frozenset()}


def test_wal_shares_real_memory_between_connections_on_the_simulated_disk(tmp_path: Path) -> None:
    disk = Disk("shared-memory-test", tmp_path, Random(0))
    one, other = (apsw.Connection(str(tmp_path / "x.db"), vfs=disk.name) for _ in range(2))
    assert one.execute("PRAGMA journal_mode = WAL").get == "wal"

    one.execute("CREATE TABLE t (x)")

    assert other.execute("SELECT count(*) FROM t").get == 0
    assert (tmp_path / "x.db-shm").exists()
    one.close()
    other.close()


@pytest.mark.parametrize("failing_syncs", [1, 2])
@pytest.mark.parametrize("durability", ["durable", "fast"])
def test_a_checkpoint_whose_fsync_failed_is_not_trusted_when_the_next_one_succeeds(
    scratch: Path, durability: Durability, failing_syncs: int
) -> None:
    disk = Disk(f"checkpoint-{durability}-{failing_syncs}", scratch, Random(0))
    store = SQLiteStore(scratch / "queue.db", now=1, durability=durability, vfs=disk.name)
    create_queues(store, 1)
    store.idle()
    for number in range(50):
        store.run([Send(STANDARD, [NewMessage(body(f"{number}", 1_000))])], 2)

    disk.failing_syncs = failing_syncs
    for _ in range(4):
        store.idle()
        with suppress(StoreError):
            store.run([Receive(STANDARD)], 3)
    disk.failing_syncs = 0

    # Whatever the store made of it: what is on the disk now is whole, and nothing that was checkpointed is missing.
    on_disk = {name: bytes(content.durable) for name, content in disk.contents().items()}
    found = scratch / "found"
    found.mkdir()
    for name, image in on_disk.items():
        (found / name).write_bytes(image)
    with closing(apsw.Connection(str(found / "queue.db"))) as connection:
        assert problems_of(connection) == []
        assert connection.execute("SELECT count(*) FROM sqew_message").get == 50
    store.close()
