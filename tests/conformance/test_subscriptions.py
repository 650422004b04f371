"""Subscriptions: routes for events, from the first subscribe to the last unsubscribe."""

import pytest

from sqew.core.checks import check_operation
from sqew.errors import BadPattern, BadValue, QueueNotFound, SubscriptionExists, SubscriptionNotFound
from sqew.model import Subscription
from sqew.operations import DeleteQueue, ListSubscriptions, Publish, Subscribe, Unsubscribe
from sqew.rules.limits import Limits
from tests.conformance.driver import ENDPOINT, event


def test_a_subscription_of_a_queue_is_listed_as_it_was_made(store):
    store.create()

    subscribed = store.run(Subscribe("orders.*", "queue", "jobs"))

    assert subscribed.created
    assert subscribed.subscription == Subscription(
        subscribed.subscription.id, "orders.*", "queue", "jobs", 0, store.now, problem=""
    )
    assert store.subscriptions() == [subscribed.subscription]


def test_a_subscription_of_an_endpoint_is_listed_as_it_was_made(store):
    subscribed = store.run(Subscribe("orders.*", "https", "https://endpoint.example/", form=2))

    assert subscribed.created
    assert store.subscriptions() == [subscribed.subscription]
    assert (subscribed.subscription.protocol, subscribed.subscription.form) == ("https", 2)


def test_subscribing_again_answers_what_is_there(store):
    store.create()
    first = store.subscribe("orders.*")
    store.advance(1000)

    again = store.run(Subscribe("orders.*", "queue", "jobs"))

    assert not again.created
    assert again.subscription == first
    assert store.subscriptions() == [first]


def test_subscribing_again_in_another_form_is_a_conflict(store):
    first = store.subscribe_endpoint("orders.*", form=1)

    with pytest.raises(SubscriptionExists, match=rf"Subscription {first.id} already .* Delete it first"):
        store.subscribe_endpoint("orders.*", form=2)
    assert store.subscriptions() == [first]


def test_one_pattern_may_lead_to_several_places_and_one_place_have_several_patterns(store):
    store.create()

    made = [
        store.subscribe("orders.*"),
        store.subscribe_endpoint("orders.*"),
        store.subscribe("orders.#"),
        store.subscribe_endpoint("orders.*", "http://other.example/"),
    ]

    assert store.subscriptions() == made
    assert len({subscription.id for subscription in made}) == 4


def test_a_queue_that_does_not_exist_is_refused_with_the_nearest_name(store):
    store.create("invoices")

    with pytest.raises(QueueNotFound, match=r"did you mean 'invoices'"):
        store.subscribe("orders.*", "invoice")
    assert store.subscriptions() == []


def test_subscriptions_are_listed_by_pattern_exactly(store):
    store.create()
    wanted = [store.subscribe("orders.*"), store.subscribe_endpoint("orders.*")]
    store.subscribe("orders.#")
    store.subscribe("orders.created")

    assert store.subscriptions(pattern="orders.*") == wanted


def test_subscriptions_are_listed_by_queue(store):
    store.create()
    store.create("other")
    wanted = [store.subscribe("orders.*"), store.subscribe("payments.*")]
    store.subscribe("orders.*", "other")
    store.subscribe_endpoint("orders.*", "jobs")

    assert store.subscriptions(queue="jobs") == wanted


@pytest.mark.parametrize("filter", [{}, {"pattern": "orders.*"}, {"queue": "jobs"}], ids=["all", "pattern", "queue"])
def test_a_list_goes_on_after_the_last_one_of_the_page_before(store, filter):
    queues = ["jobs"] if "queue" in filter else [f"q{n}" for n in range(5)]
    for queue in queues:
        store.create(queue)
    made = [
        store.subscribe(f"orders.{n}" if "queue" in filter else "orders.*", queues[n % len(queues)]) for n in range(5)
    ]

    first = store.subscriptions(**filter, limit=2)
    second = store.subscriptions(**filter, after=first[-1].id, limit=2)
    last = store.subscriptions(**filter, after=second[-1].id, limit=2)

    assert first + second + last == made
    assert len(last) == 1


def test_an_unsubscribed_one_is_gone(store):
    store.create()
    first, second = store.subscribe("orders.*"), store.subscribe("payments.*")

    store.run(Unsubscribe(first.id))

    assert store.subscriptions() == [second]
    assert store.publish("orders.created").messages == []
    with pytest.raises(SubscriptionNotFound, match=f"no subscription {first.id} here"):
        store.run(Unsubscribe(first.id))


def test_an_id_is_not_given_out_twice(store):
    first = store.subscribe_endpoint("orders.*")
    store.run(Unsubscribe(first.id))

    assert store.subscribe_endpoint("orders.*").id > first.id


def test_the_subscription_of_a_deleted_queue_says_what_is_wrong(store):
    store.create()
    store.subscribe("orders.*")

    store.run(DeleteQueue("jobs"))

    for filter in ({}, {"pattern": "orders.*"}, {"queue": "jobs"}):
        [subscription] = store.subscriptions(**filter)
        assert "'jobs' does not exist" in subscription.problem


def test_events_that_nobody_can_take_are_missing_until_the_queue_is_made_again(store):
    store.create()
    store.subscribe("orders.*")
    store.run(DeleteQueue("jobs"))
    gone = store.publish("orders.created")

    store.create()
    there = store.publish("orders.created")

    assert (gone.messages, gone.missing) == ([], ["jobs"])
    assert (there.messages, there.missing) == ([("jobs", store.take().id)], [])
    assert store.subscriptions()[0].problem == ""


def test_subscriptions_survive_reopening(store):
    store.create()
    subscription = store.subscribe("orders.*")

    store.reopen()

    assert store.subscriptions() == [subscription]
    assert store.publish("orders.created").messages == [("jobs", store.take().id)]


def test_what_one_process_subscribes_the_other_publishes_to(store, neighbour):
    store.create()
    assert neighbour.publish("orders.created").messages == []

    store.subscribe("orders.*")

    assert [queue for queue, _ in neighbour.publish("orders.created").messages] == ["jobs"]


def test_what_one_process_unsubscribes_the_other_no_longer_publishes_to(store, neighbour):
    store.create()
    subscription = store.subscribe("orders.*")
    store.subscribe("payments.*")
    neighbour.publish("orders.created")

    store.run(Unsubscribe(subscription.id))

    assert neighbour.publish("orders.created").messages == []
    assert len(neighbour.publish("payments.created").messages) == 1


def test_two_processes_that_subscribe_in_turns_see_all_of_it(store, neighbour):
    names = [f"q{n}" for n in range(6)]
    for name in names:
        store.create(name)

    for n, name in enumerate(names):
        one, other = (store, neighbour) if n % 2 else (neighbour, store)
        one.subscribe("orders.#", name)
        assert len(other.publish("orders").messages) == n + 1
    for n, subscription in enumerate(store.subscriptions()):
        one, other = (store, neighbour) if n % 3 else (neighbour, store)
        one.run(Unsubscribe(subscription.id))
        assert len(other.publish("orders").messages) == len(names) - n - 1


def test_one_subscription_replaced_by_another_is_noticed_by_the_other_process(store, neighbour):
    store.create()
    store.create("other")
    old = store.subscribe("orders.*")
    neighbour.publish("orders.created")

    store.run(Unsubscribe(old.id))
    store.subscribe("orders.*", "other")

    assert [queue for queue, _ in neighbour.publish("orders.created").messages] == ["other"]


def test_a_subscription_counts_for_what_is_published_later_in_its_transaction(store):
    store.create()
    store.publish("orders.created")

    commit = store.commit(Subscribe("orders.*", "queue", "jobs"), Publish([event("orders.created")]))

    [published] = commit.results[1]
    assert [queue for queue, _ in published.messages] == ["jobs"]


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Subscribe("orders.", "queue", "jobs"), BadPattern),
        (Subscribe("orders.*", "ftp", ENDPOINT), BadValue),
        (Subscribe("orders.*", "http", ""), BadValue),
        (Subscribe("orders.*", "http", "http://" + "x" * 2_048), BadValue),
        (Subscribe("orders.*", "http", "http://\ud800/"), BadValue),
        (Subscribe("orders.*", "http", ENDPOINT, form=3), BadValue),
        (Unsubscribe(0), BadValue),
        (Unsubscribe("1"), BadValue),
        (ListSubscriptions(after=-1), BadValue),
        (ListSubscriptions(limit=0), BadValue),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_reaches_the_store(operation, error):
    with pytest.raises(error):
        check_operation(operation, Limits())
