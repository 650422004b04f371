"""Watching a queue without taking from it, and compacting its file while others work."""

import asyncio
import contextlib

import pytest

from sqew import Broker, NewMessage, Queue, QueueNotFound
from sqew import operations as ops
from sqew.rules.policies import default_policy

LONG_MS = 10_000
WITHIN_S = 5


@contextlib.asynccontextmanager
async def opened(folder):
    async with asyncio.timeout(30), Broker.open(folder / "queue.db", durability="fast") as broker:
        await broker.run(ops.CreateQueue("orders", default_policy("orders", {"dead_letter": None})))
        yield broker


@contextlib.asynccontextmanager
async def watching(broker, quiet_ms=LONG_MS):
    """Yield news of the queue; close it at the end, as a client's connection is closed."""
    async with contextlib.aclosing(broker.watch("orders", quiet_ms)) as news:
        yield news


async def told(news):
    return await asyncio.wait_for(anext(news), WITHIN_S)


def test_a_watcher_is_told_of_what_another_process_sends(tmp_path):
    async def main():
        async with opened(tmp_path) as broker, watching(broker, quiet_ms=50) as news:
            assert await told(news) is False
            with Queue.open(tmp_path / "queue.db") as other:
                other.enqueue("orders", 1)

            heard = [await told(news), await told(news)]

            assert True in heard

    asyncio.run(main())


def test_a_watcher_is_told_when_nothing_happens(tmp_path):
    async def main():
        async with opened(tmp_path) as broker, watching(broker, quiet_ms=20) as news:
            assert [await told(news) for _ in range(3)] == [False, False, False]

    asyncio.run(main())


def test_a_backlog_is_no_news(tmp_path):
    async def main():
        async with opened(tmp_path) as broker, watching(broker, quiet_ms=100) as news:
            await broker.send("orders", [NewMessage(b"1")])

            assert [await told(news) for _ in range(3)] == [True, False, False]

    asyncio.run(main())


def test_many_sends_at_a_time_are_one_piece_of_news(tmp_path):
    async def main():
        async with opened(tmp_path) as broker, watching(broker, quiet_ms=300) as news:
            for _ in range(100):
                await broker.send("orders", [NewMessage(b"1")])

            heard = [await told(news)]
            while heard[-1]:
                heard.append(await told(news))

            assert len(heard) < 5

    asyncio.run(main())


def test_a_lease_that_runs_out_behind_the_watchers_back_is_news(tmp_path):
    async def main():
        async with opened(tmp_path) as broker, watching(broker) as news:
            await broker.send("orders", [NewMessage(b"1")])
            assert await told(news)
            # Nobody tells the watcher of this.
            await broker.receive(ops.Receive("orders", lease_ms=200))

            assert await told(news) is True

    asyncio.run(main())


def test_watching_ends_when_nobody_is_to_wait_any_longer(tmp_path):
    async def main():
        async with opened(tmp_path) as broker, watching(broker) as news:
            end = asyncio.ensure_future(told(news))
            await asyncio.sleep(0)
            broker.dismiss()

            with pytest.raises(StopAsyncIteration):
                await end

    asyncio.run(main())


def test_watching_ends_with_its_queue(tmp_path):
    async def main():
        async with opened(tmp_path) as broker, watching(broker) as news:
            end = asyncio.ensure_future(told(news))
            await asyncio.sleep(0)
            await broker.delete("orders")

            with pytest.raises(QueueNotFound):
                await end

    asyncio.run(main())


def test_a_watcher_that_left_leaves_nothing_behind(tmp_path):
    async def main():
        async with opened(tmp_path) as broker:
            async with watching(broker) as news:
                waiting = asyncio.ensure_future(anext(news))
                await asyncio.sleep(0.01)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting

            assert not broker._engine.waiters

    asyncio.run(main())


def test_compacting_lets_others_in_between_its_steps(tmp_path):
    async def main():
        async with opened(tmp_path) as broker:
            large = [NewMessage(b'"%b"' % (b"x" * 900))] * 1_000
            for _ in range(4):
                await broker.send("orders", large)
            await broker.purge("orders")

            compacting = asyncio.ensure_future(broker.compact())
            sent = 0
            while not compacting.done():
                await broker.send("orders", [NewMessage(b"1")])
                sent += 1
            before, after = await compacting

            assert sent > 5
            assert after < before / 4
            assert len((await broker.receive(ops.Receive("orders", 1_000))).messages) == sent

    asyncio.run(main())
