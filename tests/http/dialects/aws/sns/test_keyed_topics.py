"""Topics named by routing keys and patterns, as in beyond-queue: no topic of AWS can have such a name."""

import pytest

from tests.http.dialects.aws.sns.topics import ACCOUNT, bodies, envelopes, received, refused, subscribed

TOPICS = f"arn:aws:sns:us-east-1:{ACCOUNT}:"


@pytest.fixture
def arn(name):
    """Return the beginning of ARNs that no other test has."""
    return f"{TOPICS}{name}"


def test_a_queue_that_subscribes_to_a_pattern_gets_what_is_published_under_its_keys(sns, sqs, arn, queue):
    subscription = subscribed(sns, f"{arn}.*", queue)

    sns.publish(TopicArn=f"{arn}.created", Message="one word")
    sns.publish(TopicArn=f"{arn}.created.twice", Message="two words")

    (envelope,) = envelopes(sqs, queue)
    assert subscription.startswith(f"{arn}.*:")
    assert (envelope["Message"], envelope["TopicArn"]) == ("one word", f"{arn}.created")


def test_a_topic_need_not_be_made_before_it_is_subscribed_to_and_is_listed_then(sns, arn, queue):
    assert f"{arn}.paid" not in topics(sns)

    subscription = subscribed(sns, f"{arn}.paid", queue)

    assert f"{arn}.paid" in topics(sns)
    (listed,) = sns.list_subscriptions_by_topic(TopicArn=f"{arn}.paid")["Subscriptions"]
    assert listed["SubscriptionArn"] == subscription
    assert sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]["TopicArn"] == f"{arn}.paid"


def test_a_topic_may_be_made_and_deleted_with_its_subscriptions(sns, sqs, arn, name, queue):
    made = sns.create_topic(Name=f"{name}.#")["TopicArn"]
    subscribed(sns, made, queue)

    sns.delete_topic(TopicArn=made)
    sns.publish(TopicArn=f"{arn}.created", Message="to nobody")

    assert made == f"{arn}.#"
    assert received(sqs, queue) == []


def test_nobody_need_want_what_is_published(sns, arn):
    assert sns.publish(TopicArn=f"{arn}.created", Message="to nobody")["MessageId"]


def test_a_batch_and_a_large_message_are_published(sns, sqs, arn, queue):
    subscribed(sns, f"{arn}.*", queue, RawMessageDelivery="true")

    answer = sns.publish_batch(
        TopicArn=f"{arn}.created", PublishBatchRequestEntries=[{"Id": id, "Message": id} for id in "ab"]
    )
    sns.publish(TopicArn=f"{arn}.created", Message="x" * 200_000)

    assert [one["Id"] for one in answer["Successful"]] == ["a", "b"]
    assert sorted(map(len, bodies(sqs, queue))) == [1, 1, 200_000]


def test_who_has_unsubscribed_gets_nothing_more(sns, sqs, arn, queue):
    subscription = subscribed(sns, f"{arn}.*", queue)

    sns.unsubscribe(SubscriptionArn=subscription)
    sns.publish(TopicArn=f"{arn}.created", Message="too late")

    assert received(sqs, queue) == []


def test_what_subscribes_natively_gets_it_too(sns, sqs, shared_server, arn, name, queue):
    shared_server.call("POST", f"/v1/events/{name}.*/subscriptions", {"queue_name": queue.rpartition("/")[2]})

    sns.publish(TopicArn=f"{arn}.created", Message="hello")

    assert bodies(sqs, queue) == ["hello"]


@pytest.mark.parametrize(
    "endpoint", ["{url}", "{bare}", "sqs://{bare_name}", "arn:aws:sqs:us-east-1:000000000000:{bare_name}"]
)
def test_a_fifo_queue_was_refused_by_its_name_and_never_reached_by_its_bare_one(sns, sqs, arn, fifo, endpoint):
    bare = fifo.removesuffix(".fifo")
    endpoint = endpoint.format(url=fifo, bare=bare, bare_name=bare.rpartition("/")[2])

    subscription = sns.subscribe(TopicArn=f"{arn}.*", Protocol="sqs", Endpoint=endpoint)["SubscriptionArn"]
    sns.publish(TopicArn=f"{arn}.created", Message="hello")
    (envelope,) = envelopes(sqs, fifo)
    sns.unsubscribe(SubscriptionArn=subscription)
    sns.publish(TopicArn=f"{arn}.created", Message="too late")

    assert envelope["Message"] == "hello"
    assert received(sqs, fifo) == []


def test_the_subscription_of_a_fifo_queue_of_80_letters_could_not_be_ended(sns, shared_server, arn, name):
    queue = f"{name[:40]}{'q' * 80}"[:80]
    assert shared_server.call("POST", "/v1/queues", {"name": queue, "fifo": True}).status == 201
    subscription = sns.subscribe(TopicArn=f"{arn}.*", Protocol="sqs", Endpoint=f"sqs://{queue}")["SubscriptionArn"]

    sns.unsubscribe(SubscriptionArn=subscription)

    assert sns.list_subscriptions_by_topic(TopicArn=f"{arn}.*")["Subscriptions"] == []


def test_a_wrong_endpoint_leaves_no_topic_behind(sns, arn):
    with refused("InvalidParameter", "Invalid parameter: SQS endpoint ARN"):
        sns.subscribe(TopicArn=f"{arn}.*", Protocol="sqs", Endpoint="nowhere")

    assert f"{arn}.*" not in topics(sns)


@pytest.mark.parametrize("key", ["a.*", "a.#"])
def test_nothing_is_published_under_a_pattern(sns, key):
    with pytest.raises(sns.exceptions.InvalidParameterException, match="is for patterns"):
        sns.publish(TopicArn=f"{TOPICS}{key}", Message="where to?")


def topics(sns):
    pages = sns.get_paginator("list_topics").paginate()
    return [one["TopicArn"] for page in pages for one in page["Topics"]]
