"""Delivery policies: endpoints are retried as they say, and the policy shown as effective is the one applied."""

import json

import pytest

from tests.http.dialects.aws.sns.endpoints import confirmed, hook, path, server, sns, sqs, subscribe
from tests.http.dialects.aws.sns.topics import queue_arn, refused
from tests.support.endpoint import status

__all__ = ["hook", "path", "server", "sns", "sqs"]

AT_ONCE = {"numRetries": 3, "numNoDelayRetries": 3}
NEVER = {"numRetries": 0}


def own(**retries):
    return json.dumps({"healthyRetryPolicy": retries})


def of_topic(retries, **more):
    return json.dumps({"http": {"defaultHealthyRetryPolicy": retries, **more}})


def set_policy(sns, topic, policy):
    sns.set_topic_attributes(TopicArn=topic, AttributeName="DeliveryPolicy", AttributeValue=policy)


def attempts(sns, sqs, hook, topic, path, subscription):
    """Return the number of attempts at a failing endpoint before its message became a dead letter."""
    url = sqs.create_queue(QueueName=topic.rpartition(":")[2])["QueueUrl"]
    redrive = json.dumps({"deadLetterTargetArn": queue_arn(url)})
    sns.set_subscription_attributes(SubscriptionArn=subscription, AttributeName="RedrivePolicy", AttributeValue=redrive)
    hook.does(path, status(500))
    before = len(hook.received(path))
    sns.publish(TopicArn=topic, Message="hello")
    assert len(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]) == 1
    return len(hook.received(path)) - before


def retries_in_effect(sns, subscription):
    shown = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
    return json.loads(shown["EffectiveDeliveryPolicy"])["healthyRetryPolicy"]


def test_an_endpoint_is_tried_as_often_as_its_subscription_says(server, sns, sqs, hook, topic, path):
    subscription = confirmed(server, sns, topic, hook, path, DeliveryPolicy=own(**AT_ONCE))

    assert attempts(sns, sqs, hook, topic, path, subscription) == 4
    assert retries_in_effect(sns, subscription) == {
        "minDelayTarget": 20, "maxDelayTarget": 20, "numRetries": 3, "numMaxDelayRetries": 0, "numNoDelayRetries": 3,
        "numMinDelayRetries": 0, "backoffFunction": "linear",
    }  # fmt: skip


def test_it_waits_as_long_as_its_subscription_says(server, sns, sqs, hook, topic, path):
    policy = own(numRetries=1, minDelayTarget=1, maxDelayTarget=1)
    subscription = confirmed(server, sns, topic, hook, path, DeliveryPolicy=policy)

    assert attempts(sns, sqs, hook, topic, path, subscription) == 2

    first, second = hook.received(path)[-2:]
    assert second.at - first.at >= 1


def test_without_a_policy_it_is_tried_as_the_server_is_set(server, sns, sqs, hook, topic, path):
    subscription = confirmed(server, sns, topic, hook, path)

    assert attempts(sns, sqs, hook, topic, path, subscription) == 2
    told = retries_in_effect(sns, subscription)
    assert (told["numRetries"], told["numNoDelayRetries"]) == (1, 1)


def test_the_policy_of_its_topic_is_for_those_that_have_none(server, sns, sqs, hook, topic, path):
    set_policy(sns, topic, of_topic(AT_ONCE))
    subscription = confirmed(server, sns, topic, hook, path)

    assert attempts(sns, sqs, hook, topic, path, subscription) == 4
    assert retries_in_effect(sns, subscription)["numNoDelayRetries"] == 3


@pytest.mark.parametrize(("is_final", "tried"), [(False, 1), (True, 4)])
def test_a_subscription_overrides_its_topic_unless_that_forbids_it(
    server, sns, sqs, hook, topic, path, is_final, tried
):
    set_policy(sns, topic, of_topic(AT_ONCE, disableSubscriptionOverrides=is_final))
    subscription = confirmed(server, sns, topic, hook, path, DeliveryPolicy=own(**NEVER))

    assert attempts(sns, sqs, hook, topic, path, subscription) == tried
    assert retries_in_effect(sns, subscription)["numRetries"] == tried - 1


def test_a_topic_shows_what_is_in_effect(sns, topic):
    def shown():
        found = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
        return json.loads(found["EffectiveDeliveryPolicy"])["http"]

    unset = shown()
    set_policy(sns, topic, of_topic({"numRetries": 5}, disableSubscriptionOverrides=True))

    assert (unset["defaultHealthyRetryPolicy"]["numRetries"], unset["disableSubscriptionOverrides"]) == (1, False)
    assert (shown()["defaultHealthyRetryPolicy"]["numRetries"], shown()["disableSubscriptionOverrides"]) == (5, True)
    assert shown()["defaultHealthyRetryPolicy"]["minDelayTarget"] == 20


def test_the_subscription_of_a_queue_shows_no_policy_in_effect(sns, sqs, topic):
    url = sqs.create_queue(QueueName=topic.rpartition(":")[2])["QueueUrl"]
    arn = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(url))["SubscriptionArn"]

    assert "EffectiveDeliveryPolicy" not in sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]


PHASES = "numMinDelayRetries, numNoDelayRetries and numMaxDelayRetries"
FLAWS = [
    ({"minDelayTarget": 0}, ".minDelayTarget must be greater than or equal to 1"),
    ({"maxDelayTarget": 3601}, ".maxDelayTarget must be less than or equal to 3600"),
    ({"minDelayTarget": 21}, ".maxDelayTarget must be greater than or equal to minDelayTarget"),
    ({"numRetries": 101}, ".numRetries must be less than or equal to 100"),
    ({"numRetries": -1}, ".numRetries must be greater than or equal to 0"),
    ({"numRetries": "3"}, ".numRetries must be an integer"),
    ({"numRetries": True}, ".numRetries must be an integer"),
    ({"numRetries": None}, ".numRetries must be an integer"),
    ({"numRetries": 1, "numNoDelayRetries": 2}, f".numRetries must be greater than or equal to total of {PHASES}"),
    ({"backoffFunction": "random"}, ".backoffFunction must be one of linear, arithmetic, geometric, exponential"),
    ({"backoffFunction": []}, ".backoffFunction must be one of linear, arithmetic, geometric, exponential"),
    ({"numRetries": 100, "maxDelayTarget": 3600},
     ": Total policy retry time cannot be greater than 3600 seconds"),
    ([], " must be a JSON object"),
]  # fmt: skip


@pytest.mark.parametrize(("retries", "flaw"), FLAWS)
def test_a_policy_that_can_not_be_is_refused(sns, hook, topic, path, retries, flaw):
    with refused("InvalidParameter", f"Invalid parameter: Attributes Reason: DeliveryPolicy: healthyRetryPolicy{flaw}"):
        subscribe(sns, topic, hook, path, DeliveryPolicy=json.dumps({"healthyRetryPolicy": retries}))
    with refused("InvalidParameter", f"Invalid parameter: DeliveryPolicy: http.defaultHealthyRetryPolicy{flaw}"):
        set_policy(sns, topic, of_topic(retries))


@pytest.mark.parametrize(
    ("policy", "flaw"),
    [
        ("[", "failed to parse JSON."),
        ('{"healthyRetryPolicy":{}}', "Unexpected JSON member: healthyRetryPolicy"),
        ('{"http":[]}', "http must be a JSON object"),
        ('{"http":{"retries":1}}', "Unexpected JSON member: retries"),
        ('{"http":{"defaultHealthyRetryPolicy":{"tries":1}}}', "Unexpected JSON member: tries"),
        ('{"http":{"defaultRequestPolicy":5}}', "http.defaultRequestPolicy must be a JSON object"),
        ('{"http":{"defaultSicklyRetryPolicy":"x"}}', "http.defaultSicklyRetryPolicy must be a JSON object"),
        ('{"http":{"disableSubscriptionOverrides":"yes"}}', "http.disableSubscriptionOverrides must be true or false"),
        ('{"http":{"defaultThrottlePolicy":{"maxReceivesPerSecond":0}}}',
         "http.defaultThrottlePolicy.maxReceivesPerSecond must be greater than or equal to 1"),
    ],
)  # fmt: skip
def test_a_policy_of_a_topic_that_says_something_else_is_refused(sns, topic, policy, flaw):
    with refused("InvalidParameter", f"Invalid parameter: DeliveryPolicy: {flaw}"):
        set_policy(sns, topic, policy)


@pytest.mark.parametrize(
    ("policy", "flaw"),
    [
        ({"requestPolicy": 5}, "requestPolicy must be a JSON object"),
        ({"sicklyRetryPolicy": []}, "sicklyRetryPolicy must be a JSON object"),
        ({"guaranteed": "no"}, "guaranteed must be true or false"),
    ],
)
def test_a_policy_of_a_subscription_that_is_no_object_was_taken(sns, hook, topic, path, policy, flaw):
    with refused("InvalidParameter", f"Invalid parameter: Attributes Reason: DeliveryPolicy: {flaw}"):
        subscribe(sns, topic, hook, path, DeliveryPolicy=json.dumps(policy))


def test_the_policy_that_aws_shows_as_effective_may_be_set(sns, hook, topic, path):
    policy = {
        "healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 60, "numRetries": 50, "numNoDelayRetries": 3,
                               "numMinDelayRetries": 2, "numMaxDelayRetries": 35, "backoffFunction": "exponential"},
        "sicklyRetryPolicy": None,
        "throttlePolicy": {"maxReceivesPerSecond": 10},
        "requestPolicy": {"headerContentType": "application/json"},
        "guaranteed": False,
    }  # fmt: skip

    arn = subscribe(sns, topic, hook, path, returns_arn=True, DeliveryPolicy=json.dumps(policy))

    assert retries_in_effect(sns, arn) == policy["healthyRetryPolicy"]
