"""The SQLite store."""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import apsw
import msgspec

from sqew import operations as ops
from sqew.errors import SqewError, StoreBusy, StoreClosed, StoreDamaged, StoreFull
from sqew.model import ArchivedMessage, Commit, Fact, Format, Message
from sqew.stores.sql import inspect, receive, send
from sqew.stores.sql.catalog import Catalog
from sqew.stores.sql.handlers import HANDLERS
from sqew.stores.sql.ready_rows import ReadyRows
from sqew.stores.sql.subscription_cache import Bindings
from sqew.stores.sql.transaction import NewRows, Work
from sqew.stores.sqlite import upkeep
from sqew.stores.sqlite.connection import (
    MEMORY,
    SQL,
    Durability,
    SQLiteConnection,
    connect,
    set_durability,
    translate,
    translated,
)
from sqew.stores.sqlite.disk_space import DiskSpace
from sqew.stores.sqlite.fast_paths import FAST_PATHS, FAST_PATHS_WITHIN, FastPath, send_plain
from sqew.stores.sqlite.kept_reader import KeptReader
from sqew.stores.sqlite.lost_transactions import WalWatch, recorded_losses
from sqew.stores.sqlite.migrate import is_newer, migrate
from sqew.stores.sqlite.repair import has_odd_queues, mend, odd_rows

_log = logging.getLogger("sqew.store")

_UNLIKELY = (ValueError, TypeError, LookupError, AttributeError)
"""Errors from rows that hold what was never written to them; or from a mistake in the code."""
_MENDING_SHARE = 100
"""Pause after mending in vain, as a multiple of the time that it took, which others have before the next try."""
_READ_IN_STEPS = frozenset({ops.ReadColumns, ops.ReadClaim, ops.ReadClaimColumns})
"""Reads that come again and again until they are done."""


class SQLiteStore:
    """Queues in one SQLite file. One thread at a time may use it; any number of processes may open the file.

    `run` is one transaction. `begin`, `attempt`, `commit` and `rollback` are its parts, for callers that write to the
    same file in the same transaction. Whatever one of them raises, `rollback` comes next.

    An interrupt (Ctrl-C) may come where a function begins, and after any call of SQLite: between BEGIN and COMMIT, or
    before the rows of a statement are read, which holds its locks until they are. So there is one place for all of it,
    around everything that `run` does. A second interrupt may hit that: then the next `begin` goes through it again.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        now: int,
        durability: Durability = "durable",
        busy_timeout_ms: int = 5_000,
        wal_autocheckpoint_pages: int = 1_000,
        cache_kib: int = 16_384,
        disk_reserve_bytes: int = 16 * 1024 * 1024,
        delivery_keep_ms: int = 14 * 86_400_000,
        create: bool = True,
        random: Random | None = None,
        vfs: str | None = None,
    ) -> None:
        self.path = str(path)
        # The working folder may change; later connections must find the same file.
        self._file = self.path if self.path == MEMORY else str(Path(path).absolute())
        self.durability = durability
        # What the connection is set to; None: an interrupt came while it was being set.
        self._set_to: Durability | None = durability
        # In memory there is no other connection.
        self.reads_aside = self.path != MEMORY
        watch = None if self.path == MEMORY or vfs is not None else WalWatch(self._file)
        try:
            self.connection = connect(
                self.path,
                durability=durability,
                busy_timeout_ms=busy_timeout_ms,
                wal_autocheckpoint_pages=wal_autocheckpoint_pages,
                cache_kib=cache_kib,
                create=create,
                vfs=vfs,
            )
        finally:
            # Even if it can't be opened: what is lost may be all that makes it a file of queues.
            if watch is not None:
                watch.report_loss()
        try:
            with translated(self.path):
                migrate(self.connection, self.path, now)
        except BaseException:
            self.connection.close(True)
            raise
        self._catalog = Catalog(self.connection.execute, SQL)
        self._space = DiskSpace(self.path, disk_reserve_bytes, self.connection)
        self._bindings = Bindings()
        # One for each connection: another would take over the functions that capture rows.
        self._work_connection = SQLiteConnection(self.connection)
        self._change = self._work_connection.change
        self._work = Work(
            self._work_connection,
            SQL,
            self._catalog,
            self._bindings,
            ReadyRows(),
            self._space,
            random or Random(),
            delivery_keep_ms,
        )
        self._data_version = self.connection.data_version
        # SQLite's count of changes to the file as this connection last saw it; None: a transaction is under way, or was
        # cut off, and the file is to be looked at anew.
        self._seen_version: int | None = None
        self._broken: SqewError | None = None
        # Whether something was mended for the sake of the operation that is tried again, and whether that was in vain.
        self._mended = self._past_mending = False
        # Before that, by the monotonic clock, nothing is mended: it was in vain, and reads the whole file.
        self._mend_again_at = 0.0
        self._idle = True
        self._kept_reader = KeptReader()
        try:
            self._mend_queues(now)
        except BaseException:
            self.connection.close(True)
            raise

    def _mend_queues(self, now: int) -> None:
        """Mend damage that no operation would meet: messages that are never looked for."""
        try:
            with translated(self.path):
                if has_odd_queues(self.connection.execute):
                    self._mend_aside(StoreDamaged("What is stored of queues can't be read."), now)
        except StoreDamaged as error:
            self._mend_aside(error, now)

    def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        """Execute operations in one transaction; see `sqew.stores.contract.Store`."""
        commit = None
        try:
            alone = operations[0] if len(operations) == 1 else None
            wish = ops.sync_wish(operations) if alone is None else alone.sync_commit
            wanted: Durability = self.durability if wish is None else "durable" if wish else "fast"
            if wanted != self._set_to:
                if self.connection.in_transaction:
                    # Two interrupts have left one open, in which it can't be set.
                    self.rollback()
                self._set(wanted)
            # By the one statement that does all there is to do, where there is such; otherwise at length.
            if alone is not None and (fast_path := FAST_PATHS.get(type(alone))) is not None:
                commit = self._run_fast_path(fast_path, alone, now)
            if commit is None:
                commit = self._run_in_transaction(operations, now)
            if wanted != self.durability:
                self._set(self.durability)
        except BaseException as error:
            self.rollback()
            if not (isinstance(error, StoreDamaged) and self._mend(error, now)):
                raise
        else:
            self._mended = False
            return commit
        # Not before the error is forgotten: it may keep cursors, which see what was there before it was mended.
        return self.run(operations, now)

    def _mend(self, error: StoreDamaged, now: int) -> bool:
        """Mend rows and indexes that an operation could not read; return True if it is worth another try."""
        if self._mended:
            # It met damage again: there is more to it.
            self._past_mending = True
        if self._past_mending:
            return False
        self._mended = self._mend_aside(error, now)
        return self._mended

    def _mend_aside(self, error: BaseException, now: int) -> bool:
        """Mend the file from any thread; return True if anything was mended."""
        began = monotonic()
        if self.path == MEMORY or began < self._mend_again_at:
            return False
        reported = self._mend_now(error, isinstance(error.__cause__, apsw.CorruptError), now)
        if reported == []:
            ended = monotonic()
            self._mend_again_at = ended + (ended - began) * _MENDING_SHARE
        return bool(reported)

    def _mend_now(self, error: BaseException, indexes: bool, now: int) -> list[str] | None:
        """Mend the file; return what was mended, in a sentence each. None: others write."""
        try:
            with closing(connect(self._file, create=False)) as connection:
                if is_newer(connection):
                    # What this code can't read need not be damaged.
                    return []
                reported = mend(
                    self._work_on(SQLiteConnection(connection), connection, now), connection, indexes=indexes
                )
        except (apsw.Error, SqewError, *_UNLIKELY) as failure:
            fields = {"file": self.path, "error": str(error), "failure": str(failure)}
            _log.warning("the file is damaged, and could not be mended", extra={"fields": fields})
            return None if isinstance(failure, apsw.BusyError | StoreBusy) else []
        if reported:
            found = {"file": self.path, "error": str(error), "found": reported}
            _log.warning("the file is damaged; what could be mended was", extra={"fields": found})
        return reported

    def _set(self, durability: Durability) -> None:
        self._set_to = None
        set_durability(self.connection, durability)
        self._set_to = durability

    def _run_in_transaction(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        try:
            return self._run(operations, now)
        except StoreFull:
            self.rollback()
            # One of them did not fit on the disk. With the WAL copied into the file there is some room in it; let each
            # stand alone, so that those that need no more go through.
            upkeep.checkpoint(self.connection)
        commits = [self._run_alone(operation, now) for operation in operations]
        return Commit(
            [result for commit in commits for result in commit.results],
            [fact for commit in commits for fact in commit.facts],
            set[str]().union(*(commit.woken for commit in commits)),
        )

    def _run_fast_path(self, fast_path: FastPath, operation: ops.Operation[Any], now: int) -> Commit | None:
        seen, commit = self._seen_version, None
        try:
            # Otherwise others have written, and something was read since (to tidy up, say): the catalog may be stale.
            if self._data_version() == seen is not None:
                self._work.now = now
                commit = fast_path(self._work, self._change, operation)
                # SQLite counts one for this transaction. If it counts more, others have written since the last one, and
                # the next to begin must see that.
                if self._data_version() == seen + 1:
                    self._seen_version = seen + 1
        except UnicodeDecodeError:
            # Damage that SQLite does not see. Nothing was changed, and the general way says so.
            pass
        except apsw.Error as error:
            self._raise_unless_avoidable(error)
        self._idle = self._idle and commit is None
        return commit

    def send_plain(self, queue: str, body: bytes, format: Format, now: int) -> Fact | None:
        """Send one message by one statement; see `sqew.stores.contract.Store`."""
        seen, fact = self._seen_version, None
        try:
            # As in `_run_fast_path`.
            if self._data_version() == seen is not None and self._set_to == self.durability:
                self._work.now = now
                fact = send_plain(self._work, queue, body, format)
                if self._data_version() == seen + 1:
                    self._seen_version = seen + 1
        except BaseException as error:
            self.rollback()
            if not isinstance(error, apsw.Error):
                raise
            self._raise_unless_avoidable(error)
        self._idle = self._idle and fact is None
        return fact

    def _raise_unless_avoidable(self, error: apsw.Error) -> None:
        """Raise the error of a fast path as Sqew's, unless the general way knows what to do: a full disk, damage …"""
        failure = translate(error, self.path)
        if isinstance(error, apsw.IOError):
            self._broken = failure
        elif not isinstance(error, apsw.BusyError):
            # Nothing was changed.
            return
        raise failure from error

    def _run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        writing = operations[0].writes if len(operations) == 1 else any(operation.writes for operation in operations)
        self.begin(now, writing=writing)
        work = self._work
        work.defers = len(operations) > 1
        results: list[Any] = []
        for operation, count in _runs(operations):
            if work.deferred and type(operation) not in send.DEFERRING:
                self._write_deferred()
            if count > 1:
                results += self._receive_each(operation, count)
            else:
                results.append(self.attempt(operation))
        self._write_deferred()
        work.defers = False
        return self.commit(results)

    def _write_deferred(self) -> None:
        try:
            send.write_deferred(self._work)
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def _run_alone(self, operation: ops.Operation[Any], now: int) -> Commit:
        try:
            return self._run([operation], now)
        except SqewError as error:
            self.rollback()
            return Commit([error], [], set())

    def begin(self, now: int, *, writing: bool = True) -> None:
        """Start a transaction at the given time."""
        if self._broken is not None:
            raise StoreClosed(f"{self.path} must be opened again: {self._broken}") from self._broken
        if self._seen_version is None:
            self.rollback()
        if writing and self._space.is_short:
            self._space.look_ahead(now)
        seen, self._seen_version = self._seen_version, None
        try:
            self._work.execute_at_once("BEGIN IMMEDIATE" if writing else "BEGIN")
            if not writing:
                self._catalog.touch()
            if self._data_version() != seen:
                self._catalog.refresh()
                self._bindings.is_current = False
        except apsw.Error as error:
            raise translate(error, self.path) from error
        except _UNLIKELY as error:
            raise self._damaged(error) from error
        if now < self._work.now:
            # The clock was set back: what was to be looked at by its former time is to be looked at now.
            self._space.next_look_at = 0
        self._work.now = now
        self._idle = self._idle and not writing

    def attempt(self, operation: ops.Operation[Any]) -> Any:
        """Execute one operation. Return its result, or its error: then it failed before it wrote anything."""
        try:
            work = self._work
            fast_path = FAST_PATHS_WITHIN.get(type(operation))
            done = None if fast_path is None else fast_path(work, self._change, operation)
            if done is None:
                return HANDLERS[type(operation)](work, operation)
            work.facts += done.facts
            work.woken |= done.woken
            return done.results[0]
        except Exception as error:  # noqa: BLE001 (it is returned, or raised again)
            return self._refusal(error)

    def _receive_each(self, operation: Any, count: int) -> list[Any]:
        """Execute a receive for ``count`` callers that want the same, each for itself; return their results."""
        try:
            results = receive.receive_each(self._work, operation, count)
        except Exception as error:  # noqa: BLE001 (it is returned, or raised again)
            return [self._refusal(error)] * count
        return [self.attempt(operation) for _ in range(count)] if results is None else results

    def _refusal(self, error: Exception) -> SqewError:
        """Return the error that stands for an operation; raise the one that stands for all of the transaction."""
        match error:
            case StoreDamaged():
                raise error
            case SqewError():
                return error
            case apsw.Error():
                raise translate(error, self.path) from error
            case _:
                damaged = isinstance(error, _UNLIKELY) and self._is_damage(error, self.connection)
        if damaged:
            raise self._damaged(error) from error
        raise error

    def _damaged(self, error: Exception) -> StoreDamaged:
        # Otherwise it keeps the cursor that could not be read to its end, and with it what the file was before.
        traceback.clear_frames(error.__traceback__)
        return StoreDamaged(f"{self.path} is damaged ({error}). Run `sqew check`, and restore the file from a backup.")

    def _is_damage(self, error: Exception, connection: apsw.Connection) -> bool:
        """Return True if an unexpected error is the file's fault: rows that hold what was never written to them."""
        if isinstance(error, UnicodeDecodeError | msgspec.DecodeError) or monotonic() < self._mend_again_at:
            # Or it was a moment ago, and could not be mended.
            return True
        try:
            is_odd = next(odd_rows(connection.execute), None) is not None
            return is_odd or bool(connection.pragma("quick_check", 1) != "ok")
        except apsw.Error:
            return True

    def commit(self, results: list[Any]) -> Commit:
        """Commit the transaction, and return what it did."""
        try:
            self._work.execute_at_once("COMMIT")
        except apsw.Error as error:
            failure = translate(error, self.path)
            if isinstance(error, apsw.IOError) and not isinstance(failure, StoreFull):
                # After a failed fsync nobody knows what is on the disk; only reading it anew can tell.
                self._broken = failure
            raise failure from error
        # Nobody else's changes are seen before the next transaction begins, so this is the state that it left.
        self._seen_version = self._data_version()
        work = self._work
        commit = Commit(results, work.facts, work.woken)
        work.facts, work.woken = [], set()
        self._bindings.committed()
        return commit

    def rollback(self) -> None:
        """Undo the transaction, if there is one, and be ready for the next, whatever was under way."""
        work = self._work
        self._seen_version = None
        with contextlib.suppress(apsw.Error):
            # Even nothing, executed, ends the statement before it: one that stands alone is committed, whole.
            work.execute_at_once("ROLLBACK" if self.connection.in_transaction else "")
            if self._set_to != self.durability:
                self._set(self.durability)
        self._catalog.forget()
        self._bindings.undone()
        work.facts, work.woken, work.defers, work.deferred = [], set(), False, NewRows()

    def idle(self) -> None:
        """Use idle time to put the WAL back into the file, and to give some free pages back to the disk."""
        # Only if anything was written since the last time, or there was more to do.
        if not self._idle and self._broken is None:
            has_more = upkeep.vacuum_step(self.connection)
            self._idle = upkeep.checkpoint(self.connection) and not has_more

    def file_bytes(self) -> int:
        """Return the bytes of the file, without its write-ahead log."""
        with translated(self.path):
            return int(self.connection.pragma("page_count") * self.connection.pragma("page_size"))

    def compact(self) -> bool:
        """Give a few free pages back to the disk; return True if there are more. At the end, checkpoint the WAL."""
        with translated(self.path):
            return upkeep.compact_step(self.connection)

    def shrink_log(self) -> None:
        """Copy the WAL into the file and cut it off, as far as readers allow, on a connection of its own."""
        if self.path != MEMORY:
            with translated(self.path):
                upkeep.shrink_wal(self._file)

    def maintain(self) -> None:
        """Keep the file small and its queries quick; this may take seconds for a large file."""
        with translated(self.path):
            upkeep.drop_empty_buckets(self.connection)
            self._catalog.forget()
            self._seen_version = None
            upkeep.maintain(self.connection)

    def backup(self, to: str | Path, progress: Callable[[int, int], object] | None = None) -> None:
        """Copy the file to another while it is in use. ``progress`` gets pages done and in all."""
        upkeep.backup(self.connection if self.path == MEMORY else self._file, str(to), progress)

    def read(self, operations: Sequence[ops.Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read, on a connection of their own: from any thread, and blocking nobody."""
        with contextlib.suppress(StoreDamaged):
            return self._read(operations, now)
        # It was mended, as far as it could be.
        return self._read(operations, now)

    def _read(self, operations: Sequence[ops.Operation[Any]], now: int) -> list[Any]:
        with self._reader(now, keep=type(operations[0]) in _READ_IN_STEPS) as work:
            return [HANDLERS[type(operation)](work, operation) for operation in operations]

    def check(self, progress: Callable[[int], object] | None = None) -> upkeep.CheckReport:
        """Read everything: SQLite's own structures, and every body against its checksum."""
        with self._reader(0, mends=False) as work:
            return upkeep.check(work, progress, recorded_losses(self._file))

    def export(self, queue: str, now: int) -> Iterator[Message]:
        """Yield the messages of a queue as they were at one moment, in no particular order of lanes and priorities."""
        with self._reader(now) as work:
            everything = inspect.everything(work, queue)
            # In memory there is no other connection: the reading must be over before the caller does anything else.
            yield from list(everything) if self.path == MEMORY else everything

    def export_archive(self, queue: str, now: int) -> Iterator[ArchivedMessage]:
        """Yield the archived messages of a queue as they were at one moment."""
        with self._reader(now) as work:
            archive = inspect.whole_archive(work, queue)
            yield from list(archive) if self.path == MEMORY else archive

    @contextlib.contextmanager
    def _reader(self, now: int, keep: bool = False, mends: bool = True) -> Iterator[Work]:
        """Yield a connection for long reads, apart from the writer's: they see one moment, and hold no writer up.

        ``mends``: what can't be read is mended. ``keep``: there will be more of them soon, and to open it takes as long
        as to read a thousand messages.
        """
        with self._mended_after(now) if mends else contextlib.nullcontext(), translated(self.path):
            if self.path == MEMORY:
                # There is no other connection, and a transaction that is open on this one is somebody's.
                yield self._work_on(self._work_connection, self.connection, now)
                return
            connection = (self._kept_reader.take() if keep else None) or connect(self._file, create=False)
            kept = False
            try:
                connection.execute("BEGIN")
                yield self._work_on(SQLiteConnection(connection), connection, now)
                if keep:
                    connection.execute("COMMIT")
                    kept = self._kept_reader.keep(connection)
            finally:
                if not kept:
                    # Closing ends the transaction as well.
                    connection.close(True)

    @contextlib.contextmanager
    def _mended_after(self, now: int) -> Iterator[None]:
        """Mend what a long read could not read, before that is raised."""
        try:
            yield
        except StoreDamaged as error:
            self._mend_aside(error, now)
            raise
        except _UNLIKELY as error:
            if self.path == MEMORY:
                raise
            with translated(self.path), closing(connect(self._file, create=False)) as connection:
                damaged = self._is_damage(error, connection)
            if not damaged:
                raise
            self._mend_aside(error, now)
            raise self._damaged(error) from error

    def _work_on(self, work_connection: SQLiteConnection, connection: apsw.Connection, now: int) -> Work:
        catalog = Catalog(connection.execute, SQL)
        work = Work(
            work_connection, SQL, catalog, Bindings(), self._work.ready_rows, self._work.space, self._work.random
        )
        work.now = now
        return work

    def close(self) -> None:
        """Close the file. The last process to close it puts the WAL back into it."""
        with translated(self.path):
            self._kept_reader.close()
            self.connection.close()


def _runs(operations: Sequence[ops.Operation[Any]]) -> Iterator[tuple[ops.Operation[Any], int]]:
    """Yield each operation, and how often it comes in a row: receives by clients that all want the same."""
    place = 0
    while place < len(operations):
        operation, end = operations[place], place + 1
        if type(operation) is ops.Receive:
            while end < len(operations) and operations[end] == operation:
                end += 1
        yield operation, end - place
        place = end
