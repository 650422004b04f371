"""Publishing again under the same key: every change since then counts, by any process and in any order."""

from __future__ import annotations

import pytest

from sqew.errors import QuotaExceeded
from sqew.model import NewMessage, Policy
from sqew.operations import CreateQueue, DeleteQueue, Publish, Receive, Send, Subscribe, Unsubscribe, UpdateQueue
from tests.conformance.driver import Driver, event

PUBLISH = Publish([event("orders.created", b"7")])


@pytest.fixture(params=["the same process", "another process"])
def editor(request, store: Driver, neighbour: Driver) -> Driver:
    """Return the process that changes things between two publishes: this one or another."""
    return store if request.param == "the same process" else neighbour


@pytest.fixture
def busy(store: Driver) -> Driver:
    """Return a store that has published to the queue ``jobs`` before."""
    store.create()
    store.subscribe("orders.*")
    store.publish("orders.created", b"0")
    store.receive(finish=True)
    return store


def only_message(store: Driver, queue: str = "jobs"):
    [message] = store.peek(queue=queue)
    return message


def test_a_subscription_that_was_made_counts(busy, editor):
    editor.create("other")
    editor.subscribe("orders.#", "other")

    assert sorted(queue for queue, _ in busy.publish("orders.created").messages) == ["jobs", "other"]


def test_a_subscription_that_was_deleted_does_not_count(busy, editor):
    editor.run(Unsubscribe(busy.subscriptions()[0].id))

    assert busy.publish("orders.created").messages == []


def test_a_changed_default_delay_counts(busy, editor):
    editor.update(delay_ms=300)

    busy.publish("orders.created")

    assert only_message(busy).available_at == busy.now + 300


def test_a_changed_default_time_to_live_counts(busy, editor):
    editor.update(ttl_ms=300)

    busy.publish("orders.created")

    assert only_message(busy).expires_at == busy.now + 300


def test_a_quota_that_was_set_counts_and_one_that_was_lifted_does_not(busy, editor):
    editor.update(quota=0)
    with pytest.raises(QuotaExceeded):
        busy.publish("orders.created")

    editor.update(quota=None)

    assert len(busy.publish("orders.created").messages) == 1


def test_deduplication_that_was_set_counts(busy, editor):
    editor.update(deduplicate="content")

    first, second = busy.publish("orders.created"), busy.publish("orders.created")

    assert first.messages == second.messages


def test_other_lanes_count(busy, editor):
    editor.update(lanes={"slow": 1})

    busy.publish("orders.created")

    assert only_message(busy).lane == "slow"


def test_a_queue_that_was_deleted_is_missing(busy, editor):
    editor.run(DeleteQueue("jobs"))

    assert busy.publish("orders.created").missing == ["jobs"]


def test_a_queue_that_was_deleted_and_made_again_is_the_new_one(busy, editor):
    busy.publish("orders.created", b"old")
    editor.run(DeleteQueue("jobs"))
    editor.create(visibility_ms=5)

    busy.publish("orders.created", b"7")

    assert [message.body for message in editor.receive(10)] == [b"7"]


def test_a_queue_that_was_missing_and_is_made_gets_the_next_event(busy, editor):
    editor.run(DeleteQueue("jobs"))
    assert busy.publish("orders.created").missing == ["jobs"]

    editor.create()

    assert busy.publish("orders.created").missing == []
    assert busy.total() == 1


def test_a_new_priority_is_received_by_everybody(busy, editor):
    busy.publish("orders.created", priority=5)

    assert editor.take().priority == 5


def test_ids_go_up_whoever_publishes(busy, neighbour):
    ids = [driver.publish("orders.created").messages[0][1] for driver in (busy, neighbour) * 5]

    assert ids == sorted(set(ids))


# Within one transaction


def test_a_queue_made_in_the_transaction_gets_what_is_published_after_it(store):
    store.publish("orders.created")

    commit = store.commit(
        PUBLISH, CreateQueue("jobs", Policy()), Subscribe("orders.*", "queue", "jobs"), PUBLISH, DeleteQueue("jobs"),
        PUBLISH,
    )  # fmt: skip

    [before], _, _, [between], _, [after] = commit.results
    assert (before.messages, before.missing) == ([], [])
    assert [queue for queue, _ in between.messages] == ["jobs"]
    assert after.missing == ["jobs"]


def test_a_policy_changed_in_the_transaction_counts_for_what_is_published_after_it(busy):
    commit = busy.commit(PUBLISH, UpdateQueue("jobs", {"delay_ms": 300}), PUBLISH)

    [first], _, [second] = commit.results
    delays = [busy.get(published.messages[0][1]).available_at - busy.now for published in (first, second)]
    assert delays == [0, 300]


def test_sends_and_publishes_of_one_transaction_are_received_in_their_order(busy):
    busy.commit(
        Send("jobs", [NewMessage(b"1")]), Publish([event("orders.created", b"2")]), Send("jobs", [NewMessage(b"3")]),
        Publish([event("orders.created", b"4"), event("orders.updated", b"5")]), Send("jobs", [NewMessage(b"6")]),
    )  # fmt: skip

    assert [message.body for message in busy.receive(10)] == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_what_was_published_can_be_received_in_the_same_transaction(busy):
    commit = busy.commit(PUBLISH, Receive("jobs"), PUBLISH, PUBLISH, Receive("jobs", 5))

    first, second = commit.results[1].messages, commit.results[4].messages
    assert (len(first), len(second)) == (1, 2)


def test_a_quota_counts_what_the_transaction_has_published_already(store):
    store.create(quota=2)
    store.subscribe("orders.*")

    results = store.commit(PUBLISH, PUBLISH, PUBLISH, Send("jobs", [NewMessage(b"1")])).results

    assert [isinstance(result, QuotaExceeded) for result in results] == [False, False, True, True]
    assert store.total() == 2


def test_a_group_keeps_its_order_over_the_publishes_and_sends_of_one_transaction(store):
    store.create("jobs.fifo", fifo=True)
    store.create("jobs")
    for queue in ("jobs.fifo", "jobs"):
        store.subscribe("orders.*", queue)

    store.commit(
        Publish([event("orders.created", b"1", group="g")]),
        Send("jobs.fifo", [NewMessage(b"2", group="g")]),
        Publish([event("orders.created", b"3", group="g")]),
    )

    received = []
    while messages := store.receive(1, "jobs.fifo"):
        assert store.receive(10, "jobs.fifo") == []
        received.append(messages[0].body)
        store.ack(messages[0])
    assert received == [b"1", b"2", b"3"]
