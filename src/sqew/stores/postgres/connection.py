"""A connection to PostgreSQL as what stores share knows it, and PostgreSQL's errors in our words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import asyncpg

from sqew.stores.postgres.bridge import wait_for
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.statements import Statements
from sqew.stores.sql.work import Row

_PARAMETER = re.compile(r"\?(\d+)")
_BLOB = re.compile(r"CAST\((coalesce\([^)]*\)|[\w.]+) AS BLOB\)")
_HINT = re.compile(r" INDEXED BY \w+|(?<=[ (])\+(?=[a-z])")


def _dialect(text: str) -> str:
    """A statement that is written for SQLite as well, without what only SQLite needs to be told."""
    return _PARAMETER.sub(r"$\1", _BLOB.sub(r"\1", _HINT.sub("", text))).replace("x''", "''::bytea")


SQL = Statements(__package__, _dialect)

PLANNING = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    **dict.fromkeys(
        ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_sort"), "off"
    ),
}
"""Settings of a connection. Every statement has its index, and its plan must not depend on what statistics said of a
queue when it was empty: it is made once, by index and in the order of the index wherever that is possible."""

SYNC_COMMIT = {True: "on", False: "off"}
"""What PostgreSQL calls it: the setting `synchronous_commit`."""


class Answer:
    """The rows of a statement: implements `sqew.stores.sql.work.Rows`."""

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


class Link:
    """A connection as what stores share knows it: implements `sqew.stores.sql.work.Connection`."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection
        self._prepared: dict[str, asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]] = {}
        self._changed = 0
        self._held: set[int] = set()

    def begun(self) -> None:
        """A transaction has begun: nothing is held yet."""
        self._held.clear()

    def hold(self, state: QueueState, /) -> None:
        """Nobody else may change the order or the number of a queue's messages before the transaction ends."""
        if state.id not in self._held:
            self._held.add(state.id)
            self.execute(SQL.hold_queue, (state.id,))

    def execute(self, statement: str, parameters: Iterable[Any] = (), /) -> Answer:
        """Run a statement."""
        return wait_for(self.fetch(statement, *parameters))

    execute_at_once = execute

    async def _prepare(self, statement: str) -> asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]:
        prepared = self._prepared.get(statement)
        if prepared is None:
            prepared = self._prepared[statement] = await self._connection.prepare(statement)
        return prepared

    async def fetch(self, statement: str, *parameters: Any) -> Answer:
        """The same for code that can await."""
        prepared = self._prepared.get(statement) or await self._prepare(statement)
        rows = await prepared.fetch(*parameters)
        # Such as "UPDATE 3", or "BEGIN".
        changed = (prepared.get_statusmsg() or "").rpartition(" ")[2]
        self._changed = int(changed) if changed.isdigit() else 0
        return Answer(rows)

    def executemany(self, statement: str, rows: Iterable[Row], /) -> Answer:
        """Run a statement once for every row of parameters, in one round trip."""
        return Answer(wait_for(wait_for(self._prepare(statement)).fetchmany(list(rows))))

    def changes(self) -> int:
        """How many rows the last statement changed."""
        return self._changed

    def integers(self, values: list[int], /) -> object:
        """A list of integers as one parameter."""
        return values
