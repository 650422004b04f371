"""Migration of a file to the schema that this code knows."""

from __future__ import annotations

import apsw

from sqew.errors import StoreTooNew
from sqew.installing import UPGRADE
from sqew.stores.sql.migrations import migrations

_TABLE = """
CREATE TABLE IF NOT EXISTS sqew_migration (
  version    INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  applied_at INTEGER NOT NULL
)
"""


def version_of(connection: apsw.Connection) -> int:
    """Return the newest migration that the file has had; 0 for a file that never held a queue."""
    # Not table_exists: it answers from the connection's picture of the schema, which another process may have changed.
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'sqew_migration'").get
    if known is None:
        return 0
    return int(connection.execute("SELECT coalesce(max(version), 0) FROM sqew_migration").get)


def is_newer(connection: apsw.Connection) -> bool:
    """Return True if a newer Sqew has brought the file up to date since it was opened."""
    return version_of(connection) > migrations(__package__)[-1].version


def migrate(connection: apsw.Connection, path: str, now: int) -> None:
    """Apply missing migrations, in one transaction. Two processes may do this at once: one waits for the other."""
    known = migrations(__package__)
    newest = known[-1].version
    if version_of(connection) == newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection)
        if version > newest:
            raise StoreTooNew(
                f"{path} was written by a newer Sqew (schema {version}; this one knows {newest}). {UPGRADE}"
            )
        connection.execute(_TABLE)
        for migration in known:
            if migration.version > version:
                connection.execute(migration.sql)
                connection.execute(
                    "INSERT INTO sqew_migration VALUES (?, ?, ?)", (migration.version, migration.name, now)
                )
        connection.execute("COMMIT")
    except BaseException:
        # SQLite may have rolled back by itself (a full disk): then there is nothing to undo.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
