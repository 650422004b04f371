"""What queues have for SQS's sake, and every dialect may use."""

import pytest

from conformance.driver import ids
from sqew.errors import BodyTooLarge, KeyMissing
from sqew.model import NewMessage, Policy
from sqew.operations import CreateQueue, GetQueue, ListDeadLetterSources, ListQueues, Receive, Send, UpdateQueue


def test_a_body_as_large_as_the_queue_takes_is_sent(store):
    store.create(max_body_bytes=5)

    store.send(b'"xxx"')

    assert store.take().body == b'"xxx"'


def test_a_larger_body_is_refused_and_nothing_of_its_batch_is_sent(store):
    store.create(max_body_bytes=5)

    with pytest.raises(BodyTooLarge) as raised:
        store.run(Send("jobs", [NewMessage(b"1"), NewMessage(b'"xxxx"')]))

    assert (raised.value.size, raised.value.most) == (6, 5)
    assert store.total() == 0


def test_a_receive_that_takes_nothing_tells_how_long_the_queue_would_have_it_wait(store):
    store.create(receive_wait_ms=20_000)

    assert store.run(Receive("jobs")).wait_ms == 20_000


def test_a_key_is_unique_in_its_queue_unless_told_otherwise(store):
    store.create("jobs.fifo", fifo=True)

    first, second = (store.send(queue="jobs.fifo", key="k", group=group) for group in "ab")

    assert first == second


def test_a_key_may_be_unique_in_its_group_only(store):
    store.create("jobs.fifo", fifo=True, deduplicate_within="group")

    first, again, other = (store.send(queue="jobs.fifo", key="k", group=group) for group in "aab")

    assert first == again != other
    assert {message.key for message in store.receive(10, "jobs.fifo")} == {"k"}


def test_content_may_be_unique_in_its_group_only(store):
    store.create("jobs.fifo", fifo=True, deduplicate="content", deduplicate_within="group")

    sent = [store.send(b'"same"', queue="jobs.fifo", group=group) for group in "aab"]

    assert len(set(sent)) == 2


def test_who_wants_keys_sends_nothing_without_to_a_fifo_queue(store):
    store.create("jobs.fifo", fifo=True)

    with pytest.raises(KeyMissing):
        store.run(Send("jobs.fifo", [NewMessage(b"1", key="k"), NewMessage(b"2")], keyed=True))

    assert store.total("jobs.fifo") == 0


def test_who_wants_keys_gets_those_of_the_content(store):
    store.create("jobs.fifo", fifo=True, deduplicate="content")

    store.run(Send("jobs.fifo", [NewMessage(b"1")], keyed=True))

    assert store.total("jobs.fifo") == 1


def test_who_wants_keys_needs_none_in_a_standard_queue(store):
    store.create()

    store.run(Send("jobs", [NewMessage(b"1")], keyed=True))

    assert store.total() == 1


def test_a_queue_keeps_what_a_dialect_gives_it(store, neighbour):
    store.run(CreateQueue("jobs", Policy(), extras={"tags": {"a": "é"}}))

    assert store.run(GetQueue("jobs")).extras == {"tags": {"a": "é"}}
    assert neighbour.run(ListQueues())[0].extras == {"tags": {"a": "é"}}


def test_extras_are_changed_one_by_one_and_taken_away(store):
    store.run(CreateQueue("jobs", Policy(), extras={"a": 1, "b": 2, "c": 3}))

    updated = store.run(UpdateQueue("jobs", {}, {"b": 4, "c": None}))

    assert updated.extras == {"a": 1, "b": 4}
    store.reopen()
    assert store.run(GetQueue("jobs")).extras == {"a": 1, "b": 4}


def test_a_queue_of_other_extras_is_the_same_queue(store):
    store.run(CreateQueue("jobs", Policy(), extras={"a": 1}))

    assert store.run(CreateQueue("jobs", Policy(), extras={"a": 2})).extras == {"a": 1}


def test_the_queues_of_a_dead_letter_queue_are_listed_by_name(store):
    store.create("dead")
    for name in ("c", "a", "b"):
        store.create(name, dead_letter="dead", max_attempts=1)
    store.create("other", dead_letter="elsewhere", max_attempts=1)

    assert store.run(ListDeadLetterSources("dead")) == ["a", "b", "c"]
    assert store.run(ListDeadLetterSources("dead", "a", 1)) == ["b"]


def test_a_key_may_be_remembered_from_when_its_message_was_sent(store):
    store.create(key_retention_ms=1_000, key_retention_from="sent")
    first = store.send(key="k")
    store.advance(999)
    again = store.send(key="k")
    store.advance(1)
    second = store.send(key="k")

    assert first == again != second
    assert store.receive_ids(10) == [first, second]


def test_such_a_key_does_not_live_longer_because_its_message_does(store):
    store.create(key_retention_ms=1_000, key_retention_from="sent")
    first = store.send(key="k")
    store.advance(900)
    store.ack(store.take())
    again = store.send(key="k")
    store.advance(100)

    assert again == first
    assert store.send(key="k") != first


def test_a_key_of_a_group_is_forgotten_when_its_message_was_taken_for_good(store):
    store.create("jobs.fifo", fifo=True, deduplicate_within="group", key_retention_ms=1_000)
    first = store.send(queue="jobs.fifo", key="k", group="g")
    store.receive(1, "jobs.fifo", finish=True)
    store.advance(1_000)

    assert store.send(queue="jobs.fifo", key="k", group="g") != first


class TestFirstReceived:
    """When a message was first received."""

    def test_the_first_delivery_is_remembered_through_all_others(self, store):
        store.create(visibility_ms=100)
        store.send()
        began = store.now

        times = []
        for _ in range(3):
            times.append(store.take().first_received_at)
            store.advance(100)

        assert times == [began] * 3

    def test_a_batch_is_received_for_the_first_time_too(self, store):
        store.create(visibility_ms=100)
        store.send_many(3)
        began = store.now
        first = store.receive(10)
        store.advance(100)

        assert {message.first_received_at for message in [*first, *store.receive(10)]} == {began}

    def test_followers_in_a_group_are_too(self, store):
        store.create("jobs.fifo", fifo=True, visibility_ms=100)
        sent = store.send_many(3, "jobs.fifo", group="g")
        began = store.now
        first = store.receive(10, "jobs.fifo")
        store.advance(100)
        second = store.receive(10, "jobs.fifo")

        assert ids(first) == ids(second) == sent
        assert {message.first_received_at for message in second} == {began}

    def test_it_is_remembered_in_the_dead_letter_queue(self, store):
        store.create("dead")
        store.create(max_attempts=1, dead_letter="dead")
        store.send()
        began = store.now
        store.nack(store.take())
        store.advance(50)

        assert store.take("dead").first_received_at == began
