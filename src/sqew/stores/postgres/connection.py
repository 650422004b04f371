"""A PostgreSQL connection for code that stores share: its dialect, its settings, and commits of unknown outcome."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import asyncpg

from sqew.stores.postgres.errors import UNREPLICATED, leaves_nothing, unknown
from sqew.stores.postgres.greenlets import wait_for
from sqew.stores.postgres.pool_counters import PoolCounters
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.statements import Statements
from sqew.stores.sql.transaction import Copies, Row

R = TypeVar("R")

_PARAMETER = re.compile(r"\?(\d+)")
_BLOB = re.compile(r"CAST\((coalesce\([^)]*\)|[\w.]+) AS BLOB\)")
_NAMED_INDEX = re.compile(r" INDEXED BY \w+")
_NO_INDEX = re.compile(r"(?<=[ (])\+([a-z_.]+)")
_TEXTS = {"uuid"}


def _dialect(text: str) -> str:
    """Return a statement that is written for SQLite as well, in PostgreSQL's dialect.

    PostgreSQL can't be told an index: where that matters, a statement of its own leaves it no other. ``+x`` tells both
    not to look a column up in an index.
    """
    text = _BLOB.sub(r"\1", _NO_INDEX.sub(_opaque, _NAMED_INDEX.sub("", text)))
    return _PARAMETER.sub(r"$\1", text).replace("x''", "''::bytea")


def _opaque(column: re.Match[str]) -> str:
    name = column[1]
    return f"({name} || '')" if name in _TEXTS else f"({name} + 0)"


_READ_AHEAD = 20

SQL = Statements(__package__, _dialect)

PLANNING = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    **dict.fromkeys(
        (
            "enable_seqscan",
            "enable_bitmapscan",
            "enable_hashjoin",
            "enable_mergejoin",
            "enable_sort",
            "enable_incremental_sort",
        ),
        "off",
    ),
}
"""Settings of a connection. Every statement has its index, and its plan, which is made once, must not depend on what
statistics said of a queue when it was empty, or of all queues when one had everything. These settings alone do not
choose the index: a statement asks for an order that only one index has. Where the first columns are to be equal to
something, it says so in a way that keeps them in that order (``x >= ?1 AND x <= ?1 ORDER BY x, id``; with ``x = ?1``
only ``id`` would be left of it, and any index that begins with ``id`` would do)."""

SYNC_COMMIT = {True: "on", False: "off"}
"""Values of PostgreSQL's setting `synchronous_commit`."""


class HeldElsewhere(Exception):
    """A conflict over queues (their ids): another transaction has one locked, and this one can't wait, as it may have
    locked rows already."""

    def __init__(self, queues: set[int]) -> None:
        super().__init__(queues)
        self.queues = queues


class FetchedRows:
    """The rows of a statement: implements `sqew.stores.sql.transaction.Rows`."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Any]) -> None:
        # Records of asyncpg's are as good as tuples for those who unpack them.
        self._rows: list[Row] = rows  # type: ignore[assignment]

    @property
    def get(self) -> Any:
        """The first column of the first row; None if there is none."""
        return self._rows[0][0] if self._rows else None

    def fetchone(self) -> Row | None:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Row]:
        return self._rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)


class PostgresConnection:
    """A connection as code that stores share knows it: implements `sqew.stores.sql.transaction.StoreConnection`."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], url: str, counters: PoolCounters) -> None:
        self._connection, self._url, self._counters = connection, url, counters
        self._is_unreplicated = False
        connection.add_log_listener(self._hear)
        self._prepared: dict[str, asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]] = {}
        self._changed = 0
        self._held: set[int] = set()

    def begin_with(self, queues: set[int]) -> None:
        """Lock queues (their ids) for the transaction that has just begun.

        It waits for them here: it has locked no row yet, and all transactions wait in the order of ids, so there is no
        deadlock.
        """
        self._held = set(queues)
        if queues:
            self.execute(SQL.hold_queues, (sorted(queues),))

    def hold(self, *states: QueueState) -> None:
        """Lock queues until the transaction ends: no other may change the order or the number of their messages.

        Raise `HeldElsewhere` if another transaction has one locked: then begin again with all of them locked first.
        """
        wanted = {state.id for state in states} - self._held
        if wanted:
            if self.execute(SQL.queues_held_elsewhere, (sorted(wanted),)).fetchone() is not None:
                raise HeldElsewhere(wanted | self._held)
            self._held |= wanted

    def execute(self, statement: str, parameters: Iterable[Any] = (), /) -> FetchedRows:
        """Run a statement."""
        return wait_for(self.fetch(statement, *parameters))

    execute_at_once = execute

    def read(self, statement: str, parameters: Iterable[Any] = (), /) -> Iterator[Row]:
        """Run a statement whose rows may be many and large: they are fetched as they are asked for."""
        rows: Any = aiter(wait_for(self._prepare(statement)).cursor(*parameters, prefetch=_READ_AHEAD))
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield wait_for(anext(rows))

    async def _prepare(self, statement: str) -> asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]:
        prepared = self._prepared.get(statement)
        if prepared is None:
            try:
                prepared = self._prepared[statement] = await self._connection.prepare(statement)
            except AttributeError:
                # asyncpg asks for the types of the parameters, and trips where the connection has ended meanwhile.
                if not self._connection.is_closed():
                    raise
                raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation") from None
        return prepared

    async def fetch(self, statement: str, *parameters: Any) -> FetchedRows:
        """Run a statement, from code that can await."""
        prepared = self._prepared.get(statement) or await self._prepare(statement)
        rows = await prepared.fetch(*parameters)
        # Such as "UPDATE 3", or "BEGIN".
        changed = (prepared.get_statusmsg() or "").rpartition(" ")[2]
        self._changed = int(changed) if changed.isdigit() else 0
        return FetchedRows(rows)

    async def fetch_alone(self, statement: str, *parameters: Any) -> FetchedRows:
        """Run a statement that is a transaction of its own. Raise `OutcomeUnknown` as `commit` does."""
        prepared = self._prepared.get(statement) or await self._prepare(statement)
        return FetchedRows(await self.decided(prepared.fetch(*parameters)))

    async def commit(self) -> None:
        """Commit the transaction. Raise `OutcomeUnknown` if the commit was sent and may or may not have been done."""
        await self.decided(self._connection.execute("COMMIT"))

    async def decided(self, committing: Awaitable[R]) -> R:
        """Await a statement that commits. Raise `OutcomeUnknown` as `commit` does."""
        self._is_unreplicated = False
        try:
            answer = await committing
        except Exception as error:
            if leaves_nothing(error):
                raise
            # Its answer may still come, and would be taken for that to the next question.
            self._connection.terminate()
            self._counters.unknown += 1
            raise unknown(error, self._url) from error
        if self._is_unreplicated:
            self._counters.unknown += 1
            raise unknown(None, self._url)
        return answer

    def _hear(self, _connection: Any, message: Any) -> None:
        """Note a warning, which comes before the answer that it belongs to. Its text may be in any language."""
        if message.server_source_function == UNREPLICATED:
            self._is_unreplicated = True

    def executemany(self, statement: str, rows: Iterable[Row], /) -> FetchedRows:
        """Run a statement once for every row of parameters, in one round trip."""
        return FetchedRows(wait_for(wait_for(self._prepare(statement)).fetchmany(list(rows))))

    def delete(self, statement: str, rows: Iterable[Row], /) -> Sequence[Row]:
        """Run a statement that deletes, once for every row of parameters; return the rows that it returns."""
        return self.executemany(statement, rows).fetchall()

    def changes(self) -> int:
        """Return the number of rows that the last statement changed."""
        return self._changed

    def insert_alike(self, alike: Row, ids: Sequence[int], checksums: list[int], bodies: list[bytes]) -> None:
        """Write messages by the thousand that differ only in id, checksum and body."""
        self.execute(SQL.insert_staged, (*alike, ids, checksums, bodies))

    def insert_copies(self, copies: Copies) -> None:
        """Write messages that go to several queues each: their ids are not in a row here, as others draw some too."""
        lane, priority, due_at, created_at, expires_at, is_text, headers = copies.alike
        rows = [
            (id, target.queue_id, lane, priority, due_at, created_at, expires_at, is_text, check, headers, body)
            for ids, check, body in zip(copies.ids, copies.checksums, copies.bodies, strict=True)
            for id, target in zip(ids, copies.targets, strict=True)
        ]
        self.executemany(SQL.insert_small, rows)

    def integers(self, values: list[int], /) -> object:
        """Return a list of integers as one parameter."""
        return values
