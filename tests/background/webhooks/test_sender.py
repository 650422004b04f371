"""The webhook sender: its requests, and its retries after failures."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator

import apsw
import pytest

from sqew.client.webhooks.verifier import EnvelopeVerifier
from sqew.clock import ManualClock
from sqew.operations import GetDelivery, RetryDeliveries
from tests.support.background import ACCOUNT, BASE_URL, HERE, RETRIES_MS, house
from tests.support.endpoint import Behaviour, Hook, drips, endpoint, hangs_up, resets, says, stalls, status, values


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
            async with h.sender() as sender:
                assert (await sender.attempt()).ended == "delivered"
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
            async with h.sender() as sender:
                await sender.attempt()

    asyncio.run(scenario())

    assert hook.received()[0].headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("version", [1, 2])
def test_an_envelope_can_be_verified_by_who_gets_it(tmp_path, hook, version):
    async def scenario():
        async with house(tmp_path) as h:
            await h.subscribe("order.*", hook.url("/sealed"), version)
            await h.publish("order.paid", {"id": 7})
            async with h.sender() as sender:
                await sender.attempt()
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
        async with house(tmp_path, clock) as h, h.sender() as sender:
            await h.subscribe("#", hook.url("/prompt"))
            await h.subscribe("#", hook.url("/late"))
            await h.publish("order.paid", {"id": 7})
            assert {(await sender.attempt()).ended for _ in range(2)} == {"delivered", "waiting"}
            clock.advance(RETRIES_MS[0])
            assert (await sender.attempt()).ended == "delivered"

    asyncio.run(scenario())

    assert values(hook.received("/prompt")) == [{"id": 7}]
    assert values(hook.received("/late")) == [{"id": 7}] * 2


# Attempts that fail


def test_retries_come_at_their_times_and_then_never_again(tmp_path, hook):
    hook.does("/down", status(503))
    clock = ManualClock()

    async def scenario():
        async with house(tmp_path, clock) as h, h.sender() as sender:
            await h.subscribe("#", hook.url("/down"))
            await h.publish("order.paid", 1)
            for tries, wait_ms in enumerate(RETRIES_MS, 1):
                assert (await sender.attempt()).ended == "waiting"
                clock.advance(wait_ms - 1)
                await h.a_look()
                (delivery,) = await h.deliveries()
                assert (delivery.state, delivery.attempts) == ("pending", tries)
                clock.advance(1)
            assert (await sender.attempt()).ended == "exhausted"
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
        async with house(tmp_path, clock) as h, h.sender() as sender:
            await h.subscribe("#", hook.url("/down"))
            await h.publish("order.paid", 1)
            for wait_ms in (*RETRIES_MS, 0):
                await sender.attempt()
                clock.advance(wait_ms)
            await h.broker.in_steps(RetryDeliveries())
            assert (await sender.attempt()).ended == "delivered"
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

    # Where the end of the time is not what is tested, a busy machine must not come to it.
    timeout_s = 0.3 if "0.3 s" in sentence else 20

    async def scenario():
        async with house(tmp_path) as h, h.sender(timeout_s=timeout_s) as sender:
            await h.subscribe("#", hook.url("/bad"))
            await h.publish("order.paid", 1)
            attempt = await sender.attempt()
            assert (attempt.went_well, attempt.ended) == (False, "waiting")
            return await h.deliveries()

    (delivery,) = asyncio.run(scenario())

    assert (delivery.attempts, delivery.status) == (1, answered)
    assert sentence in delivery.error
    assert len(hook.received()) == 1


def test_an_address_that_is_forbidden_meanwhile_is_a_failed_attempt(tmp_path, hook):
    async def scenario():
        async with house(tmp_path) as h, h.sender(allow="10.0.0.1") as sender:
            await h.subscribe("#", hook.url("/private"))
            await h.publish("order.paid", 1)
            await sender.attempt()
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
            async with h.sender() as sender:
                assert (await sender.attempt()).ended == "delivered"
                await h.a_look()
            return await h.deliveries("pending")

    assert asyncio.run(scenario()) == []
    assert values(hook.received()) == [2]


def test_what_was_to_be_posted_can_be_looked_at(tmp_path, hook):
    hook.does("/down", status(500))

    async def scenario():
        async with house(tmp_path) as h, h.sender() as sender:
            await h.subscribe("#", hook.url("/down"))
            await h.publish("order.paid", {"id": 7})
            await sender.attempt()
            return await h.broker.run(GetDelivery(1))

    delivery = asyncio.run(scenario())

    assert delivery.body == b'{"id": 7}'
    assert (delivery.endpoint, delivery.routing_key) == (hook.url("/down"), "order.paid")
