"""Exhausted deliveries: kept for two weeks, and counted."""

import pytest

from sqew.model import DeliveryCounts
from sqew.operations import CountDeliveries, Publish, RetryDeliveries, Unsubscribe
from tests.conformance.driver import Driver, event

DAY = 86_400_000
KEPT_MS = 14 * DAY


def exhausted(store: Driver, count: int = 1) -> list[int]:
    """Make deliveries that are exhausted now and return their ids."""
    store.subscribe_endpoint("a")
    store.run(Publish([event("a")] * count))
    claimed = store.claim(limit=count, per_subscription=count)
    for delivery in claimed:
        assert store.settle(delivery, error="It answered 500.") == "exhausted"
    return [delivery.id for delivery in claimed]


def test_exhausted_deliveries_were_kept_for_ever(store):
    old = exhausted(store, 3)
    store.advance(DAY)
    [young] = exhausted(store)
    store.advance(KEPT_MS - DAY - 1)
    before = [delivery.id for delivery in store.deliveries()]

    store.advance(1)
    swept = store.sweep()

    assert before == [*old, young]
    assert swept.deliveries == 3
    assert [delivery.id for delivery in store.deliveries()] == [young]


def test_many_of_them_go_in_steps(store):
    exhausted(store, 25)
    store.advance(KEPT_MS)

    counts = [store.sweep(10) for _ in range(4)]

    assert [swept.deliveries for swept in counts] == [10, 10, 5, 0]
    assert [swept.next_at for swept in counts[:2]] == [store.now, store.now]
    assert store.run(CountDeliveries()) == DeliveryCounts(0, 0, 0)


def test_what_was_retried_is_kept_from_when_it_was_given_up_again(store):
    [id] = exhausted(store)
    store.advance(KEPT_MS - 1)
    store.run(RetryDeliveries([id]))
    [delivery] = store.claim()
    store.settle(delivery, error="no")
    store.advance(KEPT_MS - 1)

    assert store.sweep().deliveries == 0
    store.advance(1)
    assert store.sweep().deliveries == 1


def test_what_waits_is_not_swept_however_old_it_is(store):
    store.subscribe_endpoint("a")
    store.publish("a")
    store.advance(10 * KEPT_MS)

    assert store.sweep().deliveries == 0
    assert len(store.claim()) == 1


def test_deliveries_are_counted_by_what_can_become_of_them(store):
    exhausted(store, 2)
    store.publish("a")
    gone = store.subscribe_endpoint("b", "http://b.example/")
    store.publish("b")
    [_, one] = sorted(store.claim(), key=lambda delivery: delivery.subscription_id)
    store.settle(one, error="no")
    store.run(Unsubscribe(gone.id))

    assert store.run(CountDeliveries()) == DeliveryCounts(waiting=1, exhausted=3, unsubscribed=1)


def test_a_delivery_under_way_showed_the_end_of_its_claim_as_its_next_try(store):
    store.subscribe_endpoint("a")
    store.publish("a")
    store.claim()

    [delivery] = store.deliveries()

    assert (delivery.state, delivery.due_at) == ("delivering", None)


def test_what_was_not_tried_comes_back_when_it_is_told_to(store):
    store.subscribe_endpoint("a")
    store.publish("a")
    [delivery] = store.claim()

    assert store.settle(delivery, undone=True, retry_at=store.now + 1_000) == "waiting"

    [waiting] = store.deliveries()
    assert (waiting.state, waiting.attempts, waiting.due_at) == ("pending", 0, store.now + 1_000)


# Servers


def test_the_last_places_go_to_servers_that_have_none(store):
    for path in ("a", "b", "c"):
        store.subscribe_endpoint("k", f"http://crowded.example/{path}")
    other = store.subscribe_endpoint("k", "http://other.example/")
    store.run(Publish([event("k")] * 5))

    claimed = store.claim(limit=10, per_subscription=5, shared=4)

    assert [delivery.origin for delivery in claimed] == ["http://crowded.example:80"] * 4 + ["http://other.example:80"]
    assert claimed[-1].subscription_id == other.id


def test_a_server_that_is_busy_already_gets_none_of_the_last_places(store):
    store.subscribe_endpoint("k", "http://crowded.example/")
    store.subscribe_endpoint("k", "http://other.example/")
    store.run(Publish([event("k")] * 5))

    claimed = store.claim(origins=frozenset({"http://crowded.example:80"}), shared=0)

    assert [delivery.origin for delivery in claimed] == ["http://other.example:80"]


@pytest.mark.parametrize(
    "url",
    [
        "http://Crowded.example/x",
        "http://crowded.example:80",
        "http://crowded.example.?q",
        "HTTP://crowded.example:80/",
    ],
)
def test_a_server_is_the_same_however_its_address_is_written(store, url):
    store.subscribe_endpoint("k", url)
    store.publish("k")

    assert [delivery.origin for delivery in store.claim()] == ["http://crowded.example:80"]
