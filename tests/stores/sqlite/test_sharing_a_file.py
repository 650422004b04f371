"""Two stores on one file, as two processes open it: each sees at once what the other did."""

from __future__ import annotations

import pytest

from sqew.errors import MessageNotFound, QueueNotFound, QuotaExceeded, StaleLease, StoreBusy, StoreTooNew
from sqew.ids import MessageUuids
from sqew.model import NewMessage, Policy, Ref, Release, Sent
from sqew.operations import (
    Ack,
    CreateQueue,
    DeleteQueue,
    GetQueue,
    LastId,
    ListQueues,
    Measure,
    Nack,
    ReadSalt,
    Receive,
    Send,
    Sweep,
    UpdateQueue,
)
from sqew.stores.sqlite import SQLiteStore
from tests.stores.sqlite.backlog import NOW, create, fill, open_store, run


@pytest.fixture
def here(tmp_path):
    store = open_store(tmp_path / "queue.db")
    yield store
    store.close()


@pytest.fixture
def there(here):
    store = open_store(here.path)
    yield store
    store.close()


def send(store, queue="jobs", **fields):
    [sent] = run(store, Send(queue, [NewMessage(b"{}", **fields)]))
    return sent.id


def received(store, limit=1, queue="jobs", now=NOW, **fields):
    return [message.id for message in run(store, Receive(queue, limit, **fields), now).messages]


def test_a_queue_made_by_one_is_there_for_the_other(here, there):
    create(here, "jobs")

    assert run(there, GetQueue("jobs")).name == "jobs"
    assert [queue.name for queue in run(there, ListQueues())] == ["jobs"]


def test_a_queue_looked_for_in_vain_is_found_once_the_other_has_made_it(here, there):
    with pytest.raises(QueueNotFound):
        run(there, GetQueue("jobs"))

    create(here, "jobs")

    assert send(there) > 0


def test_a_policy_changed_by_one_counts_for_the_other(here, there):
    create(here, "jobs", visibility_ms=1000)
    send(there)

    run(here, UpdateQueue("jobs", {"visibility_ms": 5}))

    [message] = run(there, Receive("jobs")).messages
    assert message.lease.expires_at == NOW + 5


def test_a_lane_added_by_one_is_served_by_the_other(here, there):
    create(here, "jobs", lanes={"a": 1})
    send(there, lane="a")

    run(here, UpdateQueue("jobs", {"lanes": {"a": 1, "b": 1}}))
    send(here, lane="b")

    assert len(received(there, 10)) == 2


def test_a_queue_deleted_by_one_is_gone_for_the_other(here, there):
    create(here, "jobs")
    id = send(there)

    run(here, DeleteQueue("jobs"))

    with pytest.raises(QueueNotFound):
        received(there)
    [result] = run(there, Ack(None, [Ref(id)]))
    assert isinstance(result, MessageNotFound)


def test_a_queue_deleted_and_made_again_by_one_is_the_new_one_for_the_other(here, there):
    create(here, "jobs")
    send(there)
    run(here, DeleteQueue("jobs"))
    create(here, "jobs")

    new = send(there)

    assert received(here, 10) == [new]


def test_what_one_sends_the_other_receives(here, there):
    create(here, "jobs")
    received(there)

    id = send(here)

    assert received(there) == [id]
    assert received(here) == []


def test_a_priority_first_used_by_one_is_looked_into_by_the_other(here, there):
    create(here, "jobs")
    low = send(here)
    received(there, queue="jobs", limit=1, lease_ms=0)

    high = send(here, priority=7)

    assert received(there, 10) == [high, low]


def test_a_priority_that_a_dead_letter_brings_is_looked_into_by_the_other(here, there):
    create(here, "dead")
    create(here, "jobs", dead_letter="dead")
    received(there, queue="dead")
    id = send(here, priority=5)

    run(here, Nack("jobs", [Release(Ref(id), dead=True)]))

    assert received(there, queue="dead") == [id]


def test_a_priority_sent_again_after_upkeep_forgot_it_is_looked_into_by_the_other(here, there):
    create(here, "jobs")
    for store in (here, there):
        send(store, priority=7)
        run(store, Receive("jobs", finish=True))
    here.maintain()

    id = send(there, priority=7)

    assert received(here) == [id]


def test_upkeep_does_not_lose_what_waits_behind_a_fifo_head_at_another_priority(here):
    create(here, "jobs.fifo", fifo=True)
    head = send(here, "jobs.fifo", group="g")
    follower = send(here, "jobs.fifo", group="g", priority=7)
    here.maintain()
    assert received(here, queue="jobs.fifo") == [head]

    run(here, Ack("jobs.fifo", [Ref(head)]))

    assert received(here, queue="jobs.fifo") == [follower]


def test_upkeep_does_not_lose_what_waits_behind_a_fifo_head_in_another_lane(here):
    create(here, "jobs.fifo", fifo=True, lanes={"a": 1, "b": 1})
    head = send(here, "jobs.fifo", group="g", lane="a")
    follower = send(here, "jobs.fifo", group="g", lane="b")
    here.maintain()
    assert received(here, queue="jobs.fifo") == [head]

    run(here, Ack("jobs.fifo", [Ref(head)]))

    assert received(here, queue="jobs.fifo") == [follower]


def test_a_token_given_out_by_one_is_good_for_the_other(here, there):
    create(here, "jobs")
    send(here)
    [message] = run(here, Receive("jobs")).messages

    [wrong] = run(there, Ack("jobs", [Ref(message.id, "wrong")]))
    [right] = run(there, Ack("jobs", [Ref(message.id, message.lease.token)]))

    assert isinstance(wrong, StaleLease)
    assert right.id == message.id


def test_a_key_used_by_one_is_known_to_the_other(here, there):
    create(here, "jobs")
    id = send(here, key="k")

    assert run(there, Send("jobs", [NewMessage(b"{}", key="k")])) == [Sent(id, duplicate=True)]


def test_ids_increase_strictly_over_both(here, there):
    create(here, "jobs")

    ids = []
    for round in range(30):
        for store in (here, there):
            sent = run(store, Send("jobs", [NewMessage(b"{}")] * (1 + round % 4)))
            ids += [entry.id for entry in sent]

    assert ids == sorted(set(ids))


def test_ids_increase_strictly_when_one_sends_much_and_the_other_now_and_then(here, there):
    create(here, "jobs")

    ids = []
    for _ in range(5):
        ids += [send(here) for _ in range(50)]
        ids.append(send(there))

    assert ids == sorted(set(ids))


def test_both_take_turns_between_lanes_as_one(here, there):
    create(here, "jobs", lanes={"high": 3, "low": 1})
    fill(here, "jobs", 20, lane="high")
    fill(here, "jobs", 20, lane="low")

    served = ""
    for _ in range(6):
        for store in (here, there):
            [message] = run(store, Receive("jobs")).messages
            served += message.lane[0]

    assert served == "hhlh" * 3


def test_both_keep_to_one_quota(here, there):
    create(here, "jobs", quota=3)
    send(here)
    send(there)
    send(here)

    for store in (here, there):
        with pytest.raises(QuotaExceeded):
            send(store)

    run(here, Receive("jobs", finish=True))
    send(there)
    with pytest.raises(QuotaExceeded):
        send(here)


def test_a_fifo_group_is_blocked_for_both(here, there):
    create(here, "jobs.fifo", fifo=True)
    fill(here, "jobs.fifo", 2, group="g")
    received(here, queue="jobs.fifo")

    assert received(there, queue="jobs.fifo") == []


def test_one_sweeps_what_the_other_left(here, there):
    create(here, "jobs", max_attempts=1, visibility_ms=10)
    send(here)
    received(here)

    assert run(there, Sweep(), NOW + 10).dead == 1
    assert run(here, Measure("jobs"), NOW + 10).dead == 1


def test_what_was_rolled_back_is_forgotten(here, there):
    create(here, "jobs")
    here.begin(NOW)
    here.attempt(CreateQueue("ghost", Policy()))
    [lost] = here.attempt(Send("jobs", [NewMessage(b"{}", priority=3, key="k")]))
    here.rollback()

    with pytest.raises(QueueNotFound):
        run(here, GetQueue("ghost"))
    [sent] = run(here, Send("jobs", [NewMessage(b"{}", priority=3, key="k")]))
    assert not sent.duplicate
    assert sent.id >= lost.id
    assert received(there) == [sent.id]


def test_facts_of_what_was_rolled_back_are_not_told(here):
    create(here, "jobs")
    here.begin(NOW)
    here.attempt(Send("jobs", [NewMessage(b"{}")]))
    here.rollback()

    commit = here.run([], NOW)

    assert (commit.facts, commit.woken) == ([], frozenset())


def test_a_write_waits_for_the_other_no_longer_than_it_was_told_to(here):
    create(here, "jobs")
    impatient = SQLiteStore(here.path, now=NOW, busy_timeout_ms=1)
    here.begin(NOW)

    with pytest.raises(StoreBusy):
        send(impatient)

    here.rollback()
    assert send(impatient) > 0
    impatient.close()


def test_a_read_does_not_wait_for_the_other(here):
    create(here, "jobs")
    impatient = SQLiteStore(here.path, now=NOW, busy_timeout_ms=1)
    here.begin(NOW)
    here.attempt(Send("jobs", [NewMessage(b"{}")]))

    assert run(impatient, Measure("jobs")).total() == 0

    here.commit([])
    assert run(impatient, Measure("jobs")).total() == 1
    impatient.close()


@pytest.mark.parametrize("first", [2**31 - 1, 2**32, 2**53, 2**62 - 10])
def test_big_ids_go_every_way_that_small_ones_go(here, first):
    create(here, "dead")
    create(here, "jobs", dead_letter="dead")
    here.connection.execute("UPDATE sqew_meta SET next_id = ?", (first,))

    id = send(here, key="k")

    uuids = MessageUuids(run(here, ReadSalt()))
    assert id == first == uuids.id_of(uuids.of(id))
    assert send(here, key="k") == id
    assert run(here, LastId()) == id
    assert received(here) == [id]
    run(here, Nack("jobs", [Release(Ref(id), dead=True)]))
    assert received(here, queue="dead") == [id]
    assert run(here, Ack(None, [Ref(id)]))[0].id == id


def test_a_file_of_a_newer_sqew_is_refused_and_left_as_it_is(here):
    create(here, "jobs")
    here.connection.execute("INSERT INTO sqew_migration VALUES (9999, 'from_the_future', 0)")

    with pytest.raises(StoreTooNew, match="9999"):
        open_store(here.path)

    assert run(here, GetQueue("jobs")).name == "jobs"


def test_opening_a_file_again_applies_no_migration_twice(here, there):
    applied = here.connection.execute("SELECT version, count(*) FROM sqew_migration GROUP BY version").fetchall()

    assert applied
    assert all(count == 1 for _, count in applied)


def test_a_queue_lives_beside_the_tables_of_an_application(tmp_path):
    store = open_store(tmp_path / "app.db")
    store.connection.execute("CREATE TABLE message (id INTEGER PRIMARY KEY); INSERT INTO message VALUES (1)")
    create(store, "jobs")

    id = send(store)

    assert received(store) == [id]
    assert store.connection.execute("SELECT count(*) FROM message").get == 1
    assert all(
        name.startswith(("sqew_", "sqlite_")) or name == "message"
        for (name,) in store.connection.execute("SELECT name FROM sqlite_schema")
    )
    store.close()


def test_one_failing_queue_does_not_hide_that_another_process_made_it(here, there):
    run(here, CreateQueue("jobs", Policy()))
    commit = there.run([Receive("jobs"), Receive("no"), Receive("jobs")], NOW)

    assert [type(result).__name__ for result in commit.results] == ["Received", "QueueNotFound", "Received"]
