"""A PostgreSQL store whose connections lose their prepared statements, as by a pooler's DISCARD ALL."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from sqew.errors import StoreUnusable
from sqew.model import NewMessage
from sqew.operations import CreateQueue, Operation, Receive, Send
from sqew.rules.policies import default_policy
from sqew.stores.postgres import PostgresStore
from sqew.stores.postgres.batch import Batch
from sqew.stores.postgres.session import Session
from tests.support.postgres import new_database

NOW = 1_700_000_000_000
CONNECTIONS = 12
"""More connections than a store tries in turn before it gives up."""
ONE = Send("jobs", [NewMessage(b"{}")])
KEYED = Send("jobs", [NewMessage(b"{}", key="k")])
TAKE = Receive("jobs")


@pytest.fixture
def url() -> str:
    return new_database()


@contextlib.asynccontextmanager
async def used(url: str) -> AsyncIterator[PostgresStore]:
    """Yield a store all of whose connections have sent and received."""
    store = await PostgresStore.open(url, now=NOW, connections=CONNECTIONS)
    try:
        await run(store, CreateQueue("jobs", default_policy("jobs", {})))
        for operation in (ONE, KEYED, TAKE):
            await on_every_connection(store, lambda session, done=operation: session.run(Batch([done], NOW)))
        yield store
    finally:
        await store.close()


async def run(store: PostgresStore, operation: Operation[Any]) -> Any:
    [result] = (await store.run([operation], NOW)).results
    return result


async def on_every_connection(store: PostgresStore, work: Callable[[Session], Awaitable[Any]]) -> None:
    all_are_here = asyncio.Barrier(CONNECTIONS)

    async def with_the_others(session: Session) -> None:
        async with all_are_here:
            await work(session)

    await asyncio.gather(*(store._again(with_the_others) for _ in range(CONNECTIONS)))


async def lose_statements(store: PostgresStore) -> None:
    await on_every_connection(store, lambda session: session.connection.execute("DISCARD ALL"))


@pytest.mark.parametrize("operation", [ONE, KEYED, TAKE], ids=["send", "send with a key", "receive"])
def test_a_request_goes_through_though_all_connections_have_lost_their_statements(
    url: str, operation: Operation[Any]
) -> None:
    async def scenario() -> None:
        async with used(url) as store:
            await lose_statements(store)

            first, second = await run(store, operation), await run(store, operation)

            assert not isinstance(first, Exception)
            assert not isinstance(second, Exception)
            assert (store.database_stats().retries, store.database_stats().is_there) == (1, True)

    asyncio.run(scenario())


def test_what_is_sent_while_statements_are_lost_is_there_once(url: str) -> None:
    async def scenario() -> None:
        async with used(url) as store:
            await lose_statements(store)

            sent = await asyncio.gather(*(run(store, ONE) for _ in range(20)))
            received = (await run(store, Receive("jobs", 500))).messages

            ids = [entry.id for [entry] in sent]
            assert len(set(ids)) == 20
            assert [message.id for message in received][-20:] == sorted(ids)

    asyncio.run(scenario())


def test_where_statements_are_lost_again_and_again_it_is_said_what_to_set(url: str) -> None:
    async def forget(session: Session) -> None:
        await session.connection.fetchval("SELECT 1")
        await session.connection.execute("DEALLOCATE ALL")
        await session.connection.fetchval("SELECT 1")

    async def scenario() -> None:
        async with used(url) as store:
            with pytest.raises(StoreUnusable, match="Set database_pooler to true"):
                await store._again(forget)

            assert len(await run(store, ONE)) == 1

    asyncio.run(scenario())
