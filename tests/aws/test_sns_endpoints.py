"""Subscriptions of HTTP endpoints: their confirmation, what is posted to them, and what becomes of what is not."""

import contextlib
import json
import sqlite3
import time

import pytest
from pointed import client
from topics import queue_arn, received, refused

from deliveries.endpoint import endpoint, status
from serving import serving
from sqew.client import EnvelopeVerifier


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that posts to this machine, and tries twice."""
    flags = ("--durability", "fast", "--delivery-allow", "127.0.0.1", "--delivery-retries", "1ms")
    with serving(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server


@pytest.fixture(scope="module")
def sns(server):
    with client(server, "sns") as sns:
        yield sns


@pytest.fixture(scope="module")
def sqs(server):
    with client(server, "sqs") as sqs:
        yield sqs


@pytest.fixture(scope="module")
def hook():
    with endpoint() as hook:
        yield hook


@pytest.fixture
def path(name):
    return f"/{name}"


@pytest.fixture
def verifier(server):
    return EnvelopeVerifier(cert_hosts=[f"127.0.0.1:{server.port}"], allow_http=True)


def follow(server, url):
    """What somebody gets who opens a link, as anybody may."""
    return server.call("GET", url.removeprefix(server.url))


def subscribe(sns, topic, hook, path, *, returns_arn=False, **attributes):
    return sns.subscribe(
        TopicArn=topic, Protocol="http", Endpoint=hook.url(path), Attributes=attributes,
        ReturnSubscriptionArn=returns_arn,
    )["SubscriptionArn"]  # fmt: skip


def confirmed(server, sns, topic, hook, path, **attributes):
    """The ARN of a subscription that its endpoint has confirmed."""
    arn = subscribe(sns, topic, hook, path, returns_arn=True, **attributes)
    asked = json.loads(hook.wait_for(path)[0].body)
    assert follow(server, asked["SubscribeURL"]).status == 200
    return arn


def test_an_endpoint_is_asked_to_confirm_in_a_signed_envelope(server, sns, hook, topic, path, verifier):
    answer = subscribe(sns, topic, hook, path)

    [posted] = hook.wait_for(path)
    asked = json.loads(posted.body)
    assert answer == "pending confirmation"
    assert asked["Type"] == "SubscriptionConfirmation"
    assert asked["TopicArn"] == topic
    assert asked["SubscribeURL"].startswith(f"{server.url}/?Action=ConfirmSubscription&TopicArn={topic}&Token=")
    assert posted.headers["x-amz-sns-message-type"] == "SubscriptionConfirmation"
    assert posted.headers["x-amz-sns-message-id"] == asked["MessageId"]
    assert posted.headers["x-amz-sns-topic-arn"] == topic
    assert posted.headers["content-type"] == "text/plain; charset=utf-8"
    assert verifier.verify(posted.body).topic_arn == topic


def test_an_endpoint_gets_nothing_before_it_has_confirmed(server, sns, hook, topic, path):
    subscription = subscribe(sns, topic, hook, path, returns_arn=True)
    [posted] = hook.wait_for(path)
    sns.publish(TopicArn=topic, Message="too early")
    before = sns.get_topic_attributes(TopicArn=topic)["Attributes"]

    answer = follow(server, json.loads(posted.body)["SubscribeURL"])
    sns.publish(TopicArn=topic, Message="in time")

    _, second = hook.wait_for(path, 2)
    assert json.loads(second.body)["Message"] == "in time"
    assert (before["SubscriptionsPending"], before["SubscriptionsConfirmed"]) == ("1", "0")
    after = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    assert (after["SubscriptionsPending"], after["SubscriptionsConfirmed"]) == ("0", "1")
    assert f"<SubscriptionArn>{subscription}</SubscriptionArn>".encode() in answer.body


def test_a_pending_subscription_is_listed_as_that(sns, hook, topic, path):
    subscription = subscribe(sns, topic, hook, path, returns_arn=True)

    [listed] = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    shown = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]

    assert (listed["SubscriptionArn"], listed["Protocol"]) == ("PendingConfirmation", "http")
    assert listed["Endpoint"] == hook.url(path)
    assert (shown["PendingConfirmation"], shown["ConfirmationWasAuthenticated"]) == ("true", "false")


def test_a_token_confirms_by_the_api_too_and_again(sns, hook, topic, path):
    subscription = subscribe(sns, topic, hook, path, returns_arn=True)
    token = json.loads(hook.wait_for(path)[0].body)["Token"]

    answers = [sns.confirm_subscription(TopicArn=topic, Token=token)["SubscriptionArn"] for _ in range(2)]

    shown = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
    assert answers == [subscription, subscription]
    assert (shown["PendingConfirmation"], shown["ConfirmationWasAuthenticated"]) == ("false", "true")


def test_who_subscribes_again_before_confirming_is_asked_again(server, sns, hook, topic, path):
    first = subscribe(sns, topic, hook, path, returns_arn=True)
    hook.wait_for(path)

    again = subscribe(sns, topic, hook, path, returns_arn=True)

    earlier, later = [json.loads(posted.body) for posted in hook.wait_for(path, 2)]
    assert again == first
    assert follow(server, earlier["SubscribeURL"]).status == 400
    assert follow(server, later["SubscribeURL"]).status == 200


@pytest.mark.parametrize("token", ["", "made-up", "0" * 96])
def test_a_token_that_was_made_up_confirms_nothing(server, sns, hook, topic, path, token):
    subscribe(sns, topic, hook, path)

    answer = follow(server, f"{server.url}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}")

    assert answer.status == 400
    assert sns.get_topic_attributes(TopicArn=topic)["Attributes"]["SubscriptionsPending"] == "1"


def test_a_token_with_another_end_confirms_nothing(sns, hook, topic, path):
    subscribe(sns, topic, hook, path)
    token = json.loads(hook.wait_for(path)[0].body)["Token"]

    with refused("InvalidParameter", "Invalid parameter: Token"):
        sns.confirm_subscription(TopicArn=topic, Token=token[:-1] + ("0" if token[-1] != "0" else "1"))


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


def left(server, sns, topic, hook, path, **attributes):
    """A subscription whose endpoint has followed the link that ends it: its ARN, and what was posted last."""
    subscription = confirmed(server, sns, topic, hook, path, **attributes)
    answer = follow(server, f"{server.url}/?Action=Unsubscribe&SubscriptionArn={subscription}")
    assert (answer.status, b"<UnsubscribeResponse" in answer.body) == (200, True)
    return subscription, hook.wait_for(path, 2)[1]


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


def test_without_dead_letters_it_is_kept_to_be_looked_at(server, sns, hook, topic, path):
    confirmed(server, sns, topic, hook, path)
    hook.does(path, status(500))

    sns.publish(TopicArn=topic, Message="hello")

    hook.wait_for(path, 3)
    deadline = time.monotonic() + 10
    while not (exhausted := _exhausted(server, hook.url(path))):
        assert time.monotonic() < deadline
    assert exhausted[0]["error"] == "The endpoint answered 500."


def _exhausted(server, url):
    return [one for one in server.call("GET", "/v1/deliveries?state=exhausted").json if one["endpoint"] == url]


def test_the_protocol_of_an_endpoint_is_that_of_its_url(sns, hook, topic):
    with refused("InvalidParameter", "Invalid parameter: Endpoint must match the specified protocol"):
        sns.subscribe(TopicArn=topic, Protocol="https", Endpoint=hook.url("/"))


@pytest.mark.parametrize("leaves", [False, True], ids=["confirm", "restore"])
def test_a_token_that_is_too_old_is_refused(tmp_path, hook, path, leaves):
    flags = ("--delivery-allow", "127.0.0.1", "--port")
    with serving(tmp_path, *flags, "0") as server, client(server, "sns") as sns:
        port = server.port
        topic = sns.create_topic(Name="orders")["TopicArn"]
        if leaves:
            left(server, sns, topic, hook, path)
        else:
            subscribe(sns, topic, hook, path)
        asked = json.loads(hook.wait_for(path, 1 + leaves)[-1].body)
        server.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "queue.db")) as connection, connection:
        days = 3 if leaves else 2
        connection.execute("UPDATE sqew_subscription SET ends_at = ends_at - ?", (days * 86_400_000,))

    with serving(tmp_path, *flags, str(port)) as server:
        answer = follow(server, asked["SubscribeURL"])

    assert answer.status == 400
    assert b"<Message>Invalid parameter: Token</Message>" in answer.body


def test_a_subscription_that_waits_survives_the_server(tmp_path, hook, path):
    flags = ("--delivery-allow", "127.0.0.1", "--port")
    with serving(tmp_path, *flags, "0") as server, client(server, "sns") as sns:
        port = server.port
        topic = sns.create_topic(Name="orders")["TopicArn"]
        subscribe(sns, topic, hook, path)
        asked = json.loads(hook.wait_for(path)[0].body)
        server.stop()

    with serving(tmp_path, *flags, str(port)) as server, client(server, "sns") as sns:
        assert follow(server, asked["SubscribeURL"]).status == 200
        sns.publish(TopicArn=topic, Message="after the restart")

        assert json.loads(hook.wait_for(path, 2)[1].body)["Message"] == "after the restart"
