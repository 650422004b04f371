"""The PostgreSQL store."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Self, TypeVar

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from sqew import operations as ops
from sqew.errors import (
    BadValue,
    SqewError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreTooNew,
    StoreUnavailable,
    StoreUnusable,
    is_about_all,
)
from sqew.model import Commit, DatabaseStats
from sqew.rules.throttle import Throttle
from sqew.settings import without_password
from sqew.stores.contract import MayWait
from sqew.stores.postgres.batch import Batch
from sqew.stores.postgres.clock import DatabaseClock
from sqew.stores.postgres.connection import PLANNING, SYNC_COMMIT
from sqew.stores.postgres.disk_space import DatabaseSpace
from sqew.stores.postgres.errors import CONTESTED, OF_DATABASE, STALE, translate
from sqew.stores.postgres.migrate import READ_COMMITTED, check_usable, check_version, migrate
from sqew.stores.postgres.pool import Exhausted, Pool
from sqew.stores.postgres.pool_counters import PoolCounters
from sqew.stores.postgres.session import Session
from sqew.stores.postgres.urls import DatabaseAddress, address
from sqew.stores.postgres.watermarks import Watermarks

_log = logging.getLogger("sqew.postgres")

R = TypeVar("R")

_TRIES = 10
"""Most attempts at a transaction that conflicts with others."""
_STATEMENTS = 100
_NO_ANSWER_S = 2
"""Seconds that an answer may be on its way, beyond the time that the database may take for it."""
_UNHEARD_MS = 10_000
"""Milliseconds after which a connection is given up whose other end does not even confirm what it is sent."""
_COMPARE_EVERY_S = 60.0
_OLDEST_SNAPSHOT = """
SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float8
FROM pg_stat_activity
WHERE datname = current_database() AND coalesce(backend_xmin, backend_xid) IS NOT NULL AND pid <> pg_backend_pid()
"""
_FREE = """
SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
       - sum(numbackends)::bigint FROM pg_stat_database
"""
_MISSING_RIGHT = """
SELECT 'table ' || name
  FROM unnest(ARRAY['sqew_message', 'sqew_body', 'sqew_key', 'sqew_bucket', 'sqew_meta']) AS name,
       unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted
 WHERE NOT has_table_privilege(name, wanted)
UNION ALL
SELECT 'sequence sqew_message_id' WHERE NOT has_sequence_privilege('sqew_message_id', 'USAGE')
LIMIT 1
"""
_BESIDES = 2
"""Connections that a server has besides those for messages: one for reads, and one to listen."""


class PostgresStore:
    """Queues in a PostgreSQL database, for one event loop. Any number of processes may use it."""

    def __init__(
        self,
        url: str,
        *,
        connections: int = 8,
        timeout_ms: int = 30_000,
        synchronous: bool = True,
        delivery_keep_ms: int = 14 * 86_400_000,
        listen_url: str = "",
        pooler: bool = False,
        random: Random | None = None,
    ) -> None:
        self.connections = connections
        self.counters = PoolCounters()
        self._url, self._random, self._delivery_keep_ms = url, random or Random(), delivery_keep_ms
        self._address, self._listen_url = address(url), listen_url or url
        self._listen_address = address(listen_url, "database_listen_url") if listen_url else self._address
        self._timeout_ms, self._synchronous, self._pooler = timeout_ms, synchronous, pooler
        self._pool = Pool(
            url, connections, timeout_ms / 1000, self._new_session, self._try_out, self.counters, self._random
        )
        self._clock: DatabaseClock | None = None
        self._follower: asyncio.Task[None] | None = None
        self._marks = Watermarks()
        self._throttles: dict[int, Throttle] = {}
        self._space = DatabaseSpace()

    @classmethod
    async def open(cls, url: str, *, now: int | None = None, create: bool = True, **options: Any) -> Self:
        """Connect, and bring the schema up to date; ``create``: also make one where there is none yet."""
        store = cls(url, **options)
        for name in store._address.ignored:
            _log.warning("a parameter of database_url does nothing", extra={"fields": {"parameter": name}})
        try:
            connection = await store.connect()
            store._pool.add(store._session_on(connection))
            await store.prepare(connection, now, create)
            await check_usable(connection, without_password(url), store._synchronous)
        except BaseException as error:
            await store.close()
            if isinstance(error, OF_DATABASE):
                raise translate(error, url) from error
            raise
        return store

    async def prepare(
        self, connection: asyncpg.Connection[asyncpg.Record], now: int | None = None, create: bool = True
    ) -> None:
        """Bring the schema up to date."""
        where = without_password(self._url)
        check_version(connection.get_server_version().major, where)
        clock = DatabaseClock()
        await clock.compare(connection)
        await migrate(connection, where, clock.now() if now is None else now, create)

    async def run(self, operations: Sequence[ops.Operation[Any]], now: int, may_wait: MayWait | None = None) -> Commit:
        """Execute operations; see `sqew.stores.contract.RemoteStore`."""
        batch = Batch(operations, now, self._clock, may_wait)
        try:
            await self._again(lambda session: session.run(batch), batch=batch)
        except Exception as error:
            if isinstance(error, StoreFull):
                self._space.ran_out(error)
            if not batch.has_begun and (len(operations) == 1 or not isinstance(error, BadValue)):
                raise
            if is_about_all(error):
                batch.fail(error)
            else:
                # One of them can't be stored, or met a mistake in the code, and those beside it were undone.
                await self._resolve_each(batch)
        else:
            if any(isinstance(operation, ops.Send) for operation in operations):
                self._space.was_found()
        return batch.commit

    async def _resolve_each(self, batch: Batch) -> None:
        for place, _ in batch.pending:
            try:
                await self._again(lambda session, place=place: session.run(batch, place))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 (the others must get their answers all the same)
                batch.resolve(place, error)

    async def read(self, operations: Sequence[ops.Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read, as of one moment. Return their results, or raise the first error."""
        return await self._again(lambda session: session.read(operations, now), reads=True)

    async def keep_time(self, clock: DatabaseClock) -> None:
        """Set a clock by the database's, now and every minute from now on; and go by it."""
        await self._compare(clock)
        self._clock = clock
        self._follower = asyncio.ensure_future(self._follow(clock))

    async def _follow(self, clock: DatabaseClock) -> None:
        while True:
            await asyncio.sleep(_COMPARE_EVERY_S)
            try:
                await self._compare(clock)
            except (StoreTooNew, StoreUnusable) as error:
                self._pool.lose(error)
            except SqewError as error:
                _log.debug("the clock goes on as it is until the next minute: %s", error)
            except Exception:  # noqa: BLE001 (the clock must be looked at again)
                _log.exception("the database's clock could not be looked at")

    async def _compare(self, clock: DatabaseClock) -> None:
        async def compare(session: Session) -> None:
            await clock.compare(session.connection)
            # Another server may have been upgraded, and the schema with it.
            await check_usable(session.connection, without_password(self._url), self._synchronous)

        await self._again(compare, reads=True)

    def database_stats(self) -> DatabaseStats:
        """Return this process's counters of its use of the database."""
        counts = {name: getattr(self.counters, name) for name in PoolCounters.__slots__}
        return DatabaseStats(
            connections=self.connections, idle=self._pool.idle, is_there=not self._pool.is_away, **counts
        )

    async def measure(self) -> None:
        """Measure the age of the oldest snapshot."""
        self.counters.oldest_snapshot_s = await self._again(
            lambda session: session.connection.fetchval(_OLDEST_SNAPSHOT), reads=True
        )

    async def check(self) -> None:
        """Raise unless messages can be stored, as far as that can be known without storing one."""
        missing = await self._again(lambda session: session.connection.fetchval(_MISSING_RIGHT), reads=True)
        if missing is not None:
            raise translate(asyncpg.InsufficientPrivilegeError(f"permission denied for {missing}"), self._url)
        self._space.check()

    async def check_space(self) -> None:
        """Warn if the database has fewer connections left than this server may need."""
        if self._pooler:
            return
        free: int = await self._again(lambda session: session.connection.fetchval(_FREE), reads=True)
        # Those that are open already are among those that are not free.
        wanted = self.connections + _BESIDES - self._pool.open
        if wanted > free:
            fields = {"wanted": wanted, "free": max(free, 0)}
            _log.warning(
                "the database has fewer connections left than this server may need: lower database_connections, "
                "or raise max_connections there",
                extra={"fields": fields},
            )

    async def connect(self, patient: bool = False) -> asyncpg.Connection[asyncpg.Record]:
        """Return a connection outside the pool; ``patient``: without a timeout, for statements that may take long."""
        return await self._connect(self._address, self._pooler, patient)

    async def connect_to_listen(self) -> asyncpg.Connection[asyncpg.Record]:
        """Return a connection outside the pool that hears notifications."""
        try:
            return await self._connect(self._listen_address, self._pooler and self._listen_url == self._url)
        except OF_DATABASE as error:
            raise translate(error, self._listen_url) from error

    async def notify(self, channel: str) -> None:
        """Send an empty notification."""
        await self._again(lambda session: session.connection.execute("SELECT pg_notify($1, '')", channel))

    async def _connect(
        self, address: DatabaseAddress, pooler: bool, patient: bool = False
    ) -> asyncpg.Connection[asyncpg.Record]:
        connection = await asyncpg.connect(
            address.url,
            # With none, asyncpg has statements parsed anew whenever they run, even those that were prepared explicitly:
            # what a pooler needs, and others must not have.
            statement_cache_size=0 if pooler else _STATEMENTS,
            max_cached_statement_lifetime=0,
            timeout=address.connect_within_s,
            command_timeout=None if patient else self._timeout_ms / 1000 + _NO_ANSWER_S,
            # With several hosts, the one that is the primary now; with one, a standby is found out at once.
            target_session_attrs=None if "target_session_attrs=" in address.url else SessionAttribute.read_write,
            server_settings={"application_name": "sqew", **({} if pooler else self._server_settings(patient))},
        )
        _give_up_when_unheard(connection)
        return connection

    def _server_settings(self, patient: bool) -> dict[str, str]:
        return {
            "statement_timeout": "0" if patient else str(self._timeout_ms),
            "synchronous_commit": SYNC_COMMIT[self._synchronous],
            "default_transaction_isolation": READ_COMMITTED,
            # PostgreSQL tells by a warning that no standby has what was committed.
            "client_min_messages": "warning",
            # Whoever stops in the midst of a transaction holds up who changes a queue.
            "idle_in_transaction_session_timeout": "0" if patient else "5000",
            **PLANNING,
        }

    async def _again(
        self, work: Callable[[Session], Awaitable[R]], reads: bool = False, batch: Batch | None = None
    ) -> R:
        """Do work in a transaction, and again if it conflicts with others; ``batch``: the operations it is for."""
        try:
            return await self._try_again(work, reads)
        except StoreError as error:
            self._count_refusal(error, 1 if batch is None else len(batch.pending))
            raise

    def _count_refusal(self, error: StoreError, operations: int) -> None:
        if isinstance(error.__cause__, Exhausted):
            self.counters.exhausted += operations
        elif not self._pool.is_away and isinstance(error.__cause__, asyncpg.QueryCanceledError | TimeoutError):
            self.counters.timeouts += operations
        elif isinstance(error, StoreUnavailable):
            self.counters.refused += operations
        elif isinstance(error, StoreBusy):
            self.counters.contested += operations
        elif isinstance(error, StoreFull):
            self.counters.full += operations

    async def _try_again(self, work: Callable[[Session], Awaitable[R]], reads: bool) -> R:
        for attempt in range(1, _TRIES + 1):
            try:
                async with self._session(reads) as session:
                    return await work(session)
            except (*CONTESTED, *STALE) as error:
                if attempt == _TRIES:
                    raise translate(error, self._url) from error
                self.counters.retries += 1
                await asyncio.sleep(self._random.random() * 0.005 * attempt)
            except StoreUnusable as error:
                raise self._pool.lose(error) from error
            except OF_DATABASE as error:
                raise translate(error, self._url) from error
        raise AssertionError("the last attempt raises")

    def _session(self, reads: bool = False) -> AbstractAsyncContextManager[Session]:
        return self._pool.session(reads)

    async def _try_out(self) -> None:
        """Raise unless a connection can be made."""
        if self._pooler:
            # No more than that: to ask something would take one of the connections that others may wait for there.
            connection = await asyncpg.connect(self._address.url, timeout=self._address.connect_within_s)
        else:
            connection = await self.connect()
        await connection.close(timeout=_NO_ANSWER_S)

    async def _new_session(self) -> Session:
        connection = await self.connect()
        try:
            await check_usable(connection, without_password(self._url), self._synchronous)
        except BaseException:
            connection.terminate()
            raise
        return self._session_on(connection)

    def _session_on(self, connection: asyncpg.Connection[asyncpg.Record]) -> Session:
        return Session(
            connection, self._marks, self._throttles, self._random, self._delivery_keep_ms, self._url, self.counters
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.wait({self._follower})
        await self._pool.close()


def _give_up_when_unheard(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Make a connection end when its other end vanishes: the kernel would wait for a quarter of an hour."""
    transport: asyncio.Transport = connection._transport  # type: ignore[attr-defined]  # asyncpg has no other way
    found = transport.get_extra_info("socket")
    if found is not None and found.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNHEARD_MS)
