"""The tables of an analysis: Parquet, each in a folder of its own. Large ones are Spark's, small ones need no job."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from sqew.errors import NotFound
from sqew.spark.lake.files import LocalFiles, files_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

OUTPUT = pa.schema([("what", pa.string()), ("part", pa.int32()), ("content", pa.binary())])
"""The output of tasks in Python: bytes, of what, and for which part of the next tasks."""
FILES = "file"
"""The kind of output that names a file that a task has written, with its table's folder."""
_ATTEMPTS = ".attempts"


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
        """Write a table. Reads of the returned one don't compute it again."""
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

    def by_tasks(self, name: str, schema: pa.Schema) -> TaskTable:
        """Return a table for tasks in Python to write. Their output is for `take`."""
        folder = f"{self._files.root}/{_ATTEMPTS}" if isinstance(self._files, LocalFiles) else None
        return TaskTable(name, schema, folder)

    def take(self, table: TaskTable, output: DataFrame, files: Sequence[bytes]) -> DataFrame:
        """Add to a table the ``files`` (`FILES`) that tasks have written, of each the one attempt that Spark took.

        If tasks could not write files, their rows are in ``output``.
        """
        mine = [name for name in map(bytes.decode, files) if name.startswith(f"{table.name}/")]
        if table.folder is None:
            rows = output.where(F.col("what") == table.name).select("content")
            return self.write(table.name, rows.mapInArrow(_rows_in, from_arrow_schema(table.schema)))
        if not mine:
            return self.put(table.name, table.schema.empty_table())
        for name in mine:
            self._files.move(f"{_ATTEMPTS}/{name}", name)
        self._schemas[table.name] = from_arrow_schema(table.schema)
        return self.read(table.name)

    def fetch(self, name: str) -> pa.Table:
        """Return all of a small table, without Spark."""
        parts = [part for part in self._files.names(name) if part.endswith(".parquet")]
        if not parts:
            raise NotFound(f"There is no table {name!r} in {self._files.root}. Analyse the log again.")
        contents = [self._files.read(f"{name}/{part}") for part in parts]
        return pa.concat_tables([pq.read_table(io.BytesIO(content)) for content in contents if content is not None])


class TaskTable(Struct, frozen=True):
    """A table that tasks in Python write, each attempt of a task to a file of its own: so rows need not go to Java.

    Only Java knows how to write to some file systems; there, tasks output the rows.
    """

    name: str
    schema: pa.Schema
    folder: str | None
    """The folder that attempts write to; None if they can't."""

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Open the table for a task's rows. A file that is not reported as `done` is ignored."""
        writing = Writing(self)
        try:
            yield writing
        finally:
            writing.close()


class Writing:
    """The rows that an attempt of a task writes."""

    def __init__(self, table: TaskTable) -> None:
        self._table = table
        self._writer: pq.ParquetWriter | None = None
        context = TaskContext.get()
        attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        self._name = "{}/part-{:05}-{}.parquet".format(table.name, *attempt)

    def add(self, rows: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
        """Write some rows, and yield them as output if they can't be written here."""
        if self._table.folder is None:
            yield report(self._table.name, {0: to_bytes(rows)})
            return
        if self._writer is None:
            path = Path(self._table.folder, self._name)
            path.parent.mkdir(parents=True, exist_ok=True)
            # Texts that are dictionaries here are texts to whoever reads the file.
            self._writer = pq.ParquetWriter(path, rows.schema, store_schema=False)
        self._writer.write(rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def done(self) -> Iterator[pa.RecordBatch]:
        """Yield the name of the file as output, now that it is whole."""
        if self._writer is not None:
            yield report(FILES, {0: self._name.encode()})


def report(what: str, contents: Mapping[int, bytes]) -> pa.RecordBatch:
    """Return contents, by the part that they are for, as `OUTPUT`."""
    columns = [[what] * len(contents), list(contents), list(contents.values())]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, OUTPUT.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OUTPUT)


def to_bytes(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Return rows as bytes, for `from_bytes`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    return bytes(sink.getvalue())


def from_bytes(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


def _rows_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of tables that were output as bytes."""
    for batch in batches:
        for content in batch["content"]:
            yield from _plain(from_bytes(content.as_py())).to_batches()


def _plain(rows: pa.Table) -> pa.Table:
    """Return the rows with strings in place of dictionaries."""
    types = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.schema.names, types, strict=True))))


def literal(path: str) -> str:
    """Escape a path, so that Hadoop does not take it for a pattern.

    >>> print(literal("/runs/a[1]"))
    /runs/a\\[1\\]
    """
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)
