"""Waits at a PostgreSQL store: for a lock, a connection or another try, without holding up anything else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg
import pytest

from sqew.clock import Clock, ManualClock
from sqew.core.engine import RemoteEngine
from sqew.errors import StoreTooNew, StoreUnavailable, StoreUnusable
from sqew.model import Lease, NewMessage, Policy
from sqew.operations import CreateQueue, LastId, Receive, Send
from sqew.stores.postgres import DatabaseClock, PostgresStore
from tests.stores.postgres.rivals import NOW, Rivals, in_a_loop, rivals, until
from tests.support.postgres import Reused, new_database, reused_database

__all__ = ["reused_database"]

MINUTE = 60_000
USED = "SELECT pg_advisory_xact_lock_shared(1399940471, 0)"
"""The lock of every transaction on the queues as servers know them."""
CHANGED = "SELECT pg_advisory_xact_lock(1399940471, 0)"
"""The lock of a transaction that changes a queue."""


async def given(both: Rivals, policy: Policy) -> ManualClock:
    """Send two messages to a queue ``jobs``, receive one, and return the clock of the first store."""
    await both.run(CreateQueue("jobs", policy))
    for group in "ab":
        await both.run(Send("jobs", [NewMessage(b"1", group=group if policy.fifo else None)]))
    await both.run(Receive("jobs"))
    clock = ManualClock(NOW)
    both.one._clock = clock
    return clock


async def received(both: Rivals) -> Lease:
    [found] = await both.run(Receive("jobs"))
    return found.messages[0].lease


@in_a_loop
async def test_a_lease_begins_when_who_changes_a_queue_lets_the_receive_by(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        clock = await given(both, Policy(visibility_ms=30_000))

        async with both.holder.transaction():
            await both.holder.execute(CHANGED)
            receiving = asyncio.ensure_future(received(both))
            await both.until_waiting(1)
            clock.advance(MINUTE)
            await both.holder.execute("SELECT pg_sleep(0.11)")  # longer than a claim may wait
        lease = await receiving

        assert lease.expires_at == clock.now() + 30_000


@in_a_loop
async def test_a_lease_begins_when_who_has_its_fifo_queue_lets_the_receive_by(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        clock = await given(both, Policy(visibility_ms=30_000, fifo=True))

        async with both.holding("jobs"):
            receiving = asyncio.ensure_future(received(both))
            await both.until_waiting(1)
            clock.advance(MINUTE)
        lease = await receiving

        assert lease.expires_at == clock.now() + 30_000


@in_a_loop
async def test_a_lease_begins_when_there_is_a_connection_for_the_receive(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        clock = await given(both, Policy(visibility_ms=30_000))

        async with contextlib.AsyncExitStack() as busy:
            for _ in range(4):
                await busy.enter_async_context(both.one._session())
            receiving = asyncio.ensure_future(received(both))
            await until(lambda: both.one.database_stats().waiting)
            clock.advance(MINUTE)
        lease = await receiving

        assert lease.expires_at == clock.now() + 30_000


class Silent:
    """A notifier that reaches nobody."""

    look_every_ms = 500

    def wake_on(self, *_: object) -> None: ...

    def listen(self, *_: object) -> bool:
        return True

    def close(self) -> None: ...


@in_a_loop
async def test_the_engine_knows_when_it_was_done_and_not_only_when_it_was_asked_for(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        clock = await given(both, Policy())
        engine = RemoteEngine(both.one, clock, Silent())

        async with both.holder.transaction():
            await both.holder.execute(CHANGED)
            sending = asyncio.ensure_future(engine.run([Send("jobs", [NewMessage(b"2", key="2")])]))
            await both.until_waiting(1)
            clock.advance(MINUTE)
        [[sent]] = await sending

        created_at = await both.holder.fetchval("SELECT created_at FROM sqew_message WHERE id = $1", sent.id)
        assert engine.ran_at == created_at == NOW + MINUTE


@in_a_loop
async def test_who_changes_a_queue_behind_a_server_that_stopped_does_not_stop_everybody(
    reused_database: Reused,
) -> None:
    async with rivals(reused_database) as both:
        await given(both, Policy())

        async with both.holder.transaction():
            await both.holder.execute(USED)
            creating = asyncio.ensure_future(both.other.run([CreateQueue("new", Policy())], NOW))
            await both.until_waiting(1)
            async with asyncio.timeout(15):
                await both.run(Send("jobs", [NewMessage(b"2")]))
            was_created = creating.done()
        commit = await creating

        assert not was_created
        assert not isinstance(commit.results[0], Exception)


@contextlib.asynccontextmanager
async def opened(url: str, **options: object) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(url, **options)
    try:
        yield store
    finally:
        await store.close()


async def execute(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def shown(store: PostgresStore, setting: str) -> str:
    return await store._again(lambda session: session.connection.fetchval(f"SHOW {setting}"))


@in_a_loop
async def test_a_server_that_stops_in_a_transaction_is_undone_within_seconds(reused_database: Reused) -> None:
    async with opened(reused_database.url) as store:
        assert await shown(store, "idle_in_transaction_session_timeout") == "5s"


@pytest.fixture
def strict() -> str:
    """Return a database whose transactions are repeatable reads unless they say otherwise."""
    url = new_database()
    name = url.rpartition("/")[2]
    asyncio.run(execute(url, f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'"))
    return url


@in_a_loop
async def test_transactions_see_what_was_committed_before_each_statement_whatever_the_database_is_set_to(
    strict: str,
) -> None:
    async with opened(strict) as store:
        assert await shown(store, "transaction_isolation") == "read committed"


@in_a_loop
async def test_a_database_behind_a_pooler_that_is_set_otherwise_is_refused(strict: str) -> None:
    with pytest.raises(StoreUnusable, match=r"'repeatable read'.*ALTER ROLE"):
        await PostgresStore.open(strict, pooler=True)


@in_a_loop
async def test_many_who_look_for_long_leave_the_connections_to_the_messages(reused_database: Reused) -> None:
    over = asyncio.Event()

    async def look_for_long(store: PostgresStore) -> None:
        async with store._session(reads=True):
            await over.wait()

    async with opened(reused_database.url, connections=2, timeout_ms=5_000) as store:
        looking = [asyncio.ensure_future(look_for_long(store)) for _ in range(5)]
        await until(lambda: store.database_stats().waiting == 4)

        commit = await store.run([LastId()], NOW)
        over.set()
        await asyncio.gather(*looking)

        assert isinstance(commit.results[0], int)


@pytest.fixture
def scarce() -> str:
    """Return a database that allows its user one connection."""
    url = new_database()
    name = f"few_{url.rpartition('/')[2]}"
    asyncio.run(
        execute(
            url,
            f"CREATE ROLE {name} LOGIN CONNECTION LIMIT 1; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}; "
            f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {name}",
        )
    )
    return url.replace("sqew@", f"{name}@")


@in_a_loop
async def test_where_postgresql_has_no_connection_left_who_asks_waits_for_one_in_use(scarce: str) -> None:
    async with opened(scarce, connections=4) as store:
        async with store._session():
            looks = [asyncio.ensure_future(store._again(_one)) for _ in range(3)]
            await until(lambda: store.database_stats().waiting == 3)

        assert await asyncio.gather(*looks) == [1, 1, 1]
        assert store.database_stats().exhausted == 0


async def _one(session: object) -> int:
    return await session.connection.fetchval("SELECT 1")  # type: ignore[attr-defined]  # a session of the store


@in_a_loop
async def test_who_waits_in_vain_for_a_connection_in_use_is_told_that_postgresql_has_none(scarce: str) -> None:
    async with opened(scarce, connections=2, timeout_ms=200) as store, store._session():
        with pytest.raises(StoreUnavailable, match="raise max_connections there"):
            await store._again(_one)

        assert store.database_stats().exhausted == 1
        assert store.database_stats().is_there


@in_a_loop
async def test_the_prober_survives_whatever_it_meets(
    reused_database: Reused, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(reused_database.url, connections=1) as store:
        connect, meets = store._pool._connect, [OSError("away"), ValueError("strange")]

        async def stumble() -> object:
            if meets:
                raise meets.pop(0)
            return await connect()

        monkeypatch.setattr(store._pool, "_connect", stumble)
        async with store._session() as session:
            session.connection.terminate()

        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(StoreUnavailable):
                    await store.read([LastId()], NOW)
                    break
                await asyncio.sleep(0.01)

        assert store.database_stats().reconnects == 1
        assert "strange" in caplog.text


UPGRADED = "INSERT INTO sqew_migration VALUES (999, 'later', 0)"


@in_a_loop
async def test_a_new_connection_finds_out_that_the_schema_has_become_too_new() -> None:
    url = await asyncio.to_thread(new_database)
    async with opened(url, connections=1) as store:
        await execute(url, UPGRADED)
        async with store._session() as session:
            session.connection.terminate()

        for _ in range(2):
            with pytest.raises(StoreTooNew, match="Upgrade Sqew"):
                await store.read([LastId()], NOW)


@in_a_loop
async def test_connections_that_last_find_out_that_the_schema_has_become_too_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sqew.stores.postgres.store._COMPARE_EVERY_S", 0.01)
    url = await asyncio.to_thread(new_database)
    async with opened(url, connections=1) as store:
        await store.keep_time(DatabaseClock())

        await execute(url, UPGRADED)

        await until(lambda: store._pool.is_away)
        with pytest.raises(StoreTooNew, match="Upgrade Sqew"):
            await store.run([LastId()], NOW)


@in_a_loop
async def test_a_server_that_runs_while_a_file_is_moved_in_waits_until_that_is_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sqew.stores.postgres.store._COMPARE_EVERY_S", 0.01)
    url = await asyncio.to_thread(new_database)
    async with opened(url, connections=1) as store:
        await store.keep_time(DatabaseClock())
        await execute(url, "INSERT INTO sqew_moving_in VALUES (1, '{}', NULL)")
        await until(lambda: store._pool.is_away)
        with pytest.raises(StoreUnavailable, match="was not finished"):
            await store.run([LastId()], NOW)

        await execute(url, "UPDATE sqew_moving_in SET finished_at = 1")
        await until(lambda: not store._pool.is_away)

        assert (await store.run([LastId()], NOW)).results == [0]


@in_a_loop
async def test_what_is_overdue_is_swept_with_the_next_operation(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("dead", Policy()), CreateQueue("jobs", Policy(max_attempts=1, dead_letter="dead")))
        await both.run(Send("jobs", [NewMessage(b"1")]))
        [found] = await both.run(Receive("jobs"))
        clock: Clock = ManualClock(found.messages[0].lease.expires_at)
        engine = RemoteEngine(both.one, clock, Silent())

        [before] = await engine.run([Receive("dead")])
        engine.sweep_if_overdue(before.next_due_at)
        [beside] = await engine.run([Receive("dead")])
        [after] = await engine.run([Receive("dead")])

        assert (before.messages, beside.messages) == ([], [])
        assert [message.body for message in after.messages] == [b"1"]
