"""PostgreSQL's errors in our words."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import asyncpg
from asyncpg import exceptions as pg

from sqew.errors import (
    BadSetting,
    BadValue,
    SqewError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnusable,
)
from sqew.settings import DEFINITIONS, HIDDEN, password_in, without_password

CONTESTED = (pg.DeadlockDetectedError, pg.SerializationError, pg.LockNotAvailableError)
"""Two transactions were in each other's way, and this one was undone: done again, it goes through."""
STALE = (pg.InvalidCachedStatementError,)
"""What a connection remembers of the tables is no longer so, as after an upgrade; nothing was done yet."""
AWAY = (
    OSError,
    TimeoutError,
    EOFError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    pg.PostgresConnectionError,
    pg.CannotConnectNowError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.TooManyConnectionsError,
)
"""The database is not there, or going: another try may find it back."""
READ_ONLY = (pg.ReadOnlySQLTransactionError, asyncpg.TargetServerAttributeNotMatched)
"""It is there, and is not the primary (any more)."""
OF_DATABASE = (asyncpg.PostgresError, *AWAY)
"""Whatever may come out of a connection."""


def translate(error: BaseException, url: str) -> SqewError:
    """What went wrong, with what to do about it."""
    if isinstance(error, SqewError):
        return error
    where, reason = without_password(url), _reason(error, url)
    match error:
        case pg.DeadlockDetectedError() | pg.SerializationError() | pg.LockNotAvailableError():
            return StoreBusy(f"{where} is busy: others were in the way again and again. Try again.")
        case pg.QueryCanceledError():
            return StoreBusy(f"{where} took longer than database_timeout_ms. Try again, or raise it.")
        case pg.OutOfMemoryError():
            return StoreBusy(f"{where} has no memory left: {reason}. Try again, or give PostgreSQL more.")
        case pg.DiskFullError():
            return StoreFull(f"{where} has no room left: {reason}. Nothing was stored; free some space on its disk.")
        case pg.CharacterNotInRepertoireError() | pg.UntranslatableCharacterError():
            return BadValue("PostgreSQL can't store the character NUL in a name, key or group. Leave it out.")
    return _refusal(error, url, where, reason) or _absence(error, where, reason)


def _refusal(error: BaseException, url: str, where: str, reason: str) -> SqewError | None:
    """What will be no better before somebody has done something about it."""
    match error:
        case asyncpg.ClientConfigurationError():
            allowed = DEFINITIONS["database_url"].allowed.removesuffix(", or empty")
            return BadSetting(f"database_url can't be used ({reason}): it must be {allowed}.")
        case pg.InvalidPasswordError() | pg.InvalidAuthorizationSpecificationError():
            return StoreUnusable(
                f"{where} does not let this user in: {reason}. "
                "Check user and password in database_url, and pg_hba.conf of the server."
            )
        case pg.InvalidCatalogNameError():
            return StoreUnusable(f"{where} does not exist. Make it: createdb {_name(url)}.")
        case pg.InsufficientPrivilegeError():
            return StoreUnusable(
                f"{where}: {reason}. Grant this user what it needs: "
                "GRANT CONNECT, CREATE ON DATABASE, and GRANT USAGE, CREATE ON SCHEMA public."
            )
        case pg.ReadOnlySQLTransactionError() | asyncpg.TargetServerAttributeNotMatched():
            return StoreUnusable(f"{where} only takes reads: it is a standby, or in recovery. Use the primary.")
        case pg.ProtocolViolationError() if "startup parameter" in reason:
            return StoreUnusable(f"{where} is behind PgBouncer ({reason}). Set database_pooler to true.")
        case pg.InvalidSQLStatementNameError() | pg.DuplicatePreparedStatementError():
            return StoreUnusable(
                f"{where} mixes up prepared statements, as PgBouncer does in transaction mode. "
                "Set database_pooler to true."
            )
    return None


def _absence(error: BaseException, where: str, reason: str) -> SqewError:
    if isinstance(error, pg.TooManyConnectionsError):
        return StoreUnavailable(
            f"{where} has no connection left: {reason}. Lower database_connections, or raise max_connections there."
        )
    if isinstance(error, pg.CannotConnectNowError):
        return StoreUnavailable(f"{where} is not ready: {reason}. Wait until it has started.")
    if isinstance(error, AWAY):
        return StoreUnavailable(f"{where} does not answer: {reason}. Check host and port, and whether it runs.")
    return StoreError(f"{where} failed: {reason}.")


def _reason(error: BaseException, url: str) -> str:
    """PostgreSQL's or the system's own words on one line, without the password whatever they say."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    passwords = {password_in(url), *re.findall(r"password=([^&\s]*)", url)}
    for password in {text for written in passwords for text in (written, unquote(written)) if text}:
        reason = reason.replace(password, HIDDEN)
    return reason


def _name(url: str) -> str:
    return unquote(urlsplit(url).path.strip("/"))
