"""A driver that moves numbers from one queue to another and is killed on the way: run by `test_streams`.

Its arguments are those of `Life`, as JSON. It is killed as `kill -9` does it, with Java and all, at the moment that
``kill_at`` names, and only once for each such moment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from sqew.spark import session
from sqew.spark.source import SqewDataSource
from sqew.spark.source.stream_read import QueueStreamReader
from sqew.spark.source.stream_write import QueueStreamWriter
from tests.spark.quick_java import QUICK_JAVA

LIFE = "SQEW_TEST_LIFE"
"""The environment variable that gives the driver's arguments to its workers."""


def die_at(moment: str) -> None:
    """Kill the driver with all its processes, if this is its moment to die."""
    life = json.loads(os.environ[LIFE])
    if life["kill_at"] != moment:
        return
    for pid in json.loads(Path(life["pids"]).read_text()):
        os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class MortalReader(QueueStreamReader):
    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        found = super().latestOffset(start, limit)
        if found != start:
            die_at("claimed")
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        die_at("planned")
        return super().partitions(start, end)


class MortalWriter(QueueStreamWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        super().commit(messages, batchId)
        die_at("promoted")


class MortalSource(SqewDataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return MortalReader(self._options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        return MortalWriter(self._options, schema, overwrite)


def main() -> None:
    os.environ[LIFE] = sys.argv[1]
    life = json.loads(sys.argv[1])
    spark = session("local[1]", "mortal", **QUICK_JAVA, **{"spark.driver.memory": "1g"})
    java = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    Path(life["pids"]).write_text(json.dumps([os.getpid(), java]))
    spark.dataSource.register(MortalSource)
    table = spark.readStream.format("mortal").options(**life["source"]).load()
    query = (
        table.select("body")
        .writeStream.format("mortal")
        .options(**life["sink"])
        .option("checkpointLocation", life["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
