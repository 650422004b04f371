"""Topics, and the filters and confirmations of SNS subscriptions."""

import pytest

from sqew.errors import ChangedMeanwhile, SubscriptionExists, SubscriptionNotFound, TopicNotFound
from sqew.model import CONFIRMATION, NOTIFICATION, Audience, SubscriptionDetails, SubscriptionNotice
from sqew.operations import (
    CountSubscriptions,
    CreateTopic,
    DeleteTopic,
    FindSubscription,
    GetSubscription,
    GetTopic,
    ListTopics,
    Operation,
    Publish,
    Unsubscribe,
    UpdateSubscription,
    UpdateTopic,
)
from tests.conformance.driver import ENDPOINT, event
from tests.conformance.sns import attributes, new_event, pending, publish, sns, taken

EU = SubscriptionDetails(filter_policy='{"shop":["eu"]}')


# Topics


def test_a_topic_is_there_as_it_was_made(store):
    made = store.run(CreateTopic("orders", {"DisplayName": "x"}, {"team": "shop"}))

    assert (made.name, made.attributes, made.tags, made.created_at) == (
        "orders", {"DisplayName": "x"}, {"team": "shop"}, store.now,
    )  # fmt: skip
    assert store.run(GetTopic("orders")) == made
    assert store.run(CreateTopic("orders", {"DisplayName": "y"})) == made


def test_topics_are_listed_by_name_and_prefix(store):
    for name in ("b", "a", "eu-west-1:a", "c"):
        store.run(CreateTopic(name))

    assert [topic.name for topic in store.run(ListTopics())] == ["a", "b", "c", "eu-west-1:a"]
    assert [topic.name for topic in store.run(ListTopics(after="a", limit=1))] == ["b"]
    assert [topic.name for topic in store.run(ListTopics("eu-west-1:"))] == ["eu-west-1:a"]


def test_attributes_are_changed_one_by_one_and_tags_all_together(store):
    store.run(CreateTopic("orders", {"a": "1", "b": "2"}, {"c": "3"}))

    store.run(UpdateTopic("orders", {"b": "4"}))
    changed = store.run(UpdateTopic("orders", tags={"d": "5"}))

    assert (changed.attributes, changed.tags) == ({"a": "1", "b": "4"}, {"d": "5"})
    assert store.run(GetTopic("orders")) == changed


@pytest.mark.parametrize("operation", [GetTopic("orders"), UpdateTopic("orders"), Publish([event("orders")], True)])
def test_a_topic_that_is_not_there_is_not_found(store, operation):
    with pytest.raises(TopicNotFound, match="There is no topic 'orders'"):
        store.run(operation)


def test_a_deleted_topic_takes_its_own_subscriptions_with_it_and_no_others(store):
    store.create()
    store.create("native")
    store.run(CreateTopic("orders"))
    sns(store, "orders")
    kept = store.subscribe("orders", "native")

    assert store.run(DeleteTopic("orders"))
    assert not store.run(DeleteTopic("orders"))

    assert store.subscriptions() == [kept]
    assert [queue for queue, _ in store.publish("orders").messages] == ["native"]


def test_subscriptions_of_a_topic_are_counted(store):
    store.run(CreateTopic("orders"))
    sns(store, "orders", uuid="1")
    sns(store, "orders", ENDPOINT, "http", uuid="2", confirmed=False)
    sns(store, "orders", "http://left.example/", "http", uuid="3")
    store.run(UpdateSubscription("3", state="deleted"))
    store.subscribe_endpoint("orders", "http://native.example/")

    assert store.run(CountSubscriptions("orders")) == Audience(confirmed=1, pending=1, deleted=1)


def test_who_wants_envelopes_gets_them_signed_as_the_topic_says_from_then_on(store, neighbour):
    store.create()
    store.create("raw")
    store.run(CreateTopic("orders"))
    sns(store, "orders", form=2, uuid="1")
    sns(store, "orders", "raw", uuid="2")
    for each in (store, neighbour):
        publish(each, "orders", envelopes={2: b"{}"})

    store.run(UpdateTopic("orders", form=1))

    for each in (store, neighbour):
        publish(each, "orders", envelopes={1: b'{"by":1}'})
    assert taken(store)[-2:] == [b'{"by":1}', b'{"by":1}']
    assert taken(store, "raw") == [b"1"] * 4


# Filters


def test_a_queue_gets_what_its_filter_wants(store):
    store.create()
    sns(store, "orders", details=EU)

    for shop in ("eu", "us"):
        publish(store, "orders", shop.encode(), attributes=attributes(shop=shop))

    assert taken(store) == [b"eu"]


def test_a_queue_that_two_ways_lead_to_gets_an_event_once_if_one_of_them_wants_it(store):
    store.create()
    sns(store, "orders.eu", details=EU)
    store.subscribe("orders.*")

    for shop in ("eu", "us"):
        publish(store, "orders.eu", shop.encode(), attributes=attributes(shop=shop))

    assert taken(store) == [b"eu", b"us"]


def test_events_of_one_batch_are_filtered_one_by_one(store):
    store.create()
    store.create("all")
    sns(store, "orders", details=EU)
    store.subscribe("orders", "all")
    shops = ("eu", "us", "eu")

    published = store.run(
        Publish([new_event("orders", shop.encode(), attributes=attributes(shop=shop)) for shop in shops])
    )

    assert [len(one.messages) for one in published] == [2, 1, 2]
    assert (taken(store), taken(store, "all")) == ([b"eu", b"eu"], [b"eu", b"us", b"eu"])


def test_an_endpoint_that_does_not_want_an_event_gets_no_delivery(store):
    sns(store, "orders", ENDPOINT, "http", details=EU)

    for shop in ("eu", "us"):
        publish(store, "orders", shop.encode(), attributes=attributes(shop=shop))

    assert [delivery.body for delivery in store.claim()] == [b"eu"]


def test_envelopes_are_asked_for_only_where_somebody_wants_the_event(store):
    store.create()
    sns(store, "orders", form=2, details=EU)

    assert publish(store, "orders", attributes=attributes(shop="us")).messages == []


def test_a_filter_that_another_process_changed_holds(store, neighbour):
    store.create()
    sns(store, "orders", details=EU)
    publish(neighbour, "orders", b"first", attributes=attributes(shop="eu"))

    store.run(UpdateSubscription("u", details=SubscriptionDetails(filter_policy='{"shop":["us"]}')))

    for each in (store, neighbour):
        for shop in ("eu", "us"):
            publish(each, "orders", shop.encode(), attributes=attributes(shop=shop))
    assert taken(store) == [b"first", b"us", b"us"]


class NoSuchOperation(Operation[None]):
    """An operation that no store knows: it undoes the transaction that it is in."""


def test_a_filter_whose_change_was_undone_does_not_hold(store):
    store.create()
    sns(store, "orders", details=EU)
    publish(store, "orders", b"first", attributes=attributes(shop="eu"))

    with pytest.raises(KeyError):
        store.commit(UpdateSubscription("u", details=SubscriptionDetails()), NoSuchOperation())

    publish(store, "orders", b"second", attributes=attributes(shop="us"))
    assert taken(store) == [b"first"]


def test_an_event_for_some_protocols_reaches_only_those(store):
    store.create()
    sns(store, "orders", uuid="1")
    sns(store, "orders", ENDPOINT, "http", uuid="2")

    publish(store, "orders", b"to queues", only=("queue",))
    publish(store, "orders", b"to the web", only=("http", "https"))

    assert taken(store) == [b"to queues"]
    assert [delivery.body for delivery in store.claim()] == [b"to the web"]


def test_attributes_are_headers_of_the_message_and_not_of_its_envelope(store):
    store.create()
    store.create("sealed")
    sns(store, "orders", uuid="1")
    sns(store, "orders", "sealed", uuid="2", form=2)

    publish(store, "orders", attributes=attributes(shop="eu"), envelopes={2: b"{}"})

    assert store.take().headers == {**attributes(shop="eu"), "_event": {"routing_key": "orders"}}
    assert store.take("sealed").headers == {"_event": {"routing_key": "orders"}}


def test_each_envelope_says_how_to_leave(store):
    for queue in ("a", "b", "native"):
        store.create(queue)
    sns(store, "orders", "a", uuid="1", form=2)
    sns(store, "orders", "b", uuid="2", form=2)
    store.subscribe("orders", "native", form=2)

    publish(store, "orders", envelopes={2: b'{"x":1}'}, unsubscribe_link="http://here/?")

    assert taken(store, "a") == [b'{"x":1,"UnsubscribeURL":"http://here/?1"}']
    assert taken(store, "b") == [b'{"x":1,"UnsubscribeURL":"http://here/?2"}']
    assert taken(store, "native") == [b'{"x":1}']


def test_the_key_of_an_event_holds_in_every_queue(store):
    store.create()
    store.create("orders.fifo", fifo=True)
    sns(store, "orders", uuid="1")
    sns(store, "orders", "orders.fifo", uuid="2")

    for body in (b"first", b"again"):
        publish(store, "orders", body, key="k")

    assert taken(store) == taken(store, "orders.fifo") == [b"first"]


# Subscriptions that SNS knows


def test_a_subscription_is_found_by_its_uuid_and_by_where_it_leads(store):
    made = sns(store, "orders", uuid="7", details=EU)

    assert store.run(GetSubscription("7")) == store.run(FindSubscription("orders", "jobs"))
    assert (made.uuid, made.details, made.confirmed) == ("7", EU, True)
    for operation in (GetSubscription("8"), UpdateSubscription("8"), FindSubscription("orders", "other")):
        with pytest.raises(SubscriptionNotFound):
            store.run(operation)


def test_subscribing_again_answers_what_is_there_unless_its_details_differ(store):
    first = sns(store, "orders", uuid="1", details=EU)

    assert sns(store, "orders", uuid="2", details=EU).uuid == "1"
    with pytest.raises(SubscriptionExists):
        sns(store, "orders", uuid="2")
    assert sns(store, "orders", uuid="2", exist_ok=True) == store.run(GetSubscription(first.uuid))


def test_a_native_subscription_becomes_one_of_sns_when_it_is_made_again_there(store):
    store.create()
    native = store.subscribe("orders")

    known = sns(store, "orders", uuid="1", details=EU)

    assert (known.id, known.uuid) == (native.id, "1")
    assert publish(store, "orders", attributes=attributes(shop="us")).messages == []


def test_who_has_not_confirmed_is_posted_the_greeting_and_nothing_else(store, neighbour):
    made = pending(store)
    for each in (store, neighbour):
        publish(each, "orders")

    [delivery] = store.claim()

    assert (delivery.body, delivery.kind, delivery.subscription_uuid) == (b'{"hi":1}', CONFIRMATION, "1")
    assert "has not confirmed" in made.problem
    assert store.subscriptions() == [made]


def test_who_has_confirmed_is_posted_what_is_published(store, neighbour):
    pending(store)
    publish(neighbour, "orders")
    [notice] = store.claim()
    store.settle(notice, delivered=True)

    store.run(UpdateSubscription("1", state="confirmed"))
    for each in (store, neighbour):
        publish(each, "orders")

    assert [delivery.kind for delivery in store.claim()] == [NOTIFICATION, NOTIFICATION]


def test_a_pending_subscription_can_be_deleted(store):
    made = pending(store)
    publish(store, "orders")

    store.run(Unsubscribe(made.id))

    assert store.subscriptions() == []
    assert store.claim() == []


def greeted_again(store, token, **fields):
    return sns(
        store, "orders", ENDPOINT, "http", "2", confirmed=False, details=SubscriptionDetails(token=token),
        notice=SubscriptionNotice("m", b'{"hi":2}'), **fields,
    )  # fmt: skip


def test_who_subscribes_again_before_confirming_is_greeted_again_with_the_same_token(store):
    pending(store)

    again = greeted_again(store, "t")

    assert (again.uuid, again.details.token) == ("1", "t")
    assert [delivery.body for delivery in store.claim()] == [b'{"hi":1}', b'{"hi":2}']


def test_another_token_takes_the_place_of_one_only_when_that_is_over(store):
    made = pending(store)

    with pytest.raises(ChangedMeanwhile):
        greeted_again(store, "new")
    store.now = made.ends_at

    assert greeted_again(store, "new").details.token == "new"
