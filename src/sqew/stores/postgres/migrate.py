"""Bringing a database up to the schema that this code knows."""

from __future__ import annotations

import asyncpg

from sqew.errors import StoreTooNew, StoreUnusable
from sqew.stores.sql.migrations import migrations

_LOCK = "SELECT pg_advisory_xact_lock(1399940471, 1)"
_VERSION = "SELECT coalesce(max(version), 0) FROM sqew_migration"
_TABLE = """
CREATE TABLE IF NOT EXISTS sqew_migration (
  version    bigint PRIMARY KEY,
  name       text NOT NULL,
  applied_at bigint NOT NULL
)
"""


OLDEST_SERVER = 13


def check_version(major: int, url: str) -> None:
    """Raise unless PostgreSQL is new enough."""
    if major < OLDEST_SERVER:
        raise StoreUnusable(
            f"{url} is PostgreSQL {major}, and Sqew needs {OLDEST_SERVER} or newer. Upgrade the server."
        )


async def migrate(connection: asyncpg.Connection[asyncpg.Record], url: str, now: int, create: bool = True) -> None:
    """Apply what is missing, in one transaction. Any number of servers may do this at once: one does it.

    Where nothing is missing, the right to use the tables is enough.
    """
    known = migrations(__package__)
    newest = known[-1].version
    version = await _version(connection)
    if version > newest:
        raise StoreTooNew(
            f"{url} was written by a newer Sqew (schema {version}; this one knows {newest}). "
            "Upgrade Sqew: pip install --upgrade sqew."
        )
    if version == newest:
        return
    if version == 0 and not create:
        raise StoreUnusable(f"{url} holds no queues. Check the name, or create a queue in it first.")
    async with connection.transaction():
        await connection.execute(_LOCK)
        await connection.execute(_TABLE)
        version = await _version(connection)
        for migration in known:
            if migration.version > version:
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO sqew_migration VALUES ($1, $2, $3)", migration.version, migration.name, now
                )


async def _version(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    if await connection.fetchval("SELECT to_regclass('sqew_migration')") is None:
        return 0
    version: int = await connection.fetchval(_VERSION)
    return version
