"""Events, deliveries and certificates, through a server."""

import json
import time

import pytest

from sqew import NewMessage, Queue, QueueNotFound
from sqew.client import EnvelopeVerifier
from sqew.errors import (
    BadBody,
    BadEndpoint,
    BadPattern,
    BadRoutingKey,
    BadValue,
    Conflict,
    DeliveryNotFound,
    QuotaExceeded,
    SubscriptionExists,
    SubscriptionNotFound,
    TooLarge,
    Unauthorized,
)
from sqew.model import Retried
from tests.client.clients import connect, queue
from tests.support.endpoint import endpoint, status
from tests.support.serving import serving

__all__ = ["connect", "queue"]

OPTIONS = ("--durability", "fast", "--delivery-allow", "127.0.0.1", "--delivery-retries", "10ms", "--max-batch", "200")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("events"), *OPTIONS) as server:
        yield server


@pytest.fixture(scope="module")
def hook():
    with endpoint() as hook:
        yield hook


@pytest.fixture
def q(connect, server, queue):
    """Yield a client; remove at the end all that the test subscribed to."""
    q = connect(server.url)
    q.create(queue)
    yield q
    for subscription in q.events.subscriptions():
        q.events.unsubscribe(subscription.id)
    q.deliveries.drop_all()


def exhausted(q, hook, path, count=1):
    """Return deliveries that failed for good, once there are as many."""
    hook.wait_for(path, 2 * count)
    deadline = time.monotonic() + 30
    while len(found := q.deliveries.list("exhausted")) < count:
        assert time.monotonic() < deadline, found
    return found


# Publishing


def test_an_event_reaches_a_queue(q, queue):
    q.events.subscribe("orders.*", queue=queue)

    published = q.events.publish("orders.created", {"sku": 7}, headers={"by": "shop"}, priority=3, ttl_seconds=60)

    message = q.claim(queue)
    assert published.messages == [(queue, message.id)]
    assert (published.deliveries, published.missing) == (0, [])
    assert (message.value, message.priority, message.headers["by"]) == ({"sku": 7}, 3, "shop")
    assert message.expires_at - message.created_at == 60_000


def test_a_delayed_event_is_not_there_yet(q, queue):
    q.events.subscribe("orders.*", queue=queue)

    q.events.publish("orders.created", "text", delay_seconds=60, group="g")

    (message,) = q.peek(queue)
    assert (message.value, message.group, message.state) == ("text", "g", "delayed")


def test_a_string_became_a_json_string_on_its_way(q, queue):
    q.events.subscribe("orders.*", queue=queue)

    q.events.publish("orders.created", "text")
    q.events.publish_many("orders.created", ["text", NewMessage(b"text", "text")])

    assert [(message.body, message.format) for message in q.peek(queue)] == [(b"text", "text")] * 3


def test_a_batch_is_published_in_order_and_byte_for_byte(q, queue):
    q.events.subscribe("orders.*", queue=queue)

    published = q.events.publish_many("orders.created", [1, NewMessage(b'{"b": 1.50}')])

    assert [len(one.messages) for one in published] == [1, 1]
    assert [message.body for message in q.peek(queue)] == [b"1", b'{"b": 1.50}']


def test_an_empty_batch_asks_nobody(q):
    assert q.events.publish_many("orders.created", []) == []


def test_a_queue_that_was_deleted_is_missing(q, queue):
    q.events.subscribe("orders.*", queue=queue)
    q.delete(queue)

    assert q.events.publish("orders.created", 1).missing == [queue]
    assert f"'{queue}' does not exist" in q.events.subscriptions()[0].problem


@pytest.mark.parametrize(
    ("key", "body", "options", "error"),
    [
        ("orders..created", 1, {}, BadRoutingKey),
        ("orders/created", 1, {}, BadRoutingKey),
        ("orders", float("nan"), {}, BadBody),
        ("orders", NewMessage(b"1"), {}, BadValue),
        ("orders", 1, {"delay_seconds": -1}, BadValue),
        ("orders", "x" * 2_000_000, {}, TooLarge),
    ],
)
def test_what_can_not_be_published_is_refused(q, key, body, options, error):
    with pytest.raises(error):
        q.events.publish(key, body, **options)


@pytest.mark.parametrize("said", [{"key": "k"}, {"lane": "fast"}])
def test_an_event_has_neither_a_key_nor_a_lane(q, said):
    with pytest.raises(BadValue, match="An event can't have"):
        q.events.publish_many("orders", [NewMessage(b"1", **said)])


def test_an_event_that_is_too_fast_for_a_queue_is_refused(q, queue):
    q.update(queue, quota=1)
    q.events.subscribe("orders", queue=queue)
    q.events.publish("orders", 1)

    with pytest.raises(QuotaExceeded, match="quota") as refusal:
        q.events.publish("orders", 2)

    assert (refusal.value.code, refusal.value.retry_after_ms) == ("quota_exceeded", 1000)


# Subscriptions


def test_a_client_sees_the_subscriptions_that_the_embedded_queue_sees(q, queue, server, hook):
    q.events.subscribe("orders.#", queue=queue, envelope=True)
    q.events.subscribe("orders.*", endpoint=hook.url("/a"), envelope=True, signature_version=1)
    q.events.subscribe("orders.*", endpoint=hook.url("/b"))

    q.create(f"{queue}.fifo")
    q.events.subscribe("orders.*", queue=f"{queue}.fifo")
    q.create("only.fifo", exist_ok=True)
    assert q.events.subscribe("orders.*", queue="only").target == "only.fifo"

    with Queue.open(server.db, create=False) as embedded:
        assert q.events.subscriptions() == embedded.events.subscriptions()
        assert q.events.subscriptions("orders.#") == embedded.events.subscriptions("orders.#")
        assert q.events.subscriptions(queue=queue) == embedded.events.subscriptions(queue=queue)


def test_what_was_published_to_a_fifo_queue_is_received_by_the_name_that_is_answered(q, queue):
    q.create(f"{queue}-2.fifo")
    q.events.subscribe("orders.*", queue=f"{queue}-2")

    ((name, id),) = q.events.publish("orders.created", 1).messages

    assert q.get(name, id).value == 1


def test_subscribing_again_answers_what_is_there(q, queue):
    first = q.events.subscribe("orders.*", queue=queue)

    assert q.events.subscribe("orders.*", queue=queue) == first


def test_the_same_subscription_in_another_form_is_refused(q, queue):
    q.events.subscribe("orders.*", queue=queue)

    with pytest.raises(SubscriptionExists, match="in another form"):
        q.events.subscribe("orders.*", queue=queue, envelope=True)


def test_subscriptions_come_in_pages(q, queue):
    ids = [q.events.subscribe(f"orders.{n}", queue=queue).id for n in range(3)]

    assert [one.id for one in q.events.subscriptions(limit=2, after=ids[0])] == ids[1:]


def test_a_subscription_that_was_deleted_is_gone(q, queue):
    id = q.events.subscribe("orders.*", queue=queue).id
    q.events.unsubscribe(id)

    with pytest.raises(SubscriptionNotFound) as refusal:
        q.events.unsubscribe(id)

    assert refusal.value.id == id


@pytest.mark.parametrize(
    ("pattern", "options", "error"),
    [
        ("orders.*x", {"queue": "orders"}, BadPattern),
        ("orders", {"queue": "nowhere"}, QueueNotFound),
        ("orders", {}, BadValue),
        ("orders", {"queue": "orders", "endpoint": "https://example.com"}, BadValue),
        ("orders", {"endpoint": "ftp://example.com"}, BadEndpoint),
        ("orders", {"endpoint": "http://10.0.0.1/"}, BadEndpoint),
    ],
)
def test_what_can_not_be_subscribed_is_refused(q, pattern, options, error):
    with pytest.raises(error):
        q.events.subscribe(pattern, **options)


@pytest.mark.parametrize(
    ("arguments", "error"), [(("a", "orders"), BadValue), (("a..b", None), BadPattern), ((None, "no"), QueueNotFound)]
)
def test_what_can_not_be_listed_is_refused(q, arguments, error):
    with pytest.raises(error):
        q.events.subscriptions(*arguments)


# Deliveries


def test_an_endpoint_is_posted_to(q, hook, queue):
    q.events.subscribe("orders.*", endpoint=hook.url(f"/{queue}"))

    assert q.events.publish("orders.created", {"sku": 7}).deliveries == 1

    assert hook.wait_for(f"/{queue}")[0].body == b'{"sku":7}'


def test_an_envelope_can_be_verified_with_the_certificate_of_the_server(q, hook, queue):
    q.events.subscribe("orders.*", endpoint=hook.url(f"/{queue}"), envelope=True)

    q.events.publish("orders.created", {"sku": 7})

    envelope = hook.wait_for(f"/{queue}")[0].body
    assert EnvelopeVerifier(certificate=q.certificates.pem()).verify(envelope).message == '{"sku":7}'
    assert json.loads(envelope)["SigningCertURL"] == q.certificates.list()[0].url


def test_an_exhausted_delivery_is_shown_and_tried_again(q, hook, queue):
    path = f"/{queue}"
    hook.does(path, status(500), status(500), status(200))
    q.events.subscribe("orders.*", endpoint=hook.url(path))
    q.events.publish("orders.created", {"sku": 7})
    (found,) = exhausted(q, hook, path)

    shown = q.deliveries.get(found.id)
    retried = q.deliveries.retry(found.id)

    assert (found.endpoint, found.status, found.attempts, found.due_at) == (hook.url(path), 500, 2, None)
    assert (shown.body, shown.message_id) == (b'{"sku":7}', found.message_id)
    assert (retried.state, retried.attempts) == ("pending", 0)
    assert hook.wait_for(path, 3)[2].body == b'{"sku":7}'


def test_a_client_sees_the_deliveries_that_the_embedded_queue_sees(q, hook, queue, server):
    path = f"/{queue}"
    hook.does(path, status(500))
    q.events.subscribe("orders.*", endpoint=hook.url(path), envelope=True, signature_version=1)
    q.events.publish("orders.created", {"sku": 7})
    (found,) = exhausted(q, hook, path)

    with Queue.open(server.db, create=False) as embedded:
        assert embedded.deliveries.list() == [found]
        assert embedded.deliveries.get(found.id) == q.deliveries.get(found.id)


def test_all_exhausted_deliveries_of_a_subscription_are_tried_again_and_dropped(q, hook, queue):
    path = f"/{queue}"
    hook.does(path, status(500))
    subscription = q.events.subscribe("orders.*", endpoint=hook.url(path))
    q.events.publish_many("orders.created", [1, 2])
    exhausted(q, hook, path, 2)

    with pytest.raises(SubscriptionNotFound):
        q.deliveries.retry_all(subscription.id + 1)
    assert q.deliveries.retry_all(subscription.id) == Retried(2, 0)
    hook.wait_for(path, 8)
    exhausted(q, hook, path, 2)
    assert q.deliveries.drop_all(subscription.id) == 2
    assert q.deliveries.list() == []


def test_a_delivery_that_is_tried_by_itself_is_not_retried(q, hook, queue):
    q.events.subscribe("orders.*", endpoint=hook.url(f"/{queue}"))
    q.events.publish("orders.created", 1, delay_seconds=60)
    (waiting,) = q.deliveries.list("pending")

    with pytest.raises(Conflict, match="is pending"):
        q.deliveries.retry(waiting.id)

    q.deliveries.drop(waiting.id)


def test_a_delivery_that_is_not_there_is_not_found(q):
    for act in (q.deliveries.get, q.deliveries.retry, q.deliveries.drop):
        with pytest.raises(DeliveryNotFound):
            act(1_000_000)


@pytest.mark.parametrize("options", [{"state": "lost"}, {"subscription_id": 0}, {"limit": 0}, {"limit": 201}])
def test_what_can_not_be_asked_of_deliveries_is_refused(q, options):
    with pytest.raises(BadValue):
        q.deliveries.list(**options)


# Certificates, and who may


def test_a_rotated_certificate_comes_first_and_the_old_one_stays(q):
    before = q.certificates.list()

    made = q.certificates.rotate()

    assert q.certificates.list() == [made, *before]


def test_a_client_without_the_token_is_told_so(connect, tmp_path):
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "open-sesame-of-the-tests"}) as server:
        q = connect(server.url, token="")

        for act in (q.events.subscriptions, q.deliveries.list, q.schedules.list, q.certificates.rotate):
            with pytest.raises(Unauthorized):
                act()
