"""Upkeep that keeps the file small, quick and safe: checkpoints, statistics, vacuum, backups and checks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from sqew.errors import StoreUnusable
from sqew.stores.sql.deliveries import damaged_deliveries
from sqew.stores.sql.rows import DAMAGE, is_whole
from sqew.stores.sql.schedules import damaged_schedules
from sqew.stores.sql.staging import damaged_chunks
from sqew.stores.sql.transaction import Execute, Work
from sqew.stores.sqlite.connection import SQL, connect, make_private, translated
from sqew.stores.sqlite.repair import odd_rows

_BACKUP_STEP_PAGES = 1_000
_VACUUM_STEP_PAGES = 500
_COMPACT_STEP_PAGES = 100
# Free pages are used again; only a queue that has emptied gives them back by itself.
_FREE_PAGES_KEPT = 2_000
_REPORT_EVERY = 1_000
MOST_DAMAGED_SHOWN = 100
_HIDDEN = """
SELECT count(*) FROM sqew_message m
 WHERE NOT EXISTS (SELECT 1 FROM sqew_bucket b
                    WHERE b.queue_id = m.queue_id AND b.lane_id = m.lane_id AND b.priority = m.priority)
   AND EXISTS (SELECT 1 FROM sqew_queue q WHERE q.id = m.queue_id AND q.name IS NOT NULL)
"""


class CheckReport(Struct, frozen=True):
    """The findings of a check of the whole file."""

    messages: int
    archived: int
    damaged: list[int]
    """Ids of messages whose body or headers no longer match their checksum (the first hundred)."""
    problems: list[str]
    """Problems in the file's structure and in its other tables, in a sentence each."""
    damaged_deliveries: list[int] = []  # msgspec copies it
    """Ids of deliveries whose endpoint, or what they post, is lost or no longer matches its checksum (as many)."""
    damaged_schedules: list[str] = []
    """Names of schedules that no longer match their checksum, as far as they can be read (as many)."""

    @property
    def ok(self) -> bool:
        return not (self.damaged or self.problems or self.damaged_deliveries or self.damaged_schedules)


def checkpoint(connection: apsw.Connection) -> bool:
    """Copy the WAL into the file, as far as readers allow; return True if that was all of it.

    It is never urgent, so a failure is left to the next.
    """
    with contextlib.suppress(apsw.Error):
        pages, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        return pages == copied
    return False


def shrink_wal(path: str) -> None:
    """Copy the WAL into the file and cut it off, unless a reader still needs it. Writers hardly wait for it."""
    connection = connect(path, create=False, busy_timeout_ms=0)
    try:
        # Most of the work with nobody held up, so that cutting, which stops writers, has little left to copy.
        checkpoint(connection)
        with contextlib.suppress(apsw.BusyError):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.close()


def drop_empty_buckets(connection: apsw.Connection) -> None:
    """Forget lanes and priorities that no message has, so that no claim looks into them."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        empty = connection.execute(SQL.empty_buckets).fetchall()
        if empty:
            connection.executemany(SQL.delete_bucket, empty)
            connection.execute(SQL.bump_catalog)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def maintain(connection: apsw.Connection) -> None:
    """Refresh the planner's statistics, give free pages back to the disk, empty the WAL."""
    # Only here, where somebody asked for it: statistics of a queue that happens to be empty would mislead the planner.
    # Without a limit ANALYZE reads every index whole; 0x10002 also does tables that this connection has not read.
    connection.execute("PRAGMA analysis_limit = 1000").fetchall()
    connection.execute("PRAGMA optimize(0x10002)").fetchall()
    free = None
    # A file that was made without incremental vacuum keeps its free pages for reuse.
    while free != (free := connection.pragma("freelist_count")):
        connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_STEP_PAGES})").fetchall()
    with contextlib.suppress(apsw.BusyError):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def vacuum_step(connection: apsw.Connection) -> bool:
    """Give some free pages back, if there are many; return True if there are more. It is never urgent."""
    with contextlib.suppress(apsw.Error):
        free = connection.pragma("freelist_count")
        if free > _FREE_PAGES_KEPT:
            connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_STEP_PAGES})").fetchall()
            # A file that was made without incremental vacuum keeps its free pages.
            return bool(_FREE_PAGES_KEPT < connection.pragma("freelist_count") < free)
    return False


def compact_step(connection: apsw.Connection) -> bool:
    """Give back so few free pages that no writer is held up for long; return True if there are more."""
    free = connection.pragma("freelist_count")
    connection.execute(f"PRAGMA incremental_vacuum({_COMPACT_STEP_PAGES})").fetchall()
    left = connection.pragma("freelist_count")
    # A file that was made without incremental vacuum keeps its free pages.
    if left and left < free:
        return True
    checkpoint(connection)
    return False


def backup(origin: str | apsw.Connection, to: str, progress: Callable[[int, int], object] | None) -> None:
    """Copy a file that is in use, by SQLite's online backup. It appears under its name only when it is complete."""
    target = Path(to)
    try:
        to.encode()
        exists = target.exists()
    except (OSError, UnicodeEncodeError) as error:
        raise StoreUnusable(f"{to!r} can't be the name of a file ({error}). Choose another.") from error
    if exists:
        raise StoreUnusable(f"{target} exists. Choose another name for the backup, or remove it first.")
    if not target.parent.is_dir():
        raise StoreUnusable(f"The folder {target.parent} does not exist. Create it, or choose another place.")
    unfinished = target.with_name(target.name + ".unfinished")
    source = connect(origin, create=False) if isinstance(origin, str) else origin
    try:
        with translated(str(target)):
            if isinstance(origin, str):
                # One moment of the file: otherwise every commit of others would start the copy again.
                source.execute("BEGIN")
                source.execute(SQL.catalog_version).fetchall()
            make_private(str(unfinished))
            copy = apsw.Connection(str(unfinished))
            try:
                with copy.backup("main", source, "main") as steps:
                    while not steps.done:
                        steps.step(_BACKUP_STEP_PAGES)
                        if progress is not None:
                            progress(steps.page_count - steps.remaining, steps.page_count)
                # The copy is a file of its own, not one half of a database and its WAL.
                copy.execute("PRAGMA journal_mode = DELETE").fetchall()
            finally:
                copy.close()
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
        if isinstance(origin, str):
            source.close()


def check(work: Work, progress: Callable[[int], object] | None, known: Iterable[str] = ()) -> CheckReport:
    """Read every page and every body. ``known``: problems that were found before."""
    problems = [*known, *_structural(work.execute)]
    with _as_far_as_it_goes("the types of columns", problems):
        problems.extend(odd_rows(work.execute))
    with _as_far_as_it_goes("what is known of priorities", problems):
        if hidden := work.execute(_HIDDEN).get:
            problems.append(f"messages that are in no bucket, so that they are never received: {hidden}")
    damaged: list[int] = []
    deliveries: list[int] = []
    schedules: list[str] = []
    counts = []
    for statement, name in (("check_messages", "the messages"), ("check_archive", "the archive")):
        count = 0
        with _as_far_as_it_goes(name, problems):
            for id, check, is_text, headers, body in work.execute(SQL[statement]):
                if not _is_whole(check, is_text, headers, body) and len(damaged) < MOST_DAMAGED_SHOWN:
                    damaged.append(id)
                count += 1
                if progress is not None and count % _REPORT_EVERY == 0:
                    progress(count)
        counts.append(count)
    with _as_far_as_it_goes("what writers have staged", problems):
        problems.extend(islice(damaged_chunks(work), MOST_DAMAGED_SHOWN))
    with _as_far_as_it_goes("the deliveries", problems):
        deliveries.extend(islice(damaged_deliveries(work), MOST_DAMAGED_SHOWN))
    with _as_far_as_it_goes("the schedules", problems):
        schedules.extend(islice(damaged_schedules(work), MOST_DAMAGED_SHOWN))
    return CheckReport(counts[0], counts[1], damaged, problems, deliveries, schedules)


def _is_whole(check: Any, is_text: Any, headers: Any, body: Any) -> bool:
    try:
        return is_whole(body, headers, is_text, check)
    except DAMAGE:
        return False


def structural_problems(path: str) -> list[str]:
    """Return what SQLite finds wrong with a file, also with one that is too damaged to be opened as a queue's."""
    with translated(path):
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return list(_structural(connection.execute))
        finally:
            connection.close(True)


def _structural(execute: Execute) -> Iterator[str]:
    try:
        for (found,) in execute("PRAGMA integrity_check(100)"):
            # What is wrong with the pages comes as one row of many lines, under a title.
            yield from (line for line in found.splitlines() if line != "ok" and not line.startswith("***"))
    except apsw.CorruptError as error:
        yield str(error)


@contextlib.contextmanager
def _as_far_as_it_goes(what: str, problems: list[str]) -> Iterator[None]:
    """Record damage that ends the reading of one table as one problem more, and go on with the others."""
    try:
        yield
    except (apsw.CorruptError, *DAMAGE) as error:
        problems.append(f"{what} can't be read to the end: {error}")
