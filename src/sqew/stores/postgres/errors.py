"""PostgreSQL's errors in our words."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import asyncpg
from asyncpg import exceptions as pg

from sqew.errors import BadValue, SqewError, StoreBusy, StoreError, StoreFull, StoreUnavailable, StoreUnusable

CONTESTED = (pg.DeadlockDetectedError, pg.SerializationError, pg.LockNotAvailableError)
"""Two transactions were in each other's way, and this one was undone: done again, it goes through."""
AWAY = (
    OSError,
    TimeoutError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    pg.PostgresConnectionError,
    pg.CannotConnectNowError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.TooManyConnectionsError,
)
"""The database is not there, or going: another try may find it back."""


def shown(url: str) -> str:
    """A database's URL without its password."""
    parts = urlsplit(url)
    host = parts.hostname or "localhost"
    return f"postgresql://{parts.username + '@' if parts.username else ''}{host}:{parts.port or 5432}{parts.path}"


def translate(error: BaseException, url: str) -> SqewError:
    """What went wrong, with what to do about it."""
    where = shown(url)
    if isinstance(error, SqewError):
        return error
    if isinstance(error, CONTESTED):
        return StoreBusy(f"{where} is busy: others were in the way again and again. Try again.")
    if isinstance(error, pg.QueryCanceledError):
        return StoreBusy(f"{where} took longer than database_timeout_ms. Try again, or raise it.")
    if isinstance(error, pg.InvalidPasswordError | pg.InvalidAuthorizationSpecificationError):
        return StoreUnusable(f"{where} does not let this user in. Check user and password in the database's URL.")
    if isinstance(error, pg.InvalidCatalogNameError):
        return StoreUnusable(f"{where} does not exist. Make it: createdb {urlsplit(url).path.strip('/')}.")
    if isinstance(error, pg.InsufficientPrivilegeError):
        return StoreUnusable(f"{where}: {error}. Grant this user the right to create and use tables in its schema.")
    if isinstance(error, pg.ReadOnlySQLTransactionError):
        return StoreUnusable(f"{where} only takes reads: it is a standby, or in recovery. Use the primary.")
    if isinstance(error, pg.DiskFullError | pg.InsufficientResourcesError) and not isinstance(error, AWAY):
        return StoreFull(f"{where} has no room left: {error}. Nothing was stored; free some space on its disk.")
    if isinstance(error, pg.CharacterNotInRepertoireError | pg.UntranslatableCharacterError):
        return BadValue("PostgreSQL can't store the character NUL in a name, key or group. Leave it out.")
    if isinstance(error, AWAY):
        return StoreUnavailable(f"{where} does not answer: {_reason(error)}.")
    return StoreError(f"{where} failed: {_reason(error)}.")


def _reason(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__
