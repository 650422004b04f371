"""Deliveries: claimed by one server at a time, retried when they fail, kept when they are exhausted."""

import pytest

from sqew.core.checks import check_operation
from sqew.errors import BadValue, DeliveryNotFound
from sqew.model import Delivery, DeliveryOutcome, DueDelivery
from sqew.operations import (
    ClaimDeliveries,
    GetDelivery,
    ListDeliveries,
    Publish,
    RenewDeliveries,
    SettleDeliveries,
    Unsubscribe,
)
from sqew.rules.limits import Limits
from tests.conformance.driver import CLAIM_MS, ENDPOINT, Driver, endpoints, event, publish_to


def due(store: Driver, count: int = 1, **fields: object) -> list[DueDelivery]:
    """Publish events to one endpoint and return their deliveries, claimed."""
    store.subscribe_endpoint("orders.*")
    store.run(Publish([event("orders.created", **fields)] * count))
    return store.claim()


def states(store: Driver) -> list[str]:
    return [delivery.state for delivery in store.deliveries()]


# Claiming


def test_a_claim_hands_out_what_is_to_be_posted(store):
    subscription = store.subscribe_endpoint("orders.*")
    store.publish("orders.created", b'{"n": 1}')

    [delivery] = store.claim(lease_ms=500)

    assert delivery == DueDelivery(
        delivery.id, subscription.id, ENDPOINT, "http://endpoint.example:80", "orders.created", "id of orders.created",
        0, "json", b'{"n": 1}', 0, store.now + 500,
    )  # fmt: skip


def test_deliveries_of_one_endpoint_are_claimed_in_the_order_of_their_events(store):
    store.subscribe_endpoint("orders.*")
    for n in range(5):
        store.publish("orders.created", b"%d" % n)
        store.advance(1)

    assert [delivery.body for delivery in store.claim()] == [b"0", b"1", b"2", b"3", b"4"]


def test_what_is_claimed_is_not_claimed_again_before_its_time_is_up(store, neighbour):
    [delivery] = due(store)
    store.advance(CLAIM_MS - 1)
    neighbour.now = store.now

    assert store.claim() == neighbour.claim() == []
    store.advance(1)
    [again] = store.claim()
    assert (again.id, again.claimed_until) == (delivery.id, store.now + CLAIM_MS)


def renew(store: Driver, delivery: DueDelivery) -> None:
    store.run(RenewDeliveries({delivery.id: delivery.claimed_until}, CLAIM_MS))


def test_a_claim_that_is_renewed_lasts_longer_and_is_settled_as_before(store, neighbour):
    [delivery] = due(store)
    store.advance(CLAIM_MS - 1)
    renew(store, delivery)
    store.advance(CLAIM_MS - 1)
    neighbour.now = store.now

    assert neighbour.claim() == []
    assert states(store) == ["delivering"]
    assert store.settle(delivery, retry_at=store.now + 5) == "waiting"
    assert states(store) == ["pending"]


def test_a_claim_that_somebody_took_over_is_not_renewed(store, neighbour):
    [delivery] = due(store)
    store.advance(CLAIM_MS)
    neighbour.now = store.now
    [taken_over] = neighbour.claim()

    store.advance(CLAIM_MS // 2)
    renew(store, delivery)
    store.advance(CLAIM_MS // 2)

    assert store.settle(delivery, retry_at=store.now + 5) == "stale"
    assert [again.id for again in store.claim()] == [taken_over.id]


def test_what_is_settled_is_not_renewed(store):
    [delivery] = due(store)
    store.settle(delivery, retry_at=store.now + 5)

    renew(store, delivery)
    store.advance(5)

    assert [again.id for again in store.claim()] == [delivery.id]


def test_a_claim_takes_no_more_than_its_limit(store):
    endpoints(store, 3)
    for n in range(3):
        publish_to(store, n, 5)

    assert len(store.claim(limit=7)) == 7
    assert len(store.claim(limit=100)) == 8


def test_a_delayed_event_is_posted_when_its_time_has_come(store):
    store.subscribe_endpoint("orders.*")
    store.publish("orders.created", delay_ms=100)

    assert store.claim() == []
    store.advance(100)
    assert len(store.claim()) == 1


def test_a_claim_tells_when_the_next_delivery_is_due(store):
    store.subscribe_endpoint("orders.*")
    store.publish("orders.created", delay_ms=700)
    claim = ClaimDeliveries(10, 10, 300)
    assert store.run(claim).next_due_at == store.now + 700

    store.publish("orders.created")

    # What is claimed may be given up: then it is due again.
    assert store.run(claim).next_due_at == store.now + 300


def test_there_is_no_next_delivery_where_there_is_none(store):
    assert store.run(ClaimDeliveries(10, 10, 300)).next_due_at is None


# How an attempt ends


def test_what_is_delivered_is_gone(store):
    [delivery] = due(store)

    assert store.settle(delivery, delivered=True, status=200) == "delivered"

    assert store.deliveries() == []
    store.advance(CLAIM_MS)
    assert store.claim() == []


def test_what_fails_is_tried_again_at_its_time(store):
    [delivery] = due(store)
    store.advance(20)

    ended = store.settle(delivery, status=503, error="It answered 503.", retry_at=store.now + 100)

    assert ended == "waiting"
    [waiting] = store.deliveries()
    assert (waiting.state, waiting.attempts, waiting.status, waiting.error) == ("pending", 1, 503, "It answered 503.")
    assert (waiting.tried_at, waiting.due_at) == (store.now, store.now + 100)
    store.advance(99)
    assert store.claim() == []
    store.advance(1)
    [again] = store.claim()
    assert (again.id, again.attempts, again.body) == (delivery.id, 1, b"1")


def test_every_failure_counts_and_the_last_one_is_told(store):
    [delivery] = due(store)
    for n in range(4):
        store.settle(delivery, status=None if n % 2 else 500, error=f"failure {n}", retry_at=store.now)
        [delivery] = store.claim()

    [told] = store.deliveries()
    assert (delivery.attempts, told.attempts, told.status, told.error) == (4, 4, None, "failure 3")


def test_what_is_exhausted_is_kept_with_its_last_error_and_never_tried_again(store):
    [delivery] = due(store)

    assert store.settle(delivery, status=404, error="It answered 404.") == "exhausted"

    store.advance(10 * CLAIM_MS)
    assert store.claim() == []
    told = store.run(GetDelivery(delivery.id))
    assert (told.state, told.due_at, told.attempts) == ("exhausted", None, 1)
    assert (told.status, told.error, told.body) == (404, "It answered 404.", b"1")


def test_what_was_not_tried_is_due_at_once_and_no_attempt_is_counted(store):
    [delivery] = due(store)

    assert store.settle(delivery, undone=True) == "waiting"

    [again] = store.claim()
    assert (again.id, again.attempts) == (delivery.id, 0)


@pytest.mark.parametrize("outcome", [{"retry_at": 1}, {}, {"undone": True}], ids=["failed", "exhausted", "not tried"])
def test_who_is_too_late_changes_nothing(store, outcome):
    [late] = due(store)
    store.advance(CLAIM_MS)
    [current] = store.claim()

    assert store.settle(late, error="late", **outcome) == "stale"

    [told] = store.deliveries()
    assert (told.state, told.attempts, told.error) == ("delivering", 0, "")
    assert store.settle(current, retry_at=store.now) == "waiting"


def test_who_is_late_but_was_not_replaced_still_counts(store):
    [delivery] = due(store)
    store.advance(10 * CLAIM_MS)

    assert store.settle(delivery, error="slow", retry_at=store.now + 1) == "waiting"


def test_delivered_is_delivered_even_if_somebody_else_is_at_it_by_now(store):
    [late] = due(store)
    store.advance(CLAIM_MS)
    [current] = store.claim()

    assert store.settle(late, delivered=True) == "delivered"

    assert store.settle(current, delivered=True) == "stale"
    assert store.deliveries() == []


def test_outcomes_are_told_one_by_one(store):
    first, second, third = due(store, 3)
    outcomes = [
        DeliveryOutcome(first.id, first.claimed_until, delivered=True),
        DeliveryOutcome(second.id, second.claimed_until, delivered=False, retry_at=store.now + 1),
        DeliveryOutcome(third.id, third.claimed_until, delivered=False),
        DeliveryOutcome(third.id + 1, third.claimed_until, delivered=True),
    ]

    assert store.run(SettleDeliveries(outcomes)) == ["delivered", "waiting", "exhausted", "stale"]


def test_deliveries_that_share_an_event_end_each_for_itself(store):
    urls = [f"http://{n}.example/" for n in range(3)]
    for url in urls:
        store.subscribe_endpoint("orders.*", url)
    store.publish("orders.created", b"7")
    first, second, third = store.claim()

    store.settle(first, delivered=True)
    store.settle(second, retry_at=store.now)
    store.settle(third)

    [again] = store.claim()
    assert (again.endpoint, again.body) == (urls[1], b"7")
    assert store.run(GetDelivery(third.id)).body == b"7"


def test_an_attempt_that_is_under_way_when_the_store_is_reopened_is_taken_over(store):
    [delivery] = due(store)

    store.reopen()
    store.advance(CLAIM_MS)

    assert [again.id for again in store.claim()] == [delivery.id]


# Without a subscription


def test_what_was_on_its_way_is_dropped_with_its_subscription(store):
    gone, stays = endpoints(store, 2)
    publish_to(store, 0, 3)
    publish_to(store, 1)

    store.run(Unsubscribe(gone))

    assert [delivery.subscription_id for delivery in store.claim()] == [stays]
    assert [delivery.subscription_id for delivery in store.deliveries()] == [stays]


def test_many_of_them_are_dropped_in_steps(store):
    [gone] = endpoints(store, 1)
    publish_to(store, 0, 500)
    store.run(Unsubscribe(gone))

    claimed = store.run(ClaimDeliveries(10, 10, CLAIM_MS))

    assert 0 < len(store.deliveries(limit=1000)) < 500
    assert claimed.is_cut
    for _ in range(5):
        assert store.claim() == []
    assert store.deliveries() == []


def test_those_of_many_subscriptions_were_dropped_all_at_once(store):
    subscriptions = endpoints(store, 100)
    for n in range(100):
        publish_to(store, n, 10)
    for subscription in subscriptions:
        store.run(Unsubscribe(subscription))

    left = []
    while not left or left[-1]:
        claimed = store.run(ClaimDeliveries(10, 10, CLAIM_MS))
        left.append(len(store.deliveries(limit=1000)))
        assert claimed.is_cut == (left[-1] > 0 or len(left) == 5)

    assert left == [800, 600, 400, 200, 0]


def test_an_exhausted_delivery_stays_without_its_subscription(store):
    [delivery] = due(store)
    store.settle(delivery, error="gone")

    store.run(Unsubscribe(delivery.subscription_id))
    store.claim()

    assert states(store) == ["exhausted"]


# Looking


def test_a_delivery_is_told_as_it_stands(store):
    subscription = store.subscribe_endpoint("orders.*", form=2)
    store.publish("orders.created", b"1", envelopes={2: b'{"Message": "1"}'}, delay_ms=50)

    [delivery] = store.deliveries()

    assert delivery == Delivery(
        delivery.id, subscription.id, ENDPOINT, "orders.created", "id of orders.created", 2, "pending", 0, store.now,
        store.now + 50, None, None, "",
    )  # fmt: skip
    assert store.run(GetDelivery(delivery.id)).body == b'{"Message": "1"}'


def test_a_claim_that_ran_out_is_pending_again(store):
    due(store)
    assert states(store) == ["delivering"]

    store.advance(CLAIM_MS)

    assert states(store) == ["pending"]


def test_a_delivery_that_is_not_there_is_an_error(store):
    with pytest.raises(DeliveryNotFound, match="no delivery 7"):
        store.run(GetDelivery(7))


def every_state(store: Driver) -> dict[str, list[int]]:
    """Make six deliveries of two subscriptions, two in each state, and return their ids by state."""
    endpoints(store, 2)
    for n in (0, 1):
        publish_to(store, n, 3)
    claimed = store.claim()
    found: dict[str, list[int]] = {"pending": [], "delivering": [], "exhausted": []}
    for n, delivery in enumerate(claimed):
        state = ("pending", "delivering", "exhausted")[n % 3]
        found[state].append(delivery.id)
        if state != "delivering":
            store.settle(delivery, retry_at=store.now + 1 if state == "pending" else None)
    return found


@pytest.mark.parametrize("state", ["pending", "delivering", "exhausted"])
def test_deliveries_are_listed_by_state_and_by_subscription(store, state):
    expected = every_state(store)[state]
    first, second = store.subscriptions()

    def listed(**filter):
        return [delivery.id for delivery in store.deliveries(state=state, **filter)]

    assert listed() == expected
    assert listed(subscription_id=first.id) + listed(subscription_id=second.id) == expected
    assert listed(after=expected[0]) == expected[1:]
    assert listed(limit=1) == expected[:1]
    assert listed(subscription_id=first.id, after=expected[0]) == []


def test_a_list_goes_on_after_the_last_one_of_the_page_before(store):
    endpoints(store, 1)
    publish_to(store, 0, 5)
    everything = store.deliveries()

    first = store.deliveries(limit=2)
    second = store.deliveries(limit=2, after=first[-1].id)
    last = store.deliveries(limit=2, after=second[-1].id)

    assert first + second + last == everything
    assert [delivery.id for delivery in everything] == sorted(delivery.id for delivery in everything)


@pytest.mark.parametrize(
    "operation",
    [
        ClaimDeliveries(0, 1, 1),
        ClaimDeliveries(1, 0, 1),
        ClaimDeliveries(1, 1, -1),
        ClaimDeliveries(1, 1, 1, busy=[1]),
        SettleDeliveries([7]),
        SettleDeliveries([DeliveryOutcome(0, 1, delivered=True)]),
        SettleDeliveries([DeliveryOutcome(1, 1, delivered=False, error="\ud800")]),
        ListDeliveries(state="lost"),
        ListDeliveries(subscription_id=0),
        GetDelivery("1"),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_reaches_the_store(operation):
    with pytest.raises(BadValue):
        check_operation(operation, Limits())
