"""Where what can't be delivered goes: to the queue that its subscription names."""

import pytest

from conformance.driver import ENDPOINT
from conformance.sns import publish, sns, taken
from sqew.model import Greeting, SubscriptionDetails

LETTERS = SubscriptionDetails(dead_letter="letters")


def test_what_is_exhausted_goes_to_the_queue_that_the_subscription_names(store):
    store.create("letters")
    sns(store, "orders", ENDPOINT, "http", details=LETTERS)
    publish(store, "orders", b'{"sku":7}')
    [delivery] = store.claim()

    assert store.settle(delivery, status=500, error="It answered 500.") == "exhausted"

    letter = store.take("letters")
    assert letter.body == b'{"sku":7}'
    assert letter.headers["ErrorMessage"] == {"DataType": "String", "StringValue": "It answered 500."}
    assert letter.headers["ErrorCode"]["StringValue"] == "500"
    assert store.deliveries() == []


def test_what_will_be_tried_again_stays(store):
    store.create("letters")
    sns(store, "orders", ENDPOINT, "http", details=LETTERS)
    publish(store, "orders")
    [delivery] = store.claim()

    assert store.settle(delivery, error="no", retry_at=store.now + 1) == "waiting"

    assert store.total("letters") == 0


@pytest.mark.parametrize("policy", [None, {"quota": 1}])
def test_a_letter_that_no_queue_takes_stays_as_an_exhausted_delivery(store, policy):
    if policy is not None:
        store.create("letters", **policy)
        store.send(queue="letters")
    sns(store, "orders", ENDPOINT, "http", details=LETTERS)
    publish(store, "orders")
    [delivery] = store.claim()

    store.settle(delivery, error="no")

    assert [one.state for one in store.deliveries()] == ["exhausted"]


def test_a_greeting_that_can_not_be_posted_is_no_dead_letter(store):
    store.create("letters")
    sns(
        store, "orders", ENDPOINT, "http", confirmed=False, details=LETTERS, greeting=Greeting("m", b"{}")
    )  # fmt: skip
    [delivery] = store.claim()

    store.settle(delivery, error="no")

    assert store.total("letters") == 0
    assert [one.state for one in store.deliveries()] == ["exhausted"]


def test_what_a_queue_that_is_gone_would_have_got_goes_to_the_dead_letters(store):
    store.create("letters")
    sns(store, "orders", "gone", details=LETTERS)

    assert [queue for queue, _ in publish(store, "orders").messages] == ["letters"]
    assert taken(store, "letters") == [b"1"]
