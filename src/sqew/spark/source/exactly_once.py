"""The protocol of writes that are exactly once in effect: tasks stage rows, and the driver promotes those that count.

Nothing is visible before that. A task that is retried stages a part of its own, and the part of the failed attempt is
dropped; a driver that comes back after the promotion learns that it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from sqew.errors import SparkError, SqewError
from sqew.model import Format
from sqew.spark.source import calls
from sqew.spark.source.options import Target
from sqew.spark.source.requests import requests
from sqew.spark.source.wire import PATIENT, Wire

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's names of the local properties in which a task finds its query and its batch."""


@dataclass
class StagedRows(WriterCommitMessage):
    """The result of a task: the part that it has staged, its number of messages, and the writer that it is for."""

    writer: str
    part: str
    count: int


def stage(target: Target, writer: str, epoch: int, batches: Iterable[pa.RecordBatch], format: Format) -> StagedRows:
    """Stage the rows of a task as a part of its own."""
    # Not the task's number: a driver that starts again counts from the same one.
    part, handed_in = uuid4().hex, 0
    with Wire(target, turn=_task_number(), retries=PATIENT) as wire:
        for request in requests(batches, format):
            call = calls.stage(target.queue, writer, epoch, part, request.body, offset=handed_in)
            if wire.ask(call).promoted:
                # It was all done in an earlier life of the driver.
                break
            handed_in += request.count
    return StagedRows(writer, part, handed_in)


def promote(
    target: Target, epoch: int, messages: Sequence[WriterCommitMessage | None], writers: Iterable[str] | None = None
) -> None:
    """Put what the tasks have staged into the queue. ``writers``: whose parts, if that is known without any task."""
    for writer in writers_of(messages) if writers is None else writers:
        parts = {
            message.part: message.count
            for message in messages
            if isinstance(message, StagedRows) and message.writer == writer and message.count
        }
        with Wire(target, retries=PATIENT) as wire:
            wire.ask(calls.promote(target.queue, writer, epoch, parts))


def abort(target: Target, epoch: int, writers: Iterable[str]) -> None:
    """Drop what was staged. What was decided to be promoted stays."""
    with Wire(target) as wire:
        for writer in writers:
            # Something else is wrong that Spark is about to tell. The server drops in time what nobody promotes.
            with suppress(SqewError):
                wire.ask(calls.abort(target.queue, writer, epoch))


def writers_of(messages: Iterable[WriterCommitMessage | None]) -> set[str]:
    """Return the writers that tasks have staged parts for: one, or none if no task has done so yet."""
    return {message.writer for message in messages if isinstance(message, StagedRows)}


def check_open(target: Target) -> None:
    """Raise if the queue is not there or may not be written to, before tasks are started that would find it out."""
    with Wire(target) as wire:
        wire.ask(calls.writers(target.queue))


def streaming_place() -> tuple[str, int]:
    """Return the query and the batch that the current task belongs to."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_ID)
    batch = None if context is None else context.getLocalProperty(BATCH_ID)
    if query is None or batch is None:
        raise SparkError("This task does not know its streaming query. Write the stream by writeStream.format('sqew').")
    return query, int(batch)


def _task_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
