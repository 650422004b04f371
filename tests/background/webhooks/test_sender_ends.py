"""Webhook senders that end: what they give back, how another takes over, and what happens while the store is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sqew.clock import ManualClock
from sqew.operations import ClaimDeliveries, RenewDeliveries, SettleDeliveries, Unsubscribe
from sqew.rules.webhook_addresses import WebhookAddresses
from tests.support.background import HERE, house, locked
from tests.support.endpoint import Gate, Hook, arrived, endpoint, stalls, status, values


@pytest.fixture
def hook() -> Iterator[Hook]:
    with endpoint() as running:
        yield running


# Ends


def test_what_is_under_way_at_the_end_is_due_again_at_once_and_no_attempt(tmp_path, hook):
    hook.does("/slow", stalls)

    async def scenario():
        async with house(tmp_path, ManualClock(), max_batch=2) as h:
            await h.subscribe("#", hook.url("/slow"))
            for value in range(3):
                await h.publish("order.paid", value)
            async with h.sender() as sender:
                await arrived(hook, "/slow", 3)
                await sender.stop()
            given_back = await h.deliveries()
            hook.does("/slow", status(200))
            async with h.sender() as another:
                ended = [(await another.attempt()).ended for _ in range(3)]
            return given_back, ended

    given_back, ended = asyncio.run(scenario())

    assert [(delivery.state, delivery.attempts) for delivery in given_back] == [("pending", 0)] * 3
    assert ended == ["delivered"] * 3


def test_what_is_answered_in_time_is_finished_before_the_end(tmp_path, hook):
    gate = Gate()
    hook.does("/slow", gate)

    async def scenario():
        async with house(tmp_path) as h:
            await h.subscribe("#", hook.url("/slow"))
            await h.publish("order.paid", 1)
            async with h.sender() as sender:
                await arrived(hook, "/slow")
                stopping = asyncio.create_task(sender.stop(within_s=20))
                gate.open()
                await stopping
            return await h.deliveries()

    assert asyncio.run(scenario()) == []
    assert len(hook.received()) == 1


def test_what_was_claimed_in_the_moment_of_the_end_is_given_back_too(tmp_path, hook):
    async def scenario():
        async with house(tmp_path, ManualClock()) as h:
            await h.subscribe("#", hook.url("/claimed"))
            await h.publish("order.paid", 1, 2, 3)
            async with h.sender() as sender:

                def stop_it(operations, results, seconds):
                    if isinstance(operations[0], ClaimDeliveries):
                        sender.task.cancel()

                h.broker.observe_batch = stop_it
                await asyncio.wait([sender.task])
                await sender.stop()
            return await h.deliveries()

    given_back = asyncio.run(scenario())

    assert [(delivery.state, delivery.attempts) for delivery in given_back] == [("pending", 0)] * 3


# Others at the same store


def test_what_waits_for_an_endpoint_is_dropped_when_it_is_unsubscribed(tmp_path, hook):
    gate = Gate()
    hook.does("/gone", gate)

    async def scenario():
        async with house(tmp_path) as h, h.sender(per_subscription=2) as sender:
            subscription = await h.subscribe("#", hook.url("/gone"))
            await h.publish("order.paid", *range(6))
            await arrived(hook, "/gone", 2)
            await h.broker.run(Unsubscribe(subscription.id))
            gate.open()
            ended = [(await sender.attempt()).ended for _ in range(2)]
            await h.a_look()
            return ended, await h.deliveries()

    ended, left = asyncio.run(scenario())

    assert left == []
    assert set(ended) <= {"delivered", "stale"}
    assert len(hook.received()) == 2


def test_two_couriers_on_one_file_deliver_each_once(tmp_path, hook):
    # Whatever holds this machine up, no claim runs out.
    gate, clock = Gate(), ManualClock()
    hook.does("/shared", gate)

    async def scenario():
        async with house(tmp_path, clock) as one, house(tmp_path, clock) as two:
            async with one.sender(per_subscription=4) as first, two.sender(per_subscription=4) as second:
                await one.subscribe("#", hook.url("/shared"))
                await one.publish("order.paid", *range(300))
                # So many are only ever under way if both are at it.
                await arrived(hook, "/shared", 8)
                gate.open()
                await arrived(hook, "/shared", 300)
                await asyncio.gather(first.stop(5), second.stop(5))
            return await one.deliveries()

    assert asyncio.run(scenario()) == []
    assert sorted(values(hook.received())) == list(range(300))


def test_a_courier_that_was_killed_is_taken_over_from_when_its_claims_run_out(tmp_path, hook):
    clock = ManualClock()

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.subscribe("#", hook.url("/late"))
            await h.publish("order.paid", 1)
            (taken,) = (await h.broker.run(ClaimDeliveries(10, 10, 15_000))).deliveries
            async with h.sender() as sender:
                clock.advance(14_999)
                await h.a_look()
                assert (await h.deliveries())[0].state == "delivering"
                clock.advance(1)
                await sender.attempt()
            return taken

    taken = asyncio.run(scenario())

    assert [request.headers["x-sqew-delivery"] for request in hook.received()] == [str(taken.id)]


def test_a_claim_is_renewed_while_its_server_lives(tmp_path, hook):
    gate, clock, renewed = Gate(), ManualClock(), asyncio.Event()
    hook.does("/slow", gate)

    async def scenario():
        async with house(tmp_path, clock) as one, house(tmp_path, clock) as two:
            one.public_text = lambda operations: any(type(op) is RenewDeliveries for op in operations) and renewed.set()
            async with one.sender() as patient:
                await one.subscribe("#", hook.url("/slow"))
                await one.publish("order.paid", 1)
                await arrived(hook, "/slow")
                async with two.sender():
                    for _ in range(3):
                        renewed.clear()
                        clock.advance(2_500)
                        await renewed.wait()
                    await two.a_look()
                    (delivery,) = await two.deliveries()
                    gate.open()
                    attempt = await patient.attempt()
            return delivery, attempt, await one.deliveries()

    delivery, attempt, left = asyncio.run(scenario())

    assert delivery.state == "delivering"
    assert attempt.ended == "delivered"
    assert values(hook.received()) == [1]
    assert left == []


def test_a_claim_that_ran_out_under_way_is_taken_anew_and_not_posted_anew(tmp_path, hook):
    gate, clock = Gate(), ManualClock()
    hook.does("/slow", gate)

    async def scenario():
        async with house(tmp_path, clock) as h, h.sender() as sender:
            await h.subscribe("#", hook.url("/slow"))
            await h.publish("order.paid", 1)
            await arrived(hook, "/slow")
            clock.advance(60_000)
            await h.a_look()
            (delivery,) = await h.deliveries()
            gate.open()
            return delivery, await sender.attempt(), await h.deliveries()

    delivery, attempt, left = asyncio.run(scenario())

    assert delivery.state == "delivering"
    assert attempt.ended == "delivered"
    assert values(hook.received()) == [1]
    assert left == []


def test_a_store_that_is_busy_is_asked_again_and_nothing_is_posted_twice(tmp_path, hook):
    gate, clock = Gate(), ManualClock()
    hook.does("/slow", gate)

    async def scenario():
        async with house(tmp_path, clock, busy_timeout_ms=1) as h, h.sender() as sender:
            await h.subscribe("#", hook.url("/slow"))
            await h.publish("order.paid", 1)
            await h.publish("order.paid", 2, delay_ms=1000)
            await arrived(hook, "/slow")
            with locked(tmp_path):
                gate.open()
                clock.advance(1000)
                await h.refusal_of(ClaimDeliveries, SettleDeliveries)
            ended = [(await sender.attempt()).ended for _ in range(2)]
            return ended, await h.deliveries()

    ended, left = asyncio.run(scenario())

    assert ended == ["delivered", "delivered"]
    assert left == []
    assert values(hook.received()) == [1, 2]


def test_what_nobody_thought_of_was_tried_for_ever_without_counting(tmp_path, hook):
    class Broken(WebhookAddresses):
        async def resolve(self, target):
            raise ZeroDivisionError("nobody thought of this")

    async def scenario():
        async with house(tmp_path) as h, h.sender(webhook_addresses=Broken(HERE)) as sender:
            await h.subscribe("#", hook.url("/hook"))
            await h.publish("order.paid", 1)
            ended = (await sender.attempt()).ended
            return ended, await h.deliveries()

    ended, (delivery,) = asyncio.run(scenario())

    assert ended == "waiting"
    assert delivery.attempts == 1
    assert "nobody thought of this" in delivery.error
