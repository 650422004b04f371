"""`sqew spark archive`: finished messages to the lake, once each, and only then out of the queue's archive."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from sqew.errors import LakeConflict, LakeUnusable, TooLarge
from sqew.model import Finished
from sqew.spark.lake.commits import Lake, LakeCommit, LakeFile, staging_of
from sqew.spark.lake.read import as_it_is, check, place_of, read_files
from sqew.spark.transforms.lake import (
    LAKE_SCHEMA,
    by_day,
    facts_by_file,
    missing_from,
    oldest,
    present_in,
    spread_over_files,
)

if TYPE_CHECKING:
    from pyspark.sql import Row

Step = Callable[[str], object]
"""A callback that is called with the name of each step before it begins."""
Delete = Callable[[Sequence[Finished]], int]
"""A function that deletes messages from the queue's archive, and returns how many were there."""

_NO_ROOM = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""The system's messages for a full disk, which Java repeats."""
DELETED_TOGETHER = 500
"""The number of messages deleted in one transaction: other writers wait for it."""


class ArchiveResult(Struct, frozen=True):
    """The result of a run."""

    queue: str
    added: int
    files: int
    deleted: int
    commit: int | None
    """The number of its commit; None if there was nothing to add."""


def archive(
    archived: DataFrame,
    queue: str,
    lake: Lake,
    delete: Delete | None = None,
    step: Step = lambda _doing: None,
    times: DataFrame | None = None,
) -> ArchiveResult:
    """Add to a lake the messages of a queue's archive that it lacks; with ``delete``, then delete there what the lake
    has.

    It may be stopped at any point and run again: no message is lost, and none is in the lake twice. ``times`` is the
    same archive with only the column ``finished_at``, which is read faster.
    """
    spark = archived.sparkSession
    with _writable(lake):
        lake.make()
        lake.settle(queue)
        # What finished before anything that is still in the archive need not be looked at.
        since = oldest(archived if times is None else times).collect()[0]["finished_at"]
        if since is None:
            return ArchiveResult(queue, added=0, files=0, deleted=0, commit=None)
        step("copying")
        commit = _add(spark, archived, queue, lake, since, step)
    deleted = 0
    if delete is not None:
        step("checking")
        files = lake.files_since(queue, since)
        check(spark, lake, files)
        step("deleting")
        deleted = _delete(read_files(spark, lake, files), archived, delete)
    return ArchiveResult(
        queue,
        added=commit.rows if commit else 0,
        files=len(commit.files) if commit else 0,
        deleted=deleted,
        commit=commit.number if commit else None,
    )


@contextmanager
def _writable(lake: Lake) -> Iterator[None]:
    """Raise LakeUnusable, with advice, if the lake can't be written to."""
    try:
        yield
    except Exception as error:
        if any(sign in str(error) for sign in _NO_ROOM):
            raise LakeUnusable(
                f"The lake {lake.files.root} has no room left. Free some, and run it again: then the rest is added."
            ) from error
        if not isinstance(error, OSError):
            raise
        why = error.strerror or str(error)
        raise LakeUnusable(f"The lake {lake.files.root} can't be written: {why}. Choose another folder.") from error


def _add(spark: SparkSession, archived: DataFrame, queue: str, lake: Lake, since: int, step: Step) -> LakeCommit | None:
    number, run = lake.next_number(queue), uuid.uuid4().hex[:12]
    staging = staging_of(queue, number, run)
    try:
        known = lake.files_since(queue, since)
        missing = missing_from(read_files(spark, lake, known), archived) if known else archived
        files = _staged(spark, missing, lake, staging)
    except Exception as error:
        lake.files.remove(staging)
        if lake.next_number(queue) != number:
            # Whoever has the number sweeps away what others have staged for it, also from under their hands.
            raise LakeConflict(queue, lake.files.root) from error
        raise
    if not files:
        lake.files.remove(staging)
        return None
    commit = LakeCommit(queue, number, run, files)
    lake.files.keep([f"{staging}/{file.path}" for file in files])
    step("committing")
    lake.commit(commit)
    step("moving")
    lake.settle(queue)
    lake.files.keep([file.path for file in files])
    return commit


def _staged(spark: SparkSession, missing: DataFrame, lake: Lake, staging: str) -> list[LakeFile]:
    """Write messages to the staging folder, and return the files as they were read back."""
    place = f"{lake.files.root}/{staging}"
    spread_over_files(by_day(missing)).write.partitionBy("queue", "day").parquet(place)
    if not any(name.startswith("queue=") for name in lake.files.names(staging)):
        return []
    found = facts_by_file(spark.read.schema(LAKE_SCHEMA).parquet(as_it_is(place))).collect()
    return sorted((_file(row) for row in found), key=lambda file: file.path)


def _file(row: Row) -> LakeFile:
    """Return the facts read back of a file. Its name is Spark's own, with a UUID in it: no other run has the same."""
    path = place_of(row["path"])
    facts = {name: row[name] for name in LakeFile.__struct_fields__ if name != "path"}
    return LakeFile(path, **facts)


def _delete(lake_rows: DataFrame, archived: DataFrame, delete: Delete) -> int:
    """Delete from the archive what was just read from the lake: what can't be read there stays."""
    rows = present_in(lake_rows, archived).toLocalIterator(prefetchPartitions=True)
    found = (Finished(row["id"], row["finished_at"]) for row in rows)
    deleted, together = 0, DELETED_TOGETHER
    while batch := list(islice(found, together)):
        some, together = _deleted(batch, delete)
        deleted += some
    return deleted


def _deleted(batch: Sequence[Finished], delete: Delete) -> tuple[int, int]:
    """Delete a batch, in halves if it is too large. Return how many were there, and how many the server takes."""
    try:
        return delete(batch), len(batch)
    except TooLarge:
        if len(batch) == 1:
            raise
        middle = len(batch) // 2
        first, together = _deleted(batch[:middle], delete)
        rest = sum(
            _deleted(batch[start : start + together], delete)[0] for start in range(middle, len(batch), together)
        )
        return first + rest, together
