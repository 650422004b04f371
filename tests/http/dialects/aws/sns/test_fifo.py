"""FIFO topics."""

import json

import pytest

from tests.http.dialects.aws.sns.topics import bodies, received, refused, subscribed


@pytest.fixture
def topic(sns, name):
    """Return the ARN of a FIFO topic of the test's own."""
    return sns.create_topic(Name=f"{name[:75]}.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]


def test_a_fifo_topic_shows_that_it_is_one(sns, topic):
    shown = sns.get_topic_attributes(TopicArn=topic)["Attributes"]

    assert (shown["FifoTopic"], shown["ContentBasedDeduplication"]) == ("true", "false")


def test_order_group_and_deduplication_id_reach_the_queue(sns, sqs, topic, fifo):
    subscribed(sns, topic, fifo, RawMessageDelivery="true")

    for n in range(3):
        sns.publish(TopicArn=topic, Message=str(n), MessageGroupId="g", MessageDeduplicationId=f"d{n}")

    got = received(sqs, fifo)
    assert [message["Body"] for message in got] == ["0", "1", "2"]
    assert [message["Attributes"]["MessageGroupId"] for message in got] == ["g"] * 3
    assert [message["Attributes"]["MessageDeduplicationId"] for message in got] == ["d0", "d1", "d2"]


def test_what_is_published_twice_arrives_once(sns, sqs, topic, fifo):
    subscribed(sns, topic, fifo)

    for message in ("first", "again"):
        sns.publish(TopicArn=topic, Message=message, MessageGroupId="g", MessageDeduplicationId="1")

    assert [json.loads(body)["Message"] for body in bodies(sqs, fifo)] == ["first"]


def test_content_tells_repetitions_where_the_topic_says_so(sns, sqs, topic, fifo):
    subscribed(sns, topic, fifo)
    sns.set_topic_attributes(TopicArn=topic, AttributeName="ContentBasedDeduplication", AttributeValue="true")

    for message in ("a", "b", "a"):
        sns.publish(TopicArn=topic, Message=message, MessageGroupId="g")

    assert [json.loads(body)["Message"] for body in bodies(sqs, fifo)] == ["a", "b"]


def test_each_message_has_a_higher_number_than_the_one_before(sns, sqs, topic, fifo):
    subscribed(sns, topic, fifo)

    numbers = [
        sns.publish(TopicArn=topic, Message=str(n), MessageGroupId="g", MessageDeduplicationId=str(n))["SequenceNumber"]
        for n in range(3)
    ]

    assert all(len(number) == 20 for number in numbers)
    assert sorted(set(numbers)) == numbers
    assert [json.loads(body)["SequenceNumber"] for body in bodies(sqs, fifo)] == numbers


def test_a_batch_keeps_its_order(sns, sqs, topic, fifo):
    subscribed(sns, topic, fifo, RawMessageDelivery="true")

    answer = sns.publish_batch(
        TopicArn=topic,
        PublishBatchRequestEntries=[
            {"Id": str(n), "Message": str(n), "MessageGroupId": "g", "MessageDeduplicationId": str(n % 4)}
            for n in range(5)
        ]
        + [{"Id": "no-group", "Message": "x", "MessageDeduplicationId": "x"}],
    )

    assert bodies(sqs, fifo) == ["0", "1", "2", "3"]
    assert all(len(one["SequenceNumber"]) == 20 for one in answer["Successful"])
    [failed] = answer["Failed"]
    assert (failed["Id"], failed["Code"]) == ("no-group", "InvalidParameter")


def test_a_standard_queue_may_listen_too_and_gets_each_message_once(sns, sqs, topic, queue):
    subscribed(sns, topic, queue, RawMessageDelivery="true")

    for _ in range(2):
        sns.publish(TopicArn=topic, Message="x", MessageGroupId="g", MessageDeduplicationId="1")

    assert bodies(sqs, queue) == ["x"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"MessageDeduplicationId": "1"},
         "Invalid parameter: The MessageGroupId parameter is required for FIFO topics"),
        ({"MessageGroupId": "g"},
         ("Invalid parameter: The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
         "provided explicitly")),
        ({"MessageGroupId": "a b", "MessageDeduplicationId": "1"},
         ("Invalid parameter: MessageGroupId Reason: it can only include alphanumeric and punctuation characters. "
         "1 to 128 in length")),
    ],
)  # fmt: skip
def test_what_a_fifo_topic_must_be_told_is_asked_for(sns, topic, fields, message):
    with refused("InvalidParameter", message):
        sns.publish(TopicArn=topic, Message="x", **fields)


def test_a_fifo_queue_can_not_listen_to_a_standard_topic(sns, fifo, name):
    standard = sns.create_topic(Name=name)["TopicArn"]

    message = (
        "Invalid parameter: Invalid parameter: Endpoint Reason: "
        "FIFO SQS Queues can not be subscribed to standard SNS topics"
    )
    with refused("InvalidParameter", message):
        subscribed(sns, standard, fifo)


def test_an_endpoint_can_not_listen_to_a_fifo_topic(sns, topic):
    message = "Invalid parameter: Invalid parameter: Endpoint Reason: FIFO topics can't be subscribed to by https"
    with refused("InvalidParameter", message):
        sns.subscribe(TopicArn=topic, Protocol="https", Endpoint="https://example.com/")


def test_a_fifo_topic_is_named_so(sns, name):
    message = (
        "Invalid parameter: Fifo Topic names must end with .fifo and must be made up of only uppercase and lowercase "
        "ASCII letters, numbers, underscores, and hyphens, and must be between 1 and 256 characters long."
    )
    with refused("InvalidParameter", message):
        sns.create_topic(Name=name, Attributes={"FifoTopic": "true"})


def test_dead_letters_of_a_fifo_topic_go_to_a_fifo_queue(sns, topic, fifo):
    letters = '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:letters"}'

    message = "Invalid parameter: Attributes Reason: RedrivePolicy: must use a FIFO queue as DLQ for a FIFO topic"
    with refused("InvalidParameter", message):
        subscribed(sns, topic, fifo, RedrivePolicy=letters)
