"""Reads of messages, which succeed even if expired ones can't be swept at that moment."""

from __future__ import annotations

import asyncio

import pytest

from sqew import Queue
from sqew.clock import ManualClock
from sqew.errors import StoreError
from sqew.model import NewMessage
from sqew.operations import Get, ListDead, Peek, Sweep
from tests.support.background import house, locked

NOW = 1_700_000_000_000
FILLING = b'"%s"' % (b"x" * 300)
BODIES = [b"1", b"2", b"3"]


def break_a_page(path):
    """Make a page unreadable that holds only messages of one queue."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    leaves = [at for at in range(0, len(content), size) if content[at] == 13 and FILLING in content[at : at + size]]
    content[leaves[len(leaves) // 2]] = 0x77
    path.write_bytes(content)


async def fill(h):
    for queue in ("good", "bad"):
        await h.queue(queue)
    ids = [sent.id for sent in await h.broker.send("good", [NewMessage(body) for body in BODIES])]
    await h.broker.send("bad", [NewMessage(FILLING, ttl_ms=1_000)] * 600)
    return ids


async def look(h, ids):
    with pytest.raises(StoreError):
        await h.broker.run(Sweep())
    peeked = await h.broker.inspect(Peek("good", 10))
    one = await h.broker.inspect(Get("good", ids[1]))
    dead = await h.broker.inspect(ListDead("good", 10, 0))
    stats = await h.broker.stats("good")
    totals = {queue.queue: queue.depths.total("ready") for queue in await h.broker.survey()}
    return [message.body for message in peeked], one.body, dead.messages, stats.depths.total("ready"), totals["good"]


def test_nobody_could_look_at_a_queue_while_a_page_of_another_could_not_be_swept(tmp_path):
    clock = ManualClock(NOW)

    async def scenario():
        async with house(tmp_path, clock) as h:
            ids = await fill(h)
        break_a_page(tmp_path / "queue.db")
        async with house(tmp_path, clock) as h:
            clock.advance(2_000)
            return await look(h, ids)

    assert asyncio.run(scenario()) == (BODIES, b"2", [], 3, 3)


def test_nobody_could_look_at_a_queue_while_another_process_wrote(tmp_path):
    clock = ManualClock(NOW)

    async def scenario():
        async with house(tmp_path, clock, busy_timeout_ms=0) as h:
            ids = await fill(h)
            await h.broker.keep_up()
            clock.advance(2_000)
            with locked(tmp_path):
                return await look(h, ids)

    assert asyncio.run(scenario()) == (BODIES, b"2", [], 3, 3)


def test_a_program_could_not_look_at_a_queue_while_a_page_of_another_could_not_be_swept(tmp_path):
    async def scenario():
        async with house(tmp_path, ManualClock(NOW)) as h:
            await fill(h)

    asyncio.run(scenario())
    break_a_page(tmp_path / "queue.db")

    with Queue.open(tmp_path / "queue.db") as q:
        assert [message.body for message in q.peek("good")] == BODIES
        assert q.dead_letters("good") == []
        assert q.stats("good").depths.total("ready") == 3
