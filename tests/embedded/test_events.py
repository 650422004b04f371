"""Events, deliveries and certificates of the embedded queue."""

import json

import pytest

from sqew import NewMessage, Queue, QueueNotFound
from sqew.client import EnvelopeVerifier
from sqew.clock import Clock, ManualClock
from sqew.errors import (
    BadEndpoint,
    BadPattern,
    BadRoutingKey,
    BadSetting,
    BadValue,
    Conflict,
    DeliveryNotFound,
    SubscriptionExists,
    SubscriptionNotFound,
    TooLarge,
)
from sqew.model import DeliveryOutcome, Retried
from sqew.operations import ClaimDeliveries, SettleDeliveries

HOOK = "http://127.0.0.1:9/hook"


@pytest.fixture
def q(tmp_path):
    with Queue.open(tmp_path / "queue.db", durability="fast", delivery_allow="127.0.0.1", clock=ManualClock()) as q:
        q.create("orders")
        q.create("audit")
        yield q


def exhaust(q):
    """Fail every delivery for good, as a server would."""
    claimed = q.run(ClaimDeliveries(limit=100, per_subscription=100, lease_ms=1_000)).deliveries
    outcomes = [DeliveryOutcome(one.id, one.claimed_until, False, 500, "It said 500.") for one in claimed]
    q.run(SettleDeliveries(outcomes))


# Publishing


def test_an_event_reaches_every_queue_whose_subscription_matches(q):
    q.events.subscribe("orders.*", queue="orders")
    q.events.subscribe("#", queue="audit")

    published = q.events.publish("orders.created", {"sku": 7}, headers={"by": "shop"}, priority=3)

    assert [queue for queue, _ in published.messages] == ["orders", "audit"]
    message = q.claim("audit")
    assert (message.id, message.value, message.priority) == (published.messages[1][1], {"sku": 7}, 3)
    assert message.headers == {"by": "shop", "_event": {"routing_key": "orders.created"}}


def test_an_event_that_nobody_subscribes_to_goes_nowhere(q):
    q.events.subscribe("orders.*", queue="orders")

    published = q.events.publish("payments.created", 1)

    assert (published.messages, published.deliveries) == ([], 0)


def test_all_that_is_said_of_an_event_arrives(q):
    q.create("steps.fifo")
    q.events.subscribe("steps", queue="steps.fifo")

    q.events.publish("steps", "text é", group="g", delay_seconds=2, ttl_seconds=60)

    (message,) = q.peek("steps.fifo")
    assert (message.value, message.format, message.group, message.state) == ("text é", "text", "g", "delayed")
    assert message.expires_at - message.created_at == 60_000


def test_a_batch_of_events_is_published_in_order(q):
    q.events.subscribe("orders.*", queue="orders")

    published = q.events.publish_many("orders.created", [1, "two", NewMessage(b"3.0")])

    assert len(published) == 3
    assert [message.body for message in q.peek("orders")] == [b"1", b"two", b"3.0"]


def test_publishing_joins_a_transaction(q):
    q.events.subscribe("orders.*", queue="orders")
    q.events.subscribe("orders.*", endpoint=HOOK, envelope=True)

    def publish_and_fail():
        with q.transaction():
            q.events.publish("orders.created", 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        publish_and_fail()

    assert q.peek("orders") == []
    assert q.deliveries.list() == []


def test_a_signed_event_can_be_published_in_a_transaction(q):
    q.events.subscribe("orders.*", endpoint=HOOK, envelope=True)

    with q.transaction():
        published = q.events.publish("orders.created", 1)

    assert published.deliveries == 1
    assert len(q.deliveries.list()) == 1


def test_a_queue_that_was_deleted_is_missing(q):
    q.events.subscribe("orders.*", queue="audit")
    q.delete("audit")

    published = q.events.publish("orders.created", 1)

    assert published.missing == ["audit"]
    assert "'audit' does not exist" in q.events.subscriptions()[0].problem


@pytest.mark.parametrize(
    ("key", "body", "options", "error"),
    [
        ("orders..created", 1, {}, BadRoutingKey),
        ("orders.*", 1, {}, BadRoutingKey),
        (7, 1, {}, BadRoutingKey),
        ("orders", NewMessage(b"1"), {}, BadValue),
        ("orders", 1, {"delay_seconds": -1}, BadValue),
        ("orders", 1, {"priority": 5_000}, BadValue),
    ],
)
def test_what_can_not_be_published_is_refused(q, key, body, options, error):
    with pytest.raises(error):
        q.events.publish(key, body, **options)


def test_an_event_with_a_key_is_refused(q):
    with pytest.raises(BadValue, match="can't have a key"):
        q.events.publish_many("orders", [NewMessage(b"1", key="k")])


# Subscriptions


def test_subscribing_again_answers_what_is_there(q):
    first = q.events.subscribe("orders.*", queue="orders")

    assert q.events.subscribe("orders.*", queue="orders") == first
    assert q.events.subscriptions() == [first]


def test_the_same_subscription_in_another_form_is_refused(q):
    q.events.subscribe("orders.*", endpoint=HOOK)

    with pytest.raises(SubscriptionExists):
        q.events.subscribe("orders.*", endpoint=HOOK, envelope=True)


def test_subscriptions_are_listed_by_pattern_and_by_queue(q):
    one = q.events.subscribe("orders.*", queue="orders")
    two = q.events.subscribe("orders.*", endpoint=HOOK, envelope=True, signature_version=1)
    three = q.events.subscribe("#", queue="orders")

    assert q.events.subscriptions() == [one, two, three]
    assert q.events.subscriptions("orders.*") == [one, two]
    assert q.events.subscriptions(queue="orders") == [one, three]
    assert q.events.subscriptions(limit=1, after=one.id) == [two]
    assert (two.protocol, two.target, two.form) == ("http", HOOK, 1)


def test_a_subscription_that_was_deleted_gets_nothing(q):
    subscription = q.events.subscribe("orders.*", queue="orders")
    q.events.unsubscribe(subscription.id)

    assert q.events.publish("orders.created", 1).messages == []
    with pytest.raises(SubscriptionNotFound):
        q.events.unsubscribe(subscription.id)


@pytest.mark.parametrize(
    ("pattern", "options", "error"),
    [
        ("orders.*x", {"queue": "orders"}, BadPattern),
        ("orders", {"queue": "nowhere"}, QueueNotFound),
        ("orders", {"queue": "orders", "signature_version": 2}, BadValue),
        ("orders", {}, BadValue),
        ("orders", {"queue": "orders", "endpoint": HOOK}, BadValue),
        ("orders", {"endpoint": "ftp://example.com"}, BadEndpoint),
        ("orders", {"endpoint": "http://10.0.0.1/"}, BadEndpoint),
        ("orders", {"endpoint": 7}, BadEndpoint),
        ("orders", {"endpoint": HOOK, "envelope": "yes"}, BadValue),
        ("orders", {"endpoint": HOOK, "envelope": True, "signature_version": 3}, BadValue),
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


def test_an_endpoint_gets_the_event_as_it_is(q):
    subscription = q.events.subscribe("orders.*", endpoint=HOOK)

    assert q.events.publish("orders.created", {"sku": 7}).deliveries == 1

    (listed,) = q.deliveries.list()
    shown = q.deliveries.get(listed.id)
    assert (listed.state, listed.subscription_id, listed.body) == ("pending", subscription.id, b"")
    assert (shown.endpoint, shown.routing_key, shown.body) == (HOOK, "orders.created", b'{"sku":7}')


def test_an_envelope_can_be_verified_with_the_certificate(tmp_path):
    with Queue.open(tmp_path / "queue.db", delivery_allow="127.0.0.1", base_url="https://queue.example.com") as q:
        q.events.subscribe("orders.*", endpoint=HOOK, envelope=True)
        q.events.publish("orders.created", {"sku": 7})
        envelope = q.deliveries.get(q.deliveries.list()[0].id).body
        pem, (certificate,) = q.certificates.pem(), q.certificates.list()

    notice = EnvelopeVerifier(certificate=pem, clock=Clock()).verify(envelope)

    assert (notice.message, notice.topic_arn) == ('{"sku":7}', "arn:aws:sns:us-east-1:000000000000:orders.created")
    assert json.loads(envelope)["SigningCertURL"] == certificate.url
    assert certificate.url.startswith("https://queue.example.com/v1/certificates/SimpleNotificationService-")


def test_a_subscriber_may_want_the_older_signature_beside_the_newer(q):
    for version in (1, 2):
        q.events.subscribe("orders.*", endpoint=f"{HOOK}{version}", envelope=True, signature_version=version)

    q.events.publish("orders.created", 1)

    bodies = [json.loads(q.deliveries.get(one.id).body) for one in q.deliveries.list()]
    assert sorted(body["SignatureVersion"] for body in bodies) == ["1", "2"]


def test_exhausted_deliveries_are_listed_and_tried_again(q):
    q.events.subscribe("orders.*", endpoint=HOOK)
    q.events.publish("orders.created", 1)
    exhaust(q)
    (exhausted,) = q.deliveries.list("exhausted")

    retried = q.deliveries.retry(exhausted.id)

    assert (exhausted.status, exhausted.error, exhausted.attempts, exhausted.due_at) == (500, "It said 500.", 1, None)
    assert (retried.state, retried.attempts) == ("pending", 0)
    assert [one.state for one in q.deliveries.list()] == ["pending"]


def test_a_delivery_that_is_tried_by_itself_is_not_retried(q):
    q.events.subscribe("orders.*", endpoint=HOOK)
    q.events.publish("orders.created", 1)

    with pytest.raises(Conflict, match="is pending"):
        q.deliveries.retry(q.deliveries.list()[0].id)


def test_a_delivery_whose_subscription_is_gone_is_not_retried(q):
    subscription = q.events.subscribe("orders.*", endpoint=HOOK)
    q.events.publish("orders.created", 1)
    exhaust(q)
    (exhausted,) = q.deliveries.list()
    q.events.unsubscribe(subscription.id)

    with pytest.raises(Conflict, match="which was deleted"):
        q.deliveries.retry(exhausted.id)


def test_all_exhausted_deliveries_of_a_subscription_are_tried_again_or_dropped(q):
    one = q.events.subscribe("orders.*", endpoint=HOOK)
    two = q.events.subscribe("orders.*", endpoint=HOOK + "2")
    q.events.publish_many("orders.created", [1, 2])
    exhaust(q)

    assert q.deliveries.retry_all(one.id) == Retried(2, 0)
    assert q.deliveries.drop_all(two.id) == 2
    assert q.deliveries.retry_all() == Retried(0, 0)

    assert [(left.subscription_id, left.state) for left in q.deliveries.list()] == [(one.id, "pending")] * 2


def test_nobody_was_told_of_exhausted_deliveries_that_could_not_be_retried(q):
    gone = q.events.subscribe("orders.*", endpoint=HOOK)
    q.events.subscribe("orders.*", endpoint=HOOK + "2")
    q.events.publish_many("orders.created", [1, 2, 3])
    exhaust(q)
    q.events.unsubscribe(gone.id)

    assert q.deliveries.retry_all() == Retried(3, 3)
    with pytest.raises(SubscriptionNotFound):
        q.deliveries.retry_all(gone.id)


def test_a_delivery_that_was_retried_still_showed_what_was_wrong_before(q):
    q.events.subscribe("orders.*", endpoint=HOOK)
    q.events.publish("orders.created", 1)
    exhaust(q)
    (exhausted,) = q.deliveries.list()

    retried = q.deliveries.retry(exhausted.id)

    stored = q.deliveries.get(exhausted.id)
    assert (retried.status, retried.error) == (stored.status, stored.error) == (None, "")


def test_an_envelope_went_round_the_limit_of_bodies(tmp_path):
    with Queue.open(tmp_path / "q.db", max_body_bytes=4_096) as q:
        q.create("audit")
        q.events.subscribe("orders.*", queue="audit", envelope=True)
        q.events.publish("orders.created", "x" * 1_000)

        with pytest.raises(TooLarge, match=r"in an envelope, which has \d+ bytes; 4096 are allowed"):
            # Each of them takes two bytes in the envelope.
            q.events.publish_many("orders.created", ["x", '"' * 4_000])
        assert q.stats("audit").depths.total() == 1


def test_an_envelope_for_an_endpoint_may_be_larger_than_a_body(tmp_path):
    with Queue.open(tmp_path / "q.db", max_body_bytes=4_096, delivery_allow="127.0.0.1") as q:
        q.events.subscribe("orders.*", endpoint=HOOK, envelope=True)

        assert q.events.publish("orders.created", '"' * 4_000).deliveries == 1


def test_an_envelope_of_a_file_named_another_host_than_its_server_would(tmp_path):
    with Queue.open(tmp_path / "queue.db", port=9) as q:
        (certificate,) = q.certificates.list()

    assert certificate.url.startswith("http://127.0.0.1:9/v1/certificates/")


def test_an_envelope_named_a_certificate_that_nobody_can_fetch(tmp_path):
    with Queue.open(tmp_path / "q.db", unix_socket="sqew.sock", delivery_allow="127.0.0.1") as q:
        with pytest.raises(BadSetting, match="Set base_url"):
            q.events.subscribe("orders.*", endpoint=HOOK, envelope=True)
        q.events.subscribe("orders.*", endpoint=HOOK)


@pytest.mark.parametrize("mark", ["_event", "_schedule"])
def test_whoever_published_could_say_that_somebody_else_had(q, mark):
    with pytest.raises(BadValue, match=f"headers can't have '{mark}'"):
        q.events.publish("orders.created", 1, headers={mark: {"routing_key": "other"}})


def test_headers_leave_room_for_the_one_that_says_where_the_event_came_from(tmp_path):
    with Queue.open(tmp_path / "q.db", max_headers_bytes=200) as q:
        q.events.publish("orders.created", 1, headers={"trace": "x" * 100})
        with pytest.raises(TooLarge, match="200 are allowed"):
            q.events.publish("orders.created", 1, headers={"trace": "x" * 180})


def test_a_dropped_delivery_is_gone(q):
    q.events.subscribe("orders.*", endpoint=HOOK)
    q.events.publish("orders.created", 1)
    id = q.deliveries.list()[0].id

    q.deliveries.drop(id)

    for act in (q.deliveries.get, q.deliveries.drop, q.deliveries.retry):
        with pytest.raises(DeliveryNotFound):
            act(id)


# Certificates


def test_a_rotated_certificate_comes_first_and_the_old_one_stays(q):
    first = q.certificates.pem()
    made = q.certificates.rotate()

    assert q.certificates.list()[0] == made
    assert len(q.certificates.list()) == 2
    assert q.certificates.pem() != first
