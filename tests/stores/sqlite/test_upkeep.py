"""Upkeep: sweeping in small steps through ordinary use, figures that last, a file that stays small, backups, checks."""

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest

from sqew import NewMessage, Queue
from sqew.clock import ManualClock
from sqew.errors import SqewError, StoreUnusable

SECOND = 1_000
HOUR = 3_600_000


@pytest.fixture
def clock():
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def q(tmp_path, clock):
    with Queue.open(tmp_path / "queue.db", durability="fast", clock=clock) as q:
        q.create("orders")
        q.create("other")
        yield q


def rows(q, table):
    with q.transaction() as tx:
        return tx.execute(f"SELECT count(*) FROM {table}").get


def use(q):
    """Use the file, for something else."""
    q.remove("other", [q.enqueue("other", 1)])


def size(path):
    return Path(path).stat().st_size


# Sweeping


def test_expired_messages_are_swept_by_ordinary_use(q, clock):
    q.enqueue_many("orders", [NewMessage(b"1", ttl_ms=5 * SECOND)] * 10)
    clock.advance(6 * SECOND)

    use(q)

    assert rows(q, "sqew_message") == 0
    assert q.stats("orders").totals["expired"] == 10


def test_expired_messages_are_swept_by_one_who_only_sends_as_well(q, clock):
    q.enqueue_many("orders", [NewMessage(b"1", ttl_ms=5 * SECOND)] * 10)
    for n in range(10):
        q.enqueue("other", n)
    clock.advance(6 * SECOND)

    q.enqueue("other", 10)

    assert rows(q, "sqew_message") == 11


def test_sweeping_goes_in_small_steps_one_for_each_use(q, clock):
    q.enqueue_many("orders", [NewMessage(b"1", ttl_ms=5 * SECOND)] * 500)
    clock.advance(6 * SECOND)
    left = []

    for sent in range(1, 4):
        q.enqueue("other", 1)
        left.append(rows(q, "sqew_message") - sent)

    assert left == sorted(left, reverse=True)
    assert left[0] > 0 == left[-1]


def test_who_asks_for_no_messages_sweeps_none(q, clock):
    q.enqueue("orders", 1, ttl_seconds=5)
    clock.advance(6 * SECOND)

    q.queues()
    q.info("orders")

    assert rows(q, "sqew_message") == 1


def test_a_message_whose_last_lease_ended_becomes_a_dead_letter_by_ordinary_use(q, clock):
    q.update("orders", max_attempts=1)
    q.enqueue("orders", 1)
    q.claim("orders", lease_seconds=5)
    clock.advance(6 * SECOND)

    use(q)

    assert [letter.death.reason for letter in q.dead_letters("orders")] == ["max_attempts"]


def test_the_archive_is_kept_for_as_long_as_the_policy_says(q, clock):
    q.create("kept", keep="archive", archive_retention_ms=HOUR)
    q.enqueue("kept", 1)
    q.ack(q.claim("kept"))

    clock.advance(HOUR - 1)
    use(q)
    assert len(q.archive("kept")) == 1

    clock.advance(1 + SECOND)
    use(q)
    assert q.archive("kept") == []


def test_keys_are_forgotten_when_their_time_is_over(q, clock):
    q.update("orders", key_retention_ms=5 * SECOND)
    q.enqueue("orders", 1, key="k")
    q.ack(q.claim("orders"))
    clock.advance(6 * SECOND)

    use(q)

    assert rows(q, "sqew_key") == 0


def test_what_a_deleted_queue_left_is_swept_away(q, clock):
    q.enqueue_many("orders", [NewMessage(b"1", key=str(n)) for n in range(300)])
    q.delete("orders")

    for _ in range(10):
        clock.advance(2 * SECOND)
        q.remove("other", [q.enqueue("other", 1)])

    assert rows(q, "sqew_message") == 0
    assert rows(q, "sqew_key") == 0


def test_maintain_sweeps_everything_at_once(q, clock):
    q.enqueue_many("orders", [NewMessage(b"1", ttl_ms=5 * SECOND)] * 700)
    clock.advance(6 * SECOND)

    q.maintain()

    assert rows(q, "sqew_message") == 0


# Figures


def test_totals_and_rates_survive_opening_again(tmp_path, clock):
    path = tmp_path / "queue.db"
    with Queue.open(path, clock=clock, durability="fast") as q:
        q.create("orders")
        q.enqueue_many("orders", range(6))
        q.ack(q.claim("orders"))

    with Queue.open(path, clock=clock, durability="fast") as q:
        stats = q.stats("orders")

    assert (stats.totals["sent"], stats.totals["received"], stats.totals["acked"]) == (6, 1, 1)
    assert stats.rates["sent"] == pytest.approx(6 / 60)
    assert stats.work["normal"].count == 1


def test_totals_last_and_rates_fade(q, clock):
    q.enqueue_many("orders", range(6))
    q.stats("orders")
    clock.advance(3 * HOUR)
    q.enqueue("orders", 1)

    stats = q.stats("orders")

    assert stats.totals["sent"] == 7
    assert stats.rates["sent"] == pytest.approx(1 / 60)


def test_two_processes_count_together(q, tmp_path, clock):
    with Queue.open(tmp_path / "queue.db", clock=clock, durability="fast") as other:
        q.enqueue("orders", 1)
        other.enqueue("orders", 2)
        other.stats("orders")

        assert q.stats("orders").totals["sent"] == 2


def test_figures_of_a_busy_minute_take_a_bounded_number_of_rows(q, clock):
    for _ in range(100):
        clock.advance(60 * SECOND)
        q.enqueue("orders", 1)
        q.ack(q.claim("orders"))
    q.stats("orders")

    assert rows(q, "sqew_activity") < 61 * 8
    assert q.stats("orders").totals["acked"] == 100


# The file


def fill_and_empty(q):
    for _ in range(4):
        q.enqueue_many("orders", ["x" * 3_000] * 500)
    q.purge("orders")


def test_maintain_gives_free_pages_back_and_empties_the_wal(q):
    fill_and_empty(q)
    with contextlib.closing(apsw.Connection(q._executor.store.path)) as connection:
        connection.wal_checkpoint()
    full = size(q._executor.store.path)

    q.maintain()

    assert size(q._executor.store.path) < full / 4
    assert size(f"{q._executor.store.path}-wal") == 0
    assert q.check().ok


@pytest.mark.parametrize(("pages", "kept"), [(1_000, 16 << 20), (6_000, 6_000 * 4096)])
def test_a_log_is_cut_back_to_16_mib_or_to_the_length_that_the_settings_allow(tmp_path, pages, kept):
    path = tmp_path / "queue.db"
    with Queue.open(path, durability="fast", wal_autocheckpoint_pages=pages) as q:
        q.create("orders")
        q.enqueue_many("orders", ["x" * 1_000_000] * 30)

        q.enqueue("orders", "into a new log")

        assert size(f"{path}-wal") == kept


def test_maintain_leaves_what_is_in_use(q):
    q.enqueue("orders", "small")
    q.enqueue("orders", "large" * 1_000, priority=5, lane="normal")
    held = q.claim("orders")

    q.maintain()

    q.ack(held)
    assert q.claim("orders").value == "small"


def test_maintain_does_not_lose_a_message_behind_one_of_another_priority_in_its_group(q):
    """Check that it stays: the bucket of its priority held no claimable message, was dropped and not read again."""
    q.create("orders.fifo")
    q.enqueue("orders.fifo", "first", group="g", priority=5)
    q.enqueue("orders.fifo", "second", group="g", priority=0)

    q.maintain()

    q.ack(q.claim("orders.fifo"))
    assert q.claim("orders.fifo").value == "second"


def test_maintain_works_while_another_process_writes(q):
    script = """
import sys
from sqew import Queue
with Queue.open(sys.argv[1], durability="fast") as q:
    print("ready", flush=True)
    while True:
        q.remove("other", [q.enqueue("other", 1)])
"""
    writer = subprocess.Popen([sys.executable, "-c", script, q._executor.store.path], stdout=subprocess.PIPE, text=True)
    try:
        writer.stdout.readline()
        for _ in range(40):
            q.enqueue_many("orders", [NewMessage(b"1", priority=n) for n in range(30)])
            q.purge("orders")
            q.maintain()
    finally:
        writer.kill()
        writer.communicate()


def test_who_waits_puts_the_wal_into_the_file_meanwhile(tmp_path):
    with Queue.open(tmp_path / "idle.db", durability="fast", wal_autocheckpoint_pages=100_000) as q:
        q.create("orders")
        for _ in range(4):
            q.enqueue_many("orders", ["x" * 2_000] * 250)
        while messages := q.claim_many("orders", 1_000):
            q.ack_many(messages)
        before = size(tmp_path / "idle.db")
        waiter = threading.Thread(target=lambda: q.claim("orders", wait_seconds=30))
        waiter.start()
        end = time.monotonic() + 30
        while size(tmp_path / "idle.db") == before:
            assert time.monotonic() < end
            time.sleep(0.005)
        q.enqueue("orders", "enough")
        waiter.join()

    assert size(tmp_path / "idle.db") > before


def test_closing_leaves_one_file(tmp_path, q):
    q.enqueue("orders", 1)

    q.close()

    assert [path.name for path in tmp_path.iterdir()] == ["queue.db"]


# Backups


def test_a_backup_holds_everything_and_is_one_file(q, tmp_path):
    q.enqueue_many("orders", [{"n": n} for n in range(100)])
    (tmp_path / "copies").mkdir()
    copy = tmp_path / "copies" / "copy.db"

    q.backup(copy)

    assert [path.name for path in copy.parent.iterdir()] == ["copy.db"]
    with Queue.open(copy) as restored:
        assert len(restored.peek("orders", 1_000)) == 100
        assert restored.check().ok


def test_a_backup_tells_how_far_it_is(q, tmp_path):
    fill_and_empty(q)
    seen = []

    q.backup(tmp_path / "copy.db", lambda done, of: seen.append((done, of)))

    assert seen[-1][0] == seen[-1][1] > 0
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_backup_refuses_a_name_that_is_taken(q, tmp_path):
    taken = tmp_path / "taken.db"
    taken.write_text("precious")

    with pytest.raises(StoreUnusable, match="Choose another name"):
        q.backup(taken)

    assert taken.read_text() == "precious"


@pytest.mark.parametrize("to", ["missing/copy.db", "."])
def test_a_backup_refuses_a_place_that_is_none(q, tmp_path, to):
    with pytest.raises(StoreUnusable):
        q.backup(tmp_path / to)


def test_a_backup_that_is_broken_off_leaves_nothing_behind(q, tmp_path):
    def stop(done, of):
        raise LookupError("enough")

    with pytest.raises(LookupError):
        q.backup(tmp_path / "copy.db", stop)

    assert not list(tmp_path.glob("copy*"))
    q.backup(tmp_path / "copy.db")


@contextlib.contextmanager
def busy_writer(q):
    """Send two messages at a time, always in one transaction, until the block ends."""
    stop = threading.Event()

    def write():
        n = 0
        while not stop.is_set():
            n += 1
            q.enqueue_many("other", [n, -n])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def test_a_backup_while_others_write_is_one_moment(q, tmp_path):
    with busy_writer(q):
        q.backup(tmp_path / "copy.db")

    with Queue.open(tmp_path / "copy.db") as restored:
        assert restored.check().ok
        total = 0
        for line in restored.export("other"):
            total += int(line.split(b'"body":')[1].split(b",")[0])
        assert total == 0


class TooLong(Exception):
    """An error for a backup that should have ended by now."""


def test_a_backup_of_a_large_file_ends_while_others_write(q, tmp_path):
    """Check that it ends: each commit of another connection made SQLite begin the copy anew."""
    for _ in range(8):
        q.enqueue_many("orders", ["x" * 3_000] * 500)
    end = time.monotonic() + 5

    def watch(done, of):
        if time.monotonic() > end:
            raise TooLong

    with busy_writer(q):
        q.backup(tmp_path / "copy.db", watch)

    assert (tmp_path / "copy.db").exists()


def test_a_backup_of_a_queue_in_memory_holds_what_is_in_it(tmp_path):
    """Check this queue's database: the backup opened another, empty one in memory and copied that."""
    with Queue.open(":memory:") as q:
        q.create("orders")
        q.enqueue("orders", 1)
        try:
            q.backup(tmp_path / "copy.db")
        except SqewError:
            return

    with Queue.open(tmp_path / "copy.db") as restored:
        assert [message.value for message in restored.peek("orders")] == [1]


# Checks


def test_a_healthy_file_is_healthy(q):
    q.create("kept", keep="archive")
    q.enqueue_many("orders", ["small", "large" * 1_000, {"j": 1}])
    q.enqueue("kept", 1, headers={"a": 1})
    q.ack(q.claim("kept"))
    seen = []

    report = q.check(seen.append)

    assert (report.ok, report.messages, report.archived) == (True, 3, 1)


def test_a_check_tells_how_far_it_is(q):
    for _ in range(3):
        q.enqueue_many("orders", range(1_000))
    seen = []

    q.check(seen.append)

    assert seen == [1_000, 2_000, 3_000]


def test_a_changed_body_is_found(q, tmp_path):
    id = q.enqueue("orders", "genuine")
    with contextlib.closing(apsw.Connection(str(tmp_path / "queue.db"))) as vandal:
        vandal.execute("UPDATE sqew_message SET body = ? WHERE id = ?", (b"forged!", id))

    report = q.check()

    assert (report.ok, report.damaged) == (False, [id])


def test_a_check_holds_nobody_up(q):
    q.enqueue_many("orders", range(1_000))

    q.check(lambda count: q.enqueue("orders", "meanwhile"))

    assert q.stats("orders").depths.total() == 1_001


# Looking


def test_who_only_looks_is_shown_a_message_as_dead_whose_last_lease_ran_out(q, clock):
    """Check that it is dead: it was shown as ready, and was not among the dead letters, until the next write."""
    q.update("orders", max_attempts=1)
    id = q.enqueue("orders", 1)
    q.claim("orders", lease_seconds=1)
    clock.advance(2 * SECOND)

    assert [letter.id for letter in q.dead_letters("orders")] == [id]
    assert q.peek("orders") == []
    assert [message.id for message in q.peek("orders-dlq")] == [id]
    assert q.get("orders-dlq", id).death.queue == "orders"


def test_who_only_looks_is_not_shown_what_has_expired(q, clock):
    """Check that it is hidden however much of it there is, within reason."""
    q.enqueue_many("orders", [NewMessage(b"1", ttl_ms=1_000)] * 900)
    clock.advance(2 * SECOND)

    assert q.peek("orders") == []
    stats = q.stats("orders")
    assert (stats.depths.total(), stats.totals["expired"]) == (0, 900)


def test_who_looks_does_not_wait_for_who_writes(tmp_path, q, clock):
    id = q.enqueue("orders", 1)
    q.enqueue("orders", 2, ttl_seconds=1)
    with Queue.open(tmp_path / "queue.db", clock=clock, busy_timeout_ms=1) as other, q.transaction():
        assert other.stats("orders").depths.lanes["normal"].ready == 2
        clock.advance(2 * SECOND)

        # What has expired can't be swept now.
        assert next(message.id for message in other.peek("orders")) == id
        assert other.dead_letters("orders") == []
        assert other.stats("orders").depths.total() == 2
