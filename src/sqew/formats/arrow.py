"""Messages as an Arrow IPC stream, which Spark, pandas, DuckDB and Polars read by the million a second.

Whole columns are encoded, without an object for each message and without pyarrow, so a server need not have it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, NamedTuple

import msgspec

from sqew.formats.flatbuffers import FlatTable, Number, Structs, encoded
from sqew.model import Columns, Same

CONTENT_TYPE = b"application/vnd.apache.arrow.stream"
END = struct.pack("<Ii", 0xFFFFFFFF, 0)
"""The end of a stream: a reader that does not see it has not got everything."""

_V5 = Number("h", 4)
_SCHEMA, _RECORD_BATCH = Number("B", 1), Number("B", 3)
_NULLABLE = Number("B", 1)
_INT, _UTF8, _TIMESTAMP, _STRUCT, _MAP = (Number("B", number) for number in (2, 5, 10, 13, 17))
_MICROSECONDS = Number("h", 2)

_encode_json = msgspec.json.Encoder().encode


class _Encoded(NamedTuple):
    """An encoded column: the counts of values and nulls, of itself and of its children, and its buffers."""

    nodes: list[int]
    buffers: list[bytes]


class _Kind(NamedTuple):
    """An Arrow type, and the function that encodes a column of it."""

    type_number: Number
    type: FlatTable
    encode: Callable[[Sequence[Any] | Same, int], _Encoded]
    children: tuple[FlatTable, ...] = ()


def _little(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _validity(values: Sequence[Any], nulls: int) -> bytes:
    """Return the validity bitmap: a bit for each value, lowest bit first, 1 if it is not null; empty without nulls."""
    if not nulls:
        return b""
    size = (len(values) + 7) // 8
    if nulls == len(values):
        return bytes(size)
    bits = "".join(["0" if value is None else "1" for value in reversed(values)])
    return int(bits, 2).to_bytes(size, "little")


def _integers(typecode: str) -> Callable[[Sequence[Any] | Same, int], _Encoded]:
    def encode(given: Sequence[Any] | Same, count: int) -> _Encoded:
        if isinstance(given, Same):
            return _same_integer(typecode, given.value, count)
        try:
            return _Encoded([count, 0], [b"", _little(array(typecode, given))])
        except TypeError:
            # Only now: to look for None among numbers takes twice as long as to encode them.
            nulls = given.count(None)
        numbers = array(typecode, [0 if value is None else value for value in given])
        return _Encoded([count, nulls], [_validity(given, nulls), _little(numbers)])

    return encode


def _same_integer(typecode: str, value: int | None, count: int) -> _Encoded:
    numbers = array(typecode, [value or 0]) * count
    nulls = count if value is None else 0
    return _Encoded([count, nulls], [bytes((nulls + 7) // 8), _little(numbers)])


def _offsets(lengths: Iterable[int]) -> bytes:
    return _little(array("i", accumulate(lengths, initial=0)))


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _texts(given: Sequence[Any] | Same, count: int) -> _Encoded:
    """Encode a column of strings, or of bytes that hold UTF-8."""
    if isinstance(given, Same):
        return _same_text(given.value, count)
    try:
        return _Encoded([count, 0], [b"", _offsets(map(len, given)), b"".join(given)])
    except TypeError:
        # They are no bytes, or some are None.
        nulls = given.count(None)
    if nulls == count:
        return _same_text(None, count)
    values = [b"" if value is None else _as_bytes(value) for value in given]
    return _Encoded([count, nulls], [_validity(given, nulls), _offsets(map(len, values)), b"".join(values)])


def _same_text(value: str | bytes | None, count: int) -> _Encoded:
    if value is None:
        return _Encoded([count, count], [bytes((count + 7) // 8), bytes(4 * (count + 1)), b""])
    text = _as_bytes(value)
    return _Encoded([count, 0], [b"", _even_offsets(len(text), count), text * count])


@lru_cache(maxsize=64)
def _even_offsets(length: int, count: int) -> bytes:
    """Return the offsets of strings of equal length. Cached, as nearly all batches have the same number of messages."""
    return _offsets([length] * count)


def _maps(given: Sequence[Any] | Same, count: int) -> _Encoded:
    """Encode a column of headers as maps from name to string. Values that are not strings become JSON."""
    if isinstance(given, Same) and given.value == {}:
        return _Encoded(
            [count, 0] + [0] * 6, [b"", bytes(4 * (count + 1)), b"", b"", bytes(4), b"", b"", bytes(4), b""]
        )
    values: Sequence[dict[str, Any] | None] = [given.value] * count if isinstance(given, Same) else given
    nulls = sum(value is None for value in values)
    inner = list(chain.from_iterable(value.items() for value in values if value))
    names = _texts([name for name, _ in inner], len(inner))
    texts = _texts([text.encode() if isinstance(text, str) else _encode_json(text) for _, text in inner], len(inner))
    offsets = _offsets(len(value) if value else 0 for value in values)
    return _Encoded(
        [count, nulls, len(inner), 0, *names.nodes, *texts.nodes],
        [_validity(values, nulls), offsets, b"", *names.buffers, *texts.buffers],
    )


def _field(
    name: str, type_number: Number, type_: FlatTable, children: tuple[FlatTable, ...], nullable: bool = True
) -> FlatTable:
    return FlatTable((name, _NULLABLE if nullable else None, type_number, type_, None, children))


def _int(bits: int) -> FlatTable:
    return FlatTable((Number("i", bits), Number("B", 1)))


_NO_FIELDS = FlatTable(())
_LONG = _Kind(_INT, _int(64), _integers("q"))
_NUMBER = _Kind(_INT, _int(32), _integers("i"))
_TEXT = _Kind(_UTF8, _NO_FIELDS, _texts)
_TIME = _Kind(_TIMESTAMP, FlatTable((_MICROSECONDS, "UTC")), _integers("q"))
_ENTRY = (_field("key", _UTF8, _NO_FIELDS, (), nullable=False), _field("value", _UTF8, _NO_FIELDS, ()))
_HEADERS = _Kind(_MAP, FlatTable((None,)), _maps, (_field("entries", _STRUCT, _NO_FIELDS, _ENTRY, nullable=False),))

_KINDS = {
    "id": _LONG,
    "queue": _TEXT,
    "lane": _TEXT,
    "priority": _NUMBER,
    "body": _TEXT,
    "format": _TEXT,
    "key": _TEXT,
    "group": _TEXT,
    "headers": _HEADERS,
    "attempts": _NUMBER,
    "state": _TEXT,
    "created_at": _TIME,
    "available_at": _TIME,
    "expires_at": _TIME,
    "outcome": _TEXT,
    "finished_at": _TIME,
    "reason": _TEXT,
}


def _message(header: Number, table: FlatTable, body: bytes = b"") -> bytes:
    metadata = encoded(FlatTable((_V5, header, table, Number("q", len(body)))))
    return struct.pack("<Ii", 0xFFFFFFFF, len(metadata)) + metadata + body


def schema(columns: Sequence[str]) -> bytes:
    """Return the schema message that begins a stream: the names and types of its columns."""
    kinds = [(name, _KINDS[name]) for name in columns]
    fields = tuple(_field(name, kind.type_number, kind.type, kind.children) for name, kind in kinds)
    return _message(_SCHEMA, FlatTable((None, fields)))


def batch(part: Columns, columns: Sequence[str]) -> bytes:
    """Encode messages as a record batch of these columns; empty if there are no messages."""
    if not part.count:
        return b""
    nodes: list[int] = []
    places: list[int] = []
    pieces: list[bytes] = []
    at = 0
    for name in columns:
        column = _KINDS[name].encode(part.values[name], part.count)
        nodes += column.nodes
        for buffer in column.buffers:
            places += (at, len(buffer))
            pieces += (buffer, bytes(-len(buffer) % 8))
            at += len(buffer) + len(pieces[-1])
    head = FlatTable((Number("q", part.count), Structs(len(nodes) // 2, nodes), Structs(len(places) // 2, places)))
    return _message(_RECORD_BATCH, head, b"".join(pieces))
