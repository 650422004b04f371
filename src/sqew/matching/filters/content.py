"""Published messages, as filters see them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from sqew.matching.filters.budget import MOST_LEVELS, PLACE, Effort
from sqew.matching.filters.values import Array

Attribute: TypeAlias = tuple[str, str | bytes]
"""The data type of a message attribute (``String``, ``Number``, ``String.Array``, ``Number.int``), and its value."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_JSON = (msgspec.MsgspecError, ValueError, RecursionError)


class Unreadable:
    """The value of an attribute that does not match its type: it exists, and equals nothing."""


UNREADABLE = Unreadable()


class Content:
    """A message being published. Each part is read when a filter first asks for it, and then kept."""

    __slots__ = ("_attributes", "_body", "_fields", "_values", "effort")

    def __init__(self, attributes: Mapping[str, Attribute], body: bytes | str, effort: Effort | None = None) -> None:
        self._attributes = attributes
        self._body = body
        self.effort = Effort() if effort is None else effort
        self._values: dict[str, object] | None = None
        self._fields: dict[str, object] | None = None

    @property
    def values(self) -> dict[str, object]:
        """The attributes by their names, without the binary ones: filters ignore them."""
        values = self._values
        if values is None:
            values = self._values = _values_of(self._attributes, self.effort)
        return values

    @property
    def fields(self) -> dict[str, object]:
        """The body as a JSON object; empty if it is anything else."""
        fields = self._fields
        if fields is None:
            fields = self._fields = _fields_of(self._body, self.effort)
        return fields


def _values_of(attributes: Mapping[str, Attribute], effort: Effort) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, (data_type, value) in attributes.items():
        kind, _, suffix = data_type.partition(".")
        if isinstance(value, bytes) or kind not in ("String", "Number"):
            continue
        if suffix == "Array":
            values[name] = _array(value, effort)
        else:
            values[name] = value if kind == "String" else _number(value)
    return values


def _array(text: str, effort: Effort) -> object:
    try:
        found = msgspec.json.decode(text)
    except _NOT_JSON:
        return UNREADABLE
    return Array(found, effort) if isinstance(found, list) else UNREADABLE


def _number(text: str) -> object:
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else UNREADABLE


def _fields_of(body: bytes | str, effort: Effort) -> dict[str, object]:
    try:
        fields = msgspec.json.decode(body)
    except _NOT_JSON:
        return {}
    if not isinstance(fields, dict):
        return {}
    _unfold(fields, effort)
    return fields


def _unfold(fields: dict[str, object], effort: Effort) -> None:
    """Turn names with dots into nested objects, ``{"a.b": 1}`` into ``{"a": {"b": 1}}``, and lists into `Array`.

    Without recursion: the sender chooses how deep a body goes.
    """
    places: list[object] = [fields]
    while places:
        place = places.pop()
        if type(place) is dict:
            for name in [name for name in place if "." in name]:
                _move(place, name, effort)
            arrays = [(name, value) for name, value in place.items() if type(value) is list]
            inner = [value for value in place.values() if type(value) is dict or type(value) is list]
            place.update({name: Array(values, effort) for name, values in arrays})
        else:
            assert type(place) is list
            inner = [value for value in place if type(value) is dict or type(value) is list]
        effort.spend(PLACE * len(inner))
        places += inner


def _move(place: dict[str, object], name: str, effort: Effort) -> None:
    """Move the value of a name with dots to where the name leads, into an array if there is a value already."""
    levels = name.count(".")
    if levels >= MOST_LEVELS:
        return  # no filter asks for it
    effort.spend(PLACE * levels)
    value = place.pop(name)
    *parents, last = name.split(".")
    for parent in parents:
        place = _inner(place, parent)
    place[last] = [place[last], value] if last in place else value


def _inner(place: dict[str, object], name: str) -> dict[str, object]:
    there = place.get(name)
    if type(there) is dict:
        return there
    made: dict[str, object] = {}
    if type(there) is list:
        there.append(made)
    else:
        place[name] = [there, made] if name in place else made
    return made
