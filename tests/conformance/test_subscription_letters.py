"""Dead letters of subscriptions: undeliverable events go to the queue that the subscription names."""

import pytest
from msgspec import structs

from sqew.errors import QuotaExceeded
from sqew.model import NewMessage, SubscriptionDetails, SubscriptionNotice
from sqew.operations import CreateTopic, Publish
from tests.conformance.driver import ENDPOINT
from tests.conformance.sns import attributes, new_event, publish, sns, taken

LETTERS = SubscriptionDetails(dead_letter="letters")


def test_what_is_exhausted_goes_to_the_queue_that_the_subscription_names(store):
    store.create("letters")
    sns(store, "orders", ENDPOINT, "http", details=LETTERS)
    publish(store, "orders", b'{"sku":7}')
    [delivery] = store.claim()

    assert store.settle(delivery, status=500, error="It answered 500.") == "exhausted"

    letter = store.take("letters")
    assert letter.body == b'{"sku":7}'
    assert letter.headers["ErrorMessage"] == {"DataType": "String", "StringValue": "It answered 500."}
    assert letter.headers["ErrorCode"]["StringValue"] == "500"
    assert store.deliveries() == []


def test_a_letter_is_what_was_posted(store):
    store.create("letters")
    sns(store, "orders", ENDPOINT, "http", details=LETTERS)
    publish(store, "orders", b'{"sku":7}')
    [delivery] = store.claim()

    store.settle(delivery, error="no", posted=b'{"sku":7,"UnsubscribeURL":"http://here/"}')

    assert taken(store, "letters") == [b'{"sku":7,"UnsubscribeURL":"http://here/"}']


def test_what_will_be_tried_again_stays(store):
    store.create("letters")
    sns(store, "orders", ENDPOINT, "http", details=LETTERS)
    publish(store, "orders")
    [delivery] = store.claim()

    assert store.settle(delivery, error="no", retry_at=store.now + 1) == "waiting"

    assert store.total("letters") == 0


@pytest.mark.parametrize("policy", [None, {"quota": 1}])
def test_a_letter_that_no_queue_takes_stays_as_an_exhausted_delivery(store, policy):
    if policy is not None:
        store.create("letters", **policy)
        store.send(queue="letters")
    sns(store, "orders", ENDPOINT, "http", details=LETTERS)
    publish(store, "orders")
    [delivery] = store.claim()

    store.settle(delivery, error="no")

    assert [one.state for one in store.deliveries()] == ["exhausted"]


def test_a_greeting_that_can_not_be_posted_is_no_dead_letter(store):
    store.create("letters")
    sns(
        store, "orders", ENDPOINT, "http", confirmed=False, details=LETTERS, notice=SubscriptionNotice("m", b"{}")
    )  # fmt: skip
    [delivery] = store.claim()

    store.settle(delivery, error="no")

    assert store.total("letters") == 0
    assert [one.state for one in store.deliveries()] == ["exhausted"]


def test_what_a_queue_that_is_gone_would_have_got_goes_to_the_dead_letters(store):
    store.create("letters")
    sns(store, "orders", "gone", details=LETTERS)

    assert [queue for queue, _ in publish(store, "orders").messages] == ["letters"]
    letter = store.take("letters")
    assert letter.body == b"1"
    assert letter.headers["RequestID"]["StringValue"] == "id of orders"
    assert letter.headers["ErrorMessage"]["StringValue"].startswith("Queue 'gone' does not exist.")


def test_an_envelope_for_a_queue_that_is_gone_is_a_letter_too_and_others_get_theirs(store):
    for queue in ("letters", "jobs"):
        store.create(queue)
    sns(store, "orders", "gone", uuid="1", form=2, details=LETTERS)
    sns(store, "orders", "jobs", uuid="2", form=2)

    published = publish(store, "orders", envelopes={2: b"{}"})

    assert [queue for queue, _ in published.messages] == ["letters", "jobs"]
    assert (taken(store, "letters"), taken(store)) == ([b"{}"], [b"{}"])


REFUSING = pytest.mark.parametrize(
    "policy", [{"quota": 0}, {"rate_limit": 0.001}, {"max_body_bytes": 1}], ids=["quota", "rate limit", "size"]
)


def to_topic(store, *bodies, **fields):
    return store.run(Publish([new_event("orders", body, **fields) for body in bodies], to_topics=True))


@pytest.fixture
def topic(store):
    store.run(CreateTopic("orders"))
    for queue in ("letters", "others"):
        store.create(queue)
    sns(store, "orders", "others", uuid="others")
    sns(store, "orders", ENDPOINT, "http", uuid="endpoint")


@pytest.mark.usefixtures("topic")
@REFUSING
def test_what_a_queue_refuses_goes_to_the_dead_letters_and_everybody_else_gets_theirs(store, policy):
    store.create(**policy)
    if "rate_limit" in policy:
        store.send()
    sns(store, "orders", details=LETTERS)

    [published] = to_topic(store, b"12")

    assert ([queue for queue, _ in published.messages], published.refused) == (["others", "letters"], [])
    letter = store.take("letters")
    assert letter.body == b"12"
    assert "'jobs'" in letter.headers["ErrorMessage"]["StringValue"]
    assert taken(store, "others") == [b"12"]
    assert [delivery.body for delivery in store.claim()] == [b"12"]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("dead_letters", [None, {"quota": 0}], ids=["none", "full"])
def test_what_no_queue_takes_is_told_of_and_everybody_else_gets_theirs(store, dead_letters):
    store.create(quota=0)
    if dead_letters is None:
        sns(store, "orders")
    else:
        store.update("letters", **dead_letters)
        sns(store, "orders", details=LETTERS)

    [published] = to_topic(store, b"1")

    assert [queue for queue, _ in published.messages] == ["others"]
    assert [error.queue for error in published.refused] == ["jobs"]
    assert taken(store, "others") == [b"1"]


@pytest.mark.usefixtures("topic")
def test_a_queue_takes_as_much_of_a_batch_as_it_can(store):
    store.create(quota=2, max_body_bytes=2)
    sns(store, "orders", details=LETTERS)

    published = to_topic(store, b"1", b"too long", b"2", b"3")

    assert [[queue for queue, _ in one.messages] for one in published] == [
        ["others", "jobs"], ["others", "letters"], ["others", "jobs"], ["others", "letters"],
    ]  # fmt: skip
    assert (taken(store), taken(store, "letters")) == ([b"1", b"2"], [b"too long", b"3"])
    assert taken(store, "others") == [b"1", b"too long", b"2", b"3"]


@pytest.mark.usefixtures("topic")
def test_the_order_of_a_group_is_kept_in_a_queue_that_refuses_some(store):
    store.create("jobs.fifo", fifo=True, max_body_bytes=2)
    sns(store, "orders", "jobs.fifo")
    events = [structs.replace(new_event("orders", b"x"), message=NewMessage(body, group="g"))
              for body in (b"1", b"too long", b"2", b"3")]  # fmt: skip

    store.run(Publish(events, to_topics=True))

    got = []
    for _ in range(3):
        message = store.take("jobs.fifo")
        got.append(message.body)
        store.ack(message)
    assert got == [b"1", b"2", b"3"]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("size", [10, 5_000], ids=["small", "large"])
@pytest.mark.parametrize("fifo", [False, True])
def test_what_has_too_many_attributes_for_a_queue_is_a_letter_or_told_of_and_others_get_theirs(store, size, fifo):
    for queue in ("raw", "sealed", "native"):
        store.create(queue, fifo=fifo)
    sns(store, "orders", "raw", uuid="raw", details=LETTERS)
    sns(store, "orders", "sealed", uuid="sealed", form=2)
    store.subscribe("orders", "native")
    body = b"x" * size

    [published] = to_topic(
        store, body, attributes=attributes(**{f"a{n}": "x" for n in range(11)}), envelopes={2: b"{}"}
    )

    assert sorted(queue for queue, _ in published.messages) == ["letters", "native", "sealed"]
    assert [str(error)[:66] for error in published.refused] == [
        "The message has 11 attributes, and queue 'others', which gets it a"
    ]
    letter = store.take("letters")
    assert (letter.body, letter.headers["a10"]["StringValue"]) == (body, "x")
    assert "queue 'raw'" in letter.headers["ErrorMessage"]["StringValue"]
    assert (taken(store, "native"), taken(store, "sealed"), taken(store, "raw")) == ([body], [b"{}"], [])
    assert [delivery.body for delivery in store.claim()] == [body]


@pytest.mark.usefixtures("topic")
def test_what_goes_to_no_topic_of_sns_is_still_refused_for_all(store):
    store.create(quota=0)
    sns(store, "orders", details=LETTERS)

    with pytest.raises(QuotaExceeded):
        publish(store, "orders")

    assert (taken(store, "others"), taken(store, "letters"), store.claim()) == ([], [], [])


@pytest.mark.parametrize("queues", ["gone", "full"])
def test_the_letter_of_a_second_subscription_was_lost_as_a_repetition_of_the_first(store, queues):
    store.run(CreateTopic("orders"))
    store.create("letters.fifo", fifo=True)
    for name in ("a.fifo", "b.fifo"):
        if queues == "full":
            store.create(name, fifo=True, quota=0)
        sns(store, "orders", name, uuid=name, details=SubscriptionDetails(dead_letter="letters.fifo"))
    event = structs.replace(new_event("orders", key="once"), message=NewMessage(b"1", group="g"))

    for _ in range(2):
        store.run(Publish([event], to_topics=True))

    dead_letters = store.receive(10, "letters.fifo")
    assert [letter.group for letter in dead_letters] == ["g", "g"]
    told = [letter.headers["ErrorMessage"]["StringValue"] for letter in dead_letters]
    assert [name in text for name, text in zip(("a.fifo", "b.fifo"), told, strict=True)] == [True, True]
