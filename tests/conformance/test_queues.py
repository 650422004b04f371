"""Queues: created, changed, listed and deleted."""

import pytest

from sqew.errors import BadValue, MessageNotFound, QueueExists, QueueNotFound, QuotaExceeded
from sqew.model import Backoff, Policy, QueueInfo, Ref, Release
from sqew.operations import (
    Ack,
    CreateQueue,
    DeleteQueue,
    Get,
    GetQueue,
    ListQueues,
    Nack,
    Purge,
    Redrive,
    Remove,
    UpdateQueue,
)
from tests.conformance.driver import ids

EVERYTHING = Policy(
    visibility_ms=1,
    max_attempts=2,
    dead_letter="dead",
    backoff=Backoff("fixed", 3, 4, 5),
    delay_ms=6,
    ttl_ms=7,
    fifo=True,
    deduplicate="content",
    key_retention_ms=8,
    lanes={"b": 9, "a": 10},
    keep="archive",
    archive_retention_ms=None,
    rate_limit=11.5,
    quota=12,
)


def test_a_created_queue_is_there_with_its_policy_after_reopening(store):
    created = store.run(CreateQueue("jobs.fifo", EVERYTHING))

    store.reopen()

    assert created == QueueInfo("jobs.fifo", EVERYTHING, store.now, id=created.id)
    assert created.id > 0
    assert store.run(ListQueues("jobs.fifo")) == [created]
    assert store.run(GetQueue("jobs.fifo")) == created
    assert list(store.run(GetQueue("jobs.fifo")).policy.lanes) == ["b", "a"]


def test_creating_a_queue_again_with_the_same_policy_answers_what_is_there(store):
    first = store.run(CreateQueue("jobs", EVERYTHING))
    store.advance(1000)

    assert store.run(CreateQueue("jobs", EVERYTHING)) == first


def test_creating_a_queue_again_with_another_policy_names_the_field_that_differs(store):
    store.run(CreateQueue("jobs", Policy()))

    with pytest.raises(QueueExists, match="max_attempts"):
        store.run(CreateQueue("jobs", Policy(max_attempts=9)))

    assert store.run(GetQueue("jobs")).policy == Policy()


def test_creating_a_queue_that_may_exist_answers_what_is_there_whatever_its_policy(store):
    first = store.run(CreateQueue("jobs", Policy()))

    assert store.run(CreateQueue("jobs", Policy(max_attempts=9), exist_ok=True)) == first


def test_a_queue_may_be_created_together_with_its_dead_letter_queue(store):
    store.run(CreateQueue("jobs", Policy(dead_letter="dead"), dead_letters=Policy(visibility_ms=5)))

    assert store.run(GetQueue("dead")).policy == Policy(visibility_ms=5)


def test_a_dead_letter_queue_that_exists_is_left_as_it_is(store):
    existing = store.create("dead")

    store.run(CreateQueue("jobs", Policy(dead_letter="dead"), dead_letters=Policy(visibility_ms=5)))

    assert store.run(GetQueue("dead")) == existing


def test_a_dead_letter_queue_that_a_change_names_is_made_with_it(store):
    store.create()

    store.run(UpdateQueue("jobs", {"dead_letter": "dead"}, dead_letters=Policy(visibility_ms=5)))
    store.run(UpdateQueue("jobs", {"max_attempts": 2}, dead_letters=Policy(visibility_ms=6)))

    assert store.run(GetQueue("dead")).policy == Policy(visibility_ms=5)


def test_a_change_that_is_refused_makes_no_dead_letter_queue(store):
    store.create()

    with pytest.raises(BadValue):
        store.run(UpdateQueue("jobs", {"dead_letter": "dead", "fifo": True}, dead_letters=Policy()))

    with pytest.raises(QueueNotFound):
        store.run(GetQueue("dead"))


def test_a_queue_that_does_not_exist_is_an_error(store):
    for operation in (GetQueue("no"), DeleteQueue("no")):
        with pytest.raises(QueueNotFound):
            store.run(operation)
    with pytest.raises(QueueNotFound):
        store.update("no", delay_ms=1)
    with pytest.raises(QueueNotFound):
        store.send(queue="no")


def test_an_update_changes_what_it_names_and_nothing_else(store):
    before = store.create(max_attempts=3, keep="archive")

    after = store.update(max_attempts=4, visibility_ms=70)

    assert (after.policy.max_attempts, after.policy.visibility_ms, after.policy.keep) == (4, 70, "archive")
    assert after.created_at == before.created_at
    store.reopen()
    assert store.run(GetQueue("jobs")) == after


def test_an_update_takes_effect_at_once(store):
    store.create(visibility_ms=1000)
    store.send()

    store.update(visibility_ms=5)

    assert store.take().lease.expires_at == store.now + 5


def test_a_queue_stays_fifo_or_standard(store):
    store.create(fifo=True)

    with pytest.raises(BadValue, match="FIFO"):
        store.update(fifo=False)
    assert store.update(fifo=True).policy.fifo


def test_a_queue_can_not_become_its_own_dead_letter_queue(store):
    store.create()

    with pytest.raises(BadValue, match="own dead-letter queue"):
        store.update(dead_letter="jobs")


def test_queues_are_listed_by_name(store):
    for name in ("b", "ab", "a", "c"):
        store.create(name)

    assert [queue.name for queue in store.run(ListQueues())] == ["a", "ab", "b", "c"]
    assert [queue.name for queue in store.run(ListQueues(prefix="a"))] == ["a", "ab"]
    assert [queue.name for queue in store.run(ListQueues(after="ab"))] == ["b", "c"]
    assert [queue.name for queue in store.run(ListQueues(limit=2))] == ["a", "ab"]
    assert [queue.name for queue in store.run(ListQueues(prefix="a", after="a", limit=5))] == ["ab"]


def test_a_prefix_is_taken_literally(store):
    for name in ("a_b", "axb"):
        store.create(name)

    assert [queue.name for queue in store.run(ListQueues(prefix="a_"))] == ["a_b"]
    assert store.run(ListQueues(prefix="%")) == []


def test_names_differ_by_case(store):
    store.create("Jobs")
    store.create("jobs")
    store.send(queue="Jobs")

    assert store.total("jobs") == 0
    assert store.run(ListQueues(prefix="J"))[0].name == "Jobs"


def test_the_messages_of_a_deleted_queue_are_gone_at_once(store):
    store.create()
    waiting, _ = store.send_many(2)
    message = store.take()
    store.run(DeleteQueue("jobs"))

    for operation in (Get("jobs", waiting), Remove("jobs", [waiting]), Purge("jobs", 10**15, 9), GetQueue("jobs")):
        with pytest.raises((QueueNotFound, MessageNotFound)):
            store.run(operation)
    for operation in (Ack(None, [Ref(message.id)]), Nack(None, [Release(Ref(message.id))])):
        [result] = store.run(operation)
        assert isinstance(result, MessageNotFound)
    with pytest.raises(MessageNotFound):
        store.get(waiting, None)
    assert store.run(ListQueues()) == []


def test_the_name_of_a_deleted_queue_is_free_at_once_and_the_new_queue_is_empty(store):
    store.create(max_attempts=7, lanes={"a": 1})
    store.send_many(3, lane="a", priority=2)
    store.kill(lane="a")
    store.run(DeleteQueue("jobs"))

    store.create()

    assert store.receive(10) == []
    assert (store.total(), store.measure().dead) == (0, 0)
    id = store.send()
    assert store.receive_ids(10) == [id]


@pytest.mark.parametrize("fifo", [False, True])
def test_the_rows_of_a_deleted_queue_are_swept_away_in_steps(store, fifo):
    store.create(fifo=fifo, keep="archive")
    store.send_many(7, group="g", key=None)
    store.send_many(1, priority=3, group="h", key="k")
    store.receive(2, finish=True)
    store.run(DeleteQueue("jobs"))

    steps = []
    while (swept := store.sweep(3)).count:
        steps.append(swept.removed)
        assert swept.next_at == store.now

    assert max(steps) <= 3 * len(("messages", "archive", "keys", "queue"))
    assert len(steps) >= 3
    assert swept.next_at is None


def test_sweeping_a_deleted_queue_touches_no_other(store):
    store.create()
    store.create("other", keep="archive")
    other = store.send_many(3, "other")
    store.receive(1, "other", finish=True)
    store.send_many(5)
    store.run(DeleteQueue("jobs"))
    store.create()
    again = store.send_many(2)

    store.sweep_all()

    assert ids(store.peek()) == again
    assert ids(store.peek(queue="other")) == other[1:]
    assert store.archive("other") == {other[0]: "done"}


def test_expired_and_exhausted_messages_of_a_deleted_queue_are_swept_too(store):
    store.create(max_attempts=1, visibility_ms=10)
    store.send_many(5, ttl_ms=5)
    store.receive(2)
    store.run(DeleteQueue("jobs"))
    store.advance(100)

    store.sweep_all()

    swept = store.sweep()
    assert (swept.count, swept.next_at) == (0, None)


def test_several_deleted_queues_of_one_name_are_all_swept(store):
    for _ in range(3):
        store.create()
        store.send_many(2)
        store.run(DeleteQueue("jobs"))

    assert store.sweep_all() >= 6
    assert store.sweep().next_at is None


def test_a_quota_bounds_what_a_queue_holds(store):
    store.create(quota=3)
    store.send_many(3)

    with pytest.raises(QuotaExceeded, match="3"):
        store.send()

    store.receive(1, finish=True)
    store.send()
    assert store.total() == 3


def test_a_batch_over_the_quota_stores_none_of_it(store):
    store.create(quota=3)
    store.send()

    with pytest.raises(QuotaExceeded):
        store.send_many(3)

    assert store.total() == 1


def test_the_quota_counts_every_state(store):
    store.create(quota=4, fifo=True)
    store.send_many(2, group="g")
    store.send(group="h", delay_ms=1000)
    store.send(group="i")
    store.receive(1)

    with pytest.raises(QuotaExceeded):
        store.send()


@pytest.mark.parametrize("leave", ["ack", "remove", "purge", "die", "expire", "sweep dead", "redrive"])
def test_every_way_out_of_a_queue_makes_room_under_its_quota(store, leave):
    store.create("other")
    store.create(quota=1, visibility_ms=100, max_attempts=1)
    id = store.send(ttl_ms=50 if leave == "expire" else None)
    with pytest.raises(QuotaExceeded):
        store.send()

    match leave:
        case "ack":
            store.ack(store.take())
        case "remove":
            store.run(Remove("jobs", [id]))
        case "purge":
            store.run(Purge("jobs", id, 10))
        case "die":
            store.nack(store.take(), dead=True)
        case "redrive":
            store.run(Redrive("jobs", "other"))
        case _:
            store.advance(100 if leave == "expire" else 0)
            store.receive()
            store.advance(100)
            store.sweep()

    store.send()
    with pytest.raises(QuotaExceeded):
        store.send()


def test_dead_letters_count_in_the_quota_of_the_queue_they_lie_in(store):
    store.create("dead", quota=2)
    store.create(dead_letter="dead", quota=5)
    store.send(queue="dead")
    store.kill()

    with pytest.raises(QuotaExceeded):
        store.send(queue="dead")

    store.requeue()
    store.send(queue="dead")


def test_a_quota_may_be_set_on_a_queue_that_already_holds_more(store):
    store.create()
    store.send_many(5)

    store.update(quota=3)

    with pytest.raises(QuotaExceeded):
        store.send()
    store.receive(3, finish=True)
    store.send()
