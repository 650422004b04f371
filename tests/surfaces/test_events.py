"""Events, subscriptions and deliveries."""

import socket
import time

import pytest

from sqew.errors import (
    BadEndpoint,
    BadPattern,
    BadRoutingKey,
    DeliveryNotFound,
    QueueNotFound,
    SubscriptionNotFound,
)
from tests.surfaces.surface import refused

WITHIN_S = 20


@pytest.fixture
def deaf_endpoint():
    """Yield an address of this machine without a listener, reserved so that no other test listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/hook"


def exhausted(aside, subscription):
    """Wait for the one delivery of a subscription to be given up, and return its id."""
    deadline = time.monotonic() + WITHIN_S
    while [state for _, state, _ in aside.deliveries(subscription)] != ["exhausted"]:
        assert time.monotonic() < deadline, aside.deliveries(subscription)
        time.sleep(0.01)
    return aside.deliveries(subscription)[0][0]


def test_an_event_reaches_every_queue_that_subscribed(surface, queue):
    other = f"{queue}-other"
    surface.create(queue)
    surface.create(other)
    first = surface.subscribe(f"{queue}.#", queue)
    second = surface.subscribe(f"{queue}.*", other)

    published = surface.publish(f"{queue}.made", {"sku": 7})

    assert sorted(name for name, _ in published["messages"]) == [queue, other]
    assert (published["deliveries"], published["missing"]) == (0, [])
    for name, id in published["messages"]:
        assert surface.get(name, id).value == {"sku": 7}
        assert surface.get(name, id).headers == {"_event": {"routing_key": f"{queue}.made"}}
    assert surface.subscriptions(queue) == [(first, f"{queue}.#", queue)]
    surface.unsubscribe(first)
    with refused(SubscriptionNotFound):
        surface.unsubscribe(first)
    assert [name for name, _ in surface.publish(f"{queue}.made", 1)["messages"]] == [other]
    surface.unsubscribe(second)
    assert surface.publish(f"{queue}.made", 1)["messages"] == []


def test_who_subscribed_already_has_the_subscription_that_is_there(surface, queue):
    surface.create(queue)

    assert surface.subscribe(f"{queue}.#", queue) == surface.subscribe(f"{queue}.#", queue)


def test_bad_words_and_unknown_queues_are_refused(surface, queue):
    surface.create(queue)

    with refused(QueueNotFound):
        surface.subscribe(f"{queue}.#", "nowhere")
    with refused(BadPattern):
        surface.subscribe("a..b", queue)
    with refused(BadRoutingKey):
        surface.publish("a.*", 1)
    with refused(BadEndpoint):
        surface.subscribe(f"{queue}.#", endpoint="ftp://127.0.0.1/")


def test_what_could_not_be_posted_is_kept_retried_and_dropped(surface, aside, queue, deaf_endpoint):
    subscription = surface.subscribe(f"{queue}.#", endpoint=deaf_endpoint)
    assert surface.publish(f"{queue}.made", 1)["deliveries"] == 1
    delivery = exhausted(aside, subscription)

    assert surface.deliveries(subscription) == [(delivery, "exhausted", 1)]
    surface.retry(delivery)
    delivery = exhausted(aside, subscription)
    surface.drop(delivery)

    assert surface.deliveries(subscription) == []
    with refused(DeliveryNotFound):
        surface.drop(delivery)
    with refused(DeliveryNotFound):
        surface.retry(delivery)
    surface.unsubscribe(subscription)
