"""TTL: an expired message is never delivered, and is removed in the background."""

import pytest

from tests.conformance.driver import ids


@pytest.mark.parametrize("limit", [1, 10])
def test_an_expired_message_is_never_delivered(store, limit):
    store.create()
    store.send(ttl_ms=100)
    lasting = store.send()

    store.advance(100)

    assert store.receive_ids(limit) == [lasting]
    assert store.receive(limit) == []


def test_a_message_is_delivered_up_to_its_last_millisecond(store):
    store.create()
    id = store.send(ttl_ms=100)

    store.advance(99)

    assert store.receive_ids() == [id]


def test_a_queue_gives_every_message_that_does_not_say_its_time_to_live(store):
    store.create(ttl_ms=100)
    store.send()
    longer = store.send(ttl_ms=101)

    store.advance(100)

    assert store.receive_ids(10) == [longer]


def test_a_sweep_removes_expired_messages(store):
    store.create()
    store.send_many(3, ttl_ms=100)
    lasting = store.send()
    store.advance(100)

    assert store.sweep().expired == 3
    assert ids(store.peek()) == [lasting]


def test_a_sweep_goes_in_steps(store):
    store.create()
    store.send_many(5, ttl_ms=100)
    store.advance(100)

    first, second, third = store.sweep(2), store.sweep(2), store.sweep(2)

    assert [first.expired, second.expired, third.expired] == [2, 2, 1]
    assert (first.next_at, third.next_at) == (store.now, None)


def test_a_sweep_says_when_the_next_message_expires(store):
    store.create()
    store.send(ttl_ms=500)
    store.send(ttl_ms=300)

    assert store.sweep().next_at == store.now + 300


def test_a_sweep_of_nothing_says_that_nothing_is_waiting(store):
    store.create()
    store.send()

    swept = store.sweep()

    assert (swept.count, swept.next_at) == (0, None)


def test_a_leased_message_outlives_its_time_until_its_lease_ends(store):
    store.create(visibility_ms=1000)
    store.send(ttl_ms=100)
    message = store.take()

    store.advance(500)
    assert store.sweep().expired == 0
    assert store.get(message.id).state == "leased"

    store.advance(500)
    assert store.sweep().expired == 1


def test_a_leased_message_can_be_acked_after_its_time(store):
    store.create(visibility_ms=1000, keep="archive")
    store.send(ttl_ms=100)
    message = store.take()
    store.advance(500)

    store.ack(message)

    assert store.archive() == {message.id: "done"}


def test_a_message_that_expired_during_its_lease_is_not_delivered_again(store):
    store.create(visibility_ms=1000)
    store.send(ttl_ms=100)
    store.take()

    store.advance(1000)

    assert store.receive() == []
    assert store.total() == 0


def test_a_sweep_does_not_ask_to_come_back_before_the_lease_of_an_expired_message_ends(store):
    store.create(visibility_ms=1000)
    store.send(ttl_ms=100)
    store.take()
    store.advance(500)

    swept = store.sweep()

    assert swept.count == 0
    assert store.now < swept.next_at <= store.now + 500


def test_a_nacked_message_that_has_expired_is_not_delivered_again(store):
    store.create()
    store.send(ttl_ms=100)
    message = store.take()
    store.advance(100)
    store.nack(message, delay_ms=0)

    assert store.receive() == []


def test_a_delay_longer_than_the_time_to_live_is_never_delivered(store):
    store.create()
    store.send(ttl_ms=100, delay_ms=200)

    store.advance(200)

    assert store.receive() == []


def test_a_batch_steps_over_more_expired_messages_than_its_limit(store):
    store.create()
    store.send_many(25, ttl_ms=10)
    store.advance(10)
    alive = store.send_many(3)

    assert store.receive_ids(2) == alive[:2]
    assert store.receive_ids(2) == alive[2:]


def test_expired_messages_stay_expired_after_reopening(store):
    store.create()
    store.send(ttl_ms=100)
    store.advance(100)

    store.reopen()

    assert store.receive() == []
