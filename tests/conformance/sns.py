"""Shorthands for tests of topics and of subscriptions made by SNS."""

from sqew.model import NewEvent, NewMessage, SubscriptionDetails, SubscriptionNotice
from sqew.operations import Publish, Subscribe
from tests.conformance.driver import ENDPOINT


def sns(store, topic, target="jobs", protocol="queue", uuid="u", **fields):
    """Make a subscription as SNS does."""
    return store.run(Subscribe(topic, protocol, target, uuid=uuid, **fields)).subscription


def pending(store, uuid="1"):
    """Make a subscription that its endpoint has not confirmed yet."""
    return sns(
        store, "orders", ENDPOINT, "http", uuid, confirmed=False, details=SubscriptionDetails(token="t"),
        notice=SubscriptionNotice("m", b'{"hi":1}'),
    )  # fmt: skip


def attributes(**values):
    return {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}


def new_event(topic, body=b"1", **fields):
    return NewEvent(topic, NewMessage(body), f"id of {topic}", **fields)


def publish(store, topic, body=b"1", **fields):
    [published] = store.run(Publish([new_event(topic, body, **fields)]))
    return published


def taken(store, queue="jobs"):
    return [message.body for message in store.receive(100, queue)]
