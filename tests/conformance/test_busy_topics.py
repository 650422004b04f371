"""Topics with many users: concurrent changes, rising sequence numbers, and the limit on filters."""

import json

import pytest

from sqew.errors import ChangedMeanwhile, FilterLimitExceeded, SqewError, TooMuchToCompare, TopicNotFound
from sqew.model import NewEvent, NewMessage, SubscriptionDetails
from sqew.operations import (
    CreateTopic,
    DeleteTopic,
    GetSubscription,
    GetTopic,
    Publish,
    Subscribe,
    UpdateSubscription,
    UpdateTopic,
)
from sqew.stores.sql import subscriptions
from tests.conformance.driver import ENDPOINT
from tests.conformance.sns import publish, sns, taken

EU = SubscriptionDetails(filter_policy='{"shop":["eu"]}')


# Changes that are made up from what was read


def test_a_topic_that_somebody_else_has_changed_is_not_changed(store, neighbour):
    known = store.run(CreateTopic("orders"))
    neighbour.run(UpdateTopic("orders", tags={"a": "1"}, known=known))

    with pytest.raises(ChangedMeanwhile, match="Topic 'orders' was changed by somebody else"):
        store.run(UpdateTopic("orders", tags={"b": "2"}, known=known))

    assert store.run(GetTopic("orders")).tags == {"a": "1"}


def test_a_subscription_that_somebody_else_has_changed_is_not_changed(store, neighbour):
    known = sns(store, "orders")
    neighbour.run(UpdateSubscription("u", details=EU, known=known))

    with pytest.raises(ChangedMeanwhile):
        store.run(UpdateSubscription("u", form=1, known=known))

    after = store.run(GetSubscription("u"))
    assert (after.details, after.form) == (EU, 0)


def test_nobody_subscribes_to_a_topic_that_was_changed_or_deleted_meanwhile(store, neighbour):
    known = store.run(CreateTopic("orders"))
    sns(store, "orders", "before")
    subscribe = Subscribe("orders", "queue", "jobs", uuid="2", topic=known)

    neighbour.run(UpdateTopic("orders", {"SignatureVersion": "1"}, form=1))
    for operation in (subscribe, UpdateSubscription("u", form=2, topic=known)):
        with pytest.raises(ChangedMeanwhile):
            store.run(operation)
    neighbour.run(DeleteTopic("orders"))
    with pytest.raises(TopicNotFound):
        store.run(subscribe)

    assert store.subscriptions() == []


# Numbers


def numbers(store, *bodies):
    events = [NewEvent("orders", NewMessage(body), body.decode(), numbered=True) for body in bodies]
    return [published.number for published in store.run(Publish(events))]


def test_numbers_go_up_whoever_gives_them_and_whatever_the_clock_says(store, neighbour):
    given = []
    for _ in range(3):
        for each in (store, neighbour):
            given += numbers(each, b"1", b"2")
            each.advance(-1_000)
    store.reopen()
    given += numbers(store, b"1")

    assert given == sorted(set(given))


def test_an_event_without_a_number_has_none(store):
    store.create()
    store.subscribe("orders", form=2)

    assert publish(store, "orders", envelopes={2: b'{"x":1}'}).number is None
    assert taken(store) == [b'{"x":1}']


def test_what_one_event_says_to_some_and_to_others_has_one_number(store):
    assert len(set(numbers(store, b"1", b"1"))) == 1


def test_a_number_stands_in_the_envelope_and_in_the_order_of_the_queue(store):
    store.create("jobs.fifo", fifo=True)
    sns(store, "orders", "jobs.fifo", form=2)
    events = [
        NewEvent("orders", NewMessage(b"1", group="g"), str(n), {2: b'{"x":1}'}, "http://here/?", numbered=True)
        for n in range(3)
    ]

    published = store.run(Publish(events))

    got = []
    for _ in events:
        message = store.take("jobs.fifo")
        got.append(message.body)
        store.ack(message)
    assert got == [
        b'{"x":1,"SequenceNumber":"%020d","UnsubscribeURL":"http://here/?u"}' % one.number for one in published
    ]


def test_an_endpoint_is_told_the_number_too(store):
    store.subscribe_endpoint("orders", ENDPOINT, form=2)

    published = publish(store, "orders", envelopes={2: b'{"x":1}'}, numbered=True)

    [delivery] = store.claim()
    assert delivery.body == b'{"x":1,"SequenceNumber":"%020d"}' % published.number


# How many filters there may be


def test_there_may_be_as_many_filters_as_in_aws():
    assert (subscriptions.MOST_FILTERS_OF_TOPIC, subscriptions.MOST_FILTERS) == (200, 10_000)


def test_there_are_so_many_filters_and_no_more(store, monkeypatch):
    monkeypatch.setattr(subscriptions, "MOST_FILTERS", 600)  # to make 10,000 takes long
    for topic in range(3):
        subscribes = [Subscribe(f"topic-{topic}", "queue", f"q{n}", 0, f"{topic}-{n}", EU) for n in range(200)]
        assert not any(isinstance(made, SqewError) for made in store.commit(*subscribes).results)

    with pytest.raises(FilterLimitExceeded, match="Topic 'topic-0' has 200 filter policies"):
        sns(store, "topic-0", "other", uuid="other", details=EU)
    with pytest.raises(FilterLimitExceeded, match="All topics together have 600"):
        sns(store, "other", "other", uuid="other", details=EU)
    sns(store, "topic-0", "other", uuid="other")


def test_an_event_that_would_take_too_many_comparisons_is_refused_and_nobody_gets_it(store):
    store.create()
    store.create("all")
    store.subscribe("orders", "all")
    policy = json.dumps({"a": [{"wildcard": f"*{n}x*"} for n in range(5)]})
    for n in range(50):
        sns(store, "orders", f"q{n}", uuid=str(n), details=SubscriptionDetails(policy, "MessageBody"))
    body = json.dumps({"a": [f"{n:05}" for n in range(30_000)]}).encode()

    with pytest.raises(TooMuchToCompare):
        publish(store, "orders", body)

    assert taken(store, "all") == []
