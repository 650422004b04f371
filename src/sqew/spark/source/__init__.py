"""``format("sqew")``: queues as tables and streams of Spark."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from sqew.spark.source.options import options_of
from sqew.spark.source.schema import schema_of

_FILTERING_PLANNER = "pyspark.sql.worker.data_source_pushdown_filters"


class SqewDataSource(DataSource):
    """Queues on a server, or in a file: ``spark.read.format("sqew").options(url=…, queue="orders").load()``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        # What Spark gave is not kept: the token would be shown with it.
        self._options = options_of(dict(options))

    def __repr__(self) -> str:
        return f"SqewDataSource(queue={self._options.queue!r})"

    @classmethod
    def name(cls) -> str:
        return "sqew"

    def schema(self) -> StructType:
        return schema_of(self._options.archive)

    def reader(self, schema: StructType) -> DataSourceReader:
        from sqew.spark.source.batch_read import FilteringReader, QueueReader

        return (FilteringReader if _pushes_filters() else QueueReader)(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from sqew.spark.source.batch_write import QueueWriter

        return QueueWriter(self._options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from sqew.spark.source.stream_read import QueueStreamReader

        return QueueStreamReader(self._options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        from sqew.spark.source.stream_write import QueueStreamWriter

        return QueueStreamWriter(self._options, schema, overwrite)


def _pushes_filters() -> bool:
    """Return True if Spark plans this read with filters (spark.sql.python.filterPushdown.enabled). It does so in a
    worker of its own; elsewhere it refuses a reader that could take filters."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _FILTERING_PLANNER in sys.modules or (main is not None and main.name == _FILTERING_PLANNER)
