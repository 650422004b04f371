"""Concurrent changes to one topic or subscription: none is lost, and all are in order."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sns.topics import bodies, queue_arn, subscribed
from tests.support.postgres import new_database
from tests.support.serving import STORES, serving

MANY = 30


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


def at_once(act, values):
    """Make calls at the same time, and return what each returned."""
    with ThreadPoolExecutor(MANY) as threads:
        return list(threads.map(act, values))


def test_all_tags_are_kept_that_are_added_at_once(sns, topic):
    tags = {f"key-{n}": str(n) for n in range(MANY)}

    at_once(lambda tag: sns.tag_resource(ResourceArn=topic, Tags=[{"Key": tag[0], "Value": tag[1]}]), tags.items())

    listed = sns.list_tags_for_resource(ResourceArn=topic)["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in listed} == tags


def test_all_tags_are_gone_that_are_removed_at_once(sns, name):
    tags = [{"Key": f"key-{n}", "Value": ""} for n in range(MANY)]
    topic = sns.create_topic(Name=name, Tags=tags)["TopicArn"]

    at_once(lambda tag: sns.untag_resource(ResourceArn=topic, TagKeys=[tag["Key"]]), tags)

    assert sns.list_tags_for_resource(ResourceArn=topic)["Tags"] == []


def test_no_more_tags_are_added_at_once_than_there_may_be(sns, topic):
    def add(n):
        try:
            sns.tag_resource(ResourceArn=topic, Tags=[{"Key": f"{n}-{part}", "Value": ""} for part in range(4)])
        except sns.exceptions.TagLimitExceededException:
            return False
        return True

    added = at_once(add, range(MANY))

    assert sum(added) == 12
    assert len(sns.list_tags_for_resource(ResourceArn=topic)["Tags"]) == 48


def test_all_permissions_are_kept_that_are_added_at_once_beside_other_attributes(sns, topic):
    labels = {f"label-{n}" for n in range(MANY - 1)}

    def change(label):
        if label:
            sns.add_permission(TopicArn=topic, Label=label, AWSAccountId=["111111111111"], ActionName=["Publish"])
        else:
            sns.set_topic_attributes(TopicArn=topic, AttributeName="DisplayName", AttributeValue="shown")

    at_once(change, [*labels, ""])

    attributes = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    kept = {statement["Sid"] for statement in json.loads(attributes["Policy"])["Statement"]}
    assert kept == labels | {"__default_statement_ID"}
    assert attributes["DisplayName"] == "shown"


def test_all_permissions_are_gone_that_are_removed_at_once(sns, topic):
    labels = [f"label-{n}" for n in range(10)]
    for label in labels:
        sns.add_permission(TopicArn=topic, Label=label, AWSAccountId=["111111111111"], ActionName=["Publish"])

    at_once(lambda label: sns.remove_permission(TopicArn=topic, Label=label), labels)

    [left] = json.loads(sns.get_topic_attributes(TopicArn=topic)["Attributes"]["Policy"])["Statement"]
    assert left["Sid"] == "__default_statement_ID"


def test_all_attributes_of_a_subscription_are_kept_that_are_set_at_once(sns, topic, queue):
    wanted = {
        "RawMessageDelivery": "true",
        "FilterPolicy": '{"a":["b"]}',
        "FilterPolicyScope": "MessageBody",
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": queue_arn(queue)}),
        "DeliveryPolicy": "{}",
    }
    subscriptions = [subscribed(sns, topic, f"{queue[:-2]}-{n}") for n in range(6)]

    at_once(
        lambda change: sns.set_subscription_attributes(
            SubscriptionArn=change[0], AttributeName=change[1], AttributeValue=wanted[change[1]]
        ),
        list(product(subscriptions, wanted)),
    )

    for subscription in subscriptions:
        shown = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
        assert {name: shown.get(name) for name in wanted} == wanted


def publish_at_once(clients, topic, count):
    """Publish from many clients to one group; return each message's sequence number by its body."""

    def publish(n):
        answer = clients[n % len(clients)].publish(
            TopicArn=topic, Message=str(n), MessageGroupId="g", MessageDeduplicationId=str(n)
        )
        return str(n), answer["SequenceNumber"]

    return dict(at_once(publish, range(count)))


def test_what_is_published_at_once_has_numbers_in_the_order_of_the_queue(sns, sqs, name, fifo):
    topic = sns.create_topic(Name=f"{name[:75]}.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    subscribed(sns, topic, fifo)

    answered = publish_at_once([sns], topic, 200)

    got = [json.loads(body) for body in bodies(sqs, fifo)]
    numbers = [one["SequenceNumber"] for one in got]
    assert {one["Message"]: one["SequenceNumber"] for one in got} == answered
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("store", STORES)
def test_two_servers_of_one_store_number_messages_in_the_order_of_the_queue(tmp_path, store):
    database = new_database() if store == "postgres" else None
    with (
        serving(tmp_path, database=database) as one, serving(tmp_path, database=database) as other,
        client(one, "sns") as first, client(other, "sns") as second, client(one, "sqs") as sqs,
    ):  # fmt: skip
        url = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        topic = first.create_topic(Name="t.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
        subscribed(first, topic, url)

        answered = publish_at_once([first, second], topic, 60)

        numbers = [json.loads(body)["SequenceNumber"] for body in bodies(sqs, url)]
    assert numbers == sorted(answered.values())
