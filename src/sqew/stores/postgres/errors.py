"""Translation of PostgreSQL's errors to Sqew's."""

from __future__ import annotations

import getpass
import os
import re
import ssl
from urllib.parse import unquote, urlsplit

import asyncpg
from asyncpg import exceptions as pg

from sqew.errors import (
    BadSetting,
    BadValue,
    OutcomeUnknown,
    SqewError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnusable,
)
from sqew.settings import DEFINITIONS, HIDDEN, password_in, without_password

CONTESTED = (pg.DeadlockDetectedError, pg.SerializationError, pg.LockNotAvailableError)
"""Errors of two transactions in conflict, of which this one was undone: done again, it goes through."""
STALE = (pg.InvalidCachedStatementError, pg.InvalidSQLStatementNameError, pg.DuplicatePreparedStatementError)
"""Errors of a connection whose memory is outdated: of the tables, as after an upgrade, or of the statements that it has
prepared, as after a DISCARD ALL. Nothing was done yet, and idle connections are likely to be in the same state."""
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
"""Errors of a database that is not there, or going: another try may find it back."""
BROKEN = (
    ConnectionResetError,
    BrokenPipeError,
    asyncpg.InterfaceError,
    pg.PostgresConnectionError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
)
"""Errors of a database that was there a moment ago."""
SILENT = (OSError, TimeoutError, EOFError, pg.PostgresConnectionError)
"""Errors of a try to connect where nothing answers."""
READ_ONLY = (pg.ReadOnlySQLTransactionError, asyncpg.TargetServerAttributeNotMatched)
"""Errors of a database that is there, and is not the primary (any more)."""
UNREPLICATED = "SyncRepWaitForLSN"
"""Name of PostgreSQL's function that warns when its wait for a synchronous standby is cut short."""
OF_DATABASE = (asyncpg.PostgresError, *AWAY)
"""All errors that may come out of a connection."""


def translate(error: BaseException, url: str) -> SqewError:
    """Return Sqew's error for PostgreSQL's: what went wrong, with what to do about it."""
    if isinstance(error, SqewError):
        return error
    while isinstance(error, asyncpg.InterfaceError) and isinstance(error.__context__, OF_DATABASE):
        # Where a connection breaks, its transaction can't be ended either: what came first says why.
        error = error.__context__
    where, reason = without_password(url), reason_of(error, url)
    match error:
        case pg.DeadlockDetectedError() | pg.SerializationError() | pg.LockNotAvailableError():
            return StoreBusy(f"{where} is busy: others were in the way again and again. Try again.")
        case pg.QueryCanceledError():
            return StoreBusy(f"{where} took longer than database_timeout_ms. Try again, or raise it.")
        case pg.OutOfMemoryError():
            return StoreBusy(f"{where} has no memory left: {reason}. Try again, or give PostgreSQL more.")
        case pg.DiskFullError():
            return StoreFull(
                f"{where} has no room left: {reason}. Nothing was changed; free some space on its disk, and try again."
            )
        case pg.CharacterNotInRepertoireError() | pg.UntranslatableCharacterError():
            return BadValue("PostgreSQL can't store the character NUL in a name, key or group. Leave it out.")
        case pg.DataError():
            # Found by asyncpg before it is sent, or by PostgreSQL: of several operations it is about one.
            return BadValue(f"PostgreSQL can't store that: {reason}. Give another value.")
    return _refusal(error, url, where, reason) or _absence(error, where, reason)


def leaves_nothing(error: BaseException) -> bool:
    """Return True if a commit that failed with this error was certainly not done.

    PostgreSQL says so with an ERROR. What asyncpg itself refuses, it refuses before anything is sent. FATAL errors,
    lost connections and timeouts may come after the commit as well as before it.
    """
    if isinstance(error, asyncpg.InterfaceError):
        return True
    if not isinstance(error, asyncpg.PostgresError) or isinstance(error, pg.PostgresConnectionError):
        return False
    # Without a severity it is asyncpg's own: a parameter that can't be encoded. PgBouncer gives no severity_en.
    return (error.severity_en or error.severity or "ERROR") == "ERROR"


def unknown(error: BaseException | None, url: str) -> OutcomeUnknown:
    """Make the error of a commit whose outcome is unknown. ``error`` is None if no standby has confirmed it."""
    where = without_password(url)
    why = (
        f"{where} was told to stop waiting for its synchronous standby: it is stored there, and perhaps nowhere else"
        if error is None
        else f"{where} did not answer a commit ({reason_of(error, url)}): it may have been done, or not"
    )
    return OutcomeUnknown(f"{why}. Look, then ask again.")


def _refusal(error: BaseException, url: str, where: str, reason: str) -> SqewError | None:
    """Return the error for a condition that lasts until somebody has done something about it; None for any other."""
    match error:
        case ssl.SSLCertVerificationError():
            return StoreUnusable(
                f"{where} shows a certificate that can't be trusted: {reason}. Name the certificate of who signed it "
                "as sslrootcert in database_url, and the host as that certificate does."
            )
        case ssl.SSLError():
            return StoreUnusable(
                f"{where} can't be reached over TLS: {reason}. Check that the files that database_url names are "
                "certificates in PEM, and that sslkey belongs to sslcert."
            )
        case ConnectionError() if "rejected SSL upgrade" in reason:
            return StoreUnusable(
                f"{where} does not offer TLS, and sslmode in database_url wants it. "
                "Set ssl = on in postgresql.conf there, or leave sslmode out where the network is yours alone."
            )
        case pg.UndefinedObjectError() if "configuration parameter" in reason:
            return StoreUnusable(
                f"{where} does not know a parameter that stands behind the ? in database_url: {reason}. "
                "Leave it out, or see whether its name is misspelt."
            )
        case asyncpg.ClientConfigurationError() if "root certificate file" in reason:
            return BadSetting(
                "database_url has an sslmode that needs the certificate of who signed the server's. "
                "Name its file: &sslrootcert=/path/to/ca.pem."
            )
        case asyncpg.ClientConfigurationError():
            allowed = DEFINITIONS["database_url"].allowed.removesuffix(", or empty")
            return BadSetting(f"database_url can't be used ({reason}): it must be {allowed}.")
        case pg.InvalidPasswordError() | pg.InvalidAuthorizationSpecificationError():
            return StoreUnusable(
                f"{where} does not let this user in: {reason}. "
                "Check user and password in database_url, and pg_hba.conf of the server."
            )
        case pg.InvalidCatalogNameError():
            return StoreUnusable(f"{where} does not exist. Make it: createdb -O {_user(url)} {_name(url)}.")
        case pg.InsufficientPrivilegeError():
            return StoreUnusable(f"{where}: {reason}. Let its owner grant what is missing: {_grants(reason, url)}")
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
        return _passing(f"{where} is not ready: {reason}. Wait until it has started.")
    if isinstance(error, BROKEN):
        return _passing(f"{where} has ended the connection: {reason}. Look whether it runs, and try again.")
    if isinstance(error, AWAY):
        return StoreUnavailable(f"{where} does not answer: {reason}. Check host and port, and whether it runs.")
    return StoreError(f"{where} failed: {reason}.")


def _passing(sentence: str) -> StoreUnavailable:
    error = StoreUnavailable(sentence)
    error.was_there = True
    return error


def reason_of(error: BaseException, url: str = "") -> str:
    """Return PostgreSQL's or the system's own words on one line, with any password in them hidden."""
    unsaid = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    reason = " ".join(str(error).split()).rstrip(".") or unsaid
    passwords = {password_in(url), *re.findall(r"password=([^&\s]*)", url)}
    for password in {text for written in passwords for text in (written, unquote(written)) if text}:
        reason = reason.replace(password, HIDDEN)
    return reason


def _grants(reason: str, url: str) -> str:
    """Return the statements that grant a user the missing rights, to be pasted into psql."""
    user = f'"{_user(url)}"'
    if "schema" in reason or "database" in reason:
        return f"GRANT USAGE, CREATE ON SCHEMA public TO {user};"
    return (
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {user}; "
        f"GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO {user};"
    )


def _name(url: str) -> str:
    return unquote(urlsplit(url).path.strip("/")) or _user(url)


def _user(url: str) -> str:
    return unquote(urlsplit(url).username or "") or os.environ.get("PGUSER") or getpass.getuser()
