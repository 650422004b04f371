"""SNS delivery policies: a claim carries the retry delays of the subscription or of its topic."""

import pytest

from sqew.model import SubscriptionDetails
from sqew.operations import CreateTopic, UpdateSubscription, UpdateTopic
from tests.conformance.driver import ENDPOINT
from tests.conformance.sns import pending, publish, sns

TOPICS = '{"http":{"defaultHealthyRetryPolicy":{"numRetries":1,"minDelayTarget":5,"maxDelayTarget":5}}}'
SHUT = TOPICS.replace('"http":{', '"http":{"disableSubscriptionOverrides":true,')
OWN = '{"healthyRetryPolicy":{"numRetries":2,"numNoDelayRetries":2}}'


def details(policy):
    return SubscriptionDetails(kept={"DeliveryPolicy": policy})


def claimed(store):
    publish(store, "orders")
    [delivery] = store.claim()
    return delivery.retries_ms


@pytest.mark.parametrize(
    ("own", "topics", "delays"),
    [
        ("", "", None),
        (OWN, "", (0, 0)),
        ("", TOPICS, (5000,)),
        (OWN, TOPICS, (0, 0)),
        (OWN, SHUT, (5000,)),
        ("{}", TOPICS, (5000,)),
        (OWN, '{"http":{"disableSubscriptionOverrides":true}}', None),
        ('{"healthyRetryPolicy":{"numRetries":0}}', TOPICS, ()),
    ],
)
def test_the_subscription_says_when_to_try_again_or_else_its_topic(store, own, topics, delays):
    store.run(CreateTopic("orders", {"DeliveryPolicy": topics}))
    sns(store, "orders", ENDPOINT, "http", details=details(own))

    assert claimed(store) == delays


def test_a_policy_counts_from_when_it_is_changed(store):
    store.run(CreateTopic("orders"))
    sns(store, "orders", ENDPOINT, "http")

    store.run(UpdateTopic("orders", {"DeliveryPolicy": TOPICS}))
    of_topic = claimed(store)
    store.run(UpdateSubscription("u", details=details(OWN)))

    assert (of_topic, claimed(store)) == ((5000,), (0, 0))


def test_it_counts_for_the_confirmation_too(store):
    store.run(CreateTopic("orders", {"DeliveryPolicy": TOPICS}))

    pending(store)

    assert [delivery.retries_ms for delivery in store.claim()] == [(5000,)]


UNREADABLE = [
    "{",
    '{"healthyRetryPolicy":{"minDelayTarget":0,"numRetries":9,"backoffFunction":"geometric"}}',
    '{"healthyRetryPolicy":{"numRetries":1000000000000}}',
    '{"healthyRetryPolicy":{"numNoDelayRetries":1000000000000}}',
    '{"healthyRetryPolicy":{"numRetries":5000,"backoffFunction":"exponential"}}',
    '{"healthyRetryPolicy":5}',
    '{"x":' * 100_000,
]


@pytest.mark.parametrize("policy", UNREADABLE, ids=lambda policy: policy[:50])
def test_a_policy_that_can_not_be_read_holds_up_nothing(store, policy):
    store.run(CreateTopic("orders"))
    sns(store, "orders", ENDPOINT, "http", details=details(policy))

    assert claimed(store) is None


@pytest.mark.parametrize("policy", UNREADABLE, ids=lambda policy: policy[:50])
def test_a_topics_policy_that_can_not_be_read_holds_up_nothing(store, policy):
    topics = '{"http":' + policy.replace("healthyRetryPolicy", "defaultHealthyRetryPolicy") + "}"
    store.run(CreateTopic("orders", {"DeliveryPolicy": topics}))
    sns(store, "orders", ENDPOINT, "http", details=details(OWN))

    assert claimed(store) == (0, 0)


def test_a_subscription_that_sns_does_not_know_has_the_delays_of_the_server(store):
    store.run(CreateTopic("orders", {"DeliveryPolicy": TOPICS}))
    store.subscribe_endpoint("orders")

    assert claimed(store) is None
