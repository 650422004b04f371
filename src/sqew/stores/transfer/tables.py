"""The tables that a file and a database have in common: their columns, their rows, and their names for users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apsw
import asyncpg
from msgspec import Struct

from sqew.errors import BadValue, StoreUnusable
from sqew.installing import UPGRADE
from sqew.rules.values import shown

Row = tuple[Any, ...]

_OWN = frozenset({"sqew_migration", "sqew_moving_in", "sqew_depth"})
"""Tables in which each store keeps its own state."""
LAST = ("sqew_subscription", "sqew_schedule", "sqew_queue")
"""Tables by which rows of the others are found: copied last."""
NAMES = {
    "sqew_queue": "queues",
    "sqew_lane": "lanes",
    "sqew_message": "messages",
    "sqew_body": "large_bodies",
    "sqew_bucket": "priorities_in_use",
    "sqew_key": "idempotency_keys",
    "sqew_redating": "changed_retentions",
    "sqew_attempt": "repeatable_receives",
    "sqew_archive": "archived_messages",
    "sqew_move_task": "moves_of_dead_letters",
    "sqew_writer": "writers",
    "sqew_staging": "staged_epochs",
    "sqew_part": "staged_parts",
    "sqew_chunk": "staged_chunks",
    "sqew_consumer": "consumers",
    "sqew_claim": "claims",
    "sqew_claim_chunk": "claimed_chunks",
    "sqew_topic": "topics",
    "sqew_subscription": "subscriptions",
    "sqew_unsubscription": "ended_subscriptions",
    "sqew_delivery": "deliveries",
    "sqew_payload": "bodies_of_deliveries",
    "sqew_schedule": "schedules",
    "sqew_api_key": "api_keys",
    "sqew_signing_key": "signing_keys",
    "sqew_activity": "figures",
}
"""Names of a table's rows for users."""
_SINGULAR = {"sqew_archive": "archived message", "sqew_key": "idempotency key"}
_CASTS = {"bytea": "CAST({0} AS BLOB)", "text": "CAST({0} AS TEXT)"}
"""Casts by type: SQLite keeps whatever it is given in a column; PostgreSQL does not."""

_COLUMNS = """
SELECT table_name::text, column_name::text, data_type::text, is_identity = 'YES' FROM information_schema.columns
 WHERE table_schema = current_schema() AND table_name LIKE 'sqew\\_%' ORDER BY table_name, ordinal_position
"""
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'sqew\\_%' ESCAPE '\\'"

_COLUMN_NAMES = {"leased_by": "consumer", "group_id": "group", "by": "consumer"}
"""Names of columns for users, where they differ from the columns' own."""


class TransferTable(Struct, frozen=True):
    """A table that both have, with the types of its columns in PostgreSQL."""

    name: str
    columns: dict[str, str]
    key: list[str]
    identity: str | None

    def read(self, connection: apsw.Connection, where: str = "", last: Sequence[int | str] = ()) -> Iterator[Row]:
        """Return its rows in the order of their keys; ``where``: those up to the last (``<=``), or after it (``>``)."""
        key = ", ".join(map(_quoted, self.key))
        some = f" WHERE ({key}) {where} ({', '.join('?' * len(self.key))})" if last else ""
        wanted = ", ".join(_CASTS.get(kind, "{0}").format(_quoted(name)) for name, kind in self.columns.items())
        return connection.execute(f"SELECT {wanted} FROM {self.name}{some} ORDER BY {key}", tuple(last))

    def key_of(self, row: Row) -> list[int | str]:
        """Return the key of a row."""
        values = dict(zip(self.columns, row, strict=True))
        return [values[name] for name in self.key]

    @property
    def called(self) -> str:
        """Name of its rows for users."""
        return NAMES[self.name].replace("_", " ")


def _quoted(name: str) -> str:
    return f'"{name}"'


async def tables_of(source: apsw.Connection, target: asyncpg.Connection[asyncpg.Record]) -> list[TransferTable]:
    """Return the tables of both. Raise `StoreUnusable` if they differ."""
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
                f"Bring both to one version of Sqew. {UPGRADE}"
            )
    return [
        TransferTable(name, columns[name], sorted(filter(key.get, key), key=lambda n: key[n]), identities.get(name))
        for name, key in sorted(keys.items(), key=lambda item: (item[0] in LAST, item[0]))
        if name not in _OWN
    ]


def _keys(source: apsw.Connection, table: object) -> dict[str, int]:
    """Return a table's columns, and each one's place in the primary key (0: none)."""
    columns: Iterable[Any] = source.execute("SELECT name, pk FROM pragma_table_info(?)", (table,))
    return dict(columns)


def unfit(source: apsw.Connection, path: str, table: TransferTable, rows: Iterable[Row]) -> BadValue:
    """Return an error that names the row which PostgreSQL can't store."""
    for row in rows:
        for name, value in zip(table.columns, row, strict=True):
            if isinstance(value, str) and "\0" in value:
                return BadValue(
                    f"{_shown(source, table, row)} in {path} has the character NUL in its "
                    f"{_COLUMN_NAMES.get(name, name)}, which PostgreSQL can't store. Remove it, and run this again."
                )
    raise AssertionError("PostgreSQL refuses no other character")


def _shown(source: apsw.Connection, table: TransferTable, row: Row) -> str:
    """Return a row's name for users: ``Message 7 of 'orders'``."""
    values = dict(zip(table.columns, row, strict=True))
    what = _SINGULAR.get(table.name, table.name.removeprefix("sqew_").replace("_", " "))
    known_by = [shown(values[name]) for name in table.key if name != "queue_id"]
    queue = source.execute("SELECT name FROM sqew_queue WHERE id = ?", (values.get("queue_id"),)).get
    return " ".join([what.capitalize(), *known_by, *([] if queue is None else ["of", shown(queue)])])
