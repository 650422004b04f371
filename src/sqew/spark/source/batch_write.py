"""Batch writes of a DataFrame to a queue: all of it or nothing, and once per ``jobId``."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from sqew.errors import BadSetting
from sqew.spark.source import exactly_once
from sqew.spark.source.options import Options
from sqew.spark.source.schema import check_writable

_EPOCH = 0
"""The only epoch of a job."""


class QueueWriter(DataSourceArrowWriter):
    """Writer of a DataFrame. With the ``jobId`` of a job that is done, it adds nothing."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        options.check_use("batch write")
        check_append(overwrite)
        check_writable(schema)
        self._target, self._format = options.target, options.format
        self._job = options.job_id or uuid4().hex
        exactly_once.check_open(options.target)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return exactly_once.stage(self._target, self._job, _EPOCH, iterator, self._format)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        # An empty table may have no task that could tell, and its job is done all the same.
        exactly_once.promote(self._target, _EPOCH, messages, [self._job])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        exactly_once.abort(self._target, _EPOCH, [self._job])


def check_append(overwrite: bool) -> None:
    """Raise if messages are to be replaced."""
    if overwrite:
        raise BadSetting("A queue is only added to. Write with mode('append'), and purge it before if that is meant.")
