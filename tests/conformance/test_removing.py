"""Removal and purge: messages that leave without having been worked on."""

import pytest

from sqew.errors import MessageNotFound, QueueNotFound
from sqew.operations import LastId, Purge, Remove
from tests.conformance.driver import ids


def test_removed_messages_are_gone_and_archived_nowhere(store):
    store.create(keep="archive")
    first, second, third = store.send_many(3)

    assert store.run(Remove("jobs", [first, third])) == [True, True]

    assert ids(store.peek()) == [second]
    assert store.archive() == {}


def test_remove_answers_per_entry(store):
    store.create()
    store.create("other")
    here, there = store.send(), store.send(queue="other")

    assert store.run(Remove("jobs", [10**15, here, there, here])) == [False, True, False, False]
    assert store.total("other") == 1


def test_remove_takes_leased_and_delayed_messages(store):
    store.create()
    leased, delayed = store.send(), store.send(delay_ms=100)
    message = store.take()

    assert store.run(Remove("jobs", [leased, delayed])) == [True, True]

    assert store.total() == 0
    with pytest.raises(MessageNotFound):
        store.ack(message)


def test_a_purge_deletes_every_state_up_to_an_id(store):
    store.create()
    store.send_many(2)
    store.take()
    store.send(delay_ms=100, priority=4)
    last = store.run(LastId())
    later = store.send_many(2)

    progress = store.run(Purge("jobs", last, 100))

    assert (progress.count, progress.done) == (3, True)
    assert ids(store.peek()) == later


def test_a_purge_goes_in_steps(store):
    store.create(lanes={"a": 1, "b": 1})
    for lane, priority in [("a", 0), ("a", 1), ("b", 0)]:
        store.send_many(3, lane=lane, priority=priority)
    last = store.run(LastId())

    counts = []
    while (progress := store.run(Purge("jobs", last, 4))).count:
        counts.append(progress.count)

    assert counts == [4, 4, 1]
    assert progress.done
    assert store.total() == 0


def test_a_purge_of_a_fifo_queue_goes_in_steps(store):
    store.create(fifo=True)
    for n in range(9):
        store.send(group=f"g{n % 2}")
    last = store.run(LastId())

    counts = []
    while (progress := store.run(Purge("jobs", last, 4))).count:
        counts.append(progress.count)

    assert counts == [4, 4, 1]
    assert store.total() == 0


def test_a_purge_leaves_other_queues_and_the_archive_alone(store):
    store.create(keep="archive")
    store.create("other")
    done = store.send()
    store.receive(finish=True)
    store.send()
    other = store.send(queue="other")

    store.run(Purge("jobs", 10**15, 100))

    assert store.total() == 0
    assert ids(store.peek(queue="other")) == [other]
    assert store.archive() == {done: "done"}


def test_a_purge_makes_tokens_worthless(store):
    store.create()
    store.send()
    message = store.take()
    store.run(Purge("jobs", 10**15, 100))

    with pytest.raises(MessageNotFound):
        store.ack(message)


@pytest.mark.parametrize("operation", [Remove("no", [1]), Purge("no", 10, 10)])
def test_removing_from_a_queue_that_does_not_exist_is_an_error(store, operation):
    with pytest.raises(QueueNotFound):
        store.run(operation)
