"""The mock application database, app.db, that workers call, slow and failing as ``faults.db`` says.

It is a SQLite file of its own, so that its locks never hold the queue up. Fixtures fill it before a run.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from plainbench.config.model import SQLite
from plainbench.faults.lock_holder import contention
from plainbench.run.context import RunContext
from sqew.errors import BadValue, StoreBusy

Value = str | int | float | bytes | None


class AppDb:
    """A consumer's connection to app.db. Threads must not share it."""

    def __init__(self, context: RunContext, owner: str, life: int) -> None:
        self._injector = context.injector("db", owner, life)
        path = context.folder / context.config.sqlite.app_file
        self._path, self._name = str(path), path.name
        self._busy_s = context.config.sqlite.pragmas.busy_timeout_ms / 1000
        self._time = context.time
        self._connection = connect(self._path, context.config.sqlite, 0 if context.time.is_virtual else None)

    def execute(self, statement: str, parameters: Sequence[Value] | Mapping[str, Value] = ()) -> list[dict[str, Any]]:
        """Run a statement in a transaction of its own and return its rows, by column name.

        It fails as ``faults.db`` says: with `StoreBusy`, or with an `Injected` error. An error of SQLite itself becomes
        a `BadValue`. After any of them nothing was done.
        """
        injector = self._injector
        decision = injector.decide("query")
        injector.delay(decision)
        if decision.error == "transient":
            injector.fail(decision)
        if decision.error == "timeout":
            if self._time.is_virtual:
                self._time.sleep(self._busy_s)
            with contention(self._path):
                injector.note_error(decision)
                # Reading would not wait for the lock.
                rows = self._run(statement, parameters, begin="BEGIN IMMEDIATE")
        else:
            rows = self._run(statement, parameters, lambda: injector.reach("before_commit", decision))
        injector.reach("after_commit", decision)
        injector.reach("before_reply", decision)
        return rows

    def _run(
        self,
        statement: str,
        parameters: Sequence[Value] | Mapping[str, Value],
        before_commit: Callable[[], None] = lambda: None,
        begin: str = "BEGIN",
    ) -> list[dict[str, Any]]:
        connection = self._connection
        try:
            connection.execute(begin)
            try:
                cursor = connection.execute(statement, parameters)
                names = _columns(cursor)
                rows = cursor.fetchall()
                before_commit()
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except apsw.BusyError as error:
            raise StoreBusy(f"{self._name} is locked by another writer. Try again.") from error
        except (apsw.Error, TypeError, OverflowError) as error:
            raise BadValue(f"{self._name}: {error}, in: {statement}") from error
        return [dict(zip(names, row, strict=True)) for row in rows]

    def close(self) -> None:
        self._connection.close(True)


def _columns(cursor: apsw.Cursor) -> list[str]:
    try:
        return [column[0] for column in cursor.get_description()]
    except apsw.ExecutionCompleteError:
        # There are no rows to name columns of.
        return []


def connect(path: str, sqlite: SQLite, busy_timeout_ms: int | None = None) -> apsw.Connection:
    """Open a connection with the configuration's pragmas."""
    pragmas = sqlite.pragmas
    try:
        connection = apsw.Connection(path)
        connection.set_busy_timeout(pragmas.busy_timeout_ms if busy_timeout_ms is None else busy_timeout_ms)
        connection.execute(f"PRAGMA journal_mode = {pragmas.journal_mode}").fetchall()
        connection.execute(f"PRAGMA synchronous = {pragmas.synchronous}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {pragmas.wal_autocheckpoint_pages}").fetchall()
    except apsw.Error as error:
        raise BadValue(f"app_file: {path} can't be opened: {error}.") from error
    return connection


def load_fixtures(path: str, sqlite: SQLite, fixtures: Iterable[Path]) -> dict[str, int]:
    """Fill the database from fixtures, and return the number of rows from each.

    ``.sql`` files are run; ``.csv`` and ``.jsonl`` files become tables named after them. An existing table is replaced,
    so that every run begins with the same data.
    """
    connection = connect(path, sqlite)
    try:
        return {str(fixture): _load(connection, fixture) for fixture in fixtures}
    finally:
        connection.close(True)


def _load(connection: apsw.Connection, fixture: Path) -> int:
    try:
        if fixture.suffix == ".sql":
            before = connection.total_changes()
            with connection:
                connection.execute(fixture.read_text())
            return connection.total_changes() - before
        rows = _rows(fixture)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        if not columns:
            raise BadValue(f"The fixture {fixture} has no rows to make a table of.")
        table = _quoted(fixture.stem)
        with connection:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
            connection.execute(f"CREATE TABLE {table} ({', '.join(map(_quoted, columns))})")
            places = ", ".join("?" * len(columns))
            connection.executemany(
                f"INSERT INTO {table} VALUES ({places})",  # noqa: S608 (the names are quoted)
                ([_value(row.get(name)) for name in columns] for row in rows),
            )
        return len(rows)
    except (OSError, UnicodeDecodeError, OverflowError, apsw.Error, msgspec.MsgspecError, csv.Error) as error:
        raise BadValue(f"The fixture {fixture} can't be loaded: {error}.") from error


def _rows(fixture: Path) -> list[dict[str, Any]]:
    if fixture.suffix == ".csv":
        with fixture.open(newline="") as file:
            return [_typed(row) for row in _whole_rows(csv.DictReader(file, strict=True))]
    if fixture.suffix == ".jsonl":
        return msgspec.json.Decoder(dict[str, Any]).decode_lines(fixture.read_bytes())
    raise BadValue(f"The fixture {fixture} is of no kind that can be loaded: give .sql, .csv or .jsonl.")


def _whole_rows(reader: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    for row in reader:
        if None in row or None in row.values():
            raise csv.Error(f"line {reader.line_num} has not as many cells as there are columns")
        yield row


_WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII)
_DECIMAL = re.compile(r"-?(0|[1-9]\d*)\.\d+", re.ASCII)


def _typed(row: Mapping[str, str]) -> dict[str, Value]:
    """Convert cells that are written as numbers: SQLite orders every string after any number."""

    def value(cell: str) -> Value:
        return int(cell) if _WHOLE_NUMBER.fullmatch(cell) else float(cell) if _DECIMAL.fullmatch(cell) else cell

    return {name: value(cell) for name, cell in row.items()}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _value(value: Any) -> Value:
    return value if isinstance(value, str | int | float | bytes | None) else msgspec.json.encode(value).decode()
