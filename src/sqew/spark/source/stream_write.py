"""Streaming writes to a queue: each batch once in effect, however often it is retried."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from sqew.spark.source import exactly_once
from sqew.spark.source.batch_write import check_append
from sqew.spark.source.options import Options
from sqew.spark.source.schema import check_writable


class QueueStreamWriter(DataSourceStreamArrowWriter):
    """Writer of the batches of a query, under its id: the one in its checkpoint, which outlives the driver.

    The driver does not know that id when it commits, so tasks report it with what they have staged.
    """

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        options.check_use("streaming write")
        check_append(overwrite)
        check_writable(schema)
        self._target, self._format = options.target, options.format

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query, batch = exactly_once.streaming_place()
        return exactly_once.stage(self._target, query, batch, iterator, self._format)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        exactly_once.promote(self._target, batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        exactly_once.abort(self._target, batchId, exactly_once.writers_of(messages))
