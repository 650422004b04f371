"""Subscriptions of HTTP endpoints: how they are confirmed, and made again."""

import contextlib
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sns.endpoints import follow, hook, left, path, server, sns, subscribe, verifier
from tests.http.dialects.aws.sns.topics import refused
from tests.support.serving import serving

__all__ = ["hook", "path", "server", "sns", "verifier"]


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


def test_who_subscribes_again_before_confirming_is_asked_again_with_the_same_token(server, sns, hook, topic, path):
    first = subscribe(sns, topic, hook, path, returns_arn=True)
    hook.wait_for(path)

    again = subscribe(sns, topic, hook, path, returns_arn=True)

    earlier, later = [json.loads(posted.body) for posted in hook.wait_for(path, 2)]
    assert again == first
    assert earlier["Token"] == later["Token"]
    assert earlier["MessageId"] != later["MessageId"]
    assert follow(server, earlier["SubscribeURL"]).status == 200


def test_who_subscribes_many_times_at_once_is_asked_with_one_token(server, sns, hook, topic, path):
    with ThreadPoolExecutor(5) as threads:
        arns = set(threads.map(lambda _: subscribe(sns, topic, hook, path, returns_arn=True), range(5)))

    asked = {json.loads(posted.body)["Token"] for posted in hook.wait_for(path, 5)}
    assert (len(arns), len(asked)) == (1, 1)
    assert sns.confirm_subscription(TopicArn=topic, Token=asked.pop())["SubscriptionArn"] in arns


@pytest.mark.parametrize("is_signed", [True, False], ids=["by the API", "by the link"])
def test_who_subscribes_again_after_confirming_has_the_same_subscription(server, sns, hook, topic, path, is_signed):
    wanted = {"FilterPolicy": '{"a":["b"]}', "RawMessageDelivery": "true"}
    first = subscribe(sns, topic, hook, path, returns_arn=True, **wanted)
    asked = json.loads(hook.wait_for(path)[0].body)
    if is_signed:
        sns.confirm_subscription(TopicArn=topic, Token=asked["Token"], AuthenticateOnUnsubscribe="true")
    else:
        follow(server, asked["SubscribeURL"])

    assert subscribe(sns, topic, hook, path, **wanted) == first
    assert subscribe(sns, topic, hook, path, FilterPolicy='{"a": ["b"]}') == first
    message = "Invalid parameter: Attributes Reason: Subscription already exists with different attributes"
    with refused("InvalidParameter", message):
        subscribe(sns, topic, hook, path, FilterPolicy='{"a":["c"]}')


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


def test_who_subscribes_again_too_late_is_asked_with_another_token(tmp_path, hook, path):
    flags = ("--delivery-allow", "127.0.0.1", "--port")
    with serving(tmp_path, *flags, "0") as server, client(server, "sns") as sns:
        port = server.port
        topic = sns.create_topic(Name="orders")["TopicArn"]
        subscribe(sns, topic, hook, path)
        first = json.loads(hook.wait_for(path)[0].body)
        server.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "queue.db")) as connection, connection:
        connection.execute("UPDATE sqew_subscription SET ends_at = ends_at - 2 * 86400000")

    with serving(tmp_path, *flags, str(port)) as server, client(server, "sns") as sns:
        subscribe(sns, topic, hook, path)

        second = json.loads(hook.wait_for(path, 2)[1].body)
        assert first["Token"] != second["Token"]
        assert follow(server, second["SubscribeURL"]).status == 200


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
