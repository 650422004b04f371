"""Policies that queues have for SQS's sake, and that every dialect may use."""

import pytest

from sqew.errors import BodyTooLarge, ChangedMeanwhile, KeyMissing
from sqew.model import NewMessage, Policy
from sqew.operations import (
    CreateQueue,
    GetQueue,
    ListDead,
    ListDeadLetterSources,
    ListQueues,
    Receive,
    Redrive,
    RequeueDead,
    Send,
    UpdateQueue,
)
from tests.conformance.driver import ids


def test_a_body_as_large_as_the_queue_takes_is_sent(store):
    store.create(max_body_bytes=5)

    store.send(b'"xxx"')

    assert store.take().body == b'"xxx"'


def test_an_empty_batch_to_a_queue_that_limits_bodies_met_a_mistake(store):
    store.create(max_body_bytes=5)

    assert store.run(Send("jobs", [])) == []


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


def test_a_change_is_made_if_the_queue_is_still_as_it_is_known(store, neighbour):
    known = store.run(CreateQueue("jobs", Policy(), extras={"a": 1}))

    updated = neighbour.run(UpdateQueue("jobs", {}, {"a": 2}, known))

    assert updated.extras == {"a": 2}


@pytest.mark.parametrize("change", [UpdateQueue("jobs", {}, {"b": 1}), UpdateQueue("jobs", {"visibility_ms": 5})])
def test_a_change_to_a_queue_that_another_process_has_changed_meanwhile_is_refused(store, neighbour, change):
    known = store.run(CreateQueue("jobs", Policy(), extras={"a": 1}))
    changed = neighbour.run(change)

    with pytest.raises(ChangedMeanwhile):
        store.run(UpdateQueue("jobs", {}, {"a": 2}, known))

    assert store.run(GetQueue("jobs")) == changed


def test_a_queue_of_other_extras_is_the_same_queue(store):
    store.run(CreateQueue("jobs", Policy(), extras={"a": 1}))

    assert store.run(CreateQueue("jobs", Policy(), extras={"a": 2})).extras == {"a": 1}


def test_queues_are_listed_by_what_their_names_begin_with(store):
    names = ["a", "b", "b-", "b-1", "b-2", "bZ", "c"]
    for name in names:
        store.create(name)

    def listed(*args):
        return [info.name for info in store.run(ListQueues(*args))]

    assert listed() == names
    assert listed("b-") == ["b-", "b-1", "b-2"]
    assert listed("b", "b-1") == ["b-2", "bZ"]
    assert listed("b", "a", 2) == ["b", "b-"]
    assert listed("b", "c") == listed("d") == listed("b%") == []


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


@pytest.mark.parametrize("key", ["a\nb", "\1", "\1b", "1:ab"])
@pytest.mark.parametrize("within", ["queue", "group"])
def test_a_key_is_shown_as_it_was_given_whatever_is_in_it(store, key, within):
    store.create("dead")
    store.create(deduplicate_within=within, max_attempts=1, dead_letter="dead")
    store.send(key=key, group="\1g:1")

    message = store.take()
    store.nack(message)

    assert message.key == store.peek(queue="dead")[0].key == key
    assert store.run(ListDead("jobs")).messages[0].key == key


def test_two_keys_are_the_same_only_if_their_groups_are(store):
    store.create(deduplicate_within="group")

    sent = [store.send(group=group, key=key) for group, key in (("a", "b"), ("a", "b"), ("ab", "c"), ("a", "bc"))]

    assert sent[0] == sent[1]
    assert len(set(sent)) == 3


@pytest.mark.parametrize(("here", "there"), [("queue", "group"), ("group", "queue")])
def test_a_key_is_found_again_in_a_queue_where_it_is_unique_in_something_else(store, here, there):
    store.create("dead")
    store.create(deduplicate_within=here, max_attempts=1, dead_letter="dead")
    store.create("other", deduplicate_within=there)
    store.kill(key="k", group="g")

    store.run(Redrive("dead", "other"))

    message = store.take("other")
    assert message.key == "k"
    assert store.send(queue="other", key="k", group="g") == message.id


def test_a_key_is_found_again_in_a_queue_that_has_changed_what_it_is_unique_in(store):
    store.create(deduplicate_within="group", max_attempts=1)
    dead = store.kill(key="k", group="g")
    store.update(deduplicate_within="queue")

    store.requeue()

    assert store.take().key == "k"
    assert store.send(key="k", group="another") == dead


class TestFirstReceived:
    """The time at which a message was first received."""

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

    def test_a_receive_whose_answer_reached_nobody_was_none(self, store):
        store.create()
        store.send()
        store.nack(store.take(), undelivered=True)
        store.advance(50)

        assert store.take().first_received_at == store.now

    def test_a_later_one_does_not_make_the_first_forgotten(self, store):
        store.create(visibility_ms=50)
        store.send()
        began = store.now
        store.take()
        store.advance(50)
        store.nack(store.take(), undelivered=True)
        store.advance(50)

        assert store.take().first_received_at == began

    @pytest.mark.parametrize("back", [Redrive("dead"), Redrive("dead", "other"), RequeueDead("jobs")])
    def test_what_comes_back_was_never_received(self, store, back):
        for name in ("dead", "other"):
            store.create(name)
        store.create(max_attempts=1, dead_letter="dead")
        store.send()
        store.nack(store.take())
        store.advance(50)

        store.run(back)

        assert store.take(getattr(back, "to", None) or "jobs").first_received_at == store.now
