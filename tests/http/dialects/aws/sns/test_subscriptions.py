"""Subscriptions of queues, as boto3 sees them."""

from functools import partial

import pytest

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sns.topics import bodies, envelopes, queue_arn, received, refused, subscribed


def attributes(sns, subscription):
    return sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]


def test_a_subscription_is_named_after_its_topic_and_is_listed(sns, topic, queue):
    subscription = subscribed(sns, topic, queue)

    listed = {
        "SubscriptionArn": subscription,
        "Owner": "000000000000",
        "Protocol": "sqs",
        "Endpoint": queue_arn(queue),
        "TopicArn": topic,
    }
    assert subscription.startswith(f"{topic}:")
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == [listed]
    every = [one for page in sns.get_paginator("list_subscriptions").paginate() for one in page["Subscriptions"]]
    assert listed in every


def test_subscriptions_come_in_pages_of_a_hundred(sns, topic):
    made = {
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:us-east-1:000000000000:q{n}")[
            "SubscriptionArn"
        ]
        for n in range(103)
    }

    first = sns.list_subscriptions_by_topic(TopicArn=topic)
    second = sns.list_subscriptions_by_topic(TopicArn=topic, NextToken=first["NextToken"])

    assert (len(first["Subscriptions"]), len(second["Subscriptions"])) == (100, 3)
    assert "NextToken" not in second
    assert {one["SubscriptionArn"] for one in first["Subscriptions"] + second["Subscriptions"]} == made


@pytest.mark.parametrize("token", ["made up", "AAAA", "MQ==", "é"])
def test_a_token_that_was_made_up_is_refused(sns, topic, token):
    for list_page in (
        sns.list_topics,
        sns.list_subscriptions,
        partial(sns.list_subscriptions_by_topic, TopicArn=topic),
    ):
        with refused("InvalidParameter", "Invalid parameter: NextToken"):
            list_page(NextToken=token)


def test_a_queue_that_subscribes_again_has_the_same_subscription(sns, topic, queue):
    first = subscribed(sns, topic, queue, RawMessageDelivery="true")

    assert subscribed(sns, topic, queue, RawMessageDelivery="true") == first
    assert subscribed(sns, topic, queue) == first
    assert len(sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]) == 1


def test_a_queue_can_not_subscribe_again_with_other_attributes(sns, topic, queue):
    subscribed(sns, topic, queue)

    message = "Invalid parameter: Attributes Reason: Subscription already exists with different attributes"
    with refused("InvalidParameter", message):
        subscribed(sns, topic, queue, RawMessageDelivery="true")
    with refused("InvalidParameter", message):
        subscribed(sns, topic, queue, FilterPolicy='{"a":["b"]}')


def test_a_queue_that_subscribes_again_may_write_its_attributes_otherwise_and_leave_some_out(sns, topic, queue):
    redrive = f'{{"deadLetterTargetArn":"{queue_arn(queue)}"}}'
    first = subscribed(sns, topic, queue, FilterPolicy='{"a":["b"],"c":[1]}', RedrivePolicy=redrive)

    assert subscribed(sns, topic, queue, FilterPolicy='{"c": [1], "a": ["b"]}') == first
    assert subscribed(sns, topic, queue, RawMessageDelivery="False", RedrivePolicy=redrive) == first


def test_a_topic_has_so_many_filter_policies_and_no_more(sns, name):
    topic, full = (sns.create_topic(Name=f"{name[:70]}-{n}")["TopicArn"] for n in range(2))

    def subscribe(topic, n, **attributes):
        url = f"http://x/000000000000/{name[:40]}-{n}"
        return subscribed(sns, topic, url, **attributes)

    arns = [subscribe(full, n, FilterPolicy='{"a":["b"]}') for n in range(200)]

    plain = subscribe(full, 200)
    message = (
        f"Topic '{full.rpartition(':')[2]}' has 200 filter policies, and there can't be more. "
        "Remove one of them, or filter at the receiver."
    )
    with refused("FilterPolicyLimitExceeded", message, 403):
        subscribe(full, 201, FilterPolicy='{"a":["b"]}')
    change = {"AttributeName": "FilterPolicy", "AttributeValue": '{"a":["c"]}'}
    with refused("FilterPolicyLimitExceeded", message, 403):
        sns.set_subscription_attributes(SubscriptionArn=plain, **change)
    sns.set_subscription_attributes(SubscriptionArn=arns[0], **change)
    subscribe(topic, 0, FilterPolicy='{"a":["b"]}')
    sns.unsubscribe(SubscriptionArn=arns[0])
    sns.set_subscription_attributes(SubscriptionArn=plain, **change)


def test_attributes_are_shown(sns, topic, queue):
    redrive = f'{{"deadLetterTargetArn":"{queue_arn(queue)}"}}'
    policy = '{"healthyRetryPolicy":{"numRetries":5}}'

    shown = attributes(
        sns,
        subscribed(
            sns, topic, queue, RawMessageDelivery="true", FilterPolicy='{"a":["b"]}', FilterPolicyScope="MessageBody",
            RedrivePolicy=redrive, DeliveryPolicy=policy,
        ),
    )  # fmt: skip

    assert (shown["TopicArn"], shown["Protocol"], shown["Endpoint"]) == (topic, "sqs", queue_arn(queue))
    assert (shown["PendingConfirmation"], shown["RawMessageDelivery"]) == ("false", "true")
    assert (shown["FilterPolicy"], shown["FilterPolicyScope"]) == ('{"a":["b"]}', "MessageBody")
    assert (shown["RedrivePolicy"], shown["DeliveryPolicy"]) == (redrive, policy)
    assert (shown["Owner"], shown["ConfirmationWasAuthenticated"]) == ("000000000000", "true")


def test_attributes_that_nobody_set_are_not_shown(sns, topic, queue):
    shown = attributes(sns, subscribed(sns, topic, queue))

    assert shown["RawMessageDelivery"] == "false"
    assert not {"FilterPolicy", "FilterPolicyScope", "RedrivePolicy", "DeliveryPolicy"} & shown.keys()


def test_an_attribute_that_is_set_to_nothing_is_gone(sns, topic, queue):
    redrive = f'{{"deadLetterTargetArn":"{queue_arn(queue)}"}}'
    subscription = subscribed(sns, topic, queue, RedrivePolicy=redrive, FilterPolicy='{"a":["b"]}')

    for name in ("RedrivePolicy", "FilterPolicy"):
        sns.set_subscription_attributes(SubscriptionArn=subscription, AttributeName=name, AttributeValue="")

    assert not {"FilterPolicy", "RedrivePolicy"} & attributes(sns, subscription).keys()


def test_a_subscription_becomes_raw_and_signed_again(sns, sqs, topic, queue):
    subscription = subscribed(sns, topic, queue)
    for raw in ("true", "false"):
        sns.set_subscription_attributes(
            SubscriptionArn=subscription, AttributeName="RawMessageDelivery", AttributeValue=raw
        )
        sns.publish(TopicArn=topic, Message=f"raw: {raw}")

    first, second = bodies(sqs, queue)

    assert first == "raw: true"
    assert '"Message":"raw: false"' in second


def test_a_topic_signs_by_the_version_that_it_is_told_to(sns, sqs, topic, queue):
    subscribed(sns, topic, queue)

    for version in ("1", "2"):
        sns.set_topic_attributes(TopicArn=topic, AttributeName="SignatureVersion", AttributeValue=version)
        sns.publish(TopicArn=topic, Message="x")

    assert [envelope["SignatureVersion"] for envelope in envelopes(sqs, queue)] == ["1", "2"]


def test_who_has_unsubscribed_gets_nothing_more(sns, sqs, topic, queue):
    subscription = subscribed(sns, topic, queue)

    sns.unsubscribe(SubscriptionArn=subscription)
    sns.unsubscribe(SubscriptionArn=subscription)
    sns.publish(TopicArn=topic, Message="x")

    assert received(sqs, queue) == []
    assert sns.get_topic_attributes(TopicArn=topic)["Attributes"]["SubscriptionsConfirmed"] == "0"


def test_queues_may_subscribe_to_topics_of_other_regions(shared_server, sqs, queue, name):
    with client(shared_server, "sns", "eu-west-1") as elsewhere:
        topic = elsewhere.create_topic(Name=name)["TopicArn"]
        subscription = subscribed(elsewhere, topic, queue)
        elsewhere.publish(TopicArn=topic, Message="from afar")

        assert subscription.startswith("arn:aws:sns:eu-west-1:")
        [envelope] = envelopes(sqs, queue)
        assert (envelope["Message"], envelope["TopicArn"]) == ("from afar", topic)


def test_a_queue_that_subscribed_natively_and_one_by_sns_both_get_what_is_published(
    shared_server, sns, sqs, topic, queue
):
    name = topic.rpartition(":")[2]
    native = sqs.create_queue(QueueName=f"{name[:70]}-native")["QueueUrl"]
    subscribed(sns, topic, queue, RawMessageDelivery="true")
    answer = shared_server.call("POST", f"/v1/events/{name}/subscriptions", {"queue_name": native.rpartition("/")[2]})
    assert answer.status == 201

    sns.publish(TopicArn=topic, Message="by SNS")
    shared_server.call("POST", f"/v1/events/{name}", {"message": {"by": "events"}})

    assert bodies(sqs, queue) == bodies(sqs, native) == ["by SNS", '{"by": "events"}']


# What is refused


@pytest.mark.parametrize("protocol", ["email", "email-json", "sms", "lambda", "application", "firehose"])
def test_a_protocol_that_leads_out_of_here_is_refused(sns, topic, protocol):
    message = (
        f"Invalid parameter: Protocol Reason: {protocol} is not supported here. "
        "Subscribe a queue (sqs) or an endpoint (http, https)"
    )
    with refused("InvalidParameter", message):
        sns.subscribe(TopicArn=topic, Protocol=protocol, Endpoint="somebody@example.com")


def test_a_protocol_that_nobody_knows_is_refused(sns, topic):
    with refused("InvalidParameter", "Invalid parameter: Amazon SNS does not support this protocol string: pigeon"):
        sns.subscribe(TopicArn=topic, Protocol="pigeon", Endpoint="roof")


@pytest.mark.parametrize("written", ["{url}", "sqs://{name}", "https://sqs.example.com/123456789012/{name}"])
def test_a_queue_may_be_named_by_its_url_too(sns, sqs, topic, queue, written):
    endpoint = written.format(url=queue, name=queue.rpartition("/")[2])

    by_url = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=endpoint)["SubscriptionArn"]

    assert by_url == subscribed(sns, topic, queue)
    assert by_url.startswith(f"{topic}:{queue.rpartition('/')[2]}-")
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"][0]["Endpoint"] == endpoint
    attributes = sns.get_subscription_attributes(SubscriptionArn=by_url)["Attributes"]
    assert (attributes["Endpoint"], attributes["Protocol"]) == (endpoint, "sqs")
    sns.publish(TopicArn=topic, Message="hello")
    assert [one["Message"] for one in envelopes(sqs, queue)] == ["hello"]
    sns.unsubscribe(SubscriptionArn=by_url)
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []


def test_a_queue_that_subscribed_by_its_url_may_be_confirmed_by_any_token(sns, topic, queue):
    with refused("InvalidParameter", "Invalid parameter: Token"):
        sns.confirm_subscription(TopicArn=topic, Token="any-token")
    made = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)["SubscriptionArn"]

    assert sns.confirm_subscription(TopicArn=topic, Token="any-token")["SubscriptionArn"] == made


def test_a_link_with_any_token_does_not_tell_a_subscription(shared_server, sns, topic, queue):
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)

    answer = shared_server.call("GET", f"/?Action=ConfirmSubscription&TopicArn={topic}&Token=any-token")

    assert answer.status == 400
    assert queue.rpartition("/")[2].encode() not in answer.body.replace(topic.encode(), b"")


def test_a_queue_that_subscribed_by_its_arn_is_not_confirmed_by_any_token(sns, topic, queue):
    subscribed(sns, topic, queue)

    with refused("InvalidParameter", "Invalid parameter: Token"):
        sns.confirm_subscription(TopicArn=topic, Token="any-token")


@pytest.mark.parametrize("endpoint", ["orders", "sqs://", "sqs://a b", "http://localhost/"])
def test_what_names_no_queue_is_refused(sns, topic, endpoint):
    with refused("InvalidParameter", "Invalid parameter: SQS endpoint ARN"):
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=endpoint)


def test_an_endpoint_that_can_not_be_is_refused(sns, topic):
    with pytest.raises(sns.exceptions.InvalidParameterException, match="Invalid parameter: Endpoint Reason: "):
        sns.subscribe(TopicArn=topic, Protocol="http", Endpoint="http://user:secret@example.com:99999/")


def test_nobody_subscribes_to_a_topic_that_is_not_there(sns, queue):
    with refused("NotFound", "Topic does not exist", 404):
        subscribed(sns, "arn:aws:sns:us-east-1:000000000000:nowhere", queue)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("RawMessageDelivery", "maybe", "RawMessageDelivery: Invalid value [maybe]. Must be true or false."),
        ("FilterPolicyScope", "Sky",
         "FilterPolicyScope: Invalid value [Sky]. Please use either MessageBody or MessageAttributes"),
        ("FilterPolicy", '{"a":"b"}', 'FilterPolicy: "a" must be an object or an array'),
        ("RedrivePolicy", "{}", "RedrivePolicy: failed to parse JSON."),
        ("RedrivePolicy", '{"deadLetterTargetArn":"letters"}',
         "RedrivePolicy: deadLetterTargetArn is an invalid arn"),
        ("RedrivePolicy", '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:letters.fifo"}',
         "RedrivePolicy: must use a standard queue as DLQ for a standard topic"),
        ("DeliveryPolicy", "[]", "DeliveryPolicy: failed to parse JSON."),
    ],
)  # fmt: skip
def test_an_attribute_that_can_not_be_is_refused_at_first_and_later(sns, topic, queue, name, value, reason):
    with refused("InvalidParameter", f"Invalid parameter: Attributes Reason: {reason}"):
        subscribed(sns, topic, queue, **{name: value})

    subscription = subscribed(sns, topic, queue)
    with refused("InvalidParameter", f"Invalid parameter: {reason}"):
        sns.set_subscription_attributes(SubscriptionArn=subscription, AttributeName=name, AttributeValue=value)
    assert name not in {key for key in attributes(sns, subscription) if key != "RawMessageDelivery"}


def test_an_attribute_that_nobody_knows_is_refused(sns, topic, queue):
    with refused("InvalidParameter", "Invalid parameter: Attributes Reason: Unknown attribute Colour"):
        subscribed(sns, topic, queue, Colour="red")

    subscription = subscribed(sns, topic, queue)
    with refused("InvalidParameter", "Invalid parameter: AttributeName"):
        sns.set_subscription_attributes(SubscriptionArn=subscription, AttributeName="Colour", AttributeValue="red")


def test_what_is_not_the_arn_of_a_subscription_is_refused(sns, topic):
    with refused(
        "InvalidParameter", "Invalid parameter: SubscriptionArn Reason: An ARN must have at least 6 elements, not 1"
    ):
        sns.unsubscribe(SubscriptionArn="PendingConfirmation")
    with refused(
        "InvalidParameter", f"Invalid parameter: SubscriptionArn Reason: {topic} is not the ARN of a subscription"
    ):
        sns.get_subscription_attributes(SubscriptionArn=topic)
