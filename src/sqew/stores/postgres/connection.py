"""A connection to PostgreSQL as what stores share knows it, and PostgreSQL's errors in our words."""

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
    """A statement that is written for SQLite as well.

    PostgreSQL can't be told an index: where it needs to be, a statement of its own leaves it no other. ``+x`` tells
    both that a column is not to be looked for in an index.
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
"""What PostgreSQL calls it: the setting `synchronous_commit`."""


class HeldElsewhere(Exception):
    """Somebody else holds one of these queues (their ids), and who may have locked rows already can't wait for it."""

    def __init__(self, queues: set[int]) -> None:
        super().__init__(queues)
        self.queues = queues


class Answer:
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
    """A connection as what stores share knows it: implements `sqew.stores.sql.transaction.StoreConnection`."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], url: str, counters: PoolCounters) -> None:
        self._connection, self._url, self._counters = connection, url, counters
        self._is_unreplicated = False
        connection.add_log_listener(self._hear)
        self._prepared: dict[str, asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]] = {}
        self._changed = 0
        self._held: set[int] = set()

    def begin_with(self, queues: set[int]) -> None:
        """A transaction has begun, and nobody else may have these queues (their ids) before it ends.

        Here it waits for them: whoever waits has locked no row, and waits in the order of ids, so none in a circle.
        """
        self._held = set(queues)
        if queues:
            self.execute(SQL.hold_queues, (sorted(queues),))

    def hold(self, *states: QueueState) -> None:
        """Nobody else may change the order or the number of these queues' messages before the transaction ends.

        Raises `HeldElsewhere` where somebody does: then it is to be begun again with all that it holds.
        """
        wanted = {state.id for state in states} - self._held
        if wanted:
            if self.execute(SQL.queues_held_elsewhere, (sorted(wanted),)).fetchone() is not None:
                raise HeldElsewhere(wanted | self._held)
            self._held |= wanted

    def execute(self, statement: str, parameters: Iterable[Any] = (), /) -> Answer:
        """Run a statement."""
        return wait_for(self.fetch(statement, *parameters))

    execute_at_once = execute

    def read(self, statement: str, parameters: Iterable[Any] = (), /) -> Iterator[Row]:
        """Run a statement whose rows may be many and large: they are fetched as far as they are asked for."""
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

    async def fetch(self, statement: str, *parameters: Any) -> Answer:
        """The same for code that can await."""
        prepared = self._prepared.get(statement) or await self._prepare(statement)
        rows = await prepared.fetch(*parameters)
        # Such as "UPDATE 3", or "BEGIN".
        changed = (prepared.get_statusmsg() or "").rpartition(" ")[2]
        self._changed = int(changed) if changed.isdigit() else 0
        return Answer(rows)

    async def fetch_alone(self, statement: str, *parameters: Any) -> Answer:
        """Run a statement that is a transaction of its own. Raises `OutcomeUnknown` as `commit` does."""
        prepared = self._prepared.get(statement) or await self._prepare(statement)
        return Answer(await self.decided(prepared.fetch(*parameters)))

    async def commit(self) -> None:
        """Commit what was begun. Raises `OutcomeUnknown` where it was asked for and may have been done, or not."""
        await self.decided(self._connection.execute("COMMIT"))

    async def decided(self, committing: Awaitable[R]) -> R:
        """Await whatever commits. Raises `OutcomeUnknown` as `commit` does."""
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
        """A warning has come, before the answer that it belongs to. Its text may be in any language."""
        if message.server_source_function == UNREPLICATED:
            self._is_unreplicated = True

    def executemany(self, statement: str, rows: Iterable[Row], /) -> Answer:
        """Run a statement once for every row of parameters, in one round trip."""
        return Answer(wait_for(wait_for(self._prepare(statement)).fetchmany(list(rows))))

    def delete(self, statement: str, rows: Iterable[Row], /) -> Sequence[Row]:
        """The same for one that deletes: what it returns."""
        return self.executemany(statement, rows).fetchall()

    def changes(self) -> int:
        """How many rows the last statement changed."""
        return self._changed

    def insert_alike(self, alike: Row, ids: Sequence[int], checksums: list[int], bodies: list[bytes]) -> None:
        """Write messages by the thousand that differ in these alone."""
        self.execute(SQL.insert_staged, (*alike, ids, checksums, bodies))

    def insert_copies(self, copies: Copies) -> None:
        """Write messages that go to several queues each: their ids are not in a row here, as others draw some too."""
        lane, priority, due_at, created_at, expires_at, is_text, headers = copies.alike
        rows = [
            (id, taker.queue_id, lane, priority, due_at, created_at, expires_at, is_text, check, headers, body)
            for ids, check, body in zip(copies.ids, copies.checksums, copies.bodies, strict=True)
            for id, taker in zip(ids, copies.targets, strict=True)
        ]
        self.executemany(SQL.insert_small, rows)

    def integers(self, values: list[int], /) -> object:
        """A list of integers as one parameter."""
        return values
