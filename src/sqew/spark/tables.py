"""The tables of an analysis: Parquet, each in a folder of its own. Large ones are Spark's, small ones need no job."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from sqew.errors import NotFound
from sqew.spark.lake.files import files_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Tables:
    """The tables of an analysis, by name."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark, self._files = spark, files_of(spark, folder)
        self._schemas: dict[str, StructType] = {}

    def read(self, name: str) -> DataFrame:
        # Without a schema, Spark runs a job to look for one.
        reader = self.spark.read.schema(self._schemas[name]) if name in self._schemas else self.spark.read
        return reader.parquet(literal(f"{self._files.root}/{name}"))

    def write(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table; what is read from there is worked out no more."""
        self._schemas[name] = rows.schema
        rows.write.parquet(f"{self._files.root}/{name}", mode="overwrite")
        return self.read(name)

    def put(self, name: str, rows: pa.Table) -> DataFrame:
        """Write a small table without Spark."""
        self._schemas[name] = from_arrow_schema(rows.schema)
        content = io.BytesIO()
        pq.write_table(rows, content)
        self._files.create(f"{name}/part-0.parquet", content.getvalue())
        return self.read(name)

    def fetch(self, name: str) -> pa.Table:
        """All of a small table, without Spark."""
        parts = [part for part in self._files.names(name) if part.endswith(".parquet")]
        if not parts:
            raise NotFound(f"There is no table {name!r} in {self._files.root}. Analyse the log again.")
        contents = [self._files.read(f"{name}/{part}") for part in parts]
        return pa.concat_tables([pq.read_table(io.BytesIO(content)) for content in contents if content is not None])


def literal(path: str) -> str:
    """A path that Hadoop takes for what it is, though it may look like a pattern.

    >>> print(literal("/runs/a[1]"))
    /runs/a\\[1\\]
    """
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)
