"""Connections to the file: opening them with pragmas, and translating SQLite's errors to Sqew's."""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import apsw

from sqew.errors import (
    SqewError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreUnusable,
)
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.statements import Statements
from sqew.stores.sql.transaction import Copies, Execute, Row, Rows
from sqew.stores.sqlite.migrate import version_of
from sqew.stores.sqlite.row_capture import capturing

Durability = Literal["durable", "fast"]
SQL = Statements(__package__)
MEMORY = ":memory:"
"""The path of a store that is gone when it is closed."""

_SYNCHRONOUS = {"durable": "FULL", "fast": "NORMAL"}
# One entry per statement in queries/, with room for the caller's own.
_STATEMENT_CACHE = 256
# After a checkpoint the WAL is cut back to this, or to the length at which the next is due: it is reused in place, and
# what was cut off has to be added again.
_WAL_KEPT_BYTES = 16 * 1024 * 1024
# File systems without the shared memory and locks that WAL needs between processes.
_NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs"}
    | {f"fuse.{name}" for name in ("ceph-fuse", "glusterfs", "rclone", "s3fs", "sshfs")}
)


class SQLiteConnection:
    """A connection as code that stores share knows it: implements `sqew.stores.sql.transaction.StoreConnection`."""

    def __init__(self, connection: apsw.Connection) -> None:
        # Each on a cursor of its own, so that their rows may be read side by side.
        self.execute: Execute = connection.execute
        # All on one cursor, which halves what a call costs (1.8 to 1.0 µs).
        self.execute_at_once: Execute = connection.cursor().execute
        self.read: Callable[[str, Row], Iterable[Row]] = connection.execute
        self.executemany: Callable[[str, Iterable[Row]], Rows] = connection.executemany
        self.changes = connection.changes
        self.change, self.delete = capturing(connection)

    def integers(self, values: list[int]) -> object:
        """Return a list of integers as one parameter, for ``carray(?)``."""
        return apsw.carray(array("q", values))

    def insert_alike(self, alike: Row, ids: Sequence[int], checksums: list[int], bodies: list[bytes]) -> None:
        """Write messages by the thousand that differ only in id, checksum and body: in half the time of a row each."""
        # An array can't be joined to another, so what differs goes together.
        values = tuple(b"%010d%b" % both for both in zip(checksums, bodies, strict=True))
        self.execute(SQL.insert_staged, (*alike, ids[0] - 1, apsw.carray(values)))

    def insert_copies(self, copies: Copies) -> None:
        """Write messages that go to several queues each: those whose ids are in a row by one statement."""
        targets, ids, count = len(copies.targets), copies.ids, len(copies.ids)
        queues = self.integers([target.queue_id for target in copies.targets])
        values = [b"%010d%b" % both for both in zip(copies.checksums, copies.bodies, strict=True)]
        starts = [place for place in range(count) if not place or ids[place][0] != ids[place - 1][0] + targets]
        for start, end in pairwise([*starts, count]):
            together = apsw.carray(tuple(values[start:end]))
            self.execute(SQL.insert_copies, (*copies.alike, targets, ids[start][0], together, queues))

    def hold(self, *_states: QueueState) -> None:
        """Do nothing: a writer is alone in any case."""


def connect(
    path: str,
    *,
    durability: Durability = "durable",
    busy_timeout_ms: int = 5_000,
    wal_autocheckpoint_pages: int = 1_000,
    cache_kib: int = 16_384,
    create: bool = True,
    vfs: str | None = None,
) -> apsw.Connection:
    """Open (or create) the file in WAL mode. Raise a `StoreError` that says what is wrong with the place."""
    in_memory = path == MEMORY
    if not in_memory:
        _check_place(Path(path), create)
    if not in_memory and create:
        make_private(path)
    with translated(path):
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        connection = apsw.Connection(path, flags=flags, vfs=vfs, statementcachesize=_STATEMENT_CACHE)
        try:
            connection.set_busy_timeout(busy_timeout_ms)
            if not create and version_of(connection) == 0:
                raise StoreUnusable(
                    f"{path} holds no queues. Check the name; to keep queues beside what is in it, create one there."
                )
            # Without this promise SQLite (built with STAT4, as apsw's is) compiles a statement anew whenever a
            # parameter that could sway its plan is bound: 16 µs instead of 2 for finding the next message.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            # Must come before the first table. In a file that has some it would only write its setting again: a
            # transaction and an fsync at each opening.
            if not connection.pragma("page_count"):
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            mode = connection.execute("PRAGMA journal_mode = WAL").get
            if mode != "wal" and not in_memory:
                raise StoreUnusable(
                    f"{path} can't be put into WAL mode (it stays in {mode!r}), so it can't hold a queue safely. "
                    "Move it to a local disk."
                )
            set_durability(connection, durability)
            connection.execute(f"PRAGMA wal_autocheckpoint = {wal_autocheckpoint_pages}").fetchall()
            kept_bytes = max(_WAL_KEPT_BYTES, wal_autocheckpoint_pages * connection.pragma("page_size"))
            connection.execute(f"PRAGMA journal_size_limit = {kept_bytes}").fetchall()
            connection.execute(f"PRAGMA cache_size = -{cache_kib}")
            connection.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            connection.close(True)
            raise
    return connection


def set_durability(connection: apsw.Connection, durability: Durability) -> None:
    """Make the transactions to come wait for the disk, or not."""
    connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")


def make_private(path: str) -> None:
    """Make a file that only its owner can read, unless there is one: it is going to hold keys and secrets."""
    # SQLite takes an empty file for a new database, and gives its log the rights of the file. What can't be made here
    # it can't make either, and says so.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _check_place(path: Path, create: bool) -> None:
    """Refuse, in a sentence, what SQLite would refuse with a number."""
    try:
        str(path).encode()
        _check_file(path, create)
    except (OSError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not valid Unicode"
        raise StoreUnusable(f"{str(path)!r} can't be the name of a file: {reason}. Choose another.") from error


def _check_file(path: Path, create: bool) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StoreUnusable(f"The folder {folder} does not exist. Create it, or choose another place for {path.name}.")
    if path.is_dir():
        raise StoreUnusable(f"{path} is a folder. Name a file, such as {path / 'queue.db'}.")
    if not path.exists():
        if not create:
            raise StoreUnusable(f"{path} does not exist. Check the name, or create a queue in it first.")
        if not os.access(folder, os.W_OK):
            raise StoreUnusable(f"The folder {folder} is read-only. Make it writable, or choose another place.")
    elif not path.is_file():
        raise StoreUnusable(f"{path} is not a regular file but a pipe, a socket or a device. Name another.")
    elif not may_be_written(path):
        raise StoreUnusable(
            f"{path} or its folder is read-only; a queue must write both. Change the rights, or copy it elsewhere."
        )
    kind = file_system(folder)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise StoreUnusable(
            f"{folder} is on a network file system ({kind}), where SQLite's WAL can't keep a queue safe. "
            "Put the file on a local disk."
        )


def may_be_written(path: Path) -> bool:
    """Return True if the rights of a file and of its folder let a queue live there."""
    return os.access(path, os.R_OK | os.W_OK) and os.access(path.parent, os.W_OK)


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds a folder, if the system tells (Linux)."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    target = str(folder.resolve()) + "/"
    longest, kind = "", ""
    for line in mounts:
        fields = line.split(" ")
        point = fields[1].replace("\\040", " ").rstrip("/") + "/"
        if target.startswith(point) and len(point) >= len(longest):
            longest, kind = point, fields[2]
    return kind


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise SQLite's errors as Sqew's."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error


def translate(error: apsw.Error, path: str) -> SqewError:
    """Return Sqew's error for one of SQLite's: what it means for a user."""
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE:
        # A full disk shows first where SQLite makes its shared memory: when a file is opened.
        error = apsw.FullError(str(error))
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"Another process is writing to {path}. Try again, or raise busy_timeout_ms.")
        case apsw.FullError():
            return StoreFull(f"The disk that holds {path} is full. Nothing was stored: free some space and try again.")
        case apsw.NotADBError():
            return StoreDamaged(f"{path} is not a SQLite database. Name another file; this one was left as it is.")
        case apsw.CorruptError():
            return StoreDamaged(f"{path} is damaged ({error}). Run `sqew check`, and restore the file from a backup.")
        case apsw.ConstraintError():
            # What is written keeps all of them, unless it was copied from a row that does not.
            return StoreDamaged(f"{path} is damaged ({error}). Run `sqew check`, and restore the file from a backup.")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return StoreUnusable(
                f"{path} can't be opened for writing ({error}). Check the rights of it and its folder."
            )
        case apsw.IOError():
            return StoreError(f"Reading or writing {path} failed ({error}). Check the disk before you go on.")
        case apsw.ConnectionClosedError() | apsw.CursorClosedError():
            return StoreClosed(f"{path} was closed. Open it again.")
        case _:
            return StoreError(f"SQLite failed on {path}: {error}")
