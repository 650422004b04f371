"""Reads of a lake with Spark: the files that its commits name, and checks that all of them are there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from sqew.errors import LakeUnusable
from sqew.spark.lake.commits import Lake, LakeFile
from sqew.spark.transforms.lake import LAKE_SCHEMA


def read(spark: SparkSession, lake: Lake, queue: str | None = None) -> DataFrame:
    """Return the messages of the lake: those of one queue, or of all."""
    lake.settle(queue)
    return read_files(spark, lake, [file for commit in lake.commits(queue) for file in commit.files])


def read_files(spark: SparkSession, lake: Lake, files: Iterable[LakeFile]) -> DataFrame:
    """Return the messages in some files of the lake. Other files beside them are not read."""
    paths = [as_it_is(lake.place(file)) for file in files]
    if not paths:
        return spark.createDataFrame([], LAKE_SCHEMA)
    try:
        return spark.read.option("basePath", lake.files.root).schema(LAKE_SCHEMA).parquet(*paths)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        missing = re.sub(r"\\(.)", r"\1", (error.getMessageParameters() or {}).get("path", "A file"))
        missing = missing.removeprefix("file:")
        raise LakeUnusable(f"{missing} is missing from the lake. Put it back from a backup.") from error


def check(spark: SparkSession, lake: Lake, files: Sequence[LakeFile]) -> None:
    """Raise unless each of these files can be read, and has as many messages as its commit says."""
    expected = {file.path: file.rows for file in files}
    if not expected:
        return
    try:
        found = read_files(spark, lake, files).groupBy("_metadata.file_path").count().collect()
    except PySparkException as error:
        raise LakeUnusable(
            f"A file of the lake {lake.files.root} can't be read, so nothing was deleted from the queue. Put it back "
            "from a backup of the lake."
        ) from error
    counted = {place_of(row["file_path"]): row["count"] for row in found}
    for path, rows_expected in expected.items():
        if counted.get(path) != rows_expected:
            raise LakeUnusable(
                f"{lake.files.root}/{path} has {counted.get(path, 0)} messages and must have {rows_expected}, so "
                "nothing was deleted from the queue. Put it back from a backup of the lake."
            )


def as_it_is(path: str) -> str:
    """Return a path with its wildcards escaped: Spark takes paths for patterns.

    >>> print(as_it_is("/data/lake[1]"))
    /data/lake\\[1\\]
    """
    return re.sub(r"([*?\[\]{},\\])", r"\\\1", path)


def place_of(url: str) -> str:
    """Return a file's name within the lake or a staging folder, from its URL in Spark."""
    path = unquote(url)
    return path[path.rindex("/queue=") + 1 :]
