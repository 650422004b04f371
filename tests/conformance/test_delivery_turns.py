"""Turns: no endpoint's deliveries keep those of another out."""

from sqew.operations import ClaimDeliveries, Publish
from tests.conformance.driver import CLAIM_MS, endpoints, event, publish_to


def test_an_endpoint_with_ten_thousand_waiting_keeps_no_other_out(store):
    crowded, *others = endpoints(store, 4)
    publish_to(store, 0, 10_000)
    store.advance(1000)
    for n in (1, 2, 3):
        publish_to(store, n)

    claimed = [delivery.subscription_id for delivery in store.claim(limit=50, per_subscription=16)]

    assert claimed == [crowded] * 16 + others


def test_endpoints_take_turns_from_where_the_last_claim_ended(store):
    subscriptions = endpoints(store, 4)
    for n in range(4):
        publish_to(store, n, 100)

    order, cursor = [], 0
    for _ in range(6):
        claimed = store.run(ClaimDeliveries(4, 2, CLAIM_MS, {}, cursor))
        cursor = claimed.cursor
        order.append([delivery.subscription_id for delivery in claimed.deliveries])

    a, b, c, d = subscriptions
    assert order == [[a, a, b, b], [c, c, d, d]] * 3


def test_a_turn_that_was_cut_short_does_not_come_again_at_once(store):
    a, b, c = endpoints(store, 3)
    for n in range(3):
        publish_to(store, n, 10)

    first = store.run(ClaimDeliveries(3, 2, CLAIM_MS))
    second = store.run(ClaimDeliveries(3, 2, CLAIM_MS, {}, first.cursor))

    assert [delivery.subscription_id for delivery in first.deliveries] == [a, a, b]
    assert [delivery.subscription_id for delivery in second.deliveries] == [c, c, a]


def test_who_is_busy_enough_gets_no_more(store):
    a, b, c = endpoints(store, 3)
    for n in range(3):
        publish_to(store, n, 10)

    claimed = [delivery.subscription_id for delivery in store.claim(per_subscription=3, busy={a: 3, b: 1, c: 99})]

    assert claimed == [b, b]


def test_what_a_busy_endpoint_could_not_take_is_taken_later(store):
    [subscription] = endpoints(store, 1)
    publish_to(store, 0, 5)

    assert len(store.claim(per_subscription=2)) == 2
    assert store.claim(per_subscription=2, busy={subscription: 2}) == []
    assert len(store.claim(per_subscription=2, busy={subscription: 1})) == 1


def test_thousands_that_wait_for_their_next_attempt_keep_no_other_out(store):
    *waiting, last = endpoints(store, 2_000)
    store.run(Publish([event(f"s{n}", delay_ms=1000) for n in range(len(waiting))]))
    publish_to(store, len(waiting))

    assert [delivery.subscription_id for delivery in store.claim(limit=10)] == [last]


def test_everybody_gets_a_turn_where_many_have_something_due(store):
    subscriptions = endpoints(store, 300)
    for n in range(300):
        publish_to(store, n, 2)

    order, cursor = [], 0
    for _ in range(60):
        claimed = store.run(ClaimDeliveries(10, 1, CLAIM_MS, {}, cursor))
        cursor = claimed.cursor
        order += [delivery.subscription_id for delivery in claimed.deliveries]

    assert order == subscriptions * 2


def waiting_and_crowded(store, waiting):
    """Make endpoints waiting for their next attempt, and behind them one with hundreds due and one with one due."""
    *others, last = endpoints(store, waiting + 2)
    store.run(Publish([event(f"s{n}", delay_ms=1000) for n in range(waiting)]))
    publish_to(store, waiting, 300)
    store.advance(1)
    publish_to(store, waiting + 1)
    return others[-1], last


def test_one_with_hundreds_due_is_found_at_once_among_thousands_that_wait(store):
    crowded, _ = waiting_and_crowded(store, 2_000)

    claimed = [delivery.subscription_id for delivery in store.claim(limit=50, per_subscription=16)]

    assert claimed == [crowded] * 16


def test_who_has_something_due_behind_thousands_that_wait_gets_its_turn_within_one_round(store):
    crowded, last = waiting_and_crowded(store, 2_000)

    claims = [store.run(ClaimDeliveries(50, 16, CLAIM_MS, {crowded: 16}))]
    while claims[-1].is_cut:
        claims.append(store.run(ClaimDeliveries(50, 16, CLAIM_MS, {crowded: 16}, claims[-1].cursor)))

    assert len(claims) == 5
    assert [delivery.subscription_id for claimed in claims for delivery in claimed.deliveries] == [last]


def test_a_round_begins_anew_where_the_last_one_ended(store):
    crowded, last = waiting_and_crowded(store, 600)
    claimed = store.run(ClaimDeliveries(50, 16, CLAIM_MS, {crowded: 16, last: 16}))

    again = store.run(ClaimDeliveries(50, 16, CLAIM_MS, {crowded: 16}, claimed.cursor))

    assert (claimed.deliveries, claimed.is_cut) == ([], True)
    assert ([delivery.subscription_id for delivery in again.deliveries], again.is_cut) == ([last], False)
