"""Retries: the time at which a nacked message comes back."""

import pytest

from sqew.model import Backoff, Ref, Release, Settled
from sqew.operations import Nack
from tests.conformance.driver import ids


def waits(store, rounds):
    """Return the waits of one message over so many deliveries, each nacked."""
    store.send()
    found = []
    for _ in range(rounds):
        settled = store.nack(store.take())
        found.append(settled.due_at - store.now)
        store.now = settled.due_at
    return found


def test_exponential_backoff_doubles_up_to_its_cap(store):
    store.create(backoff=Backoff("exponential", base_ms=100, cap_ms=1000, jitter_ms=0))

    assert waits(store, 6) == [100, 200, 400, 800, 1000, 1000]


def test_fixed_backoff_is_always_the_same(store):
    store.create(backoff=Backoff("fixed", base_ms=70, cap_ms=10, jitter_ms=0))

    assert waits(store, 4) == [70, 70, 70, 70]


def test_exponential_backoff_stays_at_its_cap_after_very_many_attempts(store):
    store.create(backoff=Backoff("exponential", base_ms=1, cap_ms=5, jitter_ms=0), visibility_ms=0)
    store.send()
    for _ in range(100):
        message = store.take()

    assert message.attempts == 100
    assert store.nack(message).due_at == store.now + 5


@pytest.mark.parametrize("kind", ["exponential", "fixed"])
def test_jitter_adds_at_most_its_bound_and_spreads_over_all_of_it(store, kind):
    store.create(backoff=Backoff(kind, base_ms=1000, cap_ms=1000, jitter_ms=50))
    store.send_many(400)

    results = store.run(Nack("jobs", [Release(Ref(m.id, m.lease.token)) for m in store.receive(400)]))

    jitters = {result.due_at - store.now - 1000 for result in results}
    assert min(jitters) >= 0
    assert max(jitters) <= 50
    assert len(jitters) > 40
    assert {0, 50} <= jitters


def test_a_nacked_message_is_not_delivered_before_its_backoff_ended(store):
    store.create(backoff=Backoff("fixed", base_ms=100, jitter_ms=0))
    id = store.send()
    store.nack(store.take())

    store.advance(99)
    assert store.receive() == []

    store.advance(1)
    assert store.receive_ids() == [id]


def test_an_explicit_delay_takes_the_place_of_the_backoff(store):
    store.create(backoff=Backoff("fixed", base_ms=100, jitter_ms=0))
    id = store.send()

    assert store.nack(store.take(), delay_ms=5000) == Settled(id, store.now + 5000)

    store.advance(4999)
    assert store.receive() == []
    store.advance(1)
    assert store.receive_ids() == [id]


def test_a_delay_of_nothing_makes_it_available_at_once(store):
    store.create(backoff=Backoff("fixed", base_ms=100, jitter_ms=0))
    store.send()

    store.nack(store.take(), delay_ms=0)

    assert store.take().attempts == 2


def test_a_nacked_message_stands_where_its_delay_ends(store):
    store.create()
    first = store.send()
    store.advance(1)
    second = store.send()
    store.advance(1)

    store.nack(store.take(), delay_ms=0)

    assert store.receive_ids(2) == [second, first]


def test_a_nacked_message_keeps_its_priority(store):
    store.create()
    urgent = store.send(priority=1)
    store.send()

    store.nack(store.take(), delay_ms=10)
    store.advance(10)

    assert store.take().id == urgent


def test_a_nack_of_a_message_that_nobody_received_delays_it_by_the_first_backoff(store):
    store.create(backoff=Backoff("exponential", base_ms=100, jitter_ms=0))
    id = store.send()

    assert store.run(Nack("jobs", [Release(Ref(id))])) == [Settled(id, store.now + 100)]
    assert ids(store.peek()) == [id]
