"""The time to live of an event that is posted to endpoints."""

from sqew.operations import ClaimDeliveries, Publish, RetryDeliveries
from tests.conformance.driver import CLAIM_MS, event


def test_the_time_to_live_of_an_event_was_ignored_for_endpoints(store):
    store.subscribe_endpoint("orders.*")
    store.publish("orders.created", b"1", ttl_ms=1000, delay_ms=3000)
    store.publish("orders.created", b"2", ttl_ms=5000, delay_ms=3000)
    store.publish("orders.created", b"3", delay_ms=3000)

    store.advance(3000)

    assert [delivery.body for delivery in store.claim()] == [b"2", b"3"]
    assert len(store.deliveries()) == 2


def test_what_has_expired_keeps_nobody_waiting(store):
    store.subscribe_endpoint("orders.*")
    store.run(Publish([event("orders.created", ttl_ms=1)] * 3))
    store.advance(1)
    store.publish("orders.created", b"7")

    claims = [store.run(ClaimDeliveries(3, 3, CLAIM_MS)) for _ in range(2)]

    assert [claimed.is_cut for claimed in claims] == [True, False]
    assert [delivery.body for claimed in claims for delivery in claimed.deliveries] == [b"7"]


def test_an_exhausted_delivery_that_is_retried_by_hand_is_posted_however_late(store):
    store.subscribe_endpoint("orders.*")
    store.publish("orders.created", ttl_ms=1000)
    [delivery] = store.claim()
    assert store.settle(delivery) == "exhausted"
    store.advance(1000)

    store.run(RetryDeliveries([delivery.id]))

    assert [again.id for again in store.claim()] == [delivery.id]
