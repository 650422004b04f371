"""Events with very many subscribers: the limit on a batch's width, and the order in which its messages are reported."""

import pytest

from sqew.errors import EnvelopeNeeded, SqewError, TooWide
from sqew.operations import CountDeliveries, Publish, Subscribe
from sqew.stores.sql import publish
from tests.conformance.driver import Driver, event

LARGE = b'"' + b"x" * 100_000 + b'"'


def wide(store: Driver, count: int) -> None:
    """Subscribe so many endpoints to every event."""
    for done in range(0, count, 200):
        subscribes = [Subscribe("#", "http", f"http://{n}.example/") for n in range(done, min(done + 200, count))]
        assert not any(isinstance(made, SqewError) for made in store.commit(*subscribes).results)


def test_a_batch_that_a_thousand_endpoints_want_held_everybody_up(store):
    wide(store, 1_000)

    with pytest.raises(TooWide, match=r"would become 21000 messages and deliveries, and 20000 are the most") as refusal:
        store.run(Publish([event("a")] * 21))

    assert refusal.value.fits == 20
    assert store.deliveries() == []
    assert len(store.run(Publish([event("a")] * 20))) == 20


def test_queues_count_as_endpoints_do(store):
    wide(store, 999)
    store.create()
    store.subscribe("#")

    with pytest.raises(TooWide):
        store.run(Publish([event("a")] * 21))
    assert len(store.run(Publish([event("a")] * 20))) == 20


def test_one_event_is_taken_however_many_want_it(store, monkeypatch):
    monkeypatch.setattr(publish, "MOST_ROWS", 1_000)  # to subscribe 20,000 takes long
    wide(store, 1_001)

    with pytest.raises(TooWide):
        store.run(Publish([event("a")] * 2))
    assert store.publish("a").deliveries == 1_001
    assert store.run(CountDeliveries()).waiting == 1_001


def test_a_batch_that_is_too_wide_is_refused_before_anything_is_signed(store):
    wide(store, 1_000)
    store.subscribe_endpoint("a", "http://sealed.example/", 2)

    with pytest.raises(TooWide):
        store.run(Publish([event("a")] * 21))
    with pytest.raises(EnvelopeNeeded):
        store.run(Publish([event("a")]))


@pytest.mark.parametrize("body", [b"1", LARGE], ids=["small", "large"])
def test_the_messages_of_an_event_were_told_in_the_order_of_how_they_were_written(store, body):
    for queue, policy in [("a", {"fifo": True}), ("b", {}), ("c", {"quota": 5}), ("d", {})]:
        store.create(queue, **policy)
        store.subscribe("orders.*", queue)

    published = store.publish("orders.created", body)

    assert [queue for queue, _ in published.messages] == ["a", "b", "c", "d"]
    for queue, id in published.messages:
        assert store.get(id, queue).body == body


@pytest.mark.parametrize(("queue_form", "expected"), [(2, {2}), (0, set())])
def test_who_signs_is_told_which_envelopes_become_bodies_of_messages(store, queue_form, expected):
    store.create()
    store.subscribe("a", form=queue_form)
    store.subscribe_endpoint("a", "http://one.example/", 1)

    with pytest.raises(EnvelopeNeeded) as needed:
        store.publish("a")

    assert needed.value.versions == {1} | expected
    assert needed.value.for_queues == expected
