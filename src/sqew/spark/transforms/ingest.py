"""Lines of files as messages: invalid lines are rejected, with their file, line and the reason.

Files are read by tasks in Python, not by Spark's own readers: those know no line numbers, take the header of the first
CSV file for that of all, and lose what is not UTF-8. PlainBench reads with the same code, so both give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql.functions import broadcast, col
from pyspark.sql.pandas.types import from_arrow_schema

from sqew.errors import Conflict
from sqew.formats.files import LIMITS, Format, Reject, Row, group_in, rows_in
from sqew.rules.limits import Limits
from sqew.spark.body_schema import Fit, fitting
from sqew.spark.files import FilePart, PartReader, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PARTS = "number int, file string, start long, end long, size long"
REJECTS = ("file", "line", "reason", "raw")

_TOGETHER = 5_000
CHECKED = pa.schema(
    [
        ("part", pa.int32()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.string()),
        ("lines", pa.int64()),
        ("good", pa.int64()),
        ("bad", pa.int64()),
        ("digest", pa.string()),
    ]
)
"""A reject, or the tally of a whole part: the one has a reason, the other a digest."""
MESSAGES = pa.schema(
    [("part", pa.int32()), ("line", pa.int64()), ("body", pa.binary()), ("group", pa.string())]
)  # fmt: skip

Batches = Iterable[pa.RecordBatch]
Then = Callable[[Batches], Iterator[pa.RecordBatch]]


class Manner(Struct, frozen=True):
    """The format of files, and how their lines become messages."""

    format: Format = "jsonl"
    delimiter: str = ","
    schema: StructType | None = None
    group_by: str | None = None
    limits: Limits = LIMITS


def parts_frame(spark: SparkSession, parts: Sequence[FilePart]) -> DataFrame:
    """Return the parts, each for a task of its own."""
    rows = [(part.number, part.file, part.start, part.end, part.size) for part in parts]
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, max(len(rows), 1)), PARTS)


def checked(parts: DataFrame, manner: Manner) -> DataFrame:
    """Return the rejects of parts, and for each part its numbers of lines, good and bad: `CHECKED`."""

    def check(batches: Batches) -> Iterator[pa.RecordBatch]:
        for part in _parts_in(batches):
            yield from _checked(part, manner)

    return parts.mapInArrow(check, from_arrow_schema(CHECKED))


def messages(
    parts: DataFrame, manner: Manner, digests: Mapping[int, str], then: Then | None = None, schema: pa.Schema = MESSAGES
) -> DataFrame:
    """Return the good lines of parts: `MESSAGES`. A part that has changed since it was checked is an error.

    ``then`` is applied to them in the same tasks, to give rows of another schema: so they need not travel to Java.
    """
    expected = dict(digests)

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for part in _parts_in(batches):
            yield from _messages(part, manner, expected[part.number])

    return parts.mapInArrow(read if then is None else lambda batches: then(read(batches)), from_arrow_schema(schema))


def tallies(checked: DataFrame) -> DataFrame:
    """Return the tally of each part: one row a part."""
    return checked.where("digest IS NOT NULL").select("part", "file", "lines", "good", "bad", "digest")


def rejects(checked: DataFrame, lines_before: DataFrame) -> DataFrame:
    """Return the rejects in the order of the files. ``lines_before``: how many lines precede each part in its file."""
    found = checked.where("reason IS NOT NULL").join(broadcast(lines_before), "part")
    numbered = found.withColumn("line", col("line") + col("before"))
    return numbered.orderBy("part", "line").select(*REJECTS)


def lines_before(tallies: Sequence[tuple[int, str, int]]) -> list[tuple[int, int]]:
    """Return for each part the number of lines of its file before it, from the part, file and lines of all.

    >>> lines_before([(0, "a", 10), (1, "a", 5), (2, "b", 7), (3, "b", 1)])
    [(0, 0), (1, 10), (2, 0), (3, 7)]
    """
    found, sofar = [], dict[str, int]()
    for part, file, lines in sorted(tallies):
        found.append((part, sofar.get(file, 0)))
        sofar[file] = sofar.get(file, 0) + lines
    return found


def in_order(messages: DataFrame) -> DataFrame:
    """Return the messages with each group in one partition, in the order of the files: for a FIFO queue."""
    return messages.repartition("group").sortWithinPartitions("part", "line")


def _parts_in(batches: Batches) -> Iterator[FilePart]:
    for batch in batches:
        for row in batch.to_pylist():
            yield FilePart(**row)


def _checked(part: FilePart, manner: Manner) -> Iterator[pa.RecordBatch]:
    good = bad = 0
    with opened(part) as reading:
        rows = _rows(part, reading, manner)
        while some := list(islice(rows, _TOGETHER)):
            rejects = [row for row in some if isinstance(row, Reject)]
            good, bad = good + len(some) - len(rejects), bad + len(rejects)
            if rejects:
                yield _batch_of_rejects(part, rejects)
        counts = {"lines": reading.count, "good": good, "bad": bad}
        tally = {"part": part.number, "file": part.file, **counts, "digest": reading.digest}
    yield pa.RecordBatch.from_pylist([tally], CHECKED)


def _batch_of_rejects(part: FilePart, bad: Sequence[Reject]) -> pa.RecordBatch:
    found = [{**msgspec.structs.asdict(reject), "part": part.number} for reject in bad]
    return pa.RecordBatch.from_pylist(found, CHECKED)


def _messages(part: FilePart, manner: Manner, expected: str) -> Iterator[pa.RecordBatch]:
    with opened(part) as reading:
        good = (row for row in _rows(part, reading, manner) if isinstance(row, Row))
        while some := list(islice(good, _TOGETHER)):
            yield _batch_of_messages(part, some, manner.group_by)
        if reading.digest != expected:
            # Nothing of this job is in the queue before all of its tasks are done.
            raise Conflict(f"{part.file} was changed while it was read, so nothing was sent. Run it again.")


def _batch_of_messages(part: FilePart, rows: Sequence[Row], group_by: str | None) -> pa.RecordBatch:
    bodies = [row.body for row in rows]
    groups = [None] * len(rows) if group_by is None else [group_in(body, group_by) for body in bodies]
    columns = [[part.number] * len(rows), [row.line for row in rows], bodies, groups]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, MESSAGES.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)


def _rows(part: FilePart, reading: PartReader, manner: Manner) -> Iterator[Row | Reject]:
    rows = rows_in(reading.lines, part.file, manner.format, manner.delimiter, manner.limits, first=part.start == 0)
    if manner.schema is None:
        return rows
    return map(_fitted(fitting(manner.schema, manner.format)), rows)


def _fitted(fit: Fit) -> Callable[[Row | Reject], Row | Reject]:
    def fitted(row: Row | Reject) -> Row | Reject:
        if isinstance(row, Reject):
            return row
        try:
            return Row(row.file, row.line, fit(row.body))
        except msgspec.ValidationError as error:
            return Reject(row.file, row.line, f"It does not fit the schema: {error}.", row.body.decode())

    return fitted
