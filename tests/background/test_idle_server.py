"""An idle server: it tidies up and sweeps, without taking the write lock from others."""

from __future__ import annotations

import asyncio
import logging

import pytest

from sqew.background.service import for_ever
from sqew.clock import ManualClock
from sqew.errors import StoreClosed
from sqew.model import NewMessage
from sqew.operations import ClaimDeliveries, FindDueSchedules, NextDelivery, SweepDue
from tests.support.background import house, locked


def test_a_store_was_never_tidied_up_while_workers_polled(tmp_path):
    async def scenario():
        async with house(tmp_path, wal_autocheckpoint_pages=100_000) as h:
            await h.queue("jobs")
            await h.broker.send("jobs", [NewMessage(b"1" * 2_000)] * 500)
            await h.broker.keep_up()
            before = size()
            await asyncio.gather(
                h.broker.run(NextDelivery()),
                h.broker.run(ClaimDeliveries(1, 1, 1000)),
                h.broker.run(FindDueSchedules()),
            )
            await h.broker.keep_up()
            return before, size()

    def size():
        return (tmp_path / "queue.db").stat().st_size

    before, after = asyncio.run(scenario())

    assert after - before > 500 * 2_000


def test_an_idle_server_took_the_write_lock_every_second(tmp_path):
    async def scenario():
        async with house(tmp_path, busy_timeout_ms=0) as h:
            await h.queue("jobs")
            await h.subscribe("#", "http://endpoint.example/")
            await h.publish("later", 1, delay_ms=3_600_000)
            await h.schedule("yearly", "cron", "@yearly", "jobs")
            # What has just happened is stored once, and then nothing does.
            await h.broker.keep_up()
            with locked(tmp_path):
                async with h.sender() as sender, h.running_scheduler(poll_ms=5):
                    await h.a_look()
                    await h.broker.keep_up()
                    assert not sender.task.done()
            return h._refused

    assert asyncio.run(scenario()) == set()


def test_what_is_over_is_still_swept_once_a_second(tmp_path):
    clock = ManualClock(1_700_000_000_000)

    async def scenario():
        async with house(tmp_path, clock) as h:
            await h.queue("jobs")
            await h.broker.send("jobs", [NewMessage(b"1", ttl_ms=1000)])
            await h.broker.keep_up()
            assert not await h.broker.run(SweepDue())
            clock.advance(1000)
            assert await h.broker.run(SweepDue())
            await h.broker.keep_up()
            assert not await h.broker.run(SweepDue())
            return await h.messages("jobs")

    assert asyncio.run(scenario()) == []


def test_a_mistake_in_a_worker_took_the_whole_server_down(caplog, monkeypatch):
    monkeypatch.setattr("sqew.background.service._TRY_AGAIN_S", 0)
    rounds = iter([TypeError("a mistake"), RuntimeError("another"), StoreClosed("It was closed.")])

    async def work():
        raise next(rounds)

    with caplog.at_level(logging.ERROR), pytest.raises(StoreClosed):
        asyncio.run(for_ever("deliveries", work))

    assert [record.exc_info[0] for record in caplog.records] == [TypeError, RuntimeError]
