"""Fields that stand twice in a body, which is refused: another reader might take the other of the two values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import Raw, Struct, structs

from sqew.errors import BadBody

_LARGE = 65_536
"""Largest body that is parsed to say which field it has twice."""

_object = msgspec.json.Decoder(dict[str, Raw]).decode
_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def required_name(body: Any) -> bytes:
    """Return the first field that a body of this type (or each of an array of them) must have, as JSON; empty: none."""
    for kind in get_args(body) or (body,):
        if isinstance(kind, type) and issubclass(kind, Struct):
            return next((b'"%b"' % field.encode_name.encode() for field in structs.fields(kind) if field.required), b"")
    return b""


def check_repeats(body: bytes, data: Any, name: bytes) -> None:
    """Raise `BadBody` if the required field of that name stands twice in an object.

    Counting it takes 0.4 µs in 370 bytes; only where there are too many of them, all fields are looked at.
    """
    if body.count(name) > (len(data) if type(data) is list else 1):
        _look_closely(body)


def stands_once(name: bytes, bodies: Iterable[bytes]) -> bool:
    """Return True if the required field of that name certainly stands once in each of the bodies.

    They are not counted together: an escaped name, which is not counted, would make up for one that stands twice.
    """
    return {body.count(name) for body in bodies} == {1}


class _Pairs(list[tuple[str, Any]]):
    """An object with its fields as they stand."""


def _look_closely(body: bytes) -> None:
    """Compare the length of the body with that of its fields, each taken once.

    Values are never parsed, as they are the sender's own affair: to make Python's objects of 16 MiB took 0.6 s, in
    which all others waited, and this takes 0.1 s.
    """
    written = msgspec.json.format(body, indent=-1)
    is_array = written.startswith(b"[")
    items = _objects(written) if is_array else [_object(written)]
    length = sum(map(_length, items)) + (max(len(items), 1) + 1 if is_array else 0)
    if length != len(written):
        raise BadBody(f"The body says {_repeated(written)} twice. Say it once.")


def _length(item: dict[str, Raw]) -> int:
    """Return the length of an object without blanks: a name has two quotes and a colon; a comma or brace follows."""
    return 1 + sum([len(name.encode()) + len(value) + 4 for name, value in item.items()]) + (not item)


def _repeated(body: bytes) -> str:
    """Return the name that stands twice in an object, if it is cheap to find."""
    if len(body) <= _LARGE:
        # Numbers are left alone: Python refuses to read those of thousands of digits.
        read = json.loads(body, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
        for item in (read,) if isinstance(read, _Pairs) else read:
            name, count = Counter(name for name, _ in item).most_common(1)[0]
            if count > 1:
                return f"'{name}'"
    return "a field"
