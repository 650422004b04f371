"""Regions: a client reaches only queues and topics in the region that it signs for."""

import json

import pytest

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sns.endpoints import follow, hook, path, server
from tests.http.dialects.aws.sns.topics import refused
from tests.http.dialects.aws.sqs_wires import arn_of

__all__ = ["hook", "path", "server"]

ELSEWHERE = " Reason: it is of another region than us-east-1, which you signed for"


@pytest.fixture(scope="module")
def far(shared_server):
    """Yield boto3's SNS in eu-west-1."""
    with client(shared_server, "sns", "eu-west-1") as far:
        yield far


@pytest.fixture
def far_topic(far, name):
    return far.create_topic(Name=name)["TopicArn"]


@pytest.fixture
def far_subscription(far, far_topic, queue):
    return far.subscribe(TopicArn=far_topic, Protocol="sqs", Endpoint=arn_of(queue))["SubscriptionArn"]


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("publish", {"Message": "x"}),
        ("publish_batch", {"PublishBatchRequestEntries": [{"Id": "a", "Message": "x"}]}),
        ("subscribe", {"Protocol": "sqs", "Endpoint": "arn:aws:sqs:us-east-1:000000000000:q"}),
        ("list_subscriptions_by_topic", {}),
        ("get_topic_attributes", {}),
        ("set_topic_attributes", {"AttributeName": "DisplayName", "AttributeValue": "x"}),
        ("delete_topic", {}),
        ("confirm_subscription", {"Token": "x"}),
        ("add_permission", {"Label": "x", "AWSAccountId": ["000000000000"], "ActionName": ["Publish"]}),
        ("remove_permission", {"Label": "x"}),
    ],
)
def test_a_topic_of_another_region_is_refused(sns, far, far_topic, action, given):
    with refused("InvalidParameter", f"Invalid parameter: TopicArn{ELSEWHERE}"):
        getattr(sns, action)(TopicArn=far_topic, **given)

    shown = far.get_topic_attributes(TopicArn=far_topic)["Attributes"]
    assert (shown["DisplayName"], shown["SubscriptionsConfirmed"]) == ("", "0")


def test_the_tags_of_a_topic_of_another_region_are_refused(sns, far_topic):
    with refused("InvalidParameter", f"Invalid parameter: ResourceArn{ELSEWHERE}"):
        sns.list_tags_for_resource(ResourceArn=far_topic)


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("get_subscription_attributes", {}),
        ("set_subscription_attributes", {"AttributeName": "RawMessageDelivery", "AttributeValue": "true"}),
        ("unsubscribe", {}),
    ],
)
def test_a_subscription_of_another_region_is_refused(sns, far, far_subscription, action, given):
    with refused("InvalidParameter", f"Invalid parameter: SubscriptionArn{ELSEWHERE}"):
        getattr(sns, action)(SubscriptionArn=far_subscription, **given)

    shown = far.get_subscription_attributes(SubscriptionArn=far_subscription)["Attributes"]
    assert shown["RawMessageDelivery"] == "false"


def test_a_subscription_is_not_found_under_the_name_of_another_topic(sns, far, topic, far_subscription):
    misnamed = f"{topic}:{far_subscription.rpartition(':')[2]}"

    with refused("NotFound", "Subscription does not exist", 404):
        sns.get_subscription_attributes(SubscriptionArn=misnamed)
    with refused("NotFound", "Subscription does not exist", 404):
        sns.set_subscription_attributes(
            SubscriptionArn=misnamed, AttributeName="RawMessageDelivery", AttributeValue="true"
        )
    sns.unsubscribe(SubscriptionArn=misnamed)

    shown = far.get_subscription_attributes(SubscriptionArn=far_subscription)["Attributes"]
    assert shown["RawMessageDelivery"] == "false"


def test_a_link_leads_into_its_own_region(server, hook, path, name):
    with client(server, "sns", "eu-west-1") as sns:
        topic = sns.create_topic(Name=name)["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=hook.url(path))

        asked = json.loads(hook.wait_for(path)[0].body)
        assert follow(server, asked["SubscribeURL"]).status == 200
        sns.publish(TopicArn=topic, Message="hello")

        told = json.loads(hook.wait_for(path, 2)[1].body)
        assert follow(server, told["UnsubscribeURL"]).status == 200
        assert sns.get_topic_attributes(TopicArn=topic)["Attributes"]["SubscriptionsDeleted"] == "1"


@pytest.mark.parametrize("action", ["start_message_move_task", "list_message_move_tasks"])
def test_the_dead_letters_of_another_region_are_not_found(shared_server, sqs, name, action):
    with client(shared_server, "sqs", "eu-west-1") as far:
        url = far.create_queue(QueueName=name)["QueueUrl"]

    with pytest.raises(sqs.exceptions.ResourceNotFoundException) as caught:
        getattr(sqs, action)(SourceArn=arn_of(url, "eu-west-1"))
    assert "SourceArn" in str(caught.value)


def test_dead_letters_do_not_move_to_another_region(shared_server, sqs, queue, name):
    letters = sqs.create_queue(QueueName=f"{name[:70]}-dead")["QueueUrl"]
    redrive = json.dumps({"deadLetterTargetArn": arn_of(letters), "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive})
    with client(shared_server, "sqs", "eu-west-1") as far:
        url = far.create_queue(QueueName=name)["QueueUrl"]

    with pytest.raises(sqs.exceptions.ResourceNotFoundException) as caught:
        sqs.start_message_move_task(SourceArn=arn_of(letters), DestinationArn=arn_of(url, "eu-west-1"))
    assert "DestinationArn" in str(caught.value)
