"""The PostgreSQL store."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Self, TypeVar

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from sqew import operations as ops
from sqew.errors import BadValue, SqewError
from sqew.model import Commit, DatabaseFigures
from sqew.settings import without_password
from sqew.stores.postgres.clock import DatabaseClock
from sqew.stores.postgres.connection import PLANNING, SYNC_COMMIT
from sqew.stores.postgres.errors import CONTESTED, OF_DATABASE, STALE, translate
from sqew.stores.postgres.flight import Flight, is_about_all
from sqew.stores.postgres.migrate import check_version, migrate
from sqew.stores.postgres.pool import Pool
from sqew.stores.postgres.session import Session
from sqew.stores.postgres.tally import Tally
from sqew.stores.postgres.watermarks import Watermarks

R = TypeVar("R")

_TRIES = 10
"""How often a transaction is made again that others were in the way of."""
_CONNECT_WITHIN_S = 5
_STATEMENTS = 100
_NO_ANSWER_S = 2
"""How much longer than the database may take its answer may be on its way."""
_UNHEARD_MS = 10_000
"""After how long a connection is given up whose other end does not even confirm what it is sent."""
_COMPARE_EVERY_S = 60.0
_OLDEST_SNAPSHOT = """
SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float8
FROM pg_stat_activity
WHERE datname = current_database() AND coalesce(backend_xmin, backend_xid) IS NOT NULL AND pid <> pg_backend_pid()
"""


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
        self.tally = Tally()
        self._url, self._random, self._delivery_keep_ms = url, random or Random(), delivery_keep_ms
        self._listen_url = listen_url or url
        self._timeout_ms, self._synchronous, self._pooler = timeout_ms, synchronous, pooler
        self._pool = Pool(url, connections, timeout_ms / 1000, self._new_session, self.tally, self._random)
        self._follower: asyncio.Task[None] | None = None
        self._marks = Watermarks()

    @classmethod
    async def open(cls, url: str, *, now: int | None = None, create: bool = True, **options: Any) -> Self:
        """Connect, and bring the schema up to date; ``create``: also where there is none yet."""
        store = cls(url, **options)
        try:
            session = await store._new_session()
            store._pool.add(session)
            where = without_password(url)
            check_version(session.connection.get_server_version().major, where)
            clock = DatabaseClock()
            await clock.compare(session.connection)
            await migrate(session.connection, where, clock.now() if now is None else now, create)
        except BaseException as error:
            await store.close()
            if isinstance(error, OF_DATABASE):
                raise translate(error, url) from error
            raise
        return store

    async def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        """Execute operations; see `sqew.stores.base.RemoteStore`."""
        flight = Flight(operations, now)
        try:
            await self._again(lambda session: session.fly(flight, self._marks))
        except Exception as error:
            if not flight.has_begun and (len(operations) == 1 or not isinstance(error, BadValue)):
                raise
            if is_about_all(error):
                flight.fail(error)
            else:
                # One of them can't be stored, or met a mistake in the code, and those beside it were undone.
                await self._land_each(flight)
        return flight.commit

    async def _land_each(self, flight: Flight) -> None:
        for place, _ in flight.pending:
            try:
                await self._again(lambda session, place=place: session.fly(flight, self._marks, place))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 (the others must get their answers all the same)
                flight.land(place, error)

    async def look(self, operations: Sequence[ops.Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read, as of one moment: their results, or the first error raised."""
        return await self._again(lambda session: session.look(operations, now))

    async def keep_time(self, clock: DatabaseClock) -> None:
        """Set a clock by the database's, now and every minute from now on."""
        await self._compare(clock)
        self._follower = asyncio.ensure_future(self._follow(clock))

    async def _follow(self, clock: DatabaseClock) -> None:
        while True:
            await asyncio.sleep(_COMPARE_EVERY_S)
            with contextlib.suppress(SqewError):
                # It goes on as it is until the next minute.
                await self._compare(clock)

    async def _compare(self, clock: DatabaseClock) -> None:
        await self._again(lambda session: clock.compare(session.connection))

    def figures(self) -> DatabaseFigures:
        """How this process gets on with the database."""
        counts = {name: getattr(self.tally, name) for name in Tally.__slots__}
        return DatabaseFigures(connections=self.connections, is_there=not self._pool.is_away, **counts)

    async def measure(self) -> None:
        """Look how old the oldest snapshot is."""
        self.tally.oldest_snapshot_s = await self._again(lambda session: session.connection.fetchval(_OLDEST_SNAPSHOT))

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection of its own."""
        return await self._connect(self._url, self._pooler)

    async def connect_to_listen(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection of its own that hears notices."""
        return await self._connect(self._listen_url, self._pooler and self._listen_url == self._url)

    async def notify(self, channel: str) -> None:
        """Send an empty notice."""
        await self._again(lambda session: session.connection.execute("SELECT pg_notify($1, '')", channel))

    async def _connect(self, url: str, pooler: bool) -> asyncpg.Connection[asyncpg.Record]:
        connection = await asyncpg.connect(
            url,
            # With none, asyncpg has statements parsed anew whenever they run, even those that were prepared explicitly:
            # what a pooler needs, and others must not have.
            statement_cache_size=0 if pooler else _STATEMENTS,
            max_cached_statement_lifetime=0,
            timeout=_CONNECT_WITHIN_S,
            command_timeout=self._timeout_ms / 1000 + _NO_ANSWER_S,
            # With several hosts, the one that is the primary now; with one, a standby is found out at once.
            target_session_attrs=None if "target_session_attrs=" in url else SessionAttribute.read_write,
            server_settings={"application_name": "sqew", **({} if pooler else self._server_settings())},
        )
        _give_up_when_unheard(connection)
        return connection

    def _server_settings(self) -> dict[str, str]:
        return {
            "statement_timeout": str(self._timeout_ms),
            "synchronous_commit": SYNC_COMMIT[self._synchronous],
            "idle_in_transaction_session_timeout": "60000",
            **PLANNING,
        }

    async def _again(self, work: Callable[[Session], Awaitable[R]]) -> R:
        """Do something in a transaction, and again where others were in its way."""
        for attempt in range(1, _TRIES + 1):
            try:
                async with self._session() as session:
                    return await work(session)
            except (*CONTESTED, *STALE) as error:
                if attempt == _TRIES:
                    raise translate(error, self._url) from error
                self.tally.retries += 1
                await asyncio.sleep(self._random.random() * 0.005 * attempt)
            except OF_DATABASE as error:
                self.tally.timeouts += isinstance(error, asyncpg.QueryCanceledError | TimeoutError)
                raise translate(error, self._url) from error
        raise AssertionError("the last attempt raises")

    def _session(self) -> AbstractAsyncContextManager[Session]:
        return self._pool.session()

    async def _new_session(self) -> Session:
        return Session(await self.connect(), self._random, self._delivery_keep_ms)

    async def close(self) -> None:
        """Close the connections."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.wait({self._follower})
        await self._pool.close()


def _give_up_when_unheard(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Have a connection end when its other end vanishes: the kernel would wait for a quarter of an hour."""
    transport: asyncio.Transport = connection._transport  # type: ignore[attr-defined]  # asyncpg has no other way
    found = transport.get_extra_info("socket")
    if found is not None and found.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNHEARD_MS)
