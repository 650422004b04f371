"""Copy of all that a file holds to a database, with every id as it was.

It is copied in batches. The progress is stored in the database and committed with each batch, so that an interrupted
copy resumes from there. The queues themselves come last, in one transaction with the counting: until it is sure that
everything is there, nothing can be found.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any
from zlib import crc32

import apsw
import asyncpg
import msgspec
from asyncpg.exceptions import CharacterNotInRepertoireError, LockNotAvailableError
from msgspec import Struct

from sqew.clock import Clock, timestamp
from sqew.errors import Conflict, StoreBusy, StoreDamaged
from sqew.settings import without_password
from sqew.stores.postgres import PostgresStore
from sqew.stores.postgres.connection import SQL, PostgresConnection
from sqew.stores.postgres.errors import OF_DATABASE, translate
from sqew.stores.postgres.pool_counters import PoolCounters
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.connection import translated
from sqew.stores.transfer.tables import LAST, NAMES, Row, TransferTable, tables_of, unfit

Reach = Callable[[str, int, int], object]
"""Progress callback: gets the current step, the number of rows done, and their total."""

COPYING, CHECKING = "copying rows", "checking what was copied"

_MOST_ROWS, _MOST_BYTES = 5_000, 8 * 1024 * 1024
"""Most rows, and bytes, that are copied at a time."""
_ROWS_AT_A_TIME = 1_000
_WAIT_MS = 1_000
_META = "sqew_meta"
_OURS_ALONE = "SET lock_timeout = '5s'; SELECT pg_advisory_lock(1399940471, 2); SET lock_timeout = 0"
"""SQL that locks out other moves. It waits, as a move that was killed is over for the database only a moment later."""
_NOBODY_ELSE = "SELECT pg_advisory_lock(1399940471, 0)"
"""SQL that locks what every transaction of a server shares: servers on this database wait until the move is over."""
_encode = msgspec.msgpack.encode


class Moved(Struct, frozen=True):
    """The result of a move: the number of rows of each kind in the file, and in the database."""

    tables: dict[str, tuple[int, int]]
    resumed: bool

    @property
    def ok(self) -> bool:
        """True if everything is there."""
        return all(here == there for here, there in self.tables.values())

    @property
    def rows(self) -> int:
        return sum(there for _, there in self.tables.values())


class Mark(Struct):
    """The progress of a table's copy, and a checksum of what was copied."""

    rows: int = 0
    digest: int = 0
    last: list[int | str] = []  # msgspec copies it

    def count(self, row: Row) -> int:
        """Count a row and add it to the checksum; return its size."""
        encoded = _encode(row)
        self.rows, self.digest = self.rows + 1, crc32(encoded, self.digest)
        return len(encoded)


async def move_in(path: str, url: str, reach: Reach | None = None, *, restart: bool = False) -> Moved:
    """Copy a file's queues, and all that belongs to them, to an empty database, or resume that.

    No other process may have the file open. It is left as it was. ``restart``: forget what an interrupted move has
    copied.
    """
    with _file(path) as source:
        try:
            async with _database(url) as target:
                move = _Move(path, source, url, target, await tables_of(source, target))
                return await move.run(reach or (lambda _doing, _done, _total: None), restart)
        except OF_DATABASE as error:
            raise translate(error, url) from error
        except UnicodeDecodeError as error:
            raise StoreDamaged(
                f"{path} is damaged ({error}). Run `sqew check`, and restore the file from a backup."
            ) from error


@contextlib.contextmanager
def _file(path: str) -> Iterator[apsw.Connection]:
    """Yield a connection to the file, opened exclusively: changes by other processes would be lost."""
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
    """Yield a connection to the database, with its tables made and other servers and moves locked out."""
    store = PostgresStore(url)
    connection = await store.connect(patient=True)
    try:
        await store.prepare(connection)
        try:
            await connection.execute(_OURS_ALONE)
        except LockNotAvailableError as error:
            where = without_password(url)
            raise StoreBusy(f"Another `sqew migrate` is at {where}. Wait until it has ended.") from error
        await connection.execute(_NOBODY_ELSE)
        yield connection
    finally:
        await connection.close(timeout=5)


class _Move:
    def __init__(
        self,
        path: str,
        source: apsw.Connection,
        url: str,
        target: asyncpg.Connection[asyncpg.Record],
        tables: list[TransferTable],
    ) -> None:
        self._path, self._source, self._url, self._target = path, source, url, target
        self._where = without_password(url)
        self._tables = [table for table in tables if table.name != _META]
        [meta] = [table for table in tables if table.name == _META]
        [row] = meta.read(source)
        self._meta = dict(zip(meta.columns, row, strict=True))
        self._counts = {table.name: self._count(table) for table in self._tables}
        self._marks = {table.name: Mark() for table in self._tables}

    def _count(self, table: TransferTable) -> int:
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
            if table.name not in LAST:
                await self._copy(table)
        moved = await self._finish(resumed)
        if moved.ok:
            await self._target.execute(f"ANALYZE {', '.join(table.name for table in self._tables)}")
        return moved

    async def _forget(self) -> None:
        """Delete what an unfinished move has copied; and nothing else."""
        async with self._target.transaction():
            progress = await self._target.fetchval(
                "DELETE FROM sqew_moving_in WHERE finished_at IS NULL RETURNING progress"
            )
            if progress is not None:
                marks = msgspec.json.decode(progress, type=dict[str, Mark])
                for table in self._tables:
                    await self._check_copied(table, marks.get(table.name, Mark()))
                await self._target.execute(f"TRUNCATE {', '.join(table.name for table in self._tables)}")

    async def _check_copied(self, table: TransferTable, mark: Mark) -> None:
        there = await self._target.fetchval(f"SELECT count(*) FROM {table.name}")
        if there > mark.rows:
            raise Conflict(
                f"{self._where} has {table.called} that were not copied: {there - mark.rows} of {there}. Somebody "
                "has used it, and --restart would delete what they sent. Move into an empty database."
            )

    async def _resume(self) -> bool:
        """Return True if this move was begun before: then it goes on from where it was."""
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
        checked = 0
        for table in self._tables:
            await self._check_unchanged(table, checked)
            checked += self._marks[table.name].rows
        return True

    async def _check_unchanged(self, table: TransferTable, before: int) -> None:
        """Raise if what was copied is not what is in the file now. ``before``: the number of rows checked already."""
        mark, now = self._marks[table.name], Mark()
        if mark.rows:
            for row in table.read(self._source, "<=", mark.last):
                now.count(row)
                if now.rows % _ROWS_AT_A_TIME == 0:
                    self._reach(CHECKING, before + now.rows, self._copied)
                    # Whoever presses Ctrl-C is heard here.
                    await asyncio.sleep(0)
        if (now.rows, now.digest) != (mark.rows, mark.digest):
            raise Conflict(
                f"{self._path} was used since the move was interrupted: its {table.called} are not what was copied. "
                "Begin anew with --restart."
            )

    async def _begin(self) -> None:
        for table in self._tables:
            if await self._target.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table.name})"):
                raise Conflict(f"{self._where} is in use already: it has {table.called}. Move into an empty database.")
        async with self._target.transaction():
            await self._target.execute("INSERT INTO sqew_moving_in VALUES ($1, '{}', NULL)", self._meta["salt"])
            # Servers that ran while it was empty look, and refuse to go on until the move is finished.
            await self._target.execute(SQL.bump_catalog)

    async def _copy(self, table: TransferTable) -> None:
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

    async def _write(self, table: TransferTable, rows: list[Row]) -> None:
        self._marks[table.name].last = table.key_of(rows[-1])
        try:
            async with self._target.transaction():
                await self._target.copy_records_to_table(table.name, records=rows, columns=list(table.columns))
                await self._target.execute(
                    "UPDATE sqew_moving_in SET progress = $1", msgspec.json.encode(self._marks).decode()
                )
        except CharacterNotInRepertoireError as error:
            raise unfit(self._source, self._path, table, rows) from error
        self._reach(COPYING, self._copied, self._total)

    @property
    def _copied(self) -> int:
        return sum(mark.rows for mark in self._marks.values())

    async def _finish(self, resumed: bool) -> Moved:
        """Make everything visible, if everything is there."""
        link = PostgresConnection(self._target, self._url, PoolCounters())
        transaction = self._target.transaction()
        await transaction.start()
        try:
            for table in self._tables:
                if table.name in LAST:
                    await self._copy(table)
            await self._continue_counts()
            as_shown = sorted(self._tables, key=lambda table: list(NAMES).index(table.name))
            moved = Moved({NAMES[table.name]: await self._compared(table) for table in as_shown}, resumed)
            if moved.ok:
                await self._target.execute("UPDATE sqew_moving_in SET finished_at = $1", time.time_ns() // 1_000_000)
        except BaseException:
            await transaction.rollback()
            raise
        # Whoever hears that all is there may delete the file: it must be for sure.
        await (link.decided(transaction.commit()) if moved.ok else transaction.rollback())
        return moved

    async def _compared(self, table: TransferTable) -> tuple[int, int]:
        return self._counts[table.name], await self._target.fetchval(f"SELECT count(*) FROM {table.name}")

    async def _continue_counts(self) -> None:
        """Let new ids come after all that the file has ever given out, and servers read again what they cache."""
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
