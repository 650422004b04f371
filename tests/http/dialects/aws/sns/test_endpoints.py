"""Subscriptions of HTTP endpoints: the requests that are posted, messages that could not be, and unsubscribing."""

import json
import time

import pytest

from tests.http.dialects.aws.sns.endpoints import (
    confirmed,
    follow,
    hook,
    left,
    path,
    server,
    sns,
    sqs,
    subscribe,
    verifier,
)
from tests.http.dialects.aws.sns.topics import queue_arn, received, refused
from tests.support.endpoint import status

__all__ = ["hook", "path", "server", "sns", "sqs", "verifier"]


def test_a_notification_is_a_signed_envelope_with_the_headers_of_sns(server, sns, hook, topic, path, verifier):
    subscription = confirmed(server, sns, topic, hook, path)

    attribute = {"DataType": "String", "StringValue": "eu"}
    published = sns.publish(TopicArn=topic, Message="hello", Subject="News", MessageAttributes={"shop": attribute})

    posted = hook.wait_for(path, 2)[1]
    envelope = json.loads(posted.body)
    assert posted.headers["x-amz-sns-message-type"] == "Notification"
    assert posted.headers["x-amz-sns-message-id"] == published["MessageId"] == envelope["MessageId"]
    assert posted.headers["x-amz-sns-topic-arn"] == topic
    assert posted.headers["x-amz-sns-subscription-arn"] == subscription
    assert "x-amz-sns-rawdelivery" not in posted.headers
    assert envelope["MessageAttributes"] == {"shop": {"Type": "String", "Value": "eu"}}
    assert envelope["UnsubscribeURL"] == f"{server.url}/?Action=Unsubscribe&SubscriptionArn={subscription}"
    assert verifier.verify(posted.body).subject == "News"


def test_an_endpoint_is_subscribed_to_a_pattern_at_once_as_in_beyond_queue(server, sns, hook, name, path, verifier):
    arn = f"arn:aws:sns:us-east-1:000000000000:{name}"

    subscription = subscribe(sns, f"{arn}.*", hook, path)
    sns.publish(TopicArn=f"{arn}.created", Message='{"event":"signed up"}')

    (posted,) = hook.wait_for(path)
    envelope = json.loads(posted.body)
    assert subscription.startswith(f"{arn}.*:")
    assert (envelope["Type"], envelope["Message"]) == ("Notification", '{"event":"signed up"}')
    assert (envelope["TopicArn"], envelope["SignatureVersion"]) == (f"{arn}.created", "2")
    assert verifier.verify(posted.body).message == '{"event":"signed up"}'
    assert posted.headers["content-type"] == "application/json"
    follow(server, envelope["UnsubscribeURL"])
    (listed,) = sns.list_subscriptions_by_topic(TopicArn=f"{arn}.*")["Subscriptions"]
    assert listed["SubscriptionArn"] == "Deleted"


def test_a_raw_notification_is_the_message_itself(server, sns, hook, topic, path):
    confirmed(server, sns, topic, hook, path, RawMessageDelivery="true")

    sns.publish(TopicArn=topic, Message="hello")

    first, posted = hook.wait_for(path, 2)
    assert "x-amz-sns-rawdelivery" not in first.headers
    assert posted.body == b"hello"
    assert posted.headers["x-amz-sns-rawdelivery"] == "true"
    assert posted.headers["content-type"] == "text/plain; charset=utf-8"


def test_an_endpoint_gets_what_is_meant_for_its_protocol_and_what_its_filter_wants(server, sns, sqs, hook, topic, path):
    url = sqs.create_queue(QueueName=topic.rpartition(":")[2])["QueueUrl"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(url), Attributes={"RawMessageDelivery": "true"})
    confirmed(server, sns, topic, hook, path, FilterPolicy='{"shop":["eu"]}')
    said = json.dumps({"default": "to all", "http": "to the web", "sqs": "to queues"})

    for shop in ("us", "eu"):
        attributes = {"shop": {"DataType": "String", "StringValue": shop}}
        sns.publish(TopicArn=topic, Message=said, MessageStructure="json", MessageAttributes=attributes)
    sns.publish(TopicArn=topic, Message="last", MessageAttributes=attributes)

    posted = [json.loads(one.body) for one in hook.wait_for(path, 3)[1:]]
    assert [(one["Message"], one["MessageAttributes"]["shop"]["Value"]) for one in posted] == [
        ("to the web", "eu"), ("last", "eu"),
    ]  # fmt: skip
    assert [message["Body"] for message in received(sqs, url)] == ["to queues", "to queues", "last"]


def test_a_link_unsubscribes_without_a_signature(server, sns, hook, topic, path):
    confirmed(server, sns, topic, hook, path)
    sns.publish(TopicArn=topic, Message="hello")
    envelope = json.loads(hook.wait_for(path, 2)[1].body)

    answers = [follow(server, envelope["UnsubscribeURL"]).status for _ in range(2)]

    counts = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    [listed] = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert (answers, listed["SubscriptionArn"]) == ([200, 200], "Deleted")
    assert [counts[f"Subscriptions{state}"] for state in ("Confirmed", "Pending", "Deleted")] == ["0", "0", "1"]


def test_an_endpoint_is_told_that_it_was_unsubscribed_in_a_signed_envelope(server, sns, hook, topic, path, verifier):
    subscription, posted = left(server, sns, topic, hook, path, RawMessageDelivery="true")

    told = json.loads(posted.body)
    assert told["Type"] == posted.headers["x-amz-sns-message-type"] == "UnsubscribeConfirmation"
    assert told["Message"] == (
        f"You have chosen to deactivate subscription {subscription}.\n"
        "To cancel this operation and restore the subscription, visit the SubscribeURL included in this message."
    )
    assert told["SubscribeURL"] == f"{server.url}/?Action=ConfirmSubscription&TopicArn={topic}&Token={told['Token']}"
    assert posted.headers["x-amz-sns-message-id"] == told["MessageId"]
    assert posted.headers["x-amz-sns-subscription-arn"] == subscription
    assert posted.headers["content-type"] == "text/plain; charset=utf-8"
    assert verifier.verify(posted.body).token == told["Token"]


def test_an_endpoint_that_was_unsubscribed_can_take_that_back(server, sns, hook, topic, path):
    subscription, posted = left(server, sns, topic, hook, path)
    first = json.loads(hook.received(path)[0].body)
    sns.publish(TopicArn=topic, Message="lost")

    answers = [follow(server, json.loads(body)["SubscribeURL"]) for body in (json.dumps(first), posted.body)]
    sns.publish(TopicArn=topic, Message="found")

    assert [answer.status for answer in answers] == [400, 200]
    assert f"<SubscriptionArn>{subscription}</SubscriptionArn>".encode() in answers[1].body
    assert json.loads(hook.wait_for(path, 3)[2].body)["Message"] == "found"
    assert sns.get_topic_attributes(TopicArn=topic)["Attributes"]["SubscriptionsDeleted"] == "0"


def test_a_subscription_that_was_left_has_no_attributes_and_its_owner_can_end_it(server, sns, hook, topic, path):
    subscription, posted = left(server, sns, topic, hook, path)

    with refused("NotFound", "Subscription does not exist", 404):
        sns.get_subscription_attributes(SubscriptionArn=subscription)
    sns.unsubscribe(SubscriptionArn=subscription)

    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []
    assert follow(server, json.loads(posted.body)["SubscribeURL"]).status == 400


def test_who_was_unsubscribed_and_subscribes_again_is_asked_to_confirm(server, sns, hook, topic, path):
    subscription, _ = left(server, sns, topic, hook, path)

    again = subscribe(sns, topic, hook, path, returns_arn=True, RawMessageDelivery="true")

    asked = json.loads(hook.wait_for(path, 3)[2].body)
    assert again != subscription
    assert follow(server, asked["SubscribeURL"]).status == 200
    sns.publish(TopicArn=topic, Message="hello")
    assert hook.wait_for(path, 4)[3].body == b"hello"


def test_who_unsubscribes_signed_is_gone_at_once_and_its_endpoint_is_not_told(server, sns, hook, topic, path):
    subscription = confirmed(server, sns, topic, hook, path)

    sns.unsubscribe(SubscriptionArn=subscription)

    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []
    subscribe(sns, topic, hook, path)
    kinds = [one.headers["x-amz-sns-message-type"] for one in hook.wait_for(path, 2)]
    assert kinds == ["SubscriptionConfirmation"] * 2


def test_a_link_does_not_unsubscribe_where_that_must_be_signed(server, sns, hook, topic, path):
    subscription = subscribe(sns, topic, hook, path, returns_arn=True)
    token = json.loads(hook.wait_for(path)[0].body)["Token"]
    sns.confirm_subscription(TopicArn=topic, Token=token, AuthenticateOnUnsubscribe="true")

    answer = follow(server, f"{server.url}/?Action=Unsubscribe&SubscriptionArn={subscription}")

    assert answer.status == 403
    assert len(sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]) == 1
    sns.unsubscribe(SubscriptionArn=subscription)
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []


@pytest.mark.parametrize("action", ["ListTopics", "DeleteTopic&TopicArn=x", "Publish&Message=x"])
def test_no_other_action_is_done_for_who_has_not_signed(server, action):
    answer = follow(server, f"{server.url}/?Action={action}")

    assert answer.status == 403
    assert b"<Code>MissingAuthenticationToken</Code>" in answer.body


def test_looking_at_a_link_does_not_follow_it(server, sns, hook, topic, path):
    subscription = confirmed(server, sns, topic, hook, path)

    answer = server.call("HEAD", f"/?Action=Unsubscribe&SubscriptionArn={subscription}")

    assert answer.status == 405
    assert len(sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]) == 1


def test_what_can_not_be_posted_goes_to_the_dead_letters_of_the_subscription(server, sns, sqs, hook, topic, path):
    url = sqs.create_queue(QueueName=topic.rpartition(":")[2])["QueueUrl"]
    redrive = json.dumps({"deadLetterTargetArn": queue_arn(url)})
    confirmed(server, sns, topic, hook, path, RedrivePolicy=redrive, RawMessageDelivery="true")
    hook.does(path, status(500))

    published = sns.publish(TopicArn=topic, Message="hello")

    [message] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10, MessageAttributeNames=["All"])["Messages"]
    told = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert message["Body"] == "hello"
    assert told == {
        "RequestID": published["MessageId"], "ErrorCode": "500", "ErrorMessage": "The endpoint answered 500.",
    }  # fmt: skip
    assert len(hook.received(path)) == 3  # the confirmation, and two attempts
    exhausted = server.call("GET", "/v1/deliveries?state=exhausted").json
    assert not [one for one in exhausted if one["endpoint"] == hook.url(path)]


def test_a_dead_letter_is_what_was_posted_with_its_link_to_unsubscribe(server, sns, sqs, hook, topic, path):
    url = sqs.create_queue(QueueName=topic.rpartition(":")[2])["QueueUrl"]
    confirmed(server, sns, topic, hook, path, RedrivePolicy=json.dumps({"deadLetterTargetArn": queue_arn(url)}))
    hook.does(path, status(500))

    sns.publish(TopicArn=topic, Message="hello")

    [message] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
    assert message["Body"].encode() == hook.received(path)[-1].body
    assert "UnsubscribeURL" in json.loads(message["Body"])


def test_without_dead_letters_it_is_kept_to_be_looked_at(server, sns, hook, topic, path):
    confirmed(server, sns, topic, hook, path)
    hook.does(path, status(500))

    sns.publish(TopicArn=topic, Message="hello")

    hook.wait_for(path, 3)
    deadline = time.monotonic() + 30
    while not (exhausted := _exhausted(server, hook.url(path))):
        assert time.monotonic() < deadline
    assert exhausted[0]["error"] == "The endpoint answered 500."


def _exhausted(server, url):
    return [one for one in server.call("GET", "/v1/deliveries?state=exhausted").json if one["endpoint"] == url]


def test_the_protocol_of_an_endpoint_is_that_of_its_url(sns, hook, topic):
    with refused("InvalidParameter", "Invalid parameter: Endpoint must match the specified protocol"):
        sns.subscribe(TopicArn=topic, Protocol="https", Endpoint=hook.url("/"))
