"""Workers over HTTP: threads for `Client`, tasks for `AsyncClient`."""

import asyncio
import threading

import pytest
from clients import queue, shared_server

from sqew import AsyncClient, Client, Dead, Retry
from sqew.errors import BadValue

__all__ = ["queue", "shared_server"]

WITHIN_S = 20


@pytest.fixture
def client(shared_server):
    with Client(shared_server.url) as client:
        yield client


@pytest.fixture
def on_loop(shared_server):
    """Run a coroutine function that takes an `AsyncClient`; what it returns."""

    def run(work):
        async def main():
            async with AsyncClient(shared_server.url) as client, asyncio.timeout(WITHIN_S):
                return await work(client)

        return asyncio.run(main())

    return run


@pytest.fixture(autouse=True)
def made(client, queue):
    client.create(queue, max_attempts=3, backoff={"base_ms": 0, "jitter_ms": 0})


def verdict(message):
    """What a handler of the tests says of a message."""
    match message.value:
        case "dead":
            return Dead("never")
        case "again" if message.attempts == 1:
            return Retry(after=0, reason="once more")
        case "raise" if message.attempts == 1:
            raise RuntimeError("no luck")
        case "nonsense" if message.attempts == 1:
            return "nonsense"
    return None


BODIES = ["fine", "dead", "again", "raise", "nonsense"]
SEEN = ["again", "again", "dead", "fine", "nonsense", "nonsense", "raise", "raise"]


def test_threads_work_a_queue_off(client, queue):
    client.enqueue_many(queue, BODIES)
    seen = []

    @client.worker(queue, concurrency=2)
    def handle(message):
        seen.append(message.value)
        return verdict(message)

    handle.run(until_empty=True)

    assert sorted(seen) == SEEN
    assert client.stats(queue).depths.total() == 0
    assert [message.death.reason for message in client.dead_letters(queue)] == ["never"]


def test_tasks_work_a_queue_off(client, queue, on_loop):
    client.enqueue_many(queue, BODIES)
    seen = []

    async def work(q):
        @q.worker(queue, concurrency=2)
        async def handle(message):
            seen.append(message.value)
            return verdict(message)

        await handle.run(until_empty=True)

    on_loop(work)

    assert sorted(seen) == SEEN
    assert client.stats(queue).depths.total() == 0
    assert [message.death.reason for message in client.dead_letters(queue)] == ["never"]


def test_a_worker_of_threads_waits_for_messages_and_stops(client, queue):
    handled = threading.Event()

    @client.worker(queue)
    def handle(message):
        handled.set()

    handle.start()
    client.enqueue(queue, 1)
    assert handled.wait(WITHIN_S)
    handle.stop(WITHIN_S)

    client.enqueue(queue, 2)
    assert client.claim(queue).value == 2


def test_a_worker_of_tasks_waits_for_messages_and_stops(queue, on_loop):
    async def work(q):
        handled = asyncio.Event()

        @q.worker(queue, concurrency=3)
        async def handle(message):
            handled.set()

        handle.start()
        await q.enqueue(queue, 1)
        await handled.wait()
        await handle.stop()
        await q.enqueue(queue, 2)
        return (await q.claim(queue)).value

    assert on_loop(work) == 2


def test_a_heartbeat_of_threads_keeps_the_lease(client, queue):
    client.enqueue(queue, 1)
    lease_ends = []

    @client.worker(queue, lease_seconds=0.6)
    def handle(message):
        lease_ends.append(message.lease.expires_at)
        while client.get(queue, message.id).lease.expires_at == message.lease.expires_at:
            pass

    handle.run(until_empty=True)

    assert len(lease_ends) == 1
    assert client.stats(queue).depths.total() == 0


def test_a_heartbeat_of_tasks_keeps_the_lease(client, queue, on_loop):
    client.enqueue(queue, 1)
    seen = []

    async def work(q):
        @q.worker(queue, lease_seconds=0.6)
        async def handle(message):
            seen.append(message.attempts)
            while (await q.get(queue, message.id)).lease.expires_at == message.lease.expires_at:
                pass

        await handle.run(until_empty=True)

    on_loop(work)

    assert seen == [1]
    assert client.stats(queue).depths.total() == 0


def test_a_worker_of_tasks_that_is_cancelled_gives_its_message_back(client, queue, on_loop):
    client.enqueue(queue, 1)

    async def work(q):
        begun = asyncio.Event()

        @q.worker(queue)
        async def handle(message):
            begun.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(handle.run())
        await begun.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    on_loop(work)

    assert client.claim(queue).attempts == 2


def test_what_is_cancelled_while_it_waits_takes_no_message(client, queue, on_loop):
    async def work(q):
        waiting = asyncio.create_task(q.claim(queue, wait_seconds=WITHIN_S))
        # Its request is on its way once another on the same loop has been answered.
        await q.info(queue)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    on_loop(work)
    client.enqueue(queue, 1)

    assert client.claim(queue, wait_seconds=WITHIN_S).attempts == 1


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_worker_needs_a_function(shared_server, queue, kind):
    async def make():
        with pytest.raises(BadValue, match="can't work off a queue"):
            kind(shared_server.url).worker(queue)("no function")

    asyncio.run(make())
