"""Workers over HTTP: threads for `Client`, tasks for `AsyncClient`."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from sqew import AsyncClient, Client, Dead, Retry
from sqew.errors import BadValue, QueueNotFound, UnknownLane
from sqew.model import Message
from tests.client.clients import queue, servers, shared_server
from tests.support.canned_server import CannedServer

__all__ = ["queue", "servers", "shared_server"]

WITHIN_S = 20


@pytest.fixture
def client(shared_server):
    with Client(shared_server.url) as client:
        yield client


@pytest.fixture
def on_loop(shared_server):
    """Return a function that runs a coroutine function with an `AsyncClient`, and returns its result."""

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
    """Return a handler's verdict on a message, as its value demands."""
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_did_not_stop_a_worker_of_tasks(queue, on_loop, number):
    async def work(q):
        handled = asyncio.Event()

        @q.worker(queue)
        async def handle(message):
            handled.set()

        await q.enqueue(queue, 1)
        running = asyncio.create_task(handle.run())
        await handled.wait()
        os.kill(os.getpid(), number)
        await running

    on_loop(work)


class Gate:
    """A proxy between a client and a server that holds back the first answer with a message."""

    def __init__(self, url):
        self._host, _, self._port = url.removeprefix("http://").partition(":")
        self.holds, self.opened = asyncio.Event(), asyncio.Event()
        self._connections = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await asyncio.gather(*self._connections)

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _connect(self, reader, writer):
        self._connections.append(asyncio.current_task())
        upstream_reader, upstream_writer = await asyncio.open_connection(self._host, int(self._port))
        await asyncio.gather(self._pass_on(reader, upstream_writer), self._pass_on(upstream_reader, writer))

    async def _pass_on(self, reader, writer):
        while data := await reader.read(65_536):
            if b'"lease_expires_at"' in data:
                self.holds.set()
                await self.opened.wait()
            writer.write(data)
        writer.close()
        await writer.wait_closed()


def test_a_message_that_was_on_its_way_when_a_worker_of_tasks_was_stopped_was_lost(client, queue, shared_server):
    id = client.enqueue(queue, 1)
    handled = []

    async def work():
        async with asyncio.timeout(WITHIN_S), Gate(shared_server.url) as gate, AsyncClient(gate.url) as q:

            @q.worker(queue)
            async def handle(message):
                handled.append(message.id)

            handle.start()
            await gate.holds.wait()
            stopping = asyncio.create_task(handle.stop())
            await asyncio.sleep(0)
            gate.opened.set()
            await stopping

    asyncio.run(work())

    assert handled == [id]
    assert client.stats(queue).depths.total() == 0


async def cancel_what_it_waits_for():
    waited_for = asyncio.create_task(asyncio.Event().wait())
    waited_for.cancel()
    await waited_for


async def leave():
    raise SystemExit(3)


@pytest.mark.parametrize("fail", [cancel_what_it_waits_for, leave])
def test_a_function_that_was_cancelled_or_left_ended_the_worker_of_tasks(client, queue, on_loop, fail):
    client.enqueue_many(queue, range(3))
    seen = []

    async def work(q):
        @q.worker(queue)
        async def handle(message):
            seen.append((message.value, message.attempts))
            if message.value == 0 and message.attempts == 1:
                await fail()

        await handle.run(until_empty=True)

    on_loop(work)

    assert sorted(seen) == [(0, 1), (0, 2), (1, 1), (2, 1)]
    assert client.stats(queue).depths.total() == 0


GARBLED = (200, b"abc", ("Content-Encoding", "gzip"))
ONE_MESSAGE = {
    "id": 1, "payload": 1, "attempts": 1, "lease_expires_at": 1, "token": "t", "created_at": 1, "available_at": 1,
}  # fmt: skip
RECEIVED = (200, json.dumps({"messages": [ONE_MESSAGE]}).encode())
NOTHING = (200, b'{"messages":[]}')


def test_one_garbled_answer_ended_a_worker_of_threads():
    handled = threading.Event()
    with CannedServer(GARBLED, RECEIVED, NOTHING) as server, Client(server.url) as q:

        @q.worker("orders")
        def handle(message):
            handled.set()

        handle.start()

        assert handled.wait(WITHIN_S)


def test_one_garbled_answer_ended_a_worker_of_tasks():
    async def work(url):
        handled = asyncio.Event()
        async with asyncio.timeout(WITHIN_S), AsyncClient(url) as q:

            @q.worker("orders")
            async def handle(message):
                handled.set()

            handle.start()
            await handled.wait()

    with CannedServer(GARBLED, RECEIVED, NOTHING) as server:
        asyncio.run(work(server.url))


def test_a_task_whose_lease_was_lost_let_go_of_the_next_delivery_when_it_ended(monkeypatch):
    """Check that the next delivery stays in hand.

    It was dropped with the first, so a worker that was told to stop did not report that it was waiting for it.
    """

    async def work():
        ends = {1: asyncio.Event(), 2: asyncio.Event()}

        async def handle(message):
            await ends[message.attempts].wait()

        async with AsyncClient("http://127.0.0.1:1") as q:
            worker = q.worker("orders", concurrency=2)(handle)
            first, second = (
                Message(7, "orders", b"1", "json", {}, 0, "", None, None, attempt, 0, 0, None, "leased")
                for attempt in (1, 2)
            )
            monkeypatch.setattr(worker, "_settle", lambda message, verdict: asyncio.sleep(0))
            tasks = [asyncio.create_task(worker._handle(message, 60_000)) for message in (first, second)]
            await asyncio.sleep(0)
            ends[1].set()
            await tasks[0]

            assert worker._in_hand == {7: second}
            ends[2].set()
            await tasks[1]
            assert worker._in_hand == {}

    asyncio.run(work())


WITHOUT = pytest.mark.parametrize(
    ("suffix", "lane", "error"), [("-b", None, QueueNotFound), ("", "fast", UnknownLane)], ids=["queue", "lane"]
)
UNTIL = pytest.mark.parametrize("until_empty", [False, True], ids=["for-ever", "until-empty"])


@UNTIL
@WITHOUT
def test_running_threads_without_a_queue_or_a_lane_never_ended(client, queue, suffix, lane, error, until_empty):
    worker = client.worker(queue + suffix, lane=lane, concurrency=2)(print)
    raised = []

    def run():
        with pytest.raises(error) as refused:
            worker.run(until_empty=until_empty)
        raised.append(refused.value)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    running.join(WITHIN_S)

    assert raised == [worker.error]


@UNTIL
@WITHOUT
def test_running_tasks_without_a_queue_or_a_lane_never_ended(queue, on_loop, suffix, lane, error, until_empty):
    async def work(q):
        @q.worker(queue + suffix, lane=lane, concurrency=2)
        async def handle(message):
            pass

        with pytest.raises(error) as refused:
            await handle.run(until_empty=until_empty)
        assert refused.value is handle.error

    on_loop(work)


BUSY = (503, b'{"error":{"code":"store_busy","message":"Busy."}}')


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_server_that_is_busy_at_first_is_waited_for(kind, caplog):
    """Check that a worker logs nothing about errors that pass by themselves."""
    seen = []

    def note(message):
        seen.append(message.value)

    async def note_later(message):
        note(message)

    async def work(url):
        async with asyncio.timeout(WITHIN_S), AsyncClient(url, retries=0) as q:
            await q.worker("orders")(note_later).run(until_empty=True)

    settled = (200, b'{"results":[{"ok":true}]}')
    with CannedServer(BUSY, RECEIVED, settled, NOTHING) as server:
        if kind is AsyncClient:
            asyncio.run(work(server.url))
        else:
            with Client(server.url, retries=0) as q:
                q.worker("orders")(note).run(until_empty=True)

    assert seen == [1]
    assert "can't receive from 'orders': Busy." in caplog.text


def test_a_queue_that_goes_while_a_worker_of_tasks_waits_is_waited_for(queue, on_loop, monkeypatch):
    async def work(q):
        handled, logged = asyncio.Event(), asyncio.Event()

        def listen(record):
            if f"can't receive from '{queue}'" in record.getMessage():
                logged.set()
            return True

        monkeypatch.setattr(logging.getLogger("sqew.worker"), "filters", [listen])

        @q.worker(queue)
        async def handle(message):
            handled.set()

        running = asyncio.create_task(handle.run())
        await q.enqueue(queue, 1)
        await handled.wait()
        handled.clear()
        await q.delete(queue)
        await logged.wait()
        await q.create(queue)
        await q.enqueue(queue, 2)
        await handled.wait()
        await handle.stop()
        await running

    on_loop(work)


def test_a_worker_of_threads_takes_no_coroutine_function(client, queue):
    async def handle(message):
        pass

    with pytest.raises(BadValue, match="it is a coroutine function"):
        client.worker(queue)(handle)


def test_a_heartbeat_of_threads_keeps_the_lease(client, queue):
    client.enqueue(queue, 1)
    lease_ends = []

    @client.worker(queue, lease_seconds=2)
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
        @q.worker(queue, lease_seconds=2)
        async def handle(message):
            seen.append(message.attempts)
            while (await q.get(queue, message.id)).lease.expires_at == message.lease.expires_at:
                pass

        await handle.run(until_empty=True)

    on_loop(work)

    assert seen == [1]
    assert client.stats(queue).depths.total() == 0


def test_workers_of_threads_leased_for_30_seconds_whatever_the_visibility(client, queue):
    client.update(queue, visibility_ms=3_000)
    client.enqueue(queue, 1)
    seen = []

    @client.worker(queue)
    def handle(message):
        seen.append((message.attempts, message.lease.expires_at - time.time() * 1000))
        ends = {message.lease.expires_at}
        while len(ends) < 4:
            ends.add(client.get(queue, message.id).lease.expires_at)

    handle.run(until_empty=True)

    [(attempts, length)] = seen
    assert attempts == 1
    assert length <= 3_000
    assert client.stats(queue).depths.total() == 0


def test_workers_of_tasks_leased_for_30_seconds_whatever_the_visibility(client, queue, on_loop):
    client.update(queue, visibility_ms=3_000)
    client.enqueue(queue, 1)
    seen = []

    async def work(q):
        @q.worker(queue)
        async def handle(message):
            seen.append((message.attempts, message.lease.expires_at - time.time() * 1000))
            ends = {message.lease.expires_at}
            while len(ends) < 4:
                ends.add((await q.get(queue, message.id)).lease.expires_at)

        await handle.run(until_empty=True)

    on_loop(work)

    [(attempts, length)] = seen
    assert attempts == 1
    assert length <= 3_000
    assert client.stats(queue).depths.total() == 0


CHILD = """
import asyncio, sys
from sqew import AsyncClient

async def main():
    async with AsyncClient(sys.argv[1]) as q:
        @q.worker(sys.argv[2], name="w1")
        async def handle(message):
            print("began", flush=True)
            await asyncio.sleep(60)
        await handle.run()

asyncio.run(main())
"""


def test_the_second_ctrl_c_of_a_worker_of_tasks_showed_a_traceback(client, queue, shared_server):
    client.enqueue(queue, 1)
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, shared_server.url, queue], stdout=-1, stderr=-1, text=True, process_group=0
    )
    try:
        assert process.stdout.readline() == "began\n"

        process.send_signal(signal.SIGINT)
        said = process.stderr.readline()
        process.send_signal(signal.SIGINT)

        out, err = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.communicate()
    assert said.startswith("Worker w1 stops when it has finished message ")
    assert (process.returncode, out, err) == (130, "", "")
    # It was given back, as whoever is cancelled does.
    assert client.claim(queue).attempts == 2


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
def test_a_worker_of_a_lane_that_is_no_name_was_made(shared_server, queue, kind):
    async def make():
        with pytest.raises(BadValue, match="lane can't be"):
            kind(shared_server.url).worker(queue, lane=5)(make)

    asyncio.run(make())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_worker_needs_a_function(shared_server, queue, kind):
    async def make():
        with pytest.raises(BadValue, match="can't work off a queue"):
            kind(shared_server.url).worker(queue)("no function")

    asyncio.run(make())
