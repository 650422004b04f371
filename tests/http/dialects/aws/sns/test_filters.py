"""Filter policies: the messages that they let through to a queue. Their language is tested in matching/filters."""

import json

import pytest

from tests.http.dialects.aws.sns.topics import bodies, queue_arn, refused, subscribed


def published(sns, topic, message="x", **attributes):
    kinds = {str: "String", int: "Number", list: "String.Array"}
    sns.publish(
        TopicArn=topic,
        Message=message,
        MessageAttributes={
            name: {
                "DataType": kinds[type(value)],
                "StringValue": value if isinstance(value, str) else json.dumps(value),
            }
            for name, value in attributes.items()
        },
    )


def filtered(sns, topic, queue, policy, **attributes):
    return subscribed(sns, topic, queue, RawMessageDelivery="true", FilterPolicy=json.dumps(policy), **attributes)


@pytest.mark.parametrize(
    ("policy", "wanted", "unwanted"),
    [
        ({"shop": ["eu", "us"]}, {"shop": "us"}, {"shop": "asia"}),
        ({"shop": [{"anything-but": "eu"}]}, {"shop": "us"}, {"shop": "eu"}),
        ({"shop": [{"prefix": "eu-"}]}, {"shop": "eu-west"}, {"shop": "us-east"}),
        ({"shop": [{"suffix": "-west"}]}, {"shop": "eu-west"}, {"shop": "us-east"}),
        ({"price": [{"numeric": [">", 5, "<=", 10]}]}, {"price": 10}, {"price": 5}),
        ({"shop": [{"exists": False}]}, {"price": 1}, {"shop": "eu"}),
        ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": "10.0.0.7"}, {"ip": "10.0.1.7"}),
        ({"$or": [{"shop": ["eu"]}, {"price": [7]}]}, {"price": 7}, {"shop": "us"}),
        ({"shop": [{"equals-ignore-case": "EU"}]}, {"shop": "eu"}, {"shop": "us"}),
        ({"shop": [{"wildcard": "e*-w*t"}]}, {"shop": "eu-west"}, {"shop": "eu-east"}),
        ({"colours": ["red"]}, {"colours": ["blue", "red"]}, {"colours": ["blue"]}),
        ({"shop": ["eu"], "price": [7]}, {"shop": "eu", "price": 7}, {"shop": "eu"}),
    ],
    ids=lambda value: json.dumps(value)[:30],
)
def test_a_queue_gets_what_its_policy_wants_and_nothing_else(sns, sqs, topic, queue, policy, wanted, unwanted):
    filtered(sns, topic, queue, policy)

    published(sns, topic, "unwanted", **unwanted)
    published(sns, topic, "wanted", **wanted)
    published(sns, topic, "without attributes")

    assert bodies(sqs, queue) == ["wanted"]


def test_a_policy_may_look_at_the_body(sns, sqs, topic, queue):
    filtered(sns, topic, queue, {"order": {"shop": ["eu"]}}, FilterPolicyScope="MessageBody")
    wanted = '{"order":{"shop":"eu","sku":7}}'

    for message in ('{"order":{"shop":"us"}}', wanted, "no JSON at all"):
        published(sns, topic, message, shop="eu")

    assert bodies(sqs, queue) == [wanted]


def test_each_subscriber_of_a_topic_has_a_filter_of_its_own(sns, sqs, topic, queue, name):
    others = [sqs.create_queue(QueueName=f"{name[:70]}-{n}")["QueueUrl"] for n in range(3)]
    for url, shop in zip(others, ("eu", "us", "asia"), strict=True):
        filtered(sns, topic, url, {"shop": [shop]})
    subscribed(sns, topic, queue, RawMessageDelivery="true")

    for shop in ("eu", "us", "eu", "mars"):
        published(sns, topic, shop, shop=shop)

    assert [bodies(sqs, url) for url in others] == [["eu", "eu"], ["us"], []]
    assert bodies(sqs, queue) == ["eu", "us", "eu", "mars"]


def test_a_policy_that_is_changed_holds_from_then_on(sns, sqs, topic, queue):
    subscription = filtered(sns, topic, queue, {"shop": ["eu"]})

    def set_policy(value):
        sns.set_subscription_attributes(
            SubscriptionArn=subscription, AttributeName="FilterPolicy", AttributeValue=value
        )
        for shop in ("eu", "us"):
            published(sns, topic, shop, shop=shop)
        return bodies(sqs, queue)

    assert set_policy('{"shop":["us"]}') == ["us"]
    assert set_policy("{}") == ["eu", "us"]
    shown = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
    assert "FilterPolicy" not in shown


def test_filters_look_at_the_entries_of_a_batch_one_by_one(sns, sqs, topic, queue):
    filtered(sns, topic, queue, {"shop": ["eu"]})

    sns.publish_batch(
        TopicArn=topic,
        PublishBatchRequestEntries=[
            {
                "Id": str(n),
                "Message": str(n),
                "MessageAttributes": {"shop": {"DataType": "String", "StringValue": shop}},
            }
            for n, shop in enumerate(["eu", "us", "eu"])
        ],
    )

    assert bodies(sqs, queue) == ["0", "2"]


def test_a_native_event_is_filtered_by_its_headers(shared_server, sns, sqs, topic, queue):
    filtered(sns, topic, queue, {"shop": ["eu"], "price": [{"numeric": [">", 5]}]})
    key = topic.rpartition(":")[2]

    for price in (5, 6):
        event = {"message": price, "headers": {"shop": "eu", "price": price}}
        assert shared_server.call("POST", f"/v1/events/{key}", event).status == 201

    assert bodies(sqs, queue) == ["6"]


@pytest.mark.parametrize(
    ("policy", "scope", "reason"),
    [
        ("[", "MessageAttributes", "FilterPolicy: failed to parse JSON. Input data was truncated"),
        ('{"a":[{"starts-with":"b"}]}', "MessageAttributes", "FilterPolicy: Unrecognized match type starts-with"),
        ('{"a":{"b":["c"]}}', "MessageAttributes",
         "Filter policy scope MessageAttributes does not support nested filter policy"),
    ],
)  # fmt: skip
def test_a_policy_that_can_not_be_is_refused_at_first_and_later(sns, topic, queue, policy, scope, reason):
    with refused("InvalidParameter", f"Invalid parameter: Attributes Reason: {reason}"):
        subscribed(sns, topic, queue, FilterPolicy=policy, FilterPolicyScope=scope)

    subscription = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(queue))["SubscriptionArn"]
    with refused("InvalidParameter", f"Invalid parameter: {reason}"):
        sns.set_subscription_attributes(
            SubscriptionArn=subscription, AttributeName="FilterPolicy", AttributeValue=policy
        )


def test_a_scope_that_does_not_fit_the_policy_is_refused(sns, topic, queue):
    subscription = subscribed(sns, topic, queue, FilterPolicy='{"a":{"b":["c"]}}', FilterPolicyScope="MessageBody")

    reason = "Filter policy scope MessageAttributes does not support nested filter policy"
    with refused("InvalidParameter", f"Invalid parameter: {reason}"):
        sns.set_subscription_attributes(
            SubscriptionArn=subscription, AttributeName="FilterPolicyScope", AttributeValue="MessageAttributes"
        )
