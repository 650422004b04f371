"""Times in seconds or in milliseconds: the embedded queue and both clients take either, everywhere."""

import asyncio

import pytest

from sqew import AsyncClient, Client, Queue
from sqew.errors import BadValue
from tests.client.clients import Blocking, queue, servers, shared_server

__all__ = ["queue", "servers", "shared_server"]


@pytest.fixture(params=["embedded", "sync", "async"])
def q(request, tmp_path, shared_server):
    """Yield the queue in its three forms, each used by the same calls."""
    if request.param == "embedded":
        with Queue.open(tmp_path / "queue.db", durability="fast") as q:
            yield q
    elif request.param == "sync":
        with Client(shared_server.url) as q:
            yield q
    else:
        with asyncio.Runner() as runner:

            async def made():
                return AsyncClient(shared_server.url)

            q = Blocking(runner, runner.run(made()))
            yield q
            q.close()


def test_policies_take_seconds(q, queue):
    made = q.create(queue, visibility_seconds=1.5, delay_ms=0, base_backoff_seconds=2, ttl_seconds=None)
    changed = q.update(queue, archive_retention_seconds=60)

    assert (made.policy.visibility_ms, made.policy.backoff.base_ms, made.policy.ttl_ms) == (1_500, 2_000, None)
    assert changed.policy.archive_retention_ms == 60_000


def test_a_backoff_takes_seconds(q, queue):
    made = q.create(queue, backoff={"base_seconds": 2, "cap_ms": 5_000, "jitter_seconds": 0})
    changed = q.update(queue, backoff={"base_ms": 2_000, "cap_seconds": 0.5 + 9})

    assert (made.policy.backoff.base_ms, made.policy.backoff.cap_ms, made.policy.backoff.jitter_ms) == (2_000, 5_000, 0)
    assert changed.policy.backoff.cap_ms == 9_500


def test_schedules_take_milliseconds(q, queue):
    q.create(queue)
    made = q.schedules.create(queue, queue=queue, every="1h", message=1, delay_ms=2_500, ttl_ms=60_000)
    changed = q.schedules.change(queue, delay_ms=500)
    put = q.schedules.put(queue, queue=queue, every="1h", message=1, ttl_ms=7_000)
    q.schedules.delete(queue)

    assert (made.message.delay_ms, made.message.ttl_ms) == (2_500, 60_000)
    assert (changed.message.delay_ms, changed.message.ttl_ms) == (500, 60_000)
    assert (put.message.delay_ms, put.message.ttl_ms) == (None, 7_000)


def test_sends_and_claims_take_milliseconds(q, queue):
    q.create(queue)
    q.enqueue(queue, 1, delay_ms=3_600_000)
    q.enqueue(queue, 2, ttl_ms=3_600_000)

    delayed, living = sorted(q.peek(queue), key=lambda message: message.id)
    assert 3_500_000 < delayed.available_at - delayed.created_at <= 3_600_000
    assert living.expires_at - living.created_at == 3_600_000
    claimed = q.claim(queue, lease_ms=3_600_000, wait_ms=1)
    assert q.claim_many(queue, 5, lease_ms=500, wait_ms=1) == []
    assert claimed.value == 2
    assert claimed.lease.expires_at - claimed.created_at >= 3_600_000


def test_what_is_held_is_settled_in_milliseconds(q, queue):
    q.create(queue, visibility_ms=60_000)
    q.enqueue_many(queue, [1, 2])
    first, second = q.claim_many(queue, 2)

    q.extend_lease(first, ms=7_200_000)
    assert q.get(queue, first.id).lease.expires_at - first.lease.expires_at > 7_000_000
    assert q.extend_many([second], ms=7_200_000) == [None]
    q.nack(first, delay_ms=3_600_000)
    assert q.nack_many([second], delay_ms=3_600_000) == [None]
    assert q.stats(queue).depths.total("delayed") == 2


def test_workers_and_consumers_take_either(q, queue):
    q.create(queue)
    epoch = q.consumers.open(queue, "billing", owner="me", hold_seconds=5).epoch
    q.enqueue(queue, 1)

    assert q.consumers.claim(queue, "billing", epoch, after=0, lease_seconds=5).count == 1
    q.consumers.renew(queue, "billing", epoch, hold_seconds=60, lease_seconds=60)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda q, queue: q.enqueue(queue, 1, delay_seconds=1, delay_ms=1), "delay_seconds and delay_ms say the same"),
        (lambda q, queue: q.enqueue(queue, 1, delay_ms=-1), "delay_ms can't be -1"),
        (lambda q, queue: q.enqueue(queue, 1, ttl_ms=0), "ttl_ms can't be 0"),
        (lambda q, queue: q.claim(queue, lease_ms="5"), "lease_ms can't be '5'"),
        (lambda q, queue: q.claim(queue, wait_ms=1, wait_seconds=1), "wait_seconds and wait_ms say the same"),
        (lambda q, queue: q.extend_many([], 1, ms=5), "seconds and ms say the same"),
        (lambda q, queue: q.extend_many([]), "seconds can't be None"),
        (
            lambda q, queue: q.update(queue, visibility_ms=1, visibility_seconds=1),
            "visibility_seconds and visibility_ms say the same",
        ),
        (lambda q, queue: q.update(queue, visibility_seconds="soon"), "visibility_seconds can't be 'soon'"),
        (lambda q, queue: q.update(queue, quota_seconds=1), "quota_seconds"),
        (lambda q, queue: q.update(queue, backoff={"base_ms": 1, "base_seconds": 1}), "base_seconds and base_ms say"),
        (lambda q, queue: q.update(queue, backoff={1: 1}), "backoff"),
        (
            lambda q, queue: q.schedules.put("x", queue=queue, every="1h", message=1, ttl_ms=1, ttl_seconds=1),
            "ttl_seconds and ttl_ms say the same",
        ),
    ],
)
def test_a_time_that_can_not_be_meant_is_refused(q, queue, call, words):
    q.create(queue)

    with pytest.raises(BadValue, match=words):
        call(q, queue)


def test_the_lease_of_a_worker_may_be_in_milliseconds(tmp_path):
    with Queue.open(tmp_path / "queue.db", durability="fast") as q:
        q.create("orders")
        q.enqueue("orders", 1)
        lengths = []

        @q.worker("orders", lease_ms=7_200_000)
        def handle(message):
            lengths.append(message.lease.expires_at - message.created_at)

        handle.run(until_empty=True)

        assert lengths[0] >= 7_200_000
        with pytest.raises(BadValue, match="lease_ms can't be 0"):
            q.worker("orders", lease_ms=0)
