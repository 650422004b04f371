"""The webhook sender's limits on parallel posts: slow, silent and failing endpoints hold up no others."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from sqew.clock import ManualClock
from sqew.operations import ClaimDeliveries, Unsubscribe
from sqew.rules.webhook_addresses import WebhookAddresses
from tests.support.background import HERE, RETRIES_MS, house
from tests.support.endpoint import Gate, Hook, arrived, endpoint, stalls, status, values

FAST = 200


@pytest.fixture
def hook() -> Iterator[Hook]:
    with endpoint() as running:
        yield running


@pytest.mark.parametrize("slow", [1, 10])
def test_slow_endpoints_with_a_thousand_waiting_delay_nobody_else(tmp_path, hook, slow):
    async def scenario():
        async with house(tmp_path) as h:
            for number in range(slow):
                hook.does(f"/slow{number}", stalls)
                await h.subscribe(f"slow.{number}", hook.url(f"/slow{number}"))
                await h.publish(f"slow.{number}", *range(1_000 // slow))
            await h.subscribe("fast", hook.url("/fast"))
            # It looks when something happens, and by itself only after the test has failed.
            async with h.sender(poll_ms=3_600_000, batch=4):
                await arrived(hook, "/slow0")
                await h.publish("fast", *range(FAST))
                await arrived(hook, "/fast", FAST)
                return await h.deliveries()

    waiting = asyncio.run(scenario())

    # Not one of the slow ones has been answered or given up meanwhile.
    assert len([delivery for delivery in waiting if delivery.attempts == 0]) == 1_000
    assert sorted(values(hook.received("/fast"))) == list(range(FAST))


def test_no_more_is_under_way_than_the_bounds_allow(tmp_path, hook):
    async def scenario():
        async with house(tmp_path) as h:
            for number in range(5):
                hook.does(f"/slow{number}", stalls)
                await h.subscribe("#", hook.url(f"/slow{number}"))
            await h.publish("order.paid", *range(10))
            async with h.sender(concurrency=8, per_subscription=3, batch=4):
                # All of them are at one server, and two places are kept for others.
                await asyncio.to_thread(hook.wait_for_any, 6)
                for _ in range(10):
                    # It is told of each, and must leave it where it is.
                    await h.publish("order.paid", 1)
                return len(await h.deliveries("delivering"))

    claimed = asyncio.run(scenario())

    by_path = Counter(request.path for request in hook.received())
    assert claimed == by_path.total() == 6
    assert max(by_path.values()) == 3


def test_one_slow_server_with_many_subscriptions_took_all_the_places(tmp_path, hook):
    async def scenario(healthy: Hook):
        async with house(tmp_path) as h:
            for number in range(8):
                hook.does(f"/slow{number}", stalls)
                await h.subscribe("slow", hook.url(f"/slow{number}"))
            await h.subscribe("healthy", healthy.url("/fast"))
            await h.publish("slow", *range(4))
            # It looks when something happens, and by itself only after the test has failed.
            async with h.sender(concurrency=8, per_subscription=4, batch=4, poll_ms=3_600_000) as sender:
                await asyncio.to_thread(hook.wait_for_any, 6)
                await h.publish("healthy", *range(20))
                for _ in range(20):
                    assert (await sender.attempt()).went_well

    with endpoint() as healthy:
        asyncio.run(scenario(healthy))

        assert sorted(values(healthy.received("/fast"))) == list(range(20))
    assert len(hook.received()) == 6


def test_what_was_left_by_a_claim_that_was_large_enough_waited_for_the_next_look(tmp_path, hook):
    async def scenario():
        async with house(tmp_path) as h:
            for number in range(12):
                hook.does(f"/slow{number}", stalls)
                await h.subscribe(f"large.{number}", hook.url(f"/slow{number}"))
                await h.publish(f"large.{number}", "x" * 1_000_000)
            # By itself it looks only after the test has failed, and no endpoint answers before that.
            async with h.sender(poll_ms=3_600_000):
                await asyncio.to_thread(hook.wait_for_any, 12)

    asyncio.run(scenario())

    assert len(hook.received()) == 12


def test_an_endpoint_that_nobody_could_look_for_had_failed(tmp_path, hook):
    release = threading.Event()
    clock = ManualClock()

    def lookup(_: str) -> list[str]:
        release.wait(10)
        return [HERE]

    async def scenario():
        webhook_addresses = WebhookAddresses("*.example", lookup)
        async with house(tmp_path, clock) as h, h.sender(webhook_addresses=webhook_addresses) as sender:
            silent = [
                asyncio.create_task(
                    webhook_addresses.resolve(webhook_addresses.check_url(f"http://silent{number}.example/"))
                )
                for number in range(256)
            ]
            await h.subscribe("#", hook.url("/hook", "hook.example"))
            await h.publish("order.paid", 1)
            for _ in range(2):
                await h.a_look()
            (waiting,) = await h.deliveries()
            release.set()
            await asyncio.gather(*silent)
            clock.advance(1_000)
            assert (await sender.attempt()).ended == "delivered"
            return waiting

    waiting = asyncio.run(scenario())

    assert (waiting.state, waiting.attempts, waiting.error) == ("pending", 0, "")
    assert values(hook.received()) == [1]


def test_endpoints_that_failed_once_were_remembered_for_ever(tmp_path, hook):
    hook.does("/down", status(500))
    clock = ManualClock()
    asked: list[ClaimDeliveries] = []

    async def scenario():
        async with house(tmp_path, clock) as h, h.sender() as sender:
            gone = await h.subscribe("down", hook.url("/down"))
            await h.subscribe("up", hook.url("/up"))
            await h.publish("down", 1)
            assert not (await sender.attempt()).went_well
            h.public_text = lambda operations: asked.extend(
                one for one in operations if isinstance(one, ClaimDeliveries)
            )
            await h.publish("up", 1)
            assert (await sender.attempt()).went_well
            assert gone.id in asked[-1].busy
            await h.broker.run(Unsubscribe(gone.id))
            clock.advance(RETRIES_MS[-1] + 2 * 60_000)
            await h.publish("up", 2)
            assert (await sender.attempt()).went_well
            return gone.id

    gone = asyncio.run(scenario())

    assert gone not in asked[-1].busy


def test_an_endpoint_that_fails_gets_one_at_a_time_until_it_answers(tmp_path, hook):
    gate = Gate()
    hook.does("/shaky", status(500), gate)

    async def scenario():
        async with house(tmp_path) as h, h.sender(per_subscription=4) as sender:
            await h.subscribe("#", hook.url("/shaky"))
            await h.publish("order.paid", 0)
            assert not (await sender.attempt()).went_well
            await h.publish("order.paid", *range(1, 6))
            await arrived(hook, "/shaky", 2)
            await h.a_look()
            under_way = len(await h.deliveries("delivering"))
            gate.open()
            for _ in range(5):
                assert (await sender.attempt()).went_well
            return under_way

    assert asyncio.run(scenario()) == 1


def test_more_endpoints_that_fail_than_there_are_places_leave_room_for_others(tmp_path, hook):
    clock = ManualClock()

    async def scenario():
        async with house(tmp_path, clock) as h, h.sender(concurrency=8, batch=2) as sender:
            for number in range(20):
                hook.does(f"/dead{number}", status(500), stalls)
                await h.subscribe("dead", hook.url(f"/dead{number}"))
            await h.subscribe("fast", hook.url("/fast"))
            await h.publish("dead", 1)
            for _ in range(20):
                assert not (await sender.attempt()).went_well
            clock.advance(RETRIES_MS[0])
            await asyncio.to_thread(hook.wait_for_any, 20 + 4)
            await h.publish("fast", *range(FAST))
            for _ in range(FAST):
                assert (await sender.attempt()).went_well

    asyncio.run(scenario())

    assert len(hook.received("/fast")) == FAST


def test_a_thousand_endpoints_that_wait_for_their_retry_delay_nobody_else(tmp_path, hook):
    async def scenario():
        async with house(tmp_path, ManualClock()) as h:
            for number in range(1_200):
                await h.subscribe("down", hook.url("/down", f"127.0.0.{number // 200 + 2}") + f"?{number}")
            await h.subscribe("up", hook.url("/up"))
            await h.publish("down", 1)
            # It looks when something happens, and by itself only after the test has failed.
            async with h.sender(poll_ms=3_600_000) as sender:
                for _ in range(1_200):
                    assert not (await sender.attempt()).went_well
                for number in range(4):
                    await h.publish("up", number)
                    assert (await sender.attempt()).went_well

    asyncio.run(scenario())

    assert values(hook.received()) == [0, 1, 2, 3]
