"""Retry delays that a delivery policy stands for."""

import pytest

from sqew.envelopes.delivery_policies import Retries, nearest_retries
from sqew.http.dialects.aws.sns.delivery_policies import effective_of_subscription, effective_of_topic
from sqew.model import Subscription, SubscriptionDetails, TopicInfo
from sqew.settings import Settings


@pytest.mark.parametrize(
    ("backoff", "seconds"),
    [
        ("linear", [5, 33, 62, 90, 118, 147, 175, 203, 232, 260]),
        ("arithmetic", [5, 11, 22, 39, 62, 90, 124, 164, 209, 260]),
        ("geometric", [5, 8, 12, 19, 29, 45, 70, 108, 168, 260]),
        ("exponential", [5, 5, 6, 8, 12, 20, 36, 68, 132, 260]),
    ],
)
def test_delays_grow_from_the_shortest_to_the_longest(backoff, seconds):
    delays = Retries(5, 260, 10, backoff_function=backoff).delays_ms()

    assert [round(delay / 1000) for delay in delays] == seconds


@pytest.mark.parametrize("backoff", ["linear", "arithmetic", "geometric", "exponential"])
@pytest.mark.parametrize("retries", [0, 1, 2, 100])
def test_there_are_as_many_as_the_policy_says(backoff, retries):
    delays = Retries(1, 30, retries, backoff_function=backoff).delays_ms()

    assert len(delays) == retries
    assert delays[:1] == (1000,) * (retries > 0)
    assert delays[1:][-1:] == (30_000,) * (retries > 1)
    assert list(delays) == sorted(delays)


def test_the_phases_come_one_after_the_other():
    delays = Retries(1, 60, 50, num_max_delay_retries=35, num_no_delay_retries=3, num_min_delay_retries=2).delays_ms()

    assert (delays[:3], delays[3:5], len(delays[5:15]), delays[15:]) == ((0,) * 3, (1000,) * 2, 10, (60_000,) * 35)


@pytest.mark.parametrize(
    ("delays", "retries"),
    [
        ([], Retries(20, 20, 0)),
        ([1], Retries(20, 20, 1, num_no_delay_retries=1)),
        ([1, 1000, 2000, 3000], Retries(1, 3, 4, num_no_delay_retries=1)),
        ([20_000] * 3, Retries()),
        ([10_000, 30_000, 60_000, 300_000], Retries(10, 300, 4, backoff_function="geometric")),
        ([1000, 2000, 4000, 8000, 16_000], Retries(1, 16, 5, backoff_function="geometric")),
        ([86_400_000], Retries(86_400, 86_400, 1)),
    ],
)
def test_delays_that_were_chosen_freely_are_told_as_a_policy_that_comes_near(delays, retries):
    assert nearest_retries(delays) == retries


@pytest.mark.parametrize("policy", ["{", '{"http":5}', '{"healthyRetryPolicy":{"numRetries":-1}}'])
def test_attributes_could_not_be_shown_where_a_policy_can_not_be_read(policy):
    topic = TopicInfo("orders", {"DeliveryPolicy": policy}, {}, 0)
    subscription = Subscription(
        1, "orders", "http", "http://here/", 0, 0, details=SubscriptionDetails(kept={"DeliveryPolicy": policy})
    )
    sound, settings = TopicInfo("orders", {}, {}, 0), Settings()

    assert effective_of_topic(topic, settings) == effective_of_topic(sound, settings)
    assert effective_of_subscription(subscription, topic, settings) == effective_of_subscription(
        Subscription(1, "orders", "http", "http://here/", 0, 0), sound, settings
    )
