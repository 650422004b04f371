"""FlatBuffers, as far as Arrow's messages need them: tables of numbers, strings, tables, and lists of these.

A table is preceded by its vtable, which holds the offset of each field. Whatever a field refers to comes after it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct


class Number(Struct, frozen=True):
    """A number in a field; ``format`` is a format of `struct`."""

    format: str
    value: int


class Structs(Struct, frozen=True):
    """A list of structs of 8-byte numbers, one after the other."""

    count: int
    numbers: Sequence[int]


class FlatTable(Struct, frozen=True):
    """A table: its fields by number, None for one that is left out."""

    fields: tuple[Field | None, ...]


Field = Number | Structs | FlatTable | str | tuple[FlatTable, ...]


def encoded(root: FlatTable) -> bytes:
    """Encode a table as a message of its own, padded to whole 8 bytes."""
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _place_table(out, root))
    _pad(out, 8, 0)
    return bytes(out)


def _pad(out: bytearray, size: int, rest: int) -> None:
    """Pad with zeros until the length divided by ``size`` leaves ``rest``."""
    out += bytes((rest - len(out)) % size)


def _place_table(out: bytearray, table: FlatTable) -> int:
    """Write a table and whatever it refers to; return its offset."""
    fields = table.fields
    # The widest first, after the 4 bytes that lead to the vtable: so each stands where its width wants it.
    present = sorted(
        ((place, field) for place, field in enumerate(fields) if field is not None), key=lambda one: -_width(one[1])
    )
    offsets, end = [0] * len(fields), 4
    for place, field in present:
        offsets[place] = end
        end += _width(field)
    _pad(out, 2, 0)
    vtable = len(out)
    out += struct.pack(f"<HH{len(fields)}H", 4 + 2 * len(fields), end, *offsets)
    _pad(out, 8, 4)
    begin = len(out)
    out += struct.pack("<i", begin - vtable) + bytes(end - 4)
    for place, field in present:
        at = begin + offsets[place]
        if isinstance(field, Number):
            struct.pack_into(f"<{field.format}", out, at, field.value)
        else:
            struct.pack_into("<I", out, at, _place(out, field) - at)
    return begin


def _width(field: Field) -> int:
    return struct.calcsize(f"<{field.format}") if isinstance(field, Number) else 4


def _place(out: bytearray, field: Structs | FlatTable | str | tuple[FlatTable, ...]) -> int:
    if isinstance(field, FlatTable):
        return _place_table(out, field)
    # The number of entries stands before them: 4 bytes, so that what is 8 wide begins where it should.
    _pad(out, 8, 4)
    begin = len(out)
    if isinstance(field, str):
        text = field.encode()
        out += struct.pack("<I", len(text)) + text + b"\0"
    elif isinstance(field, Structs):
        out += struct.pack(f"<I{len(field.numbers)}q", field.count, *field.numbers)
    else:
        out += struct.pack("<I", len(field)) + bytes(4 * len(field))
        for number, table in enumerate(field):
            at = begin + 4 + 4 * number
            struct.pack_into("<I", out, at, _place_table(out, table) - at)
    return begin
