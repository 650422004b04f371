"""Two servers on one database, and a connection that holds them up at a place of the test's choice."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from random import Random
from typing import Any

import asyncpg

from sqew.errors import SqewError
from sqew.operations import Operation
from sqew.stores.postgres import PostgresStore
from sqew.stores.postgres.connection import SQL
from tests.support.postgres import Reused

NOW = 1_700_000_000_000
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
_HELD_UP = (
    "sqew_message",
    "sqew_archive",
    "sqew_key",
    "sqew_attempt",
    "sqew_delivery",
    "sqew_subscription",
    "sqew_activity",
    "sqew_staging",
)
_TURNSTILE = """
CREATE FUNCTION turnstile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(1);
  RETURN NULL;
END
$$
"""


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a coroutine function as a test."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(test(*arguments, **fixtures))

    return run


async def until(ready: Callable[[], object]) -> None:
    """Return when a condition holds."""
    async with asyncio.timeout(30):
        while True:
            if ready():
                return
            await asyncio.sleep(0.01)


class Rivals:
    """Two stores that are used at the same time."""

    def __init__(self, one: PostgresStore, other: PostgresStore, holder: asyncpg.Connection[asyncpg.Record]) -> None:
        self.one, self.other, self.holder = one, other, holder
        self.stores = one, other

    async def run(self, *operations: Operation[Any], now: int = NOW) -> list[Any]:
        """Run operations in the first store and return their results, or raise the first error."""
        results = (await self.one.run(operations, now)).results
        for result in results:
            if isinstance(result, SqewError):
                raise result
        return results

    @property
    def retries(self) -> int:
        """Transactions of either store that the database undid and the store ran again."""
        return sum(store.database_stats().retries for store in self.stores)

    @contextlib.asynccontextmanager
    async def holding(self, *queues: str) -> AsyncIterator[None]:
        """Hold these queues until the block ends, so that no store gets to them."""
        async with self.holder.transaction():
            ids = await self.holder.fetch("SELECT id FROM sqew_queue WHERE name = ANY($1)", queues)
            await self.holder.execute(f"PREPARE hold AS {SQL.hold_queues}")
            await self.holder.execute(f"EXECUTE hold(ARRAY{[row[0] for row in ids]})")
            await self.holder.execute("DEALLOCATE hold")
            yield

    async def overlap(self, first: Operation[Any], second: Operation[Any], now: int = NOW) -> tuple[Any, Any]:
        """Run both and return their results; the second begins when the first has done everything but commit."""
        async with self._turnstile() as opened:
            beginning = asyncio.ensure_future(self.one.run([first], now))
            await self.until_waiting(1)
            following = asyncio.ensure_future(self.other.run([second], now))
            # Unless it passes over what the first has changed, and is done.
            await self.until_waiting(2, following)
            await opened()
            await asyncio.wait({beginning, following})
        return beginning.result().results[0], following.result().results[0]

    @contextlib.asynccontextmanager
    async def _turnstile(self) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        """Hold up transactions that have changed something, before they commit, until what is yielded is called."""
        await self.holder.execute(_TURNSTILE)
        for table in _HELD_UP:
            await self.holder.execute(
                f"CREATE CONSTRAINT TRIGGER turnstile AFTER INSERT OR UPDATE OR DELETE ON {table} "
                "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION turnstile()"
            )
        await self.holder.execute("SELECT pg_advisory_lock(1)")
        yield functools.partial(self.holder.execute, "SELECT pg_advisory_unlock(1)")
        await self.holder.execute("DROP FUNCTION turnstile CASCADE")

    async def until_waiting(self, count: int, unless: asyncio.Future[Any] | None = None) -> None:
        """Return when so many connections wait for a lock, or ``unless`` is done."""
        async with asyncio.timeout(30):
            while unless is None or not unless.done():
                found = await self.holder.fetchval(f"SELECT pg_stat_clear_snapshot()::text || ({_WAITING})")
                if found == str(count):
                    return
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def rivals(database: Reused) -> AsyncIterator[Rivals]:
    """Yield two stores on a database that is emptied for them."""
    await asyncio.to_thread(database.empty)
    async with contextlib.AsyncExitStack() as stack:
        stores = [await PostgresStore.open(database.url, now=NOW, random=Random(n), connections=4) for n in range(2)]
        for store in stores:
            stack.push_async_callback(store.close)
        holder = await asyncpg.connect(database.url)
        stack.push_async_callback(holder.close)
        yield Rivals(*stores, holder)
