"""Pool of a server's connections to its database, which notices when the database is away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from random import Random
from time import monotonic

import asyncpg

from sqew.errors import StoreError, StoreTooNew, StoreUnavailable
from sqew.settings import without_password
from sqew.stores.postgres.errors import OF_DATABASE, READ_ONLY, SILENT, STALE, reason_of, translate
from sqew.stores.postgres.pool_counters import PoolCounters
from sqew.stores.postgres.session import Session

_log = logging.getLogger("sqew.postgres")

_FIRST_PROBE_S = 0.1
_SLOWEST_PROBE_S = 5.0
_SILENT_S = 2.0
"""Seconds without an answer after which the pool checks whether the database is there at all."""


class Exhausted(TimeoutError):
    """Cause of a refusal: the database is there, but no connection to it was free in time."""


class Pool:
    """A pool of connections. While the database is away it refuses at once, and one prober looks for it.

    asyncpg's own pool makes a connection forget its prepared statements whenever it is given back.
    """

    def __init__(
        self,
        url: str,
        connections: int,
        wait_s: float,
        connect: Callable[[], Awaitable[Session]],
        try_out: Callable[[], Awaitable[None]],
        counters: PoolCounters,
        random: Random,
    ) -> None:
        self._url, self._connections, self._wait_s, self._connect = url, connections, wait_s, connect
        self._try_out, self._counters, self._random = try_out, counters, random
        self._free: list[Session] = []
        # Those that are in use, each since when: the oldest is the first.
        self._in_use: dict[Session, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._listener: asyncio.Task[None] | None = None
        self._places = asyncio.Semaphore(connections)
        # A place of its own: what looks may take long, and must not hold up messages.
        self._place_to_read = asyncio.Semaphore(1)
        self._given_back = asyncio.Event()
        # One at a time: where the first can't connect, the others need not find that out as well.
        self._connecting = asyncio.Lock()
        self._open = 0
        self._absence: StoreError | None = None
        self._prober: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_away(self) -> bool:
        """True if the database could not be reached, and has not been since."""
        return self._absence is not None

    @property
    def open(self) -> int:
        """Number of connections, in use or not."""
        return self._open

    @property
    def idle(self) -> int:
        """Number of open connections that are not in use. Those that the database has ended meanwhile don't count."""
        return sum(not session.connection.is_closed() for session in self._free)

    def add(self, session: Session) -> None:
        """Take over a connection that was made elsewhere."""
        self._open += 1
        self._free.append(session)

    @contextlib.asynccontextmanager
    async def session(self, reads: bool = False) -> AsyncIterator[Session]:
        """Yield a connection for as long as it is needed. Raise `StoreUnavailable` if there is none to be had.

        ``reads``: for reads that may take long, one at a time.
        """
        self._check()
        places = self._place_to_read if reads else self._places
        await self._take(places)
        try:
            self._check()
            session = self._idle() or await self._new()
            self._counters.in_use += 1
            self._in_use[session] = monotonic()
            if self._timer is None:
                self._set_timer(_SILENT_S)
            try:
                yield session
            except READ_ONLY as error:
                # It was the primary once; so were those that all the others lead to.
                self._drop(session)
                raise StoreUnavailable(str(translate(error, self._url))) from error
            except STALE:
                self._drop(session)
                raise
            except (TimeoutError, asyncpg.InternalClientError):
                # The answer may still come, and would be taken for that to the next question; or it is not understood.
                session.connection.terminate()
                raise
            finally:
                self._counters.in_use -= 1
                del self._in_use[session]
                await self._give_back(session)
        finally:
            places.release()

    def _check(self) -> None:
        if self._absence is not None:
            raise type(self._absence)(str(self._absence))

    async def _take(self, places: asyncio.Semaphore) -> None:
        if not places.locked():
            await places.acquire()
            return
        where = without_password(self._url)
        busy = f"All {self._connections} connections to {where} are busy. Try again, or raise database_connections."
        with self._waiting(busy):
            async with asyncio.timeout(self._wait_s):
                await places.acquire()

    @contextlib.contextmanager
    def _waiting(self, why: str) -> Iterator[None]:
        self._counters.waiting += 1
        try:
            yield
        except TimeoutError:
            self._counters.acquire_timeouts += 1
            raise StoreUnavailable(why) from Exhausted()
        finally:
            self._counters.waiting -= 1

    def _idle(self) -> Session | None:
        while self._free:
            session = self._free.pop()
            if not session.connection.is_closed():
                return session
            self._open -= 1
        return None

    async def _new(self) -> Session:
        async with self._connecting:
            self._check()
            if (session := self._idle()) is not None:
                return session
            try:
                session = await self._connect()
            except asyncpg.TooManyConnectionsError as error:
                full = error
            except (*OF_DATABASE, StoreError) as error:
                raise self.lose(error) from error
            else:
                self._open += 1
                return session
        return await self._next_free(full)

    async def _next_free(self, error: asyncpg.TooManyConnectionsError) -> Session:
        """Return a connection that is in use, as soon as it is given back: PostgreSQL has no more for us."""
        with self._waiting(str(translate(error, self._url))):
            async with asyncio.timeout(self._wait_s):
                while (session := self._idle()) is None:
                    if not self._open:
                        raise self.lose(error) from error
                    self._given_back.clear()
                    await self._given_back.wait()
        return session

    async def _give_back(self, session: Session) -> None:
        connection = session.connection
        if not connection.is_closed() and connection.is_in_transaction():
            # What was begun could not be undone. PostgreSQL does that when nobody is there any more.
            connection.terminate()
        if self._closed or connection.is_closed():
            self._open -= 1
            await session.close()
        else:
            self._free.append(session)
        self._given_back.set()

    def _drop(self, session: Session) -> None:
        for other in (session, *self._free):
            other.connection.terminate()

    # Falling silent

    def _set_timer(self, after_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(after_s, self._listen)

    def _listen(self) -> None:
        """Check that a database which has not answered for a while is there: it may hang, or the wire be cut."""
        self._timer = None
        if self._closed or not self._in_use:
            return
        waited_s = monotonic() - next(iter(self._in_use.values()))
        if waited_s < _SILENT_S:
            self._set_timer(_SILENT_S - waited_s)
            return
        if self._listener is None and self._absence is None:
            self._listener = asyncio.ensure_future(self._find_out())
        self._set_timer(_SILENT_S)

    async def _find_out(self) -> None:
        try:
            await self._try_out()
        except SILENT as error:
            self.lose(error)
        except Exception as error:  # noqa: BLE001 (whatever it says, it is there)
            _log.debug("a connection to see whether the database is there was refused: %s", reason_of(error, self._url))
        finally:
            self._listener = None

    # Coming back

    def lose(self, error: BaseException) -> StoreError:
        """Mark the database as away, and return why: only the prober connects, and pending statements fail at once."""
        self._absence = absence = self._reason_of_absence(error)
        for session in (*self._in_use, *self._free):
            session.connection.terminate()
        if self._prober is None and not self._closed:
            _log.warning("the database is away", extra={"fields": {"error": str(absence)}})
            self._prober = asyncio.ensure_future(self._probe())
        return absence

    async def _probe(self) -> None:
        began = monotonic()
        try:
            self.add(await self._found_again())
        finally:
            self._prober = None
        self._absence = None
        self._counters.reconnects += 1
        _log.info("the database is back", extra={"fields": {"away_s": round(monotonic() - began, 1)}})

    async def _found_again(self) -> Session:
        delay_s = _FIRST_PROBE_S
        while True:
            # Many servers lose one database at a time, and must not all come back in the same moment.
            await asyncio.sleep(delay_s * (0.5 + self._random.random() / 2))
            try:
                return await self._connect()
            except Exception as error:  # noqa: BLE001 (whatever it is, nobody else looks whether it is back)
                self._note_again(error)
            delay_s = min(delay_s * 2, _SLOWEST_PROBE_S)

    def _note_again(self, error: BaseException) -> None:
        before, self._absence = self._absence, self._reason_of_absence(error)
        if str(before) != str(self._absence):
            unexpected = None if isinstance(error, (*OF_DATABASE, StoreError)) else error
            fields = {"error": str(self._absence)}
            _log.warning("the database is still away", extra={"fields": fields}, exc_info=unexpected)

    def _reason_of_absence(self, error: BaseException) -> StoreError:
        # Whatever the reason: who asks can only come back later. But to a schema that is too new nobody does.
        return error if isinstance(error, StoreTooNew) else StoreUnavailable(str(translate(error, self._url)))

    async def close(self) -> None:
        """Close the connections that are not in use; the others as soon as they are given back."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = {task for task in (self._prober, self._listener) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        free, self._free = self._free, []
        for session in free:
            self._open -= 1
            await session.close()
