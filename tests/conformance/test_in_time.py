"""Settling in time: acks and extensions that count only while the lease lasts."""

import pytest

from sqew.errors import LeaseTooLong, StaleLease
from sqew.model import Extension, Settled
from sqew.operations import Ack, Extend
from tests.conformance.driver import ref


@pytest.fixture(params=["jobs", "jobs.fifo"])
def taken(request, store):
    """Return a message under a lease of a second."""
    store.create(request.param, fifo=request.param.endswith(".fifo"), visibility_ms=1_000)
    store.send(queue=request.param)
    return store.take(request.param)


def test_an_ack_in_time_is_taken(store, taken):
    store.advance(999)

    assert store.run(Ack(taken.queue, [ref(taken)], in_time=True)) == [Settled(taken.id)]
    assert store.total(taken.queue) == 0


def test_an_ack_that_is_late_is_refused(store, taken):
    store.advance(1_000)

    [refused] = store.run(Ack(taken.queue, [ref(taken)], in_time=True))

    assert isinstance(refused, StaleLease)
    assert store.total(taken.queue) == 1


def test_an_ack_may_be_late_where_nobody_minds(store, taken):
    store.advance(1_000)

    assert store.run(Ack(taken.queue, [ref(taken)])) == [Settled(taken.id)]


def test_an_extension_in_time_is_taken(store, taken):
    store.advance(999)

    [extended] = store.run(Extend(taken.queue, [Extension(ref(taken), 500)], in_time=True))

    assert extended == Settled(taken.id, store.now + 500)


def test_an_extension_that_is_late_is_refused(store, taken):
    store.advance(1_000)

    [refused] = store.run(Extend(taken.queue, [Extension(ref(taken), 500)], in_time=True))

    assert isinstance(refused, StaleLease)
    assert store.take(taken.queue).id == taken.id


def test_an_extension_may_end_as_late_as_is_allowed_after_the_receive(store, taken):
    store.advance(900)

    [extended] = store.run(Extend(taken.queue, [Extension(ref(taken), 600)], most_ms=1_500))

    assert extended == Settled(taken.id, store.now + 600)


def test_an_extension_that_ends_too_long_after_the_receive_changes_nothing(store, taken):
    store.advance(900)

    [refused] = store.run(Extend(taken.queue, [Extension(ref(taken), 601)], most_ms=1_500))

    assert isinstance(refused, LeaseTooLong)
    assert store.get(taken.id, taken.queue).lease.expires_at == taken.lease.expires_at


def test_what_was_extended_before_counts_since_the_receive(store, taken):
    store.run(Extend(taken.queue, [Extension(ref(taken), 1_400)], most_ms=1_500))
    store.advance(1_300)

    [refused] = store.run(Extend(taken.queue, [Extension(ref(taken), 300)], most_ms=1_500))

    assert isinstance(refused, LeaseTooLong)


def test_each_of_a_batch_is_judged_by_its_own_lease(store):
    store.create()
    store.send_many(2)
    short, long = store.take(lease_ms=100), store.take(lease_ms=1_000)
    store.advance(100)

    refused, settled = store.run(Ack("jobs", [ref(short), ref(long)], in_time=True))

    assert isinstance(refused, StaleLease)
    assert settled == Settled(long.id)
