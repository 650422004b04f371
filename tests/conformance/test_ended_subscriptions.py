"""Subscriptions that were never confirmed, and those that their endpoints have left."""

from sqew.model import CANCELLATION, NOTIFICATION, SubscriptionDetails, SubscriptionNotice
from sqew.operations import SweepDue, UpdateSubscription
from tests.conformance.driver import ENDPOINT
from tests.conformance.sns import pending, publish, sns

EU = SubscriptionDetails(filter_policy='{"shop":["eu"]}')
TWO_DAYS = 2 * 86_400_000
THREE_DAYS = 3 * 86_400_000


def test_who_does_not_confirm_for_two_days_is_forgotten(store):
    pending(store)

    store.advance(TWO_DAYS - 1)
    assert not store.run(SweepDue())
    assert store.sweep().next_at == store.now + 1
    store.advance(1)
    assert store.run(SweepDue())
    swept = store.sweep()

    assert (swept.subscriptions, swept.next_at) == (1, None)
    assert store.subscriptions() == []
    assert store.claim() == []


def test_who_is_asked_again_has_two_more_days(store):
    pending(store)
    store.advance(TWO_DAYS - 1)

    again = pending(store, "2")

    assert again.ends_at == store.now + TWO_DAYS
    store.advance(TWO_DAYS - 1)
    assert store.sweep_all() == 0


def test_who_has_confirmed_stays(store):
    pending(store)

    after = store.run(UpdateSubscription("1", state="confirmed"))

    store.advance(10 * THREE_DAYS)
    assert (after.ends_at, after.problem) == (None, "")
    assert store.sweep_all() == 0
    assert store.subscriptions() == [after]


def test_subscriptions_that_end_are_swept_in_steps(store):
    for number in range(3):
        sns(store, "orders", f"http://{number}.example/", "http", uuid=str(number), confirmed=False)
    store.advance(TWO_DAYS)

    first = store.sweep(limit=2)
    last = store.sweep(limit=2)

    assert (first.subscriptions, first.next_at, last.subscriptions, last.next_at) == (2, store.now, 1, None)


def left(store, **details):
    """Make a subscription whose endpoint has followed the unsubscribe link."""
    sns(store, "orders", ENDPOINT, "http", "1")
    return store.run(
        UpdateSubscription(
            "1", details=SubscriptionDetails(token="back", **details), state="deleted",
            notice=SubscriptionNotice("m", b'{"bye":1}', CANCELLATION),
        )
    )  # fmt: skip


def test_who_has_left_is_posted_a_farewell_and_nothing_that_is_or_was_published(store, neighbour):
    sns(store, "orders", ENDPOINT, "http", "1")
    for each in (store, neighbour):
        publish(each, "orders", b"before")

    gone = left(store)
    for each in (store, neighbour):
        publish(each, "orders", b"after")

    assert [(one.body, one.kind, one.subscription_uuid) for one in store.claim()] == [(b'{"bye":1}', CANCELLATION, "1")]
    assert "has unsubscribed" in gone.problem
    assert store.subscriptions() == [gone]


def test_a_farewell_survives_reopening_and_is_tried_again_and_is_no_dead_letter(store):
    store.create("letters")
    sns(store, "orders", ENDPOINT, "http", "1")
    left(store, dead_letter="letters")

    store.reopen()
    [first] = store.claim()
    assert store.settle(first, error="no", retry_at=store.now + 1) == "waiting"
    store.advance(1)
    [again] = store.claim()

    assert (again.body, again.kind) == (b'{"bye":1}', CANCELLATION)
    assert store.settle(again, error="no") == "exhausted"
    assert store.total("letters") == 0


def test_what_waits_for_another_attempt_is_dropped_when_its_endpoint_has_left(store):
    sns(store, "orders", ENDPOINT, "http", "1")
    publish(store, "orders")
    [delivery] = store.claim()
    left(store)

    store.settle(delivery, error="no", retry_at=store.now + 1)

    store.advance(1)
    assert [one.kind for one in store.claim()] == [CANCELLATION]
    assert [one.message_id for one in store.deliveries()] == ["m"]


def test_who_has_left_may_come_back(store, neighbour):
    left(store)
    publish(neighbour, "orders", b"lost")

    store.run(UpdateSubscription("1", state="confirmed"))

    for each in (store, neighbour):
        publish(each, "orders", b"again")
    assert [one.body for one in store.claim() if one.kind == NOTIFICATION] == [b"again", b"again"]


def test_who_does_not_come_back_for_three_days_is_forgotten(store):
    left(store)

    store.advance(THREE_DAYS - 1)
    assert store.sweep_all() == 0
    store.advance(1)

    assert store.sweep_all() == 1
    assert store.subscriptions() == []


def test_a_new_subscription_takes_the_place_of_one_that_has_left(store):
    gone = left(store)

    new = sns(store, "orders", ENDPOINT, "http", "2", details=EU)

    assert new.id != gone.id
    assert store.subscriptions() == [new]
    assert store.claim() == []


def test_a_native_subscription_takes_its_place_too(store, neighbour):
    left(store)
    publish(neighbour, "orders", b"lost")

    store.subscribe_endpoint("orders")

    for each in (store, neighbour):
        publish(each, "orders", b"again")
    assert [one.body for one in store.claim()] == [b"again", b"again"]
