"""Tables that tasks in Python write: every row once, whatever fails, and wherever they lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sqew.spark.tables import FILES, OUTPUT, Tables, TaskTable

NUMBERS = pa.schema([("id", pa.int64()), ("name", pa.string())])


def written(tables: Tables, table: TaskTable, count: int, fail_first: bool = False) -> list[dict[str, object]]:
    """Return a table of numbers that two tasks have written."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        with table.writing() as writing:
            for batch in batches:
                # A task may have texts as a dictionary of few.
                names = pa.DictionaryArray.from_arrays(pa.array([0] * batch.num_rows, pa.int32()), ["some"])
                yield from writing.add(pa.RecordBatch.from_arrays([batch["id"], names], ["id", "name"]))
            if fail_first and context.attemptNumber() == 0:
                raise RuntimeError("on purpose")
        yield from writing.done()

    told = tables.spark.range(0, count, 1, 2).mapInArrow(write, from_arrow_schema(OUTPUT)).cache()
    files = [bytes(row["content"]) for row in told.where(f"what = '{FILES}'").collect()]
    tables.take(table, told, files)
    told.unpersist()
    rows: list[dict[str, object]] = tables.fetch(table.name).sort_by("id").to_pylist()
    return rows


def test_a_task_that_is_tried_again_writes_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path / "tables"))

    rows = written(tables, tables.by_tasks("numbers", NUMBERS), 2_500, fail_first=True)

    assert rows == [{"id": number, "name": "some"} for number in range(2_500)]
    assert tables.read("numbers").count() == 2_500


def test_where_only_java_can_write_spark_writes_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    # A file system of Hadoop's, whose files lie in a folder here.
    conf = spark._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.far.link./mounted", tmp_path.as_uri())
    tables = Tables(spark, "viewfs://far/mounted/tables")

    rows = written(tables, tables.by_tasks("numbers", NUMBERS), 2_500)

    assert rows == [{"id": number, "name": "some"} for number in range(2_500)]
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {"numbers"}


def test_a_table_that_no_task_has_rows_for_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, str(tmp_path / "tables"))

    assert written(tables, tables.by_tasks("numbers", NUMBERS), 0) == []
    assert tables.read("numbers").columns == NUMBERS.names
