"""MaximumMessageSize of a topic: the values it may have, and the messages it refuses."""

import pytest

from tests.http.dialects.aws.sns.topics import bodies, queue_arn, refused, subscribed

KIB = 1024
USUAL = 256 * KIB
TOO_LONG = "Invalid parameter: Message too long"
ONLY_QUEUES = (
    "Invalid parameter: MaximumMessageSize Reason: a topic whose messages may be larger than 256 KiB may have "
    "100 subscriptions, all of queues (sqs)"
)


def limit(sns, topic, size):
    sns.set_topic_attributes(TopicArn=topic, AttributeName="MaximumMessageSize", AttributeValue=str(size))


def shown(sns, topic):
    return sns.get_topic_attributes(TopicArn=topic)["Attributes"].get("MaximumMessageSize")


@pytest.mark.parametrize("size", [KIB, USUAL, 1024 * KIB])
def test_it_is_shown_where_it_was_set(sns, topic, size):
    before = shown(sns, topic)

    limit(sns, topic, size)

    assert (before, shown(sns, topic)) == (None, str(size))


@pytest.mark.parametrize("size", ["1023", "1048577", "", "-1", "1e4", "٢٠٠٠", "2000.0"])
def test_what_can_not_be_a_size_is_refused(sns, topic, size):
    message = "Invalid parameter: MaximumMessageSize Reason: it must be a number of bytes from 1024 to 1048576"
    with refused("InvalidParameter", message):
        limit(sns, topic, size)


@pytest.mark.parametrize("size", [KIB, 2000, 1024 * KIB])
def test_a_message_may_be_so_large_and_no_larger(sns, topic, size):
    limit(sns, topic, size)

    sns.publish(TopicArn=topic, Message="x" * size)

    with refused("InvalidParameter", TOO_LONG):
        sns.publish(TopicArn=topic, Message="x" * (size + 1))
    with refused("InvalidParameter", TOO_LONG):
        attribute = {"DataType": "String", "StringValue": "b"}
        sns.publish(TopicArn=topic, Message="x" * (size - 7), MessageAttributes={"a": attribute})


def test_what_is_not_set_is_256_kib(sns, topic):
    sns.publish(TopicArn=topic, Message="x" * USUAL)

    with refused("InvalidParameter", TOO_LONG):
        sns.publish(TopicArn=topic, Message="x" * (USUAL + 1))


def test_it_counts_in_fifo_topics_that_tell_messages_by_their_content(sns, name):
    attributes = {"FifoTopic": "true", "ContentBasedDeduplication": "true", "MaximumMessageSize": "1024"}
    topic = sns.create_topic(Name=f"{name[:60]}.fifo", Attributes=attributes)["TopicArn"]

    with refused("InvalidParameter", TOO_LONG):
        sns.publish(TopicArn=topic, Message="x" * 1025, MessageGroupId="g")


def test_it_is_for_a_batch_as_a_whole(sns, topic):
    limit(sns, topic, 2000)

    def publish(size):
        entries = [{"Id": id, "Message": "x" * size} for id in "ab"]
        return sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)

    assert len(publish(1000)["Successful"]) == 2
    message = "The length of all the batch messages put together is more than the limit."
    with refused("BatchRequestTooLong", message):
        publish(1001)


def test_a_large_message_reaches_a_queue(sns, sqs, topic, queue):
    limit(sns, topic, 1024 * KIB)
    subscribed(sns, topic, queue, RawMessageDelivery="true")

    sns.publish(TopicArn=topic, Message="x" * 1024 * KIB)

    assert [len(body) for body in bodies(sqs, queue)] == [1024 * KIB]


def test_an_endpoint_can_not_have_large_messages(sns, topic, name):
    endpoint = {"Protocol": "http", "Endpoint": "http://endpoint.example/"}
    other = sns.create_topic(Name=f"{name[:70]}-other")["TopicArn"]
    sns.subscribe(TopicArn=other, **endpoint)

    limit(sns, topic, USUAL + 1)
    with refused("InvalidParameter", ONLY_QUEUES):
        sns.subscribe(TopicArn=topic, **endpoint)
    limit(sns, other, USUAL)
    with refused("InvalidParameter", ONLY_QUEUES):
        limit(sns, other, USUAL + 1)


def test_at_most_100_can_have_large_messages(sns, sqs, topic, name):
    limit(sns, topic, USUAL + 1)

    def subscribe(number):
        arn = queue_arn(f"/{name[:70]}-{number}")
        return sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)["SubscriptionArn"]

    last = [subscribe(number) for number in range(100)][-1]

    with refused("InvalidParameter", ONLY_QUEUES):
        subscribe(100)
    assert subscribe(99) == last
    limit(sns, topic, USUAL)
    subscribe(100)
    with refused("InvalidParameter", ONLY_QUEUES):
        limit(sns, topic, USUAL + 1)


def test_a_topic_that_is_made_again_has_the_usual_size_if_none_was_set(sns, topic, name):
    assert sns.create_topic(Name=name, Attributes={"MaximumMessageSize": "262144"})["TopicArn"] == topic

    message = "Invalid parameter: Attributes Reason: Topic already exists with different attributes"
    with refused("InvalidParameter", message):
        sns.create_topic(Name=name, Attributes={"MaximumMessageSize": "262143"})
