"""Consuming a queue in a loop, which acks by itself."""

import asyncio
import logging

import pytest

from sqew import AsyncClient
from tests.client.clients import connect, q, queue, servers, shared_server

__all__ = ["connect", "q", "queue", "servers", "shared_server"]


class Failed(Exception):
    """The error that the body of a loop raises."""


@pytest.fixture(autouse=True)
def made(q, queue):
    q.create(queue, backoff={"base_ms": 0, "jitter_ms": 0})


def test_each_message_is_acked_when_the_next_one_is_asked_for(q, queue):
    q.enqueue_many(queue, range(3))

    seen = [(message.value, q.get(queue, message.id).state) for message in q.consume(queue, wait_seconds=0)]

    assert seen == [(0, "leased"), (1, "leased"), (2, "leased")]
    assert q.stats(queue).depths.total() == 0


def test_a_body_that_raises_gives_its_message_back(q, queue):
    q.enqueue_many(queue, range(2))

    def fail_at_the_second():
        for message in q.consume(queue, wait_seconds=0):
            if message.value == 1:
                raise Failed

    with pytest.raises(Failed):
        fail_at_the_second()

    again = q.claim(queue)
    assert (again.value, again.attempts) == (1, 2)


def test_a_loop_that_is_left_gives_its_message_back(q, queue):
    q.enqueue(queue, 1)

    for _ in q.consume(queue):
        break

    assert q.claim(queue).attempts == 2


def test_closing_the_client_gives_back_what_is_being_consumed(connect, shared_server, q, queue):
    q.enqueue(queue, 1)
    other = connect(shared_server.url)
    loop = other.consume(queue)
    next(loop)

    other.close()

    assert q.claim(queue).attempts == 2


@pytest.mark.parametrize(
    "settle",
    [
        lambda q, message: q.ack(message),
        lambda q, message: q.nack(message, delay_seconds=60),
        lambda q, message: q.dead_letter(message),
    ],
    ids=["ack", "nack", "dead_letter"],
)
def test_a_message_that_the_body_settled_itself_was_logged_as_lost(q, queue, caplog, settle):
    q.enqueue(queue, 1)

    for message in q.consume(queue, wait_seconds=0):
        settle(q, message)

    assert caplog.text == ""
    assert q.stats(queue).depths.total("leased") == 0


def test_a_loop_goes_on_after_a_lease_that_was_lost(q, queue, caplog):
    given_back, _ = q.enqueue_many(queue, range(2))

    seen = []
    with caplog.at_level(logging.WARNING, "sqew.client"):
        for message in q.consume(queue, wait_seconds=0, consumer="w1"):
            seen.append(message.value)
            if len(seen) == 1:
                # By its id, so that the loop does not hear of it.
                q.nack(message.id, "w1", queue=queue, delay_seconds=60)

    assert seen == [0, 1]
    assert [record.getMessage() for record in caplog.records] == [
        f"Message {given_back} of '{queue}' was finished after its lease was lost"
    ]
    assert [(message.id, message.state) for message in q.peek(queue)] == [(given_back, "delayed")]


def test_an_async_loop_that_is_left_with_its_client_gives_its_message_back(q, queue, shared_server):
    q.enqueue(queue, 1)

    async def take_one():
        async with AsyncClient(shared_server.url) as client:
            async for _ in client.consume(queue):
                break

    asyncio.run(take_one())

    assert q.claim(queue).attempts == 2
