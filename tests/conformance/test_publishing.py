"""Publishing: one event reaches every queue and endpoint that wants it, or none."""

from itertools import zip_longest

import pytest

from sqew.core.checks import check_operation
from sqew.errors import (
    BadBody,
    BadRoutingKey,
    BadValue,
    QuotaExceeded,
    RateLimited,
    TooLarge,
    UnknownLane,
)
from sqew.model import DELIVERIES, Fact, NewEvent, NewMessage, Published
from sqew.operations import DeleteQueue, Publish, Send
from sqew.rules.limits import Limits
from tests.conformance.driver import ENDPOINT, Driver, event

LARGE = b'"' + b"x" * 100_000 + b'"'


def create_with_subscription(store: Driver, queue: str = "jobs", pattern: str = "orders.#", **policy: object) -> None:
    store.create(queue, **policy)
    store.subscribe(pattern, queue)


def bodies(store: Driver, queue: str = "jobs") -> list[bytes]:
    return [message.body for message in store.receive(100, queue)]


# Where it goes


def test_an_event_reaches_every_queue_whose_pattern_matches(store):
    for queue, pattern in [("a", "orders.*"), ("b", "#"), ("c", "orders"), ("d", "payments.*")]:
        create_with_subscription(store, queue, pattern)

    published = store.publish("orders.created", b'{"n": 1}')

    assert sorted(queue for queue, _ in published.messages) == ["a", "b"]
    for queue, id in published.messages:
        message = store.take(queue)
        assert (message.id, message.body, message.format) == (id, b'{"n": 1}', "json")
    assert store.total("c") == store.total("d") == 0


def test_a_queue_that_two_patterns_lead_to_gets_one_copy(store):
    create_with_subscription(store, "jobs", "orders.*")
    store.subscribe("#")
    store.subscribe("orders.created")

    published = store.publish("orders.created")

    assert published.messages == [("jobs", store.take().id)]
    assert store.receive() == []


def test_an_event_that_nobody_wants_goes_nowhere(store):
    create_with_subscription(store)

    assert store.publish("payments.created") == Published([], 0, [])
    assert store.total() == 0


def test_a_queue_that_is_gone_is_named_once_and_is_in_nobodys_way(store):
    create_with_subscription(store, "gone")
    store.subscribe("#", "gone")
    create_with_subscription(store, "jobs")
    store.run(DeleteQueue("gone"))

    published = store.publish("orders.created")

    assert published == Published([("jobs", store.take().id)], 0, ["gone"])


def test_an_endpoint_gets_a_delivery_for_every_subscription(store):
    store.subscribe_endpoint("orders.*")
    store.subscribe_endpoint("#")
    store.subscribe_endpoint("payments.*", "http://other.example/")

    published = store.publish("orders.created")

    assert published == Published([], 2, [])
    assert [delivery.endpoint for delivery in store.deliveries()] == [ENDPOINT] * 2


def test_events_are_answered_in_their_order(store):
    create_with_subscription(store, "a", "a")
    create_with_subscription(store, "b", "b")

    answers = store.run(Publish([event("b"), event("x"), event("a"), event("b")]))

    assert [[queue for queue, _ in published.messages] for published in answers] == [["b"], [], ["a"], ["b"]]


def test_events_of_one_transaction_reach_the_same_queues_each_with_its_own_body(store):
    for queue in ("a", "b", "c"):
        create_with_subscription(store, queue)
    # Alike in all but their bodies, with others between them; bodies that look like numbers, and an empty one.
    alike = [Publish([event("orders.1", body, format="text")]) for body in (b"12345", b"0", b"", b"\xc3\xa9" * 200)]
    others = [
        Send("b", [NewMessage(b'"sent"')]),
        Publish([event("orders.1", b'"high"', priority=9)]),
        Publish([event("orders.1", b'"late"', delay_ms=5_000)]),
        Publish([event("orders.1", b'"short"', ttl_ms=60_000), event("orders.2", b'"key"')]),
        Publish([event("orders.1", b'"headed"', headers={"size": "5"})]),
        Publish([event("nobody.wants", b'"lost"')]),
    ]
    operations = [op for pair in zip_longest(alike, others) for op in pair if op is not None]

    commit = store.commit(*operations)

    expected: dict[int, tuple[str, bytes]] = {}
    for op, result in zip(operations, commit.results, strict=True):
        if isinstance(op, Send):
            expected[result[0].id] = ("b", op.messages[0].body)
            continue
        for published, sent in zip(result, op.events, strict=True):
            expected |= {id: (queue, sent.message.body) for queue, id in published.messages}
    assert len(expected) == 3 * 9 + 1
    assert {id: (queue, store.get(id, queue).body) for id, (queue, _) in expected.items()} == expected
    assert sorted((fact.id, fact.queue, fact.kind) for fact in commit.facts) == sorted(
        (id, queue, "sent") for id, (queue, _) in expected.items()
    )
    assert bodies(store, "a")[:2] == [b'"high"', b"12345"]
    store.advance(5_000)
    assert bodies(store, "a") == [b'"late"']


# What arrives


def test_a_message_says_under_which_routing_key_it_was_published(store):
    create_with_subscription(store)

    store.publish("orders.eu.created")

    assert store.take().headers == {"_event": {"routing_key": "orders.eu.created"}}


def test_a_senders_headers_arrive_beside_the_routing_key(store):
    create_with_subscription(store)

    store.publish("orders.created", headers={"trace": [1], "_event": "forged"})

    assert store.take().headers == {"trace": [1], "_event": {"routing_key": "orders.created"}}


def test_delay_time_to_live_and_priority_are_the_events(store):
    create_with_subscription(store, delay_ms=50, ttl_ms=900)

    [(_, id)] = store.publish("orders.created", delay_ms=100, ttl_ms=500, priority=7).messages

    message = store.get(id)
    assert (message.priority, message.available_at, message.expires_at) == (7, store.now + 100, store.now + 500)
    assert store.receive() == []
    store.advance(100)
    assert store.take().id == id


def test_delay_and_time_to_live_are_the_queues_where_the_event_says_nothing(store):
    create_with_subscription(store, delay_ms=50, ttl_ms=900)

    [(_, id)] = store.publish("orders.created").messages

    message = store.get(id)
    assert (message.available_at, message.expires_at) == (store.now + 50, store.now + 900)


def test_an_event_of_higher_priority_is_received_before_what_was_there(store):
    create_with_subscription(store)
    store.send()

    [(_, id)] = store.publish("orders.created", priority=1).messages

    assert store.take().id == id


def test_a_lane_is_kept_where_the_queue_has_it(store):
    create_with_subscription(store, lanes={"slow": 1, "fast": 5})

    store.publish("orders.created", lane="fast")

    assert store.take(lane="fast").lane == "fast"


def test_a_large_body_arrives_whole_in_every_queue_and_at_every_endpoint(store):
    create_with_subscription(store, "a")
    create_with_subscription(store, "b")
    store.subscribe_endpoint("orders.*")

    store.publish("orders.created", LARGE)

    assert bodies(store, "a") == bodies(store, "b") == [LARGE]
    assert [delivery.body for delivery in store.claim()] == [LARGE]


def test_a_text_arrives_as_a_text(store):
    create_with_subscription(store)
    store.subscribe_endpoint("orders.*")

    store.publish("orders.created", "grüße".encode(), format="text")

    message = store.take()
    assert (message.value, message.format) == ("grüße", "text")
    [delivery] = store.claim()
    assert (delivery.body, delivery.format) == ("grüße".encode(), "text")


def test_the_events_of_one_publish_are_received_in_their_order(store):
    create_with_subscription(store)

    store.run(Publish([event("orders.created", b"%d" % n) for n in range(20)]))

    assert bodies(store) == [b"%d" % n for n in range(20)]


def test_what_was_published_survives_reopening(store):
    create_with_subscription(store)
    store.subscribe_endpoint("orders.*")
    store.publish("orders.created", b"7")

    store.reopen()

    assert bodies(store) == [b"7"]
    assert [delivery.body for delivery in store.claim()] == [b"7"]


# FIFO queues


def test_a_fifo_queue_keeps_the_order_of_a_group_within_a_batch_and_across_batches(store):
    create_with_subscription(store, "jobs.fifo", fifo=True)
    for first in (0, 3):
        store.run(Publish([event("orders.created", b"%d" % n, group="g") for n in range(first, first + 3)]))

    received = []
    for _ in range(6):
        message = store.take("jobs.fifo")
        assert store.receive(10, "jobs.fifo") == []
        received.append(message.body)
        store.ack(message)

    assert received == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_groups_of_a_fifo_queue_go_side_by_side(store):
    create_with_subscription(store, "jobs.fifo", fifo=True)

    store.run(
        Publish([event("orders.created", body, group=group) for body, group in [(b"1", "a"), (b"2", "a"), (b"3", "b")]])
    )

    heads = [store.take("jobs.fifo") for _ in range(2)]
    assert sorted((message.group, message.body) for message in heads) == [("a", b"1"), ("b", b"3")]


def test_events_without_a_group_are_in_order_in_a_fifo_queue(store):
    create_with_subscription(store, "jobs.fifo", fifo=True)
    store.run(Publish([event("orders.created", b"1"), event("orders.created", b"2")]))

    assert store.take("jobs.fifo").body == b"1"
    assert store.receive(10, "jobs.fifo") == []


def test_a_queue_that_deduplicates_by_content_takes_equal_events_once(store):
    create_with_subscription(store, deduplicate="content")

    first, again = store.run(Publish([event("orders.created", b"1"), event("orders.updated", b"1")]))

    assert first.messages == again.messages
    assert store.total() == 1


# All or none


def assert_no_trace(store, commit, queues):
    assert (commit.facts, commit.woken) == ([], set())
    assert [store.total(queue) for queue in queues] == [0] * len(queues)
    assert store.deliveries() == []


@pytest.mark.parametrize(
    ("policy", "fields", "error"),
    [
        ({"quota": 1}, {}, QuotaExceeded),
        ({"rate_limit": 1.0}, {}, RateLimited),
        ({}, {"lane": "fast"}, UnknownLane),
    ],
    ids=["quota", "rate limit", "lane"],
)
def test_one_queue_that_refuses_refuses_for_all_and_leaves_no_trace(store, policy, fields, error):
    create_with_subscription(store, "plain")
    create_with_subscription(store, "jobs", **policy)
    create_with_subscription(store, "groups.fifo", fifo=True)
    store.subscribe_endpoint("orders.*")
    # A rate of one a second lets a first one through, and a quota of one is met by it.
    if policy:
        store.send(queue="jobs")
        store.receive(finish=not policy.get("quota"))

    commit = store.commit(Publish([event("orders.created", **fields), event("payments.created")]))

    [result] = commit.results
    assert isinstance(result, error)
    assert_no_trace(store, commit, ["plain", "groups.fifo"])
    assert store.total("jobs") == (1 if policy.get("quota") else 0)


def test_a_batch_counts_as_a_whole_against_a_quota(store):
    create_with_subscription(store, quota=2)

    refused = store.commit(Publish([event("orders.created")] * 3))
    taken = store.run(Publish([event("orders.created")] * 2))

    assert isinstance(refused.results[0], QuotaExceeded)
    assert [len(published.messages) for published in taken] == [1, 1]


def test_a_refused_publish_uses_up_no_rate_of_the_queues_that_would_have_taken_it(store):
    create_with_subscription(store, "limited", rate_limit=2.0)
    create_with_subscription(store, "full", quota=0)

    for _ in range(5):
        assert isinstance(store.commit(Publish([event("orders.created")])).results[0], QuotaExceeded)

    assert len(store.send_many(2, "limited")) == 2


def test_a_refused_publish_leaves_its_neighbours_in_the_transaction_whole(store):
    create_with_subscription(store, "jobs", "orders.#")
    create_with_subscription(store, "full", "payments.#", quota=0)

    first, refused, last = store.commit(
        Publish([event("orders.a")]), Publish([event("orders.b"), event("payments.b")]), Publish([event("orders.c")])
    ).results

    assert isinstance(refused, QuotaExceeded)
    assert [id for _, id in first[0].messages + last[0].messages] == [message.id for message in store.receive(10)]


# What others are told


def test_a_publish_tells_of_every_message_and_stirs_its_queues(store):
    create_with_subscription(store, "a", lanes={"x": 1})
    create_with_subscription(store, "b.fifo", fifo=True)

    commit = store.commit(Publish([event("orders.created")]))

    [published] = commit.results[0]
    lanes = {"a": "x", "b.fifo": "normal"}
    assert commit.facts == [Fact("sent", queue, lanes[queue], id, 0) for queue, id in published.messages]
    assert commit.woken == {"a", "b.fifo"}


def test_a_publish_to_an_endpoint_stirs_the_deliveries_alone(store):
    store.subscribe_endpoint("orders.*")

    commit = store.commit(Publish([event("orders.created")]))

    assert (commit.facts, commit.woken) == ([], {DELIVERIES})


# What can't be published


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (event("orders.*"), BadRoutingKey),
        (event("orders", b"{"), BadBody),
        (event("orders", b"\xff", format="text"), BadBody),
        (event("orders", key="k"), BadValue),
        (event("orders", delay_ms=-1), BadValue),
        (NewEvent("orders", NewMessage(b"1"), ""), BadValue),
        (event("orders", b'"' + b"x" * (Limits().max_body_bytes + 1) + b'"'), TooLarge),
        (NewMessage(b"1"), BadValue),
    ],
    ids=["pattern", "broken JSON", "no text", "key", "delay", "no id", "too large", "no event"],
)
def test_one_event_that_makes_no_sense_is_refused_with_all_of_its_batch(bad, error):
    with pytest.raises(error):
        check_operation(Publish([event("orders"), bad]), Limits())


@pytest.mark.parametrize("events", [event("orders"), "orders", None, [event("orders")] * (Limits().max_batch + 1)])
def test_what_is_no_batch_is_refused(events):
    with pytest.raises((BadValue, TooLarge)):
        check_operation(Publish(events), Limits())
