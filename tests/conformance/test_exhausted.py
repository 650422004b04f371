"""Exhausted deliveries: retried from the start or dropped, on request."""

import pytest

from sqew.model import DELIVERIES, Progress
from sqew.operations import DropDeliveries, GetDelivery, Publish, RetryDeliveries, Unsubscribe
from tests.conformance.driver import Driver, event


def exhausted(store: Driver, count: int = 1, endpoint: str = "a") -> list[int]:
    """Make exhausted deliveries of one endpoint and return their ids."""
    store.subscribe_endpoint(endpoint, f"http://{endpoint}.example/")
    store.run(Publish([event(endpoint)] * count))
    claimed = store.claim()
    for delivery in claimed:
        assert store.settle(delivery, status=500, error="It answered 500.") == "exhausted"
    return [delivery.id for delivery in claimed]


def subscription_of(store: Driver, delivery: int) -> int:
    return store.run(GetDelivery(delivery)).subscription_id


def claimed_ids(store: Driver) -> list[int]:
    return sorted(delivery.id for delivery in store.claim())


def listed_ids(store: Driver) -> list[int]:
    return [delivery.id for delivery in store.deliveries()]


def test_a_retried_delivery_begins_from_the_start(store):
    [id] = exhausted(store)
    store.advance(100)

    commit = store.commit(RetryDeliveries([id]))

    assert commit.results == [Progress(1, done=True)]
    assert commit.woken == {DELIVERIES}
    told = store.run(GetDelivery(id))
    assert (told.state, told.attempts, told.due_at) == ("pending", 0, store.now)
    [delivery] = store.claim()
    assert (delivery.id, delivery.attempts, delivery.body) == (id, 0, b"1")


def test_what_is_not_exhausted_is_not_retried(store):
    store.subscribe_endpoint("a")
    store.publish("a", delay_ms=1000)
    [pending] = store.deliveries()

    commit = store.commit(RetryDeliveries([pending.id, 99]))

    assert commit.results == [Progress(0, done=True)]
    assert commit.woken == set()
    assert store.deliveries() == [pending]


def test_what_somebody_posts_right_now_is_not_retried(store):
    store.subscribe_endpoint("a")
    store.publish("a")
    [delivery] = store.claim()

    assert store.run(RetryDeliveries([delivery.id])) == Progress(0, done=True)

    assert store.claim() == []
    assert store.settle(delivery, delivered=True) == "delivered"


@pytest.mark.parametrize("operation", [RetryDeliveries, DropDeliveries])
def test_those_of_one_subscription_are_meant_or_all(store, operation):
    here, there = exhausted(store, 3, "a"), exhausted(store, 2, "b")

    assert store.run(operation(subscription_id=subscription_of(store, there[0]))) == Progress(2, done=True)
    assert [delivery.id for delivery in store.deliveries(state="exhausted")] == here
    assert store.run(operation()) == Progress(3, done=True)
    assert store.deliveries(state="exhausted") == []


@pytest.mark.parametrize("operation", [RetryDeliveries, DropDeliveries])
@pytest.mark.parametrize("of_one", [True, False], ids=["one subscription", "all"])
def test_many_are_done_in_steps(store, operation, of_one):
    ids = exhausted(store, 5)
    which = {"subscription_id": subscription_of(store, ids[0])} if of_one else {}

    steps = [store.run(operation(**which, limit=2)) for _ in range(3)]

    assert [(step.count, step.done) for step in steps] == [(2, False), (2, False), (1, True)]
    assert store.deliveries(state="exhausted") == []


def test_a_retry_of_all_goes_past_those_whose_subscription_is_gone(store):
    left = exhausted(store, 5, "a")
    store.run(Unsubscribe(subscription_of(store, left[0])))
    retried = exhausted(store, 3, "b")

    steps, after = [], 0
    while not steps or not steps[-1].done:
        steps.append(store.run(RetryDeliveries(limit=2, after=after)))
        after = steps[-1].after

    assert [step.count for step in steps] == [0, 0, 1, 2, 0]
    assert [delivery.id for delivery in store.deliveries(state="exhausted")] == left
    assert claimed_ids(store) == retried


def test_a_step_that_took_the_last_of_them_is_followed_by_an_empty_one(store):
    exhausted(store, 2)

    steps = [store.run(DropDeliveries(limit=2)) for _ in range(2)]

    assert steps == [Progress(2, done=False), Progress(0, done=True)]


def test_dropping_all_leaves_what_is_not_exhausted(store):
    exhausted(store, 2)
    store.publish("a")
    [pending] = store.deliveries(state="pending")

    assert store.run(DropDeliveries()) == Progress(2, done=True)

    assert listed_ids(store) == claimed_ids(store) == [pending.id]


def test_a_delivery_that_is_named_is_dropped_in_any_state(store):
    [given_up] = exhausted(store)
    store.run(Publish([event("a")] * 3))
    [under_way] = store.claim(limit=1)
    waiting, other = (delivery.id for delivery in store.deliveries(state="pending"))

    assert store.run(DropDeliveries([given_up, under_way.id, waiting, 99])) == Progress(3, done=True)

    assert listed_ids(store) == [other]
    assert store.settle(under_way, delivered=True) == "stale"


def test_a_delivery_named_twice_counts_once(store):
    [id, other] = exhausted(store, 2)

    assert store.run(RetryDeliveries([id, id])).count == 1
    assert store.run(DropDeliveries([other, other])).count == 1


def test_what_was_dropped_does_not_take_the_event_from_the_others(store):
    for n in range(3):
        store.subscribe_endpoint("a", f"http://{n}.example/")
    store.publish("a", b"7")
    first, second, third = listed_ids(store)

    store.run(DropDeliveries([first, second]))

    [delivery] = store.claim()
    assert (delivery.id, delivery.body) == (third, b"7")


def test_an_exhausted_delivery_of_a_subscription_that_is_gone_can_be_dropped(store):
    [id] = exhausted(store)
    subscription = subscription_of(store, id)
    store.run(Unsubscribe(subscription))

    assert store.run(DropDeliveries(subscription_id=subscription)).count == 1

    assert store.deliveries() == []
