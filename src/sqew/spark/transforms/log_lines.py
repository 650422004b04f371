"""The lines of event logs, read by tasks in Python: Arrow reads JSON with a fraction of the work of Spark's own reader.

It takes many lines at once, and fails at the first that is damaged. Then they are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Annotated, Any, TypedDict, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta
from pyarrow import json

from sqew.spark.files import FilePart, opened

SPLIT_BYTES = 32 << 20
"""The bytes of a file that one task reads."""
BROKEN_IN = "broken_in"
FIGURES = ("ready", "leased", "delayed", "blocked", "dead", "wal_bytes", "lag_us", "dropped")
_NUMBERS = ("at", "n", "to", "due", "took", "t", "id", "attempt", "attempts")
_TEXTS = ("event", "topic", "queue", "lane", "worker", "what", "where", "stream")

_LINE = pa.schema(
    [
        *((name, pa.int64()) for name in _NUMBERS),
        *((name, pa.string()) for name in _TEXTS),
        ("unknown", pa.bool_()),
        ("figures", pa.struct([(name, pa.float64()) for name in FIGURES])),
    ]
)
LINES = _LINE.append(pa.field(BROKEN_IN, pa.string()))
"""The fields that are read of a line; others are skipped. ``broken_in`` is the file of a line that is no event."""
_BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 16 << 20
_MOST_AT_ONCE = 1_000_000
"""The number of messages that may be sent in one call: a damaged line must not have Spark count for ever."""
_END = 1 << 60

_Integer = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None
_Figures = TypedDict("_Figures", dict.fromkeys(FIGURES, float | None), total=False)  # type: ignore[misc]
_Line = TypedDict(  # type: ignore[misc]
    "_Line",
    dict.fromkeys(_NUMBERS, _Integer)
    | dict.fromkeys(_TEXTS, str | None)
    | {"unknown": bool | None, "figures": _Figures | None},
    total=False,
)
_decode = msgspec.json.Decoder(_Line).decode


def read_part(part: FilePart) -> Iterator[pa.RecordBatch]:
    """Yield the lines that begin in a part. Lines of a block that are no events come after the others."""
    with opened(part) as reading:
        for block in _blocks(cast("IO[bytes]", reading.lines)):
            found, broken = _parsed(block)
            yield from _with_file(found, part.file).to_batches()
            if broken:
                yield from _nothing_but(part.file, broken).to_batches()


def _blocks(lines: IO[bytes]) -> Iterator[bytes]:
    """Yield whole lines, many at a time."""
    while block := lines.read(_BLOCK_BYTES):
        yield block if block.endswith(b"\n") else block + lines.readline(_LONGEST_LINE)


def _parsed(block: bytes) -> tuple[pa.Table, int]:
    """Return lines as rows, and the number of lines that can't be decoded."""
    try:
        block.decode()  # Arrow does not look whether texts are UTF-8
        return _all_at_once(block), 0
    except (pa.ArrowException, UnicodeDecodeError):
        return _one_by_one(block.splitlines())


def _all_at_once(block: bytes) -> pa.Table:
    # A column that no line has would take Arrow as long as one that all have.
    occurring = pa.schema([field for field in _LINE if f'"{field.name}"'.encode() in block])
    found = json.read_json(
        pa.BufferReader(block),
        json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        json.ParseOptions(explicit_schema=occurring, unexpected_field_behavior="ignore"),
    ).combine_chunks()
    nothing = {field.name: pa.nulls(found.num_rows, field.type) for field in _LINE if field not in occurring}
    return pa.table([nothing[name] if name in nothing else found[name] for name in _LINE.names], schema=_LINE)


def _one_by_one(some: list[bytes]) -> tuple[pa.Table, int]:
    rows: list[Any] = []
    broken = 0
    for line in some:
        try:
            rows += [_decode(line)] if line.strip() else []
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            broken += 1
    return pa.Table.from_pylist(rows, _LINE), broken


def _with_file(found: pa.Table, file: str) -> pa.Table:
    broken_in = pc.if_else(_are_events(found), pa.scalar(None, pa.string()), file)
    return found.append_column(BROKEN_IN, broken_in)


def _nothing_but(file: str, count: int) -> pa.Table:
    columns = {field.name: pa.nulls(count, field.type) for field in _LINE}
    return pa.table({**columns, BROKEN_IN: pa.repeat(file, count)})


def _are_events(found: pa.Table) -> Any:
    """Return a mask of the rows that have an event and a time, and numbers that can be computed with."""
    at, n = pc.coalesce(found["at"], found["t"]), pc.coalesce(found["n"], found["id"], 0)
    last = pc.coalesce(found["to"], n)
    numbers = (at, n, last, *(pc.fill_null(found[name], 0) for name in ("due", "took")))
    tests = [pc.is_valid(found["event"]), *(pc.less(pc.abs(number), _END) for number in numbers)]
    tests.append(pc.less(pc.subtract(last, n), _MOST_AT_ONCE))
    tests += [pc.less(pc.abs(pc.fill_null(found[name], 0)), 1 << 31) for name in ("attempt", "attempts")]
    are = tests[0]
    for test in tests[1:]:
        are = pc.and_(are, test)
    return pc.fill_null(are, False)
