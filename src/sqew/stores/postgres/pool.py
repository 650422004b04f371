"""The connections of one server to its database, and whether the database is there at all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from time import monotonic

import asyncpg

from sqew.errors import StoreUnavailable
from sqew.settings import without_password
from sqew.stores.postgres.errors import OF_DATABASE, READ_ONLY, STALE, translate
from sqew.stores.postgres.session import Session
from sqew.stores.postgres.tally import Tally

_log = logging.getLogger("sqew.postgres")

_FIRST_PROBE_S = 0.1
_SLOWEST_PROBE_S = 5.0


class Pool:
    """Hands out connections. While the database is away it refuses at once, and one prober looks for it.

    asyncpg's own pool makes a connection forget its prepared statements whenever it is given back.
    """

    def __init__(
        self,
        url: str,
        connections: int,
        wait_s: float,
        connect: Callable[[], Awaitable[Session]],
        tally: Tally,
        random: Random,
    ) -> None:
        self._url, self._connections, self._wait_s, self._connect = url, connections, wait_s, connect
        self._tally, self._random = tally, random
        self._free: list[Session] = []
        # One more than operations have: for those that only look.
        self._places = asyncio.Semaphore(connections + 1)
        # One at a time: where the first can't connect, the others need not find that out as well.
        self._connecting = asyncio.Lock()
        self._open = 0
        self._absence: StoreUnavailable | None = None
        self._prober: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_away(self) -> bool:
        """Whether the database could not be reached, and has not been since."""
        return self._absence is not None

    def add(self, session: Session) -> None:
        """Take over a connection that was made elsewhere."""
        self._open += 1
        self._free.append(session)

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A connection for as long as it is needed. Raises `StoreUnavailable` where there is none to be had."""
        self._check()
        await self._take_place()
        try:
            self._check()
            session = self._idle() or await self._new()
            self._tally.in_use += 1
            try:
                yield session
            except READ_ONLY as error:
                # It was the primary once; so were those that all the others lead to.
                self._drop(session)
                raise StoreUnavailable(str(translate(error, self._url))) from error
            except (TimeoutError, asyncpg.InternalClientError, *STALE):
                # The answer may still come, and would be taken for that to the next question; or it is not understood.
                session.connection.terminate()
                raise
            finally:
                self._tally.in_use -= 1
                await self._give_back(session)
        finally:
            self._places.release()

    def _check(self) -> None:
        if self._absence is not None:
            self._tally.refused += 1
            raise StoreUnavailable(str(self._absence))

    async def _take_place(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        self._tally.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._places.acquire()
        except TimeoutError as error:
            self._tally.exhausted += 1
            raise StoreUnavailable(
                f"All {self._connections} connections to {without_password(self._url)} are busy. "
                "Try again, or raise database_connections."
            ) from error
        finally:
            self._tally.waiting -= 1

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
                if not self._open:
                    raise self._lost(error) from error
                # There are some, in use: who has one goes on.
                self._tally.exhausted += 1
                raise translate(error, self._url) from error
            except OF_DATABASE as error:
                raise self._lost(error) from error
            self._open += 1
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

    def _drop(self, session: Session) -> None:
        for other in (session, *self._free):
            other.connection.terminate()

    # Coming back

    def _lost(self, error: BaseException) -> StoreUnavailable:
        """Nobody is to try to connect from now on, but for one."""
        # Whatever the reason: who asks can only come back later.
        self._absence = absence = StoreUnavailable(str(translate(error, self._url)))
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
        self._tally.reconnects += 1
        _log.warning("the database is back", extra={"fields": {"away_s": round(monotonic() - began, 1)}})

    async def _found_again(self) -> Session:
        delay_s = _FIRST_PROBE_S
        while True:
            # Many servers lose one database at a time, and must not all come back in the same moment.
            await asyncio.sleep(delay_s * (0.5 + self._random.random()))
            try:
                return await self._connect()
            except OF_DATABASE as error:
                self._note_again(error)
            delay_s = min(delay_s * 2, _SLOWEST_PROBE_S)

    def _note_again(self, error: BaseException) -> None:
        before, self._absence = self._absence, StoreUnavailable(str(translate(error, self._url)))
        if str(before) != str(self._absence):
            _log.warning("the database is still away", extra={"fields": {"error": str(self._absence)}})

    async def close(self) -> None:
        """Close the connections that are not in use; the others as soon as they are given back."""
        self._closed = True
        if self._prober is not None:
            self._prober.cancel()
            await asyncio.wait({self._prober})
        free, self._free = self._free, []
        for session in free:
            self._open -= 1
            await session.close()
