"""docs/delivery.md: its recipes do what the page says, when messages come twice."""

import asyncio
import re
import time
from pathlib import Path

import asyncpg
import pytest

from sqew import AsyncClient, Queue
from sqew.errors import MessageNotFound, StaleLease
from tests.support.postgres import new_database
from tests.support.serving import serving

PAGE = Path(__file__).parents[2] / "docs" / "delivery.md"
SAME_FILE, OWN_DATABASE = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Run the recipe for the queue's own file, and yield its names."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(SAME_FILE, names)
    yield names
    names["q"].close()


def sold(q):
    with q.transaction() as tx:
        return tx.execute("SELECT sku, sold FROM stock").fetchall()


def test_an_order_that_was_sent_twice_is_handled_once(recipe):
    q = recipe["q"]

    assert sold(q) == [(7, 1)]
    assert q.stats("orders").depths.total() == 0


def test_an_effect_whose_ack_came_too_late_is_undone_with_it(recipe):
    q, handle = recipe["q"], recipe["handle"]
    q.enqueue("orders", {"order_id": "A-2", "sku": 8})
    late = q.claim("orders", lease_seconds=0.001)
    time.sleep(0.01)
    in_time = q.claim("orders")

    with pytest.raises(StaleLease):
        handle(late)
    assert sold(q) == [(7, 1)]

    handle(in_time)
    assert sold(q) == [(7, 1), (8, 1)]


def test_a_message_that_comes_again_after_the_commit_has_no_second_effect_in_a_database_of_ones_own(tmp_path):
    names: dict[str, object] = {}
    exec(OWN_DATABASE, names)
    url = new_database()

    async def twice(address):
        database = await asyncpg.connect(url)
        await database.execute(names["PROCESSED"])
        await database.execute("CREATE TABLE stock (sku bigint, sold bigint)")
        await database.execute("INSERT INTO stock VALUES (7, 0)")
        async with AsyncClient(address) as client:
            await client.create("orders", base_backoff_ms=0)
            await client.enqueue("orders", {"sku": 7})
            late = await client.claim("orders", lease_seconds=0.001)
            await asyncio.sleep(0.01)
            again = await client.claim("orders")
            assert again.id == late.id
            await names["handle"](client, database, again)
            with pytest.raises((StaleLease, MessageNotFound)):
                await names["handle"](client, database, late)
        found = await database.fetchval("SELECT sold FROM stock")
        await database.close()
        return found

    with serving(tmp_path, "--durability", "fast") as server:
        assert asyncio.run(twice(server.url)) == 1


def test_the_page_says_truly_that_the_file_is_not_encrypted(tmp_path):
    with Queue.open(tmp_path / "queue.db") as q:
        q.create("orders")
        q.enqueue("orders", "in plain sight")
        q.maintain()

        assert b"in plain sight" in (tmp_path / "queue.db").read_bytes()
