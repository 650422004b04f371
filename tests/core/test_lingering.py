"""Lingering: sends that arrive within ``linger_ms`` go to the database together; without it none waits for others."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sqew.core.broker import Broker
from sqew.core.engine import creation, limits_of, open_database
from sqew.model import NewMessage, Ref, Sent
from sqew.operations import Ack, Operation, Receive, Send
from sqew.settings import resolve
from tests.support.postgres import Reused, reused_database
from tests.support.serving import Serving, serving

__all__ = ["reused_database"]

SENDS = 5
TICKS = 20
"""Turns of the event loop between two requests: those that come in one tick go together anyway."""


class Counted:
    """A broker, and the number of sends in each batch."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.together: list[int] = []
        broker.observe_batch = self._executed

    def _executed(self, operations: Sequence[Operation[Any]], _results: Any, _seconds: float) -> None:
        if sends := sum(isinstance(operation, Send) for operation in operations):
            self.together.append(sends)

    async def send(self, value: int) -> list[Sent]:
        return await self.broker.run(Send("jobs", [NewMessage(b"%d" % value)]))

    async def send_one_after_another(self) -> list[list[Sent]]:
        """Send messages some ticks apart, each perhaps before the one before was answered."""
        sends = []
        for value in range(SENDS):
            sends.append(asyncio.ensure_future(self.send(value)))
            for _ in range(TICKS):
                await asyncio.sleep(0)
        return await asyncio.gather(*sends)


@pytest.fixture
def database(reused_database: Reused) -> str:
    reused_database.empty()
    return reused_database.url


@asynccontextmanager
async def lingering(database: str, linger_ms: int) -> AsyncIterator[Counted]:
    settings = resolve({"database_url": database, "linger_ms": linger_ms}, {}, None)
    engine = await open_database(settings)
    async with asyncio.timeout(30), Broker(engine, limits_of(settings)) as broker:
        await broker.run(creation(settings, "jobs", {}))
        yield Counted(broker)


def test_sends_that_arrive_one_after_another_within_the_linger_are_one_transaction(database: str) -> None:
    async def scenario() -> None:
        async with lingering(database, linger_ms=100) as counted:
            sent = await counted.send_one_after_another()

            assert counted.together == [SENDS]
            received = await counted.broker.run(Receive("jobs", 10))
            assert [message.body for message in received.messages] == [b"%d" % value for value in range(SENDS)]
            assert [message.id for message in received.messages] == [one.id for (one,) in sent]

    asyncio.run(scenario())


@pytest.mark.parametrize(("size", "together"), [(1, [16]), (100, [2] * 8)])
def test_what_clients_send_in_one_moment_goes_in_parts_of_some_hundred_messages(
    database: str, size: int, together: list[int]
) -> None:
    """Check that batches are bounded.

    With one statement for all, the database would wait while it is built, and the server while it runs.
    """

    async def scenario() -> None:
        async with lingering(database, linger_ms=0) as counted:
            send = Send("jobs", [NewMessage(b"1")] * size)
            sent = await asyncio.gather(*(counted.broker.run(send) for _ in range(16)))

            assert counted.together == together
            assert len({one.id for each in sent for one in each}) == 16 * size

    asyncio.run(scenario())


def test_what_is_received_and_acked_in_one_moment_goes_in_such_parts_too(database: str) -> None:
    async def scenario() -> None:
        async with lingering(database, linger_ms=0) as counted:
            await counted.broker.run(Send("jobs", [NewMessage(b"1")] * 800))
            parts: list[int] = []
            counted.broker.observe_batch = lambda operations, *_: parts.append(len(operations))

            received = await asyncio.gather(*(counted.broker.run(Receive("jobs", 100)) for _ in range(8)))
            refs = [[Ref(one.id, one.lease.token) for one in each.messages if one.lease] for each in received]
            await asyncio.gather(*(counted.broker.run(Ack("jobs", each)) for each in refs))

            assert (sum(parts), max(parts)) == (16, 4)
            assert len({ref.id for each in refs for ref in each}) == 800

    asyncio.run(scenario())


def test_without_a_linger_a_send_does_not_wait_for_the_next(database: str) -> None:
    async def scenario() -> None:
        async with lingering(database, linger_ms=0) as counted:
            await counted.send_one_after_another()

            assert counted.together == [1] * SENDS

    asyncio.run(scenario())


@pytest.mark.parametrize("linger_ms", [0, 1])
def test_who_waits_for_each_answer_has_each_send_stored_alone(database: str, linger_ms: int) -> None:
    async def scenario() -> None:
        async with lingering(database, linger_ms) as counted:
            for value in range(SENDS):
                await counted.send(value)

            assert counted.together == [1] * SENDS

    asyncio.run(scenario())


def flushes(server: Serving) -> tuple[int, int]:
    """Return the number of transactions with sends in them, and of the messages that those sent."""
    text = server.call("GET", "/metrics").body.decode()
    found = dict(re.findall(r"^queue_coalescer_flush_batch_size_(count|sum) (\d+)", text, re.MULTILINE))
    return int(found["count"]), int(found["sum"])


@pytest.mark.parametrize(("linger", "transactions"), [("300ms", 1), ("0", SENDS)])
def test_the_metric_of_batch_sizes_shows_it(tmp_path: Path, database: str, linger: str, transactions: int) -> None:
    with serving(tmp_path, "--linger-ms", linger, database=database) as server, ThreadPoolExecutor(SENDS) as threads:
        assert server.call("POST", "/queues", {"name": "jobs"}).status == 201

        answers = []
        for value in range(SENDS):
            answers.append(threads.submit(server.call, "POST", "/queues/jobs/messages", {"payload": value}))
            if linger == "0":
                answers[-1].result()

        assert [answer.result().status for answer in answers] == [201] * SENDS
        assert flushes(server) == (transactions, SENDS)
