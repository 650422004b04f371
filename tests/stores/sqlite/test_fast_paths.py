"""The fast paths (one statement that commits itself) do exactly what the general path does."""

import os
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from sqew.errors import QueueNotFound, StoreBusy, StoreFull
from sqew.model import Commit, Extension, NewMessage, Policy, Ref, Release, Settled
from sqew.operations import Ack, CreateQueue, DeleteQueue, Extend, Nack, Peek, Receive, Remove, Send, Sweep, UpdateQueue
from sqew.stores.sqlite import SQLiteStore, fast_paths

POLICIES = {
    "letters": Policy(),
    "plain": Policy(max_attempts=3, dead_letter="letters"),
    "short-lived": Policy(ttl_ms=40, delay_ms=5),
    "archived": Policy(keep="archive", max_attempts=2),
    "laned": Policy(lanes={"a": 2, "b": 1}),
    "limited": Policy(quota=5),
    "by-content": Policy(deduplicate="content"),
    "ordered.fifo": Policy(fifo=True, max_attempts=2),
}
TABLES = ("sqew_message", "sqew_body", "sqew_key", "sqew_archive", "sqew_bucket", "sqew_lane", "sqew_queue")


@pytest.fixture
def stores(tmp_path):
    opened = [SQLiteStore(tmp_path / f"{name}.db", now=0, durability="fast", random=Random(1)) for name in "ab"]
    yield opened
    for store in opened:
        store.close()


def contents(store):
    """Return every row, without the tokens, which are secrets, and the ids' reservation, which may be ahead."""
    found = {}
    for table in TABLES:
        columns = [row[1] for row in store.connection.execute(f"PRAGMA table_info({table})") if row[1] != "token"]
        names = ", ".join(columns)
        found[table] = store.connection.execute(f"SELECT {names} FROM {table} ORDER BY {names}").fetchall()
    return found


def operation(random, held):
    """Return an operation on one message, with a fast path or changing what a fast path may assume."""
    queue = random.choice(list(POLICIES))
    kind = random.choice(
        ["send", "send", "send", "receive", "receive", "ack", "ack", "nack", "extend", "remove", "update"]
    )
    held_here = held.get(queue) or [Ref(1, "stale")]
    ref = random.choice(held_here)
    match kind:
        case "send":
            body = b"x" * random.choice([3, 3, 3, 5000])
            key = random.choice([None, None, None, "k1", "k2"])
            headers = random.choice([None, None, {"h": 1}])
            priority = random.choice([0, 0, 0, 4])
            return Send(queue, [NewMessage(body, "text", headers, priority, None, None, key)])
        case "receive":
            return Receive(queue, 1, None, random.choice([None, 0, 7]), "w", finish=random.random() < 0.3)
        case "ack":
            return Ack(random.choice([queue, None]), [random.choice([ref, Ref(ref.id), Ref(ref.id, by="w")])])
        case "nack":
            return Nack(queue, [Release(ref, delay_ms=3)])
        case "extend":
            return Extend(queue, [Extension(ref, 9)])
        case "remove":
            return Remove(queue, [ref.id])
        case _:
            return UpdateQueue("plain", {"keep": random.choice(["delete", "archive"])})


@pytest.mark.parametrize("seed", range(12))
def test_a_run_of_operations_leaves_the_same_rows_either_way(stores, seed, monkeypatch):
    random = Random(seed)
    short, general = stores
    for store in stores:
        store.run([CreateQueue(name, policy) for name, policy in POLICIES.items()], 0)
    tokens = [{}, {}]
    ways, within = fast_paths.FAST_PATHS.copy(), fast_paths.FAST_PATHS_WITHIN.copy()
    taken = 0

    for now in range(1, 400):
        shape = random.random()
        commits = []
        for which, store in enumerate((short, general)):
            monkeypatch.setattr("sqew.stores.sqlite.store.FAST_PATHS", ways if which == 0 else {})
            monkeypatch.setattr("sqew.stores.sqlite.store.FAST_PATHS_WITHIN", within if which == 0 else {})
            op = Sweep() if shape < 0.05 else operation(Random(f"{seed}-{now}"), tokens[which])
            commit = store.run([op], now)
            commits.append(commit)
            for message in getattr(commit.results[0], "messages", []):
                tokens[which].setdefault(message.queue, []).append(Ref(message.id, message.lease.token))
                taken += 1

        assert commits[0].facts == commits[1].facts
        assert commits[0].woken == commits[1].woken
        assert contents(short) == contents(general)
    assert taken > 50


@pytest.mark.parametrize("seed", range(6))
def test_a_message_of_which_only_the_body_is_said_is_sent_alike_by_the_shortest_way(stores, seed, monkeypatch):
    monkeypatch.setattr("sqew.stores.sqlite.store.FAST_PATHS", {})
    random = Random(seed)
    shortest, general = stores
    for store in stores:
        store.run([CreateQueue(name, policy) for name, policy in POLICIES.items()], 0)
    ways = Counter()

    for now in range(1, 300):
        if random.random() < 0.05:
            change = {"delay_ms": random.choice([0, 4]), "ttl_ms": random.choice([None, 9])}
            for store in stores:
                store.run([UpdateQueue("plain", change)], now)
        queue, format = random.choice(["plain", "plain", *POLICIES]), random.choice(["json", "text"])
        body = b"7" * random.choice([1, 300, 2048, 2049])
        expected = general.run([Send(queue, [NewMessage(body, format)])], now)
        fact = shortest.send_plain(queue, body, format, now)
        ways[fact is not None] += 1
        if fact is None:
            commit = shortest.run([Send(queue, [NewMessage(body, format)])], now)
            assert (commit.facts, str(commit.results), commit.woken) == (
                expected.facts, str(expected.results), expected.woken,
            )  # fmt: skip
        else:
            ((sent,),) = expected.results
            assert ([fact], sent.id, {queue}) == (expected.facts, fact.id, expected.woken)

        assert contents(shortest) == contents(general)
    assert min(ways.values()) > 30


def test_the_shortest_way_leaves_to_others_what_needs_more_than_a_statement(stores):
    store, _ = stores
    store.run([CreateQueue("jobs", Policy())], 0)
    assert store.send_plain("jobs", b"1", "json", 1) is None, "the queue holds no message of that priority yet"
    # Ids are reserved in blocks, for as many messages more as there were.
    for _ in range(2):
        store.run([Send("jobs", [NewMessage(b"1")] * 2)], 1)
    assert store.send_plain("nowhere", b"1", "json", 2) is None
    assert store.send_plain("jobs", b"1" * 5000, "json", 2) is None
    assert [store.send_plain("jobs", b"1", "json", 2).id for _ in range(2)] == [5, 6]
    assert store.send_plain("jobs", b"1", "json", 2) is None, "the next id is to be reserved"
    store.run([Send("jobs", [NewMessage(b"1")])], 2)

    other = SQLiteStore(store.path, now=50)
    other.run([DeleteQueue("jobs")], 50)
    assert store.send_plain("jobs", b"1", "json", 51) is None, "another process has deleted the queue"
    other.close()
    with pytest.raises(QueueNotFound):
        raise store.run([Send("jobs", [NewMessage(b"1")])], 52).results[0]


def test_what_the_shortest_way_left_to_others_does_not_hide_what_others_did(tmp_path):
    """Check this after upkeep: it reads the file, so SQLite has counted the other's change before the send looks."""
    ours = SQLiteStore(tmp_path / "q.db", now=0, durability="fast")
    ours.run([CreateQueue("jobs", Policy())], 0)
    ours.run([Send("jobs", [NewMessage(b"1"), NewMessage(b"2")])], 0)
    theirs = SQLiteStore(tmp_path / "q.db", now=0, durability="fast")
    # One change, for one that is ours is what it would be taken for.
    theirs.run([DeleteQueue("jobs"), CreateQueue("jobs", Policy())], 1)
    ours.idle()

    assert ours.send_plain("jobs", b"1" * 5000, "json", 2) is None
    ours.run([Send("jobs", [NewMessage(b"3"), NewMessage(b"4")])], 2)

    received = theirs.run([Receive("jobs", 10)], 3).results[0].messages
    assert [message.body for message in received] == [b"3", b"4"]
    ours.close()
    theirs.close()


def test_a_message_of_a_priority_that_receivers_do_not_look_for_is_not_sent_by_the_shortest_way(stores):
    store = stores[0]
    store.run([CreateQueue("jobs", Policy())], 0)
    for _ in range(2):
        store.run([Send("jobs", [NewMessage(b"1", priority=4)] * 2)], 0)

    assert store.send_plain("jobs", b"2", "json", 1) is None


def test_who_waits_for_dead_letters_is_told_of_a_last_delivery_by_the_short_way_as_well(stores, monkeypatch):
    policy = Policy(max_attempts=2, dead_letter="letters", visibility_ms=5)
    woken = []
    for store, ways in zip(stores, (fast_paths.FAST_PATHS, {}), strict=True):
        monkeypatch.setattr("sqew.stores.sqlite.store.FAST_PATHS", ways)
        monkeypatch.setattr("sqew.stores.sqlite.store.FAST_PATHS_WITHIN", ways)
        store.run([CreateQueue("letters", Policy()), CreateQueue("jobs", policy)], 0)
        store.run([Send("jobs", [NewMessage(b"1")])], 0)
        woken.append([store.run([Receive("jobs")], now).woken for now in (1, 10)])

    assert woken == [[set(), {"letters"}]] * 2


def test_the_shortest_way_leaves_the_reserve_of_the_disk_alone(stores, monkeypatch):
    store = stores[0]
    store.run([CreateQueue("jobs", Policy())], 0)
    for _ in range(2):
        store.run([Send("jobs", [NewMessage(b"1")] * 2)], 0)
    disk = os.statvfs(store.path)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1, f_frsize=disk.f_frsize))

    with pytest.raises(StoreFull, match="disk_reserve_bytes"):
        store.send_plain("jobs", b"2", "json", 1_000)

    assert len(contents(store)["sqew_message"]) == 4


def test_who_finds_the_file_busy_by_the_shortest_way_is_told_and_does_not_wait_again(tmp_path):
    store = SQLiteStore(tmp_path / "q.db", now=0, durability="fast", busy_timeout_ms=20)
    store.run([CreateQueue("jobs", Policy())], 0)
    for _ in range(2):
        store.run([Send("jobs", [NewMessage(b"1")] * 2)], 0)
    other = SQLiteStore(tmp_path / "q.db", now=0, durability="fast")
    other.begin(1)

    with pytest.raises(StoreBusy, match="busy_timeout_ms"):
        store.send_plain("jobs", b"2", "json", 1)

    other.rollback()
    store.run([Send("jobs", [NewMessage(b"3")])], 2)
    received = store.run([Receive("jobs", 10)], 3).results[0].messages
    assert [message.body for message in received] == [b"1"] * 4 + [b"3"]
    store.close()
    other.close()


@pytest.mark.parametrize("way", ["send_plain", "send", "receive", "take", "ack"])
def test_what_was_written_by_a_short_way_is_put_into_the_file_when_there_is_time(stores, way):
    store = stores[0]
    store.run([CreateQueue("jobs", Policy())], 0)
    for _ in range(2):
        store.run([Send("jobs", [NewMessage(b"1")] * 4)], 0)
    held = store.run([Receive("jobs")], 0).results[0].messages[0]
    store.idle()
    into_the_file = Path(store.path).read_bytes()

    match way:
        case "send_plain":
            assert store.send_plain("jobs", b"2", "json", 1) is not None
        case "send":
            store.run([Send("jobs", [NewMessage(b"2")])], 1)
        case "receive" | "take":
            store.run([Receive("jobs", finish=way == "take")], 1)
        case _:
            store.run([Ack("jobs", [Ref(held.id, held.lease.token)])], 1)
    assert Path(store.path).read_bytes() == into_the_file
    store.idle()

    assert Path(store.path).read_bytes() != into_the_file


@pytest.mark.parametrize("seed", range(12))
def test_operations_that_are_committed_together_leave_the_same_rows_either_way(stores, seed, monkeypatch):
    """Check plain sends of one transaction: they are written together, before any operation that might look at them."""
    random = Random(seed)
    short, general = stores
    for store in stores:
        store.run([CreateQueue(name, policy) for name, policy in POLICIES.items()], 0)
    tokens = [{}, {}]
    within = fast_paths.FAST_PATHS_WITHIN.copy()
    together = 0

    for now in range(1, 200):
        count = random.randint(2, 6)
        commits = []
        for which, store in enumerate((short, general)):
            operations = [operation(Random(f"{seed}-{now}-{n}"), tokens[which]) for n in range(count)]
            if which == 0:
                monkeypatch.setattr("sqew.stores.sqlite.store.FAST_PATHS_WITHIN", within)
                commit = store.run(operations, now)
                together += len(operations)
            else:
                # One after the other, at the same time, each in a transaction of its own.
                monkeypatch.setattr("sqew.stores.sqlite.store.FAST_PATHS_WITHIN", {})
                monkeypatch.setattr("sqew.stores.sqlite.store.FAST_PATHS", {})
                commit = _joined([store.run([op], now) for op in operations])
            commits.append(commit)
            for result in commit.results:
                for message in getattr(result, "messages", []):
                    tokens[which].setdefault(message.queue, []).append(Ref(message.id, message.lease.token))

        assert commits[0].facts == commits[1].facts
        assert commits[0].woken == commits[1].woken
        assert contents(short) == contents(general)
    assert together > 400


def _joined(commits):
    return Commit(
        [result for commit in commits for result in commit.results],
        [fact for commit in commits for fact in commit.facts],
        set().union(*(commit.woken for commit in commits)),
    )


def test_the_short_way_is_really_taken_by_plain_messages(stores, monkeypatch):
    store = stores[0]
    store.run([CreateQueue("jobs", Policy())], 0)
    store.run([Send("jobs", [NewMessage(b"1"), NewMessage(b"2")])], 0)
    store.run([Send("jobs", [NewMessage(b"3"), NewMessage(b"4")])], 0)
    begun = []
    monkeypatch.setattr(store, "begin", lambda *_args, **_more: begun.append(1))

    sent = store.run([Send("jobs", [NewMessage(b"5")])], 1)
    received = store.run([Receive("jobs")], 1).results[0].messages[0]
    acked = store.run([Ack("jobs", [Ref(received.id, received.lease.token)])], 1)
    taken = store.run([Receive("jobs", finish=True)], 1).results[0].messages[0]

    assert begun == []
    assert (len(sent.results), received.body, acked.results[0][0].id) == (1, b"1", received.id)
    assert taken.body == b"2"


def test_what_another_process_did_before_a_short_way_is_seen_by_the_next_transaction(tmp_path):
    """Check that the count of changes that SQLite keeps does not swallow another's commit in our own."""
    ours = SQLiteStore(tmp_path / "q.db", now=0, durability="fast")
    ours.run([CreateQueue("jobs", Policy())], 0)
    theirs = SQLiteStore(tmp_path / "q.db", now=0, durability="fast")
    ids = []
    for now in range(200):
        store = (ours, theirs)[(now * 7919 >> 3) & 1]
        ids += [sent.id for sent in store.run([Send("jobs", [NewMessage(b"x")])], now).results[0]]
        other = (theirs, ours)[(now * 104729 >> 4) & 1]
        message = other.run([Receive("jobs")], now).results[0].messages[0]
        other.run([Ack("jobs", [Ref(message.id, message.lease.token)])], now)

    assert ids == sorted(set(ids))
    ours.close()
    theirs.close()


def test_a_queue_that_another_process_changed_is_not_acked_the_short_way(tmp_path):
    ours = SQLiteStore(tmp_path / "q.db", now=0, durability="fast")
    theirs = SQLiteStore(tmp_path / "q.db", now=0, durability="fast")
    ours.run([CreateQueue("jobs", Policy())], 0)
    ours.run([Send("jobs", [NewMessage(b"x")])], 0)
    message = ours.run([Receive("jobs")], 0).results[0].messages[0]

    theirs.run([UpdateQueue("jobs", {"keep": "archive"})], 1)
    ours.run([Ack("jobs", [Ref(message.id, message.lease.token)])], 2)

    assert ours.connection.execute("SELECT count(*) FROM sqew_archive").get == 1
    assert ours.run([Peek("jobs")], 3).results[0] == []
    ours.close()
    theirs.close()


@pytest.mark.parametrize("finish", [False, True])
def test_a_damaged_message_is_not_delivered_the_short_way(stores, finish):
    store = stores[0]
    store.run([CreateQueue("jobs", Policy())], 0)
    store.run([Send("jobs", [NewMessage(b"1")])], 0)
    store.run([Send("jobs", [NewMessage(b"2")])], 0)
    store.connection.execute("UPDATE sqew_message SET body = x'39' WHERE id = 1")

    received = store.run([Receive("jobs", finish=finish)], 1).results[0].messages

    assert [message.body for message in received] == [b"2"]
    assert store.connection.execute("SELECT id, reason, attempts FROM sqew_archive").fetchall() == [(1, "damaged", 0)]


@pytest.mark.parametrize("finish", [False, True])
@pytest.mark.parametrize("column", ["origin", "reason"])
def test_text_that_is_none_is_mended_where_the_short_way_meets_it_as_well(stores, finish, column):
    store = stores[0]
    store.run([CreateQueue("jobs", Policy())], 0)
    store.run([Send("jobs", [NewMessage(b"1")])], 0)
    store.connection.execute(f"UPDATE sqew_message SET {column} = CAST(x'ff' AS TEXT)")
    # After a transaction of its own the store takes the short way again.
    store.run([Sweep()], 0)

    [message] = store.run([Receive("jobs", finish=finish)], 1).results[0].messages
    assert (message.body, message.death, message.attempts) == (b"1", None, 1)


def test_a_damaged_holder_stops_nobody_from_acking_by_the_short_way(stores):
    store = stores[0]
    store.run([CreateQueue("jobs", Policy())], 0)
    store.run([Send("jobs", [NewMessage(b"1")])], 0)
    held = store.run([Receive("jobs", by="w")], 0).results[0].messages[0]
    store.connection.execute("UPDATE sqew_message SET leased_by = CAST(x'ff' AS TEXT)")
    store.run([Sweep()], 0)

    assert store.run([Ack("jobs", [Ref(held.id, held.lease.token)])], 1).results == [[Settled(held.id)]]
    assert store.connection.execute("SELECT count(*) FROM sqew_message").get == 0


def test_a_queue_that_was_made_anew_elsewhere_is_noticed_although_something_was_read_meanwhile(tmp_path):
    """Check this after upkeep: it reads the file, and SQLite then no longer shows that another process wrote to it."""
    ours = SQLiteStore(tmp_path / "q.db", now=0, durability="fast")
    ours.run([CreateQueue("jobs", Policy())], 0)
    ours.run([Send("jobs", [NewMessage(b"1"), NewMessage(b"2")])], 0)
    theirs = SQLiteStore(tmp_path / "q.db", now=0, durability="fast")
    theirs.run([DeleteQueue("jobs")], 1)
    theirs.run([CreateQueue("jobs", Policy())], 1)
    ours.idle()

    ours.run([Send("jobs", [NewMessage(b"3"), NewMessage(b"4")])], 2)

    received = theirs.run([Receive("jobs", 10)], 3).results[0].messages
    assert [message.body for message in received] == [b"3", b"4"]
    ours.close()
    theirs.close()
