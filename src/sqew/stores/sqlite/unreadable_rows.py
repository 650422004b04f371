"""Removal of rows that SQLite itself can't read.

A flipped bit in the header of a record may make a column longer than all of the record. Then SQLite reads nothing of
the row, and does not even delete it while there are indexes, as those need its columns. So indexes are made anew
around it. A message leaves a row behind that has its place and no content, which is damage like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import NamedTuple

import apsw

from sqew.stores.sql.transaction import Execute

_TABLES = ("sqew_message", "sqew_archive", "sqew_body")
"""Tables of which a row can be deleted by its id, wherever it lies."""

_REMADE = (
    "sqew_lane",
    "sqew_bucket",
    "sqew_key",
    "sqew_activity",
    "sqew_attempt",
    "sqew_redating",
    "sqew_claim",
    "sqew_claim_chunk",
    "sqew_meta",
)
"""Tables that can do without a row: it is made anew, or little is lost. Upkeep reads them, for all queues together.
Nothing can replace what the other tables hold.
"""


class _Broken(NamedTuple):
    """A table of which some rows can't be read: its definition, and the rows before and behind them."""

    sql: str
    before: str
    behind: str


_MOST = 100
"""Most rows that one flipped bit can make unreadable: if there are more, the file is to be restored."""

_DUE = """
SELECT queue_id, lane_id, priority, NULL FROM sqew_message INDEXED BY sqew_message_due
 WHERE due_at IS NOT NULL AND +id = ?
"""
_GROUPED = """
SELECT queue_id, 0, 0, group_id FROM sqew_message INDEXED BY sqew_message_group WHERE group_id IS NOT NULL AND +id = ?
"""
_INDEXES = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
# No checksum is negative: it matches nothing. One without a place is met by nobody but `check`.
_EMPTY = """
INSERT INTO sqew_message (id, queue_id, lane_id, priority, group_id, due_at, available_at, created_at, is_text,
                          checksum, body)
VALUES (?1, ?2, ?3, ?4, ?5, CASE WHEN ?5 IS NULL THEN ?6 END, ?6, ?6, 0, -1, x'')
"""


def unreadable_rows(execute: Execute) -> dict[str, list[int]]:
    """Find the unreadable rows by their ids, by table. Raise SQLite's error if other parts are unreadable.

    While others write there may be ids of intact rows among them: see `still_unreadable`.
    """
    found = {table: _unreadable(execute, table) for table in _TABLES}
    return {table: ids for table, ids in found.items() if ids}


def still_unreadable(execute: Execute, rows: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Return those of these rows that can't be read, while no other connection writes."""
    found = {table: [id for id in ids if not _can_be_read(execute, table, id)] for table, ids in rows.items()}
    return {table: ids for table, ids in found.items() if ids}


def _can_be_read(execute: Execute, table: str, id: int) -> bool:
    try:
        execute(f"SELECT {_columns(execute, table)} FROM {table} NOT INDEXED WHERE id = ?", (id,)).fetchall()  # noqa: S608
    except apsw.CorruptError:
        return False
    return True


def _columns(execute: Execute, table: str) -> str:
    # As bytes: what is no UTF-8 is damage that others mend.
    return ", ".join(f"CAST({column} AS BLOB)" for _, column, *_ in execute(f"PRAGMA table_info({table})"))


def _unreadable(execute: Execute, table: str) -> list[int]:
    ids: list[int] = []
    last = -1 << 63
    columns = _columns(execute, table)
    while True:
        try:
            for id, *_ in execute(f"SELECT id, {columns} FROM {table} NOT INDEXED WHERE id > ? ORDER BY id", (last,)):  # noqa: S608
                last = _next(last, id)
        except apsw.CorruptError:
            # The id is no part of the record.
            id = execute(f"SELECT id FROM {table} NOT INDEXED WHERE id > ? ORDER BY id LIMIT 1", (last,)).get  # noqa: S608
            if id is None:
                raise
            last = _next(last, id)
            ids.append(last)
            if len(ids) > _MOST:
                raise
        else:
            return ids


def _next(last: int, id: int) -> int:
    """Return an id that comes after the last one. Raise if it does not: it is damaged, and there is no way through."""
    if id <= last:
        raise ValueError(f"row {id} comes after row {last}")
    return id


def take_out(execute: Execute, unreadable: Mapping[str, list[int]], now: int) -> list[str]:
    """Take rows out; return a sentence for each table. The caller must `check_pages` at the end of the transaction."""
    places = [(id, *_place(execute, id)) for id in unreadable.get("sqew_message", ())]
    reported = []
    for table, ids in unreadable.items():
        indexes = execute(_INDEXES, (table,)).fetchall()
        for name, _ in indexes:
            execute(f"DROP INDEX {name}")
        for id in ids:
            execute(f"DELETE FROM {table} WHERE id = ?", (id,))  # noqa: S608
        for _, sql in indexes:
            execute(sql)
        reported.append(
            f"rows of {table} that can't be read: {len(ids)} taken out (ids {', '.join(map(str, ids[:10]))})"
        )
    for place in places:
        execute(_EMPTY, (*place, now))
    return reported


def _place(execute: Execute, id: int) -> tuple[object, ...]:
    """Return queue, lane, priority and group of a message, as far as indexes know them."""
    for statement in (_GROUPED, _DUE):
        if (found := execute(statement, (id,)).fetchone()) is not None:
            return tuple(found)
    return -1, 0, 0, None


def broken_tables(execute: Execute, tables: Iterable[str] = _REMADE) -> dict[str, _Broken]:
    """Find the tables that have unreadable rows and can do without them.

    Use another connection than the one that writes: after such a row SQLite writes nothing any more in a transaction.
    While others write, the rows before and behind may change.
    """
    found = {table: _broken(execute, table) for table in tables}
    return {table: broken for table, broken in found.items() if broken is not None}


def _broken(execute: Execute, table: str) -> _Broken | None:
    columns = execute(f"PRAGMA table_info({table})").fetchall()
    sql = execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get
    keys = [name for _, name, *_, key in sorted(columns, key=itemgetter(5)) if key]
    order = keys if "WITHOUT ROWID" in sql else ["rowid"]
    forwards, backwards = ", ".join(order), ", ".join(f"{name} DESC" for name in order)
    read = ", ".join(f"CAST({name} AS BLOB)" for _, name, *_ in columns)
    # (With NOT INDEXED, where there is no rowid, all rows would be read before they are sorted.)
    before, whole = _count(execute, f"SELECT {read} FROM {table} ORDER BY {forwards}")  # noqa: S608
    if whole:
        return None
    behind, _ = _count(execute, f"SELECT {read} FROM {table} ORDER BY {backwards}")  # noqa: S608
    return _Broken(sql, f"{forwards} LIMIT {before}", f"{backwards} LIMIT {behind}")


def _count(execute: Execute, statement: str) -> tuple[int, bool]:
    """Return how many rows can be read until one can't, and True if these are all."""
    count = 0
    try:
        for _ in execute(statement):
            count += 1
    except apsw.CorruptError:
        return count, False
    return count, True


def remake(execute: Execute, broken: Mapping[str, _Broken]) -> list[str]:
    """Make tables anew without what can't be read; return a sentence for each. The caller has to `check_pages` as well.

    A row without a rowid can't be deleted if it can't be read.
    """
    for table, found in broken.items():
        indexes = execute(_INDEXES, (table,)).fetchall()
        execute(f"CREATE TEMP TABLE kept AS SELECT * FROM {table} ORDER BY {found.before}")  # noqa: S608
        execute(f"INSERT INTO temp.kept SELECT * FROM {table} ORDER BY {found.behind}")  # noqa: S608
        execute(f"DROP TABLE {table}")
        execute(found.sql)
        # Where more than one can't be read, those between them are lost as well.
        execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM temp.kept")  # noqa: S608
        execute("DROP TABLE temp.kept")
        for _, sql in indexes:
            execute(sql)
    return [f"{table} had rows that can't be read, and was made anew without them" for table in broken]


def check_pages(execute: Execute) -> None:
    """Raise `apsw.CorruptError` unless all pages are whole: what was taken out may have claimed too many bytes."""
    found = execute("PRAGMA quick_check(1)").get
    if found != "ok":
        raise apsw.CorruptError(str(found))
