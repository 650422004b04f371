"""Archives and lakes for tests: finished messages as Spark reads them, and the files of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from sqew.spark.lake.commits import Lake
from sqew.spark.source.schema import schema_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def finished(id: int, at: datetime = NOON, **fields: Any) -> dict[str, Any]:
    """Return a finished message."""
    return {
        "id": id,
        "queue": "orders",
        "lane": "normal",
        "priority": 0,
        "body": f'{{"order":{id}}}',
        "format": "json",
        "key": None,
        "group": None,
        "headers": {"trace": str(id)},
        "attempts": 1,
        "created_at": at - timedelta(minutes=1),
        "available_at": at - timedelta(minutes=1),
        "expires_at": None,
        "outcome": "done",
        "finished_at": at,
        "reason": None,
        **fields,
    }


def archive_of(spark: SparkSession, messages: Iterable[dict[str, Any]]) -> DataFrame:
    """Return finished messages as a read of a queue's archive gives them."""
    schema = schema_of(archive=True)
    columns = to_arrow_schema(schema, timezone="UTC")
    rows = [{**message, "headers": list(message["headers"].items())} for message in messages]
    return spark.createDataFrame(pa.Table.from_pylist(rows, columns), schema)


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files that a search by queue and day finds."""
    return sorted(folder.glob("queue=*/day=*/*.parquet"))


def ids_in(files: Iterable[Path]) -> list[int]:
    """Return the ids in Parquet files, read without Spark."""
    return sorted(id for file in files for id in pa.parquet.read_table(file, columns=["id"])["id"].to_pylist())


def ids_of(lake: Lake, queue: str | None = None) -> list[int]:
    """Return the ids in the files that commits name, read without Spark."""
    lake.settle(queue)
    return ids_in(Path(lake.place(file)) for commit in lake.commits(queue) for file in commit.files)
