"""A PostgreSQL store whose database is away, busy, full, read-only or not its own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from sqew.errors import (
    BadValue,
    StoreBusy,
    StoreFull,
    StoreTooNew,
    StoreUnavailable,
    StoreUnusable,
)
from sqew.model import Activity, NewMessage
from sqew.operations import CreateQueue, LastId, Receive, RecordActivity, Send
from sqew.rules.policies import default_policy
from sqew.stores.postgres import DatabaseClock, PostgresStore
from sqew.stores.postgres.errors import translate
from sqew.stores.postgres.migrate import check_version
from sqew.stores.postgres.session import Session
from tests.support.cluster import Cluster, crashing_cluster
from tests.support.postgres import new_database

NOW = 1_700_000_000_000
PASSWORD = "tr0mb0ne"


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a coroutine function as a test."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(test(*arguments, **fixtures))

    return run


@pytest.fixture
def url() -> str:
    return new_database()


@contextlib.asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(url, now=NOW, **options)
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def execute(url: str, sql: str) -> None:
    async with connected(url) as connection:
        await connection.execute(sql)


def statement(sql: str) -> Callable[[Session], Coroutine[Any, Any, str]]:
    """Return a function that executes a statement in a session."""
    return lambda session: session.connection.execute(sql)


@in_a_loop
async def test_a_connection_that_was_cut_off_is_replaced(url: str) -> None:
    async with opened(url) as store, connected(url) as other:
        await store.read([LastId()], NOW)
        await other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name = 'sqew' AND datname = current_database()"
        )

        with contextlib.suppress(StoreUnavailable):
            await store.read([LastId()], NOW)

        assert await store.read([LastId()], NOW)


@in_a_loop
async def test_who_finds_no_free_connection_in_time_is_refused_and_counted(url: str) -> None:
    async with opened(url, connections=1, timeout_ms=100) as store, store._session():
        with pytest.raises(StoreUnavailable, match="raise database_connections"):
            await store.run([LastId()], NOW)

        assert store.database_stats().exhausted == store.database_stats().acquire_timeouts == 1
        assert store.database_stats().in_use == 1


@in_a_loop
async def test_a_statement_that_takes_too_long_is_busy_and_counted(url: str) -> None:
    async with opened(url, timeout_ms=100) as store:
        with pytest.raises(StoreBusy, match="database_timeout_ms"):
            await store._again(statement("SELECT pg_sleep(10)"))

        assert store.database_stats().timeouts == 1
        assert await store.read([LastId()], NOW)


@in_a_loop
async def test_an_answer_that_never_comes_ends_the_wait_and_the_connection(url: str) -> None:
    async with opened(url) as store:
        async with store._session() as session:
            lost = session.connection

        with pytest.raises(StoreUnavailable):
            await store._again(lambda session: session.connection.execute("SELECT pg_sleep(10)", timeout=0.05))

        assert lost.is_closed()
        assert await store.read([LastId()], NOW)


@in_a_loop
async def test_a_connection_that_is_left_in_a_transaction_is_not_used_again(url: str) -> None:
    async with opened(url) as store:
        await store._again(statement("BEGIN"))

        assert await store._again(statement("SELECT 1")) == "SELECT 1"
        async with store._session() as session:
            assert not session.connection.is_in_transaction()


@in_a_loop
async def test_who_gives_what_postgresql_cant_store_is_refused_alone(url: str) -> None:
    async with opened(url) as store:
        await store.run([CreateQueue("orders", default_policy("orders", {}))], NOW)
        await store.run([Send("orders", [NewMessage(b"1")])], NOW)

        bad, good = (await store.run([Receive("orders", by="\ud800"), Send("orders", [NewMessage(b"1")])], NOW)).results

        assert isinstance(bad, BadValue)
        assert "surrogates not allowed" in str(bad)
        assert len(good) == 1


@in_a_loop
async def test_a_full_disk_is_a_full_store(url: str) -> None:
    full = "DO $$ BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END $$"
    async with opened(url) as store:
        with pytest.raises(StoreFull, match="free some space"):
            await store._again(statement(full))


@in_a_loop
async def test_a_database_that_became_read_only_is_away_until_it_is_not(url: str) -> None:
    name = url.rpartition("/")[2]
    async with opened(url) as store:
        await execute(url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        with pytest.raises(StoreUnavailable, match="only takes reads"):
            await store._again(statement("SET transaction_read_only = on; CREATE TABLE one (id int)"))
        with pytest.raises(StoreUnavailable, match="only takes reads"):
            await store.read([LastId()], NOW)

        await execute(
            url, f"SET transaction_read_only = off; ALTER DATABASE {name} RESET default_transaction_read_only"
        )

        await until_there(store)
        assert store.database_stats().reconnects == 1


async def until_there(store: PostgresStore) -> None:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(StoreUnavailable):
                await store.read([LastId()], NOW)
                return
            await asyncio.sleep(0.02)


class Wire:
    """A wire between a store and its database, which may be cut without either noticing."""

    def __init__(self, url: str) -> None:
        self._host, self._port = "127.0.0.1", urlsplit(url).port
        self._passes = asyncio.Event()
        self._passes.set()
        self._ends: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def laid(self) -> AsyncIterator[int]:
        """Serve the wire and yield its port."""
        server = await asyncio.start_server(self._lead, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            self._passes.set()
            for end in self._ends:
                end.close()
            server.close()

    def cut(self) -> None:
        self._passes.clear()

    def mend(self) -> None:
        self._passes.set()

    def snap(self) -> None:
        """Break the wire: both ends notice, and data on its way is lost. New connections get through."""
        for end in self._ends:
            end.transport.abort()
        self._passes.set()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond, to_beyond = await asyncio.open_connection(self._host, self._port)
        self._ends += [writer, to_beyond]
        await asyncio.gather(self._pass(reader, to_beyond), self._pass(beyond, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self._passes.wait()
                writer.write(data)
        writer.close()


def through(url: str, port: int) -> str:
    """Return the URL of the same database by another port."""
    return url.replace(f":{urlsplit(url).port}", f":{port}")


@in_a_loop
async def test_a_wire_that_is_cut_is_found_out_once_and_not_by_each(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Less patience, and so less to wait for here.
    monkeypatch.setattr("sqew.stores.postgres.store._NO_ANSWER_S", 0.2)
    wire = Wire(url)
    async with wire.laid() as port, opened(f"{through(url, port)}?connect_timeout=1", timeout_ms=100) as store:
        wire.cut()
        began = monotonic()
        with pytest.raises(StoreUnavailable):
            await store.read([LastId()], NOW)
        found = await asyncio.gather(*(store.read([LastId()], NOW) for _ in range(50)), return_exceptions=True)
        took_s = monotonic() - began

        assert all(isinstance(one, StoreUnavailable) for one in found)
        assert took_s < 15
        assert not store.database_stats().is_there

        wire.mend()
        await until_there(store)


@in_a_loop
async def test_what_waits_for_an_answer_when_the_wire_is_cut_does_not_wait_for_its_whole_time(url: str) -> None:
    wire = Wire(url)
    async with wire.laid() as port:
        through = url.replace(f":{urlsplit(url).port}", f":{port}") + "?connect_timeout=1"
        async with opened(through, timeout_ms=3_600_000, connections=2) as store:
            wire.cut()

            asked = [store.run([LastId(), LastId()], NOW) for _ in range(5)]
            found = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)

            assert {type(one) for one in found} == {StoreUnavailable}
            assert store.database_stats().refused == 10
            wire.mend()
            await until_there(store)


@in_a_loop
async def test_a_statement_that_takes_long_is_not_cut_off_while_the_database_answers_others(url: str) -> None:
    async with opened(url) as store:
        assert await store._again(statement("SELECT pg_sleep(4.5)")) == "SELECT 1"

        assert store.database_stats().reconnects == 0


@in_a_loop
async def test_behind_a_pooler_what_is_durable_must_be(url: str) -> None:
    name = url.rpartition("/")[2]
    await execute(url, f"ALTER DATABASE {name} SET synchronous_commit = off")

    with pytest.raises(StoreUnusable, match=r"synchronous_commit off.*or set durability to fast"):
        await PostgresStore.open(url, pooler=True)

    async with opened(url, pooler=True, synchronous=False) as fast, opened(url) as durable:
        assert await fast.read([LastId()], NOW) == await durable.read([LastId()], NOW)


@in_a_loop
async def test_who_may_need_more_connections_than_are_left_is_warned(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(url, connections=8) as store, opened(url, connections=1_000) as greedy:
        await store.check_space()
        assert caplog.messages == []

        await greedy.check_space()

        assert "lower database_connections" in caplog.text


@in_a_loop
async def test_refusals_are_counted_by_operation_and_reason(url: str) -> None:
    async with opened(url, timeout_ms=300, connections=1) as store, connected(url) as other:
        await other.execute("BEGIN; SELECT pg_advisory_xact_lock(1399940471, 0)")
        with pytest.raises(StoreBusy):
            await store.run([LastId(), LastId(), LastId()], NOW)
        await other.execute("ROLLBACK")

        figures = store.database_stats()
        assert (figures.timeouts, figures.refused, figures.exhausted, figures.contested) == (3, 0, 0, 0)


TLS = [
    (ConnectionError('PostgreSQL server at "h:5432" rejected SSL upgrade'), "does not offer TLS"),
    (ssl.SSLCertVerificationError(1, "self-signed certificate"), "Name the certificate of who signed it"),
    (ssl.SSLError(9, "PEM lib"), "certificates in PEM"),
    (asyncpg.ClientConfigurationError('root certificate file "/x" does not exist'), "&sslrootcert="),
    (asyncpg.UndefinedObjectError('unrecognized configuration parameter "foo"'), "Leave it out"),
    (TimeoutError(), "no answer in time"),
]


@pytest.mark.parametrize(("error", "sentence"), TLS)
def test_what_is_wrong_with_the_way_to_it_is_told_with_what_to_do(error: Exception, sentence: str) -> None:
    assert sentence in str(translate(error, "postgresql://app@h/queues"))


@in_a_loop
async def test_a_schema_that_changed_below_prepared_statements_is_read_anew(url: str) -> None:
    async with opened(url) as store:
        await execute(url, "CREATE TABLE changing (one int)")
        seen = await store._again(lambda session: session._connection.fetch("SELECT one FROM changing"))
        await execute(url, "ALTER TABLE changing ALTER one TYPE text; INSERT INTO changing VALUES ('two')")

        found = await store._again(lambda session: session._connection.fetch("SELECT one FROM changing"))

        assert (list(seen), [tuple(row) for row in found]) == ([], [("two",)])
        assert store.database_stats().retries == 1


@in_a_loop
async def test_a_schema_of_a_newer_sqew_is_left_alone(url: str) -> None:
    await execute(url, "INSERT INTO sqew_migration VALUES (999, 'later', 0)")

    with pytest.raises(StoreTooNew, match="Upgrade Sqew"):
        await PostgresStore.open(url)


def test_a_server_that_is_too_old_is_refused() -> None:
    check_version(13, "postgresql://host/name")

    with pytest.raises(StoreUnusable, match="PostgreSQL 12, and Sqew needs 13 or newer"):
        check_version(12, "postgresql://host/name")


@in_a_loop
async def test_a_user_without_rights_is_told_which_are_missing(url: str) -> None:
    empty = await asyncio.to_thread(new_database, "template0")
    await execute(empty, "CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(StoreUnusable, match=r'schema public.*: GRANT USAGE, CREATE ON SCHEMA public TO "guest";'):
            await PostgresStore.open(empty.replace("sqew@", "guest@"))
    finally:
        await execute(empty, "DROP ROLE guest")


@in_a_loop
async def test_where_nothing_is_to_be_migrated_the_right_to_use_the_tables_is_enough(url: str) -> None:
    await execute(
        url,
        "CREATE ROLE worker LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO worker; "
        "GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO worker",
    )
    try:
        async with opened(url.replace("sqew@", "worker@")) as store:
            await store.run([CreateQueue("orders", default_policy("orders", {}))], NOW)
            sent = await store.run([Send("orders", [NewMessage(b"1")]), Receive("orders", limit=1)], NOW)
            assert not any(isinstance(result, Exception) for result in sent.results)
    finally:
        await execute(url, "DROP OWNED BY worker; DROP ROLE worker")


@in_a_loop
async def test_ten_servers_may_make_the_schema_at_once() -> None:
    url = await asyncio.to_thread(new_database, "template0")

    stores = await asyncio.gather(*(PostgresStore.open(url, now=NOW) for _ in range(10)))

    assert [await store.read([LastId()], NOW) for store in stores] == [[0]] * 10
    for store in stores:
        await store.close()


@in_a_loop
async def test_a_held_snapshot_is_measured(url: str) -> None:
    async with opened(url) as store, connected(url) as other:
        async with other.transaction(isolation="repeatable_read"):
            await other.fetchval("SELECT 1")
            await asyncio.sleep(0.2)
            await store.measure()
            held_s = store.database_stats().oldest_snapshot_s
        await store.measure()

        assert held_s >= 0.2
        assert store.database_stats().oldest_snapshot_s < held_s


@in_a_loop
async def test_servers_that_store_figures_at_once_are_not_in_each_others_way(url: str) -> None:
    counts = [Activity("orders", f"lane-{lane}", NOW // 60_000, name, 1) for lane in range(20) for name in "ab"]
    async with opened(url) as store, opened(url) as other:
        await store.run([CreateQueue("orders", default_policy("orders", {}))], NOW)

        for _ in range(10):
            await asyncio.gather(
                store.run([RecordActivity(counts)], NOW), other.run([RecordActivity(counts[::-1])], NOW)
            )

        assert store.database_stats().retries + other.database_stats().retries == 0


async def until_locked(connection: asyncpg.Connection[asyncpg.Record], count: int) -> None:
    """Return when so many connections wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(30):
        while True:
            found = await connection.fetchval(f"SELECT pg_stat_clear_snapshot()::text || ({waiting})")
            if found == str(count):
                return
            await asyncio.sleep(0.02)


@in_a_loop
async def test_old_figures_that_two_servers_fold_at_once_are_counted_once(url: str) -> None:
    later = NOW + 7 * 86_400_000
    async with opened(url) as store, opened(url) as other, connected(url) as reader:
        await store.run([CreateQueue("orders", default_policy("orders", {}))], NOW)
        old = [Activity("orders", "default", NOW // 60_000 + minute, "sent", 1) for minute in range(50)]
        await store.run([RecordActivity(old)], NOW)

        async with reader.transaction():
            await reader.execute("INSERT INTO sqew_activity SELECT id, 'default', 'sent', 0, 0 FROM sqew_queue")
            # Each of another lane, or the second would wait before it has seen what the first folds.
            new = [[Activity("orders", lane, later // 60_000, "sent", 1)] for lane in ("one", "two")]
            both = [one.run([RecordActivity(given)], later) for one, given in zip((store, other), new, strict=True)]
            folding = asyncio.gather(*both)
            await until_locked(reader, 2)
        await folding

        assert await reader.fetchval("SELECT sum(count) FROM sqew_activity WHERE name = 'sent'") == 52


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    """Yield a cluster that asks for passwords."""
    with crashing_cluster("guarded") as cluster:
        asyncio.run(execute(cluster.url(), f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'"))
        rules = cluster.folder / "data" / "pg_hba.conf"
        rules.write_text("host all app 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        asyncio.run(execute(cluster.url(), "SELECT pg_reload_conf()"))
        yield cluster


@pytest.mark.parametrize("credentials", ["app:wrong-" + PASSWORD, "app", "nobody:" + PASSWORD])
@in_a_loop
async def test_who_may_not_come_in_is_told_so_without_the_password(guarded: Cluster, credentials: str) -> None:
    url = guarded.url().replace("sqew@", f"{credentials}@")

    with pytest.raises(StoreUnusable, match="Check user and password") as refused:
        await PostgresStore.open(url)

    assert PASSWORD not in str(refused.value)


@in_a_loop
async def test_a_database_that_starts_or_recovers_is_not_ready(guarded: Cluster) -> None:
    starting = asyncpg.CannotConnectNowError("the database system is starting up")

    assert "Wait until it has started" in str(translate(starting, guarded.url()))


def test_no_reason_ever_shows_the_password() -> None:
    url = f"postgresql://app:{PASSWORD}%40@host/name?password=second{PASSWORD}"

    said = str(translate(OSError(f"can't reach {PASSWORD}@ or second{PASSWORD} or {PASSWORD}%40"), url))

    assert PASSWORD not in said


SECOND = 1_000_000_000


def test_the_clock_of_the_database_counts_and_not_that_of_this_machine() -> None:
    clock = DatabaseClock(steady_ns=lambda: 0)

    clock.follow(5 * SECOND)

    assert clock.now() == 5_000


class Stopwatch:
    """A steady clock that reads slowly: after every other reading, and a little before the one that follows."""

    def __init__(self) -> None:
        self.stands_at: int | None = None
        self._waits_s = itertools.repeat((0.0, 0.0))

    def slow_down(self) -> None:
        self._waits_s = itertools.cycle([(0.0, 0.03), (0.01, 0.0)])

    def __call__(self) -> int:
        if self.stands_at is not None:
            return self.stands_at
        before, after = next(self._waits_s)
        time.sleep(before)
        read = time.monotonic_ns()
        time.sleep(after)
        return read


@in_a_loop
async def test_looks_that_take_long_do_not_unsettle_a_clock_that_is_right(url: str) -> None:
    stopwatch = Stopwatch()
    clock, later = DatabaseClock(stopwatch), time.monotonic_ns() + 3_600 * SECOND
    connection = await asyncpg.connect(url)
    await clock.compare(connection)
    stopwatch.stands_at = later
    before = clock.now_us()

    # The way there takes longer than the way back: what is in the middle is ahead.
    stopwatch.stands_at = None
    stopwatch.slow_down()
    await clock.compare(connection)
    stopwatch.stands_at = later
    await connection.close()

    assert clock.now_us() == before


def test_time_follows_when_the_clock_of_the_database_jumps_forward() -> None:
    clock = DatabaseClock(steady_ns=lambda: 0)
    clock.follow(5 * SECOND)

    clock.follow(3_600 * SECOND)

    assert clock.now() == 3_600_000


def test_time_follows_when_the_clock_of_the_database_jumps_back_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = DatabaseClock(steady_ns=lambda: 0)
    clock.follow(3_600 * SECOND)
    assert clock.now() == 3_600_000

    clock.follow(5 * SECOND)

    assert clock.now() == 5_000
    assert "the database's clock went back" in caplog.text


def test_a_clock_that_is_ahead_by_less_than_a_second_stands_still_and_never_runs_backwards() -> None:
    steady = 0
    clock = DatabaseClock(steady_ns=lambda: steady)
    clock.follow(10 * SECOND)
    seen = [clock.now()]

    for _ in range(4):
        clock.follow(9 * SECOND + SECOND // 4)
        seen.append(clock.now())
        steady += SECOND // 10
    steady += 60 * SECOND

    assert seen == [10_000] * 5
    assert clock.now() == 9_250 + 60_400


def test_the_time_that_a_machine_sleeps_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[int] = set()
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: asked.add(clock) or 0)

    DatabaseClock().now()

    assert asked == {getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)}


def test_a_clock_that_runs_fast_is_brought_back_by_and_by() -> None:
    steady = 0
    clock = DatabaseClock(steady_ns=lambda: steady)
    clock.follow(0)

    for _ in range(10):
        steady += 60 * SECOND
        clock.follow(-steady // 10_000)

    assert clock.now() == 600_000 - 60
