"""Bringing a database up to the schema that this code knows."""

from __future__ import annotations

import asyncpg

from sqew.errors import StoreTooNew
from sqew.stores.sql.migrations import migrations

_LOCK = "SELECT pg_advisory_xact_lock(1399940471, 1)"
_TABLE = """
CREATE TABLE IF NOT EXISTS sqew_migration (
  version    bigint PRIMARY KEY,
  name       text NOT NULL,
  applied_at bigint NOT NULL
)
"""


async def migrate(connection: asyncpg.Connection[asyncpg.Record], url: str, now: int) -> None:
    """Apply what is missing, in one transaction. Any number of servers may do this at once: one does it."""
    known = migrations(__package__)
    newest = known[-1].version
    async with connection.transaction():
        await connection.execute(_LOCK)
        await connection.execute(_TABLE)
        version = await connection.fetchval("SELECT coalesce(max(version), 0) FROM sqew_migration")
        if version > newest:
            raise StoreTooNew(
                f"{url} was written by a newer Sqew (schema {version}; this one knows {newest}). "
                "Upgrade Sqew: pip install --upgrade sqew."
            )
        for migration in known:
            if migration.version > version:
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO sqew_migration VALUES ($1, $2, $3)", migration.version, migration.name, now
                )
