"""Migration of a database to the schema that this code knows."""

from __future__ import annotations

import functools

import asyncpg

from sqew.errors import StoreTooNew, StoreUnusable
from sqew.installing import UPGRADE
from sqew.stores.postgres.catalog import UNFINISHED
from sqew.stores.sql.migrations import Migration, migrations

_LOCK = "SELECT pg_advisory_xact_lock(1399940471, 1)"
_VERSION = "SELECT coalesce(max(version), 0) FROM sqew_migration"
_STATE = """
SELECT (SELECT max(version) FROM sqew_migration), EXISTS (SELECT FROM sqew_moving_in WHERE finished_at IS NULL),
       current_setting('default_transaction_isolation'), current_setting('synchronous_commit'),
       current_setting('client_min_messages')
"""
_TABLE = """
CREATE TABLE IF NOT EXISTS sqew_migration (
  version    bigint PRIMARY KEY,
  name       text NOT NULL,
  applied_at bigint NOT NULL
)
"""


OLDEST_SERVER = 13
READ_COMMITTED = "read committed"
HEARD = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning")
"""Values of client_min_messages with which warnings are heard."""


def check_version(major: int, url: str) -> None:
    """Raise unless PostgreSQL is new enough."""
    if major < OLDEST_SERVER:
        raise StoreUnusable(
            f"{url} is PostgreSQL {major}, and Sqew needs {OLDEST_SERVER} or newer. Upgrade the server."
        )


async def migrate(connection: asyncpg.Connection[asyncpg.Record], url: str, now: int, create: bool = True) -> None:
    """Apply missing migrations, in one transaction. Any number of servers may do this at once: one does it.

    If nothing is missing, the right to use the tables is enough.
    """
    version = await _version(connection)
    _check_not_newer(version, url)
    if version == _known()[-1].version:
        return
    if version == 0 and not create:
        raise StoreUnusable(f"{url} holds no queues. Check the name, or create a queue in it first.")
    async with connection.transaction():
        await connection.execute(_LOCK)
        await connection.execute(_TABLE)
        version = await _version(connection)
        for migration in _known():
            if migration.version > version:
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO sqew_migration VALUES ($1, $2, $3)", migration.version, migration.name, now
                )


async def check_usable(connection: asyncpg.Connection[asyncpg.Record], url: str, synchronous: bool) -> None:
    """Raise unless a connection can use the queues: something may have changed since the last one.

    ``synchronous``: what is answered must be on disk.
    """
    [(version, is_moved_into, isolation, synchronous_commit, client_min_messages)] = await connection.fetch(_STATE)
    _check_not_newer(version, url)
    if is_moved_into:
        raise StoreUnusable(UNFINISHED.format(url))
    if isolation != READ_COMMITTED:
        # A connection of our own is set so; through a pooler it is as others have set it.
        raise StoreUnusable(
            f"{url} has default_transaction_isolation at '{isolation}', with which messages would be lost. "
            f"Set it for the user: ALTER ROLE … SET default_transaction_isolation = '{READ_COMMITTED}'."
        )
    if synchronous and synchronous_commit == "off":
        raise StoreUnusable(
            f"{url} has synchronous_commit off, and a crash would lose what was answered already. "
            "Set it for the user (ALTER ROLE … SET synchronous_commit = on), or set durability to fast."
        )
    if synchronous and client_min_messages not in HEARD:
        raise StoreUnusable(
            f"{url} has client_min_messages at '{client_min_messages}', and would not say when a synchronous standby "
            "has not got what was answered. Set it for the user: ALTER ROLE … SET client_min_messages = notice."
        )


@functools.cache
def _known() -> list[Migration]:
    return migrations(__package__)


def _check_not_newer(version: int, url: str) -> None:
    newest = _known()[-1].version
    if version > newest:
        raise StoreTooNew(f"{url} was written by a newer Sqew (schema {version}; this one knows {newest}). {UPGRADE}")


async def _version(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    if await connection.fetchval("SELECT to_regclass('sqew_migration')") is None:
        return 0
    version: int = await connection.fetchval(_VERSION)
    return version
