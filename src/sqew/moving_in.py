"""Moving in: all that a file holds, copied to a database, with every id as it was.

It is copied in batches. How far that is stands in the database and is committed with each batch, so that what was
interrupted goes on from there. The queues themselves come last, in one transaction with the counting: until it is sure
that everything is there, nothing can be found.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any
from zlib import crc32

import apsw
import asyncpg
import msgspec
from asyncpg.exceptions import CharacterNotInRepertoireError, LockNotAvailableError
from msgspec import Struct

from sqew.clock import Clock, timestamp
from sqew.errors import BadValue, Conflict, StoreBusy, StoreDamaged, StoreUnusable
from sqew.settings import without_password
from sqew.stores.postgres import PostgresStore
from sqew.stores.postgres.errors import OF_DATABASE, translate
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.connection import translated

Row = tuple[Any, ...]
Reach = Callable[[int, int], object]
"""Gets how many rows are there, and how many there will be."""

_MOST_ROWS, _MOST_BYTES = 5_000, 8 * 1024 * 1024
"""What is copied at a time, at most."""
_WAIT_MS = 1_000
_OWN = frozenset({"sqew_migration", "sqew_moving_in"})
"""What each store keeps of itself."""
_META = "sqew_meta"
_LAST = ("sqew_subscription", "sqew_schedule", "sqew_queue")
"""What others are found by."""
_CASTS = {"bytea": "CAST({0} AS BLOB)", "text": "CAST({0} AS TEXT)"}
"""SQLite keeps whatever it is given in a column; PostgreSQL does not."""

_MARKER = """
CREATE TABLE IF NOT EXISTS sqew_moving_in (
  salt        bigint PRIMARY KEY,
  progress    text NOT NULL,
  finished_at bigint
)
"""
_OURS_ALONE = "SET lock_timeout = '5s'; SELECT pg_advisory_lock(1399940471, 2); SET lock_timeout = 0"
"""A move that was killed is over for the database only a moment later."""
_NOBODY_ELSE = "SELECT pg_advisory_lock(1399940471, 0)"
"""What every transaction of a server shares: servers on this database wait until the move is over."""
_COLUMNS = """
SELECT table_name::text, column_name::text, data_type::text, is_identity = 'YES' FROM information_schema.columns
 WHERE table_schema = current_schema() AND table_name LIKE 'sqew\\_%' ORDER BY table_name, ordinal_position
"""
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'sqew\\_%' ESCAPE '\\'"

_encode = msgspec.msgpack.encode


class Moved(Struct, frozen=True):
    """What a move did: how many rows each table has in the file, and in the database."""

    tables: dict[str, tuple[int, int]]
    resumed: bool

    @property
    def ok(self) -> bool:
        """Whether everything is there."""
        return all(here == there for here, there in self.tables.values())

    @property
    def rows(self) -> int:
        return sum(there for _, there in self.tables.values())


class Mark(Struct):
    """How far a table is copied, and a checksum of what was."""

    rows: int = 0
    digest: int = 0
    last: list[int | str] = []  # msgspec copies it

    def count(self, row: Row) -> int:
        """One more; its size."""
        encoded = _encode(row)
        self.rows, self.digest = self.rows + 1, crc32(encoded, self.digest)
        return len(encoded)


class Table(Struct, frozen=True):
    """A table that both have, with what its columns hold in PostgreSQL."""

    name: str
    columns: dict[str, str]
    key: list[str]
    identity: str | None

    def read(self, connection: apsw.Connection, where: str = "", last: Sequence[int | str] = ()) -> Iterator[Row]:
        """Its rows in the order of their keys; ``where``: those before and with the last (``<=``), or after (``>``)."""
        key = ", ".join(map(_quoted, self.key))
        some = f" WHERE ({key}) {where} ({', '.join('?' * len(self.key))})" if last else ""
        wanted = ", ".join(_CASTS.get(kind, "{0}").format(_quoted(name)) for name, kind in self.columns.items())
        return connection.execute(f"SELECT {wanted} FROM {self.name}{some} ORDER BY {key}", tuple(last))

    def key_of(self, row: Row) -> list[int | str]:
        """What a row is known by."""
        values = dict(zip(self.columns, row, strict=True))
        return [values[name] for name in self.key]


def _quoted(name: str) -> str:
    return f'"{name}"'


async def move_in(path: str, url: str, reach: Reach | None = None, *, restart: bool = False) -> Moved:
    """Copy a file's queues, and all that belongs to them, to an empty database, or go on with that.

    Nobody else may have the file open. It is left as it was. ``restart``: forget what an interrupted move has copied.
    """
    with _file(path) as source:
        try:
            async with _database(url) as target:
                move = _Move(path, source, without_password(url), target, await _tables(source, target))
                return await move.run(reach or (lambda _done, _total: None), restart)
        except OF_DATABASE as error:
            raise translate(error, url) from error
        except UnicodeDecodeError as error:
            raise StoreDamaged(
                f"{path} is damaged ({error}). Run `sqew check`, and restore the file from a backup."
            ) from error


@contextlib.contextmanager
def _file(path: str) -> Iterator[apsw.Connection]:
    """The file, with nobody else in it: what they changed would be lost."""
    store = SQLiteStore(path, now=Clock().now(), create=False, busy_timeout_ms=_WAIT_MS)
    try:
        with translated(path):
            store.connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            try:
                store.connection.execute("BEGIN EXCLUSIVE")
            except apsw.BusyError as error:
                raise StoreBusy(
                    f"Another process has {path} open, and what it changes now would be lost. "
                    "Stop the servers and workers that use it, and run this again."
                ) from error
            yield store.connection
    finally:
        store.close()


@contextlib.asynccontextmanager
async def _database(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection to the database, with its tables made and nobody else at them."""
    store = await PostgresStore.open(url, connections=1)
    try:
        connection = await store.connect()
        try:
            await connection.execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")
            try:
                await connection.execute(_OURS_ALONE)
            except LockNotAvailableError as error:
                where = without_password(url)
                raise StoreBusy(f"Another `sqew migrate` is at {where}. Wait until it has ended.") from error
            await connection.execute(_NOBODY_ELSE)
            await connection.execute(_MARKER)
            yield connection
        finally:
            await connection.close(timeout=5)
    finally:
        await store.close()


async def _tables(source: apsw.Connection, target: asyncpg.Connection[asyncpg.Record]) -> list[Table]:
    """What both have, which must be the same."""
    columns: dict[str, dict[str, str]] = {}
    identities: dict[str, str] = {}
    for table, column, kind, is_identity in await target.fetch(_COLUMNS):
        columns.setdefault(table, {})[column] = kind
        if is_identity:
            identities[table] = column
    keys = {str(name): _keys(source, name) for (name,) in source.execute(_TABLES).fetchall()}
    for name in sorted((columns.keys() | keys.keys()) - _OWN):
        here, there = keys.get(name, {}).keys(), columns.get(name, {}).keys()
        if here != there:
            raise StoreUnusable(
                f"{name} differs between the file and the database: {', '.join(sorted(here ^ there))}. "
                "Bring both to one version of Sqew: pip install --upgrade sqew."
            )
    return [
        Table(name, columns[name], sorted(filter(key.get, key), key=lambda n: key[n]), identities.get(name))
        for name, key in sorted(keys.items(), key=lambda item: (item[0] in _LAST, item[0]))
        if name not in _OWN
    ]


def _keys(source: apsw.Connection, table: object) -> dict[str, int]:
    """A table's columns, and which place in its primary key each has (0: none)."""
    columns: Iterable[Any] = source.execute("SELECT name, pk FROM pragma_table_info(?)", (table,))
    return dict(columns)


class _Move:
    def __init__(
        self,
        path: str,
        source: apsw.Connection,
        where: str,
        target: asyncpg.Connection[asyncpg.Record],
        tables: list[Table],
    ) -> None:
        self._path, self._source, self._where, self._target = path, source, where, target
        self._tables = [table for table in tables if table.name != _META]
        [meta] = [table for table in tables if table.name == _META]
        [row] = meta.read(source)
        self._meta = dict(zip(meta.columns, row, strict=True))
        self._counts = {table.name: self._count(table) for table in self._tables}
        self._marks = {table.name: Mark() for table in self._tables}

    def _count(self, table: Table) -> int:
        return int(self._source.execute(f"SELECT count(*) FROM {table.name}").get)

    async def run(self, reach: Reach, restart: bool) -> Moved:
        """Copy everything that is not there yet."""
        self._reach, self._total = reach, sum(self._counts.values())
        if restart:
            await self._forget()
        resumed = await self._resume()
        if not resumed:
            await self._begin()
        for table in self._tables:
            if table.name not in _LAST:
                await self._copy(table)
        moved = await self._finish(resumed)
        if moved.ok:
            await self._target.execute(f"ANALYZE {', '.join(table.name for table in self._tables)}")
        return moved

    async def _forget(self) -> None:
        """Delete what a move that was not finished has copied."""
        async with self._target.transaction():
            if await self._target.fetchval("DELETE FROM sqew_moving_in WHERE finished_at IS NULL RETURNING salt"):
                await self._target.execute(f"TRUNCATE {', '.join(table.name for table in self._tables)}")

    async def _resume(self) -> bool:
        """Whether this move was begun before: then it goes on from where it was."""
        marker = await self._target.fetchrow("SELECT salt, progress, finished_at FROM sqew_moving_in")
        if marker is None:
            return False
        salt, progress, finished_at = marker
        if finished_at is not None:
            raise Conflict(
                f"{self._where} was moved into on {timestamp(finished_at)}. "
                "Start the servers with --database-url, or move into an empty database."
            )
        if salt != self._meta["salt"]:
            raise Conflict(
                f"Another file's move into {self._where} was not finished. Finish it, or begin anew with --restart."
            )
        self._marks |= msgspec.json.decode(progress, type=dict[str, Mark])
        for table in self._tables:
            self._check_unchanged(table)
        return True

    def _check_unchanged(self, table: Table) -> None:
        """Raise if what was copied is not what is in the file now."""
        mark, now = self._marks[table.name], Mark()
        if mark.rows:
            for row in table.read(self._source, "<=", mark.last):
                now.count(row)
        if (now.rows, now.digest) != (mark.rows, mark.digest):
            raise Conflict(
                f"{self._path} was used since the move was interrupted: {table.name} is not what was copied. "
                "Begin anew with --restart."
            )

    async def _begin(self) -> None:
        for table in self._tables:
            if await self._target.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table.name})"):
                raise Conflict(
                    f"{self._where} is in use already: {table.name} is not empty. Move into an empty database."
                )
        await self._target.execute("INSERT INTO sqew_moving_in VALUES ($1, '{}', NULL)", self._meta["salt"])

    async def _copy(self, table: Table) -> None:
        mark = self._marks[table.name]
        batch: list[Row] = []
        size = 0
        for row in table.read(self._source, ">", mark.last):
            batch.append(row)
            size += mark.count(row)
            if len(batch) >= _MOST_ROWS or size >= _MOST_BYTES:
                await self._write(table, batch)
                batch, size = [], 0
        if batch:
            await self._write(table, batch)

    async def _write(self, table: Table, rows: list[Row]) -> None:
        self._marks[table.name].last = table.key_of(rows[-1])
        try:
            async with self._target.transaction():
                await self._target.copy_records_to_table(table.name, records=rows, columns=list(table.columns))
                await self._target.execute(
                    "UPDATE sqew_moving_in SET progress = $1", msgspec.json.encode(self._marks).decode()
                )
        except CharacterNotInRepertoireError as error:
            raise _unfit(table, rows) from error
        self._reach(sum(mark.rows for mark in self._marks.values()), self._total)

    async def _finish(self, resumed: bool) -> Moved:
        """Make everything found, if everything is there."""
        transaction = self._target.transaction()
        await transaction.start()
        try:
            for table in self._tables:
                if table.name in _LAST:
                    await self._copy(table)
            await self._go_on_counting()
            moved = Moved({table.name: await self._compared(table) for table in self._tables}, resumed)
            if moved.ok:
                await self._target.execute("UPDATE sqew_moving_in SET finished_at = $1", time.time_ns() // 1_000_000)
        except BaseException:
            await transaction.rollback()
            raise
        await (transaction.commit() if moved.ok else transaction.rollback())
        return moved

    async def _compared(self, table: Table) -> tuple[int, int]:
        return self._counts[table.name], await self._target.fetchval(f"SELECT count(*) FROM {table.name}")

    async def _go_on_counting(self) -> None:
        """New ids come after all that the file has ever given out; and servers read again what they keep in memory."""
        counters = [name for name in self._meta if name not in ("id", "salt", "next_id")]
        changes = ", ".join(f"{name} = {name} + ${number}" for number, name in enumerate(counters, 3))
        await self._target.execute(
            f"UPDATE {_META} SET salt = $1, next_id = $2, {changes}",
            self._meta["salt"],
            self._meta["next_id"],
            *(self._meta[name] for name in counters),
        )
        await self._target.execute("SELECT setval('sqew_message_id', $1, false)", self._meta["next_id"])
        sequences: Iterable[Any] = self._source.execute("SELECT name, seq FROM sqlite_sequence")
        given_out: dict[str, int] = dict(sequences)
        for table in self._tables:
            if table.identity is not None:
                newest = await self._target.fetchval(f"SELECT coalesce(max({table.identity}), 0) FROM {table.name}")
                await self._target.execute(
                    "SELECT setval(pg_get_serial_sequence($1, $2), $3, false)",
                    table.name,
                    table.identity,
                    max(newest, given_out.get(table.name, 0)) + 1,
                )


def _unfit(table: Table, rows: list[Row]) -> BadValue:
    """Which of the rows PostgreSQL can't store."""
    for row in rows:
        for name, value in zip(table.columns, row, strict=True):
            if isinstance(value, str) and "\0" in value:
                return BadValue(
                    f"{table.name} {table.key_of(row)} has the character NUL in its {name}, which PostgreSQL can't "
                    "store. Remove it from the file, and run this again."
                )
    raise AssertionError("PostgreSQL refuses no other character")
