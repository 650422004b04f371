"""The courier: what it posts, how it goes on when that fails, and that slow endpoints are in nobody's way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from background import ACCOUNT, BASE_URL, HERE, RETRIES_MS, house
from sqew.client.verifying import EnvelopeVerifier
from sqew.clock import ManualClock
from sqew.operations import GetDelivery, RetryDeliveries

sys.path.append(str(Path(__file__).parent / "deliveries"))

from endpoint import Behaviour, Gate, Hook, arrived, drips, endpoint, hangs_up, resets, says, stalls, status, values

FAST = 200


@pytest.fixture
def hook() -> Iterator[Hook]:
    with endpoint() as running:
        yield running


# What is posted


def test_a_raw_delivery_is_the_message_as_it_is(tmp_path, hook):
    async def scenario():
        async with house(tmp_path) as h:
            await h.subscribe("order.*", hook.url("/raw"))
            await h.publish("order.paid", {"id": 7})
            async with h.courier() as courier:
                assert (await courier.attempt()).ended == "delivered"
            assert await h.deliveries() == []

    asyncio.run(scenario())

    (request,) = hook.received()
    assert request.body == b'{"id": 7}'
    expected = {
        "content-type": "application/json",
        "x-amz-sns-message-type": "Notification",
        "x-amz-sns-rawdelivery": "true",
        "x-amz-sns-topic-arn": f"arn:aws:sns:us-east-1:{ACCOUNT}:order.paid",
        "x-sqew-attempt": "1",
        "x-sqew-delivery": "1",
        "x-sqew-routing-key": "order.paid",
    }
    assert expected.items() <= request.headers.items()


def test_a_text_is_posted_as_text(tmp_path, hook):
    async def scenario():
        async with house(tmp_path) as h:
            await h.subscribe("#", hook.url("/text"))
            await h.publish("note", "só", format="text")
            async with h.courier() as courier:
                await courier.attempt()

    asyncio.run(scenario())

    assert hook.received()[0].headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("version", [1, 2])
def test_an_envelope_can_be_verified_by_who_gets_it(tmp_path, hook, version):
    async def scenario():
        async with house(tmp_path) as h:
            await h.subscribe("order.*", hook.url("/sealed"), version)
            await h.publish("order.paid", {"id": 7})
            async with h.courier() as courier:
                await courier.attempt()
            return await h.publisher.signing_keys()

    (key,) = asyncio.run(scenario())

    (request,) = hook.received()
    envelope = json.loads(request.body)
    notice = EnvelopeVerifier(certificate=key.certificate).verify(request.body)
    assert notice.message == '{"id": 7}'
    assert envelope["SignatureVersion"] == str(version)
    assert envelope["SigningCertURL"].startswith(BASE_URL)
    assert request.headers["x-amz-sns-message-id"] == notice.message_id
    assert "x-amz-sns-rawdelivery" not in request.headers


def test_an_event_that_one_endpoint_has_taken_is_still_there_for_the_other(tmp_path, hook):
    hook.does("/late", status(500), status(200))
    clock = ManualClock()

    async def scenario():
        async with house(tmp_path, clock) as h, h.courier() as courier:
            await h.subscribe("#", hook.url("/prompt"))
            await h.subscribe("#", hook.url("/late"))
            await h.publish("order.paid", {"id": 7})
            assert {(await courier.attempt()).ended for _ in range(2)} == {"delivered", "waiting"}
            clock.advance(RETRIES_MS[0])
            assert (await courier.attempt()).ended == "delivered"

    asyncio.run(scenario())

    assert values(hook.received("/prompt")) == [{"id": 7}]
    assert values(hook.received("/late")) == [{"id": 7}] * 2


# Attempts that fail


def test_retries_come_at_their_times_and_then_never_again(tmp_path, hook):
    hook.does("/down", status(503))
    clock = ManualClock()

    async def scenario():
        async with house(tmp_path, clock) as h, h.courier() as courier:
            await h.subscribe("#", hook.url("/down"))
            await h.publish("order.paid", 1)
            for tries, wait_ms in enumerate(RETRIES_MS, 1):
                assert (await courier.attempt()).ended == "waiting"
                clock.advance(wait_ms - 1)
                await h.a_look()
                (delivery,) = await h.deliveries()
                assert (delivery.state, delivery.attempts) == ("pending", tries)
                clock.advance(1)
            assert (await courier.attempt()).ended == "exhausted"
            clock.advance(86_400_000)
            await h.a_look()
            return await h.deliveries()

    (delivery,) = asyncio.run(scenario())

    assert [request.headers["x-sqew-attempt"] for request in hook.received()] == ["1", "2", "3", "4", "5"]
    assert (delivery.state, delivery.attempts, delivery.status) == ("exhausted", 5, 503)
    assert delivery.error == "The endpoint answered 503."
    assert delivery.due_at is None


def test_an_exhausted_delivery_that_is_retried_starts_from_the_beginning(tmp_path, hook):
    hook.does("/down", *[status(500)] * 5, status(200))
    clock = ManualClock()

    async def scenario():
        async with house(tmp_path, clock) as h, h.courier() as courier:
            await h.subscribe("#", hook.url("/down"))
            await h.publish("order.paid", 1)
            for wait_ms in (*RETRIES_MS, 0):
                await courier.attempt()
                clock.advance(wait_ms)
            await h.broker.in_steps(RetryDeliveries())
            assert (await courier.attempt()).ended == "delivered"
            return await h.deliveries()

    assert asyncio.run(scenario()) == []
    assert hook.received()[-1].headers["x-sqew-attempt"] == "1"


@pytest.mark.parametrize(
    ("behaviour", "answered", "sentence"),
    [
        (status(302, location="http://127.0.0.1/"), 302, "Redirects are not followed"),
        (status(404), 404, "The endpoint answered 404."),
        (resets, None, "Check its log."),
        (hangs_up, None, "Check its log."),
        (says(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), None, "Check its log."),
        (stalls, None, "did not answer within 0.3 s"),
        (drips, None, "did not answer within 0.3 s"),
    ],
    ids=["redirect", "refusal", "reset", "end", "garbage", "stall", "drip"],
)
def test_an_endpoint_that_misbehaves_is_tried_again_with_the_reason(
    tmp_path, hook, behaviour: Behaviour, answered, sentence
):
    hook.does("/bad", behaviour)

    async def scenario():
        async with house(tmp_path) as h, h.courier(timeout_s=0.3) as courier:
            await h.subscribe("#", hook.url("/bad"))
            await h.publish("order.paid", 1)
            attempt = await courier.attempt()
            assert (attempt.went_well, attempt.ended) == (False, "waiting")
            return await h.deliveries()

    (delivery,) = asyncio.run(scenario())

    assert (delivery.attempts, delivery.status) == (1, answered)
    assert sentence in delivery.error
    assert len(hook.received()) == 1


def test_an_address_that_is_forbidden_meanwhile_is_a_failed_attempt(tmp_path, hook):
    async def scenario():
        async with house(tmp_path) as h, h.courier(allow="10.0.0.1") as courier:
            await h.subscribe("#", hook.url("/private"))
            await h.publish("order.paid", 1)
            await courier.attempt()
            return await h.deliveries()

    (delivery,) = asyncio.run(scenario())

    assert f"{HERE} is a loopback address" in delivery.error
    assert "delivery_allow" in delivery.error
    assert hook.received() == []


@pytest.mark.parametrize(
    "damage",
    ["UPDATE sqew_payload SET body = X'00' WHERE id = 1", "DELETE FROM sqew_payload WHERE id = 1"],
    ids=["changed", "gone"],
)
def test_what_was_damaged_in_the_file_is_not_posted_and_keeps_nobody_waiting(tmp_path, hook, damage):
    async def scenario():
        async with house(tmp_path) as h:
            await h.subscribe("#", hook.url("/one"))
            await h.publish("order.paid", 1)
            await h.publish("order.paid", 2)
            with contextlib.closing(apsw.Connection(str(tmp_path / "queue.db"))) as connection:
                connection.execute(damage)
            async with h.courier() as courier:
                assert (await courier.attempt()).ended == "delivered"
                await h.a_look()
            return await h.deliveries("pending")

    assert asyncio.run(scenario()) == []
    assert values(hook.received()) == [2]


# Slow endpoints


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
            async with h.courier(poll_ms=3_600_000, batch=4):
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
            async with h.courier(concurrency=8, per_subscription=3, batch=4):
                await asyncio.to_thread(hook.wait_for_any, 8)
                for _ in range(10):
                    # It is told of each, and must leave it where it is.
                    await h.publish("order.paid", 1)
                return len(await h.deliveries("delivering"))

    claimed = asyncio.run(scenario())

    by_path = Counter(request.path for request in hook.received())
    assert claimed == by_path.total() == 8
    assert max(by_path.values()) == 3


def test_an_endpoint_that_fails_gets_one_at_a_time_until_it_answers(tmp_path, hook):
    gate = Gate()
    hook.does("/shaky", status(500), gate)

    async def scenario():
        async with house(tmp_path) as h, h.courier(per_subscription=4) as courier:
            await h.subscribe("#", hook.url("/shaky"))
            await h.publish("order.paid", 0)
            assert not (await courier.attempt()).went_well
            await h.publish("order.paid", *range(1, 6))
            await arrived(hook, "/shaky", 2)
            await h.a_look()
            under_way = len(await h.deliveries("delivering"))
            gate.open()
            for _ in range(5):
                assert (await courier.attempt()).went_well
            return under_way

    assert asyncio.run(scenario()) == 1


def test_more_endpoints_that_fail_than_there_are_places_leave_room_for_others(tmp_path, hook):
    clock = ManualClock()

    async def scenario():
        async with house(tmp_path, clock) as h, h.courier(concurrency=8, batch=2) as courier:
            for number in range(20):
                hook.does(f"/dead{number}", status(500), stalls)
                await h.subscribe("dead", hook.url(f"/dead{number}"))
            await h.subscribe("fast", hook.url("/fast"))
            await h.publish("dead", 1)
            for _ in range(20):
                assert not (await courier.attempt()).went_well
            clock.advance(RETRIES_MS[0])
            await asyncio.to_thread(hook.wait_for_any, 20 + 4)
            await h.publish("fast", *range(FAST))
            for _ in range(FAST):
                assert (await courier.attempt()).went_well

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
            async with h.courier(poll_ms=3_600_000) as courier:
                for _ in range(1_200):
                    assert not (await courier.attempt()).went_well
                for number in range(4):
                    await h.publish("up", number)
                    assert (await courier.attempt()).went_well

    asyncio.run(scenario())

    assert values(hook.received()) == [0, 1, 2, 3]


def test_what_was_to_be_posted_can_be_looked_at(tmp_path, hook):
    hook.does("/down", status(500))

    async def scenario():
        async with house(tmp_path) as h, h.courier() as courier:
            await h.subscribe("#", hook.url("/down"))
            await h.publish("order.paid", {"id": 7})
            await courier.attempt()
            return await h.broker.run(GetDelivery(1))

    delivery = asyncio.run(scenario())

    assert delivery.body == b'{"id": 7}'
    assert (delivery.endpoint, delivery.routing_key) == (hook.url("/down"), "order.paid")
