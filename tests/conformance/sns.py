"""Short words for what tests do with topics and with subscriptions that SNS made."""

from sqew.model import NewEvent, NewMessage
from sqew.operations import Publish, Subscribe


def sns(store, topic, target="jobs", protocol="queue", uuid="u", **fields):
    """A subscription as SNS makes it."""
    return store.run(Subscribe(topic, protocol, target, uuid=uuid, **fields)).subscription


def attributes(**values):
    return {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}


def new_event(topic, body=b"1", **fields):
    return NewEvent(topic, NewMessage(body), f"id of {topic}", **fields)


def publish(store, topic, body=b"1", **fields):
    [published] = store.run(Publish([new_event(topic, body, **fields)]))
    return published


def taken(store, queue="jobs"):
    return [message.body for message in store.receive(100, queue)]
