"""Values as filters compare them: alone, and many of them in an array."""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

from sqew.matching.filters.budget import ADDRESS, LOOKS, PLACE, Effort

HIGHEST_NUMBER = 1_000_000_000
_STEPS = 100_000  # five digits after the decimal point
_NOTHING = object()
_ADDRESS = re.compile(r"(?=[^.:]{0,44}[.:])[0-9a-fA-F:.]{2,45}")

Key: TypeAlias = str | int | tuple[object]
"""A value in the form that it is compared in, each kind of its own type: a string as it is, a number as its count of
steps of 0.00001, anything else (true, false, null, a number out of range) in a tuple, where it equals only itself."""

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def key_of(value: object) -> Key:
    """Return a value in the form that it is compared in."""
    if type(value) is str:
        return value
    if (type(value) is float or type(value) is int) and -HIGHEST_NUMBER <= value <= HIGHEST_NUMBER:
        return round(value * _STEPS)
    return (value,)


def address_of(text: str) -> Address | None:
    """Return the IP address that a string is, or None."""
    try:
        return ipaddress.ip_address(text) if _ADDRESS.fullmatch(text) else None
    except ValueError:
        return None


class ValueColumn(NamedTuple):
    """The values of an array's objects under one name, all in one array."""

    values: Array
    missing: bool
    """True if an object has nothing there."""
    bare: bool
    """True if an object has no scalar there."""


class Array:
    """The values in an array and in the arrays in it, each once, in the order that a test needs.

    Each order is made when it is first needed, and then answers every filter in a few steps, however long the array.
    """

    def __init__(self, values: list[object], effort: Effort) -> None:
        self._values = values
        self._effort = effort
        self._parts: tuple[frozenset[Key], list[dict[str, object]]] | None = None
        self._columns: dict[str, ValueColumn] | None = None

    @property
    def objects(self) -> list[dict[str, object]]:
        return (self._parts or self._apart())[1]

    @property
    def scalars(self) -> frozenset[Key]:
        """The values that are not objects."""
        return (self._parts or self._apart())[0]

    def _apart(self) -> tuple[frozenset[Key], list[dict[str, object]]]:
        keys: list[Key] = []
        objects: list[dict[str, object]] = []
        for value in _elements(self._values):
            if type(value) is dict:
                objects.append(value)
            else:
                keys.append(key_of(value))
        self._parts = frozenset(keys), objects
        return self._parts

    @cached_property
    def mean_length(self) -> int:
        """The mean number of characters of its strings."""
        return sum(map(len, self._texts)) // len(self._texts) if self._texts else 0

    @cached_property
    def _texts(self) -> list[str]:
        return sorted(key for key in self.scalars if type(key) is str)

    @cached_property
    def _reversed(self) -> list[str]:
        return sorted(text[::-1] for text in self._texts)

    @cached_property
    def _lowered(self) -> frozenset[str]:
        return frozenset([text.lower() for text in self._texts])

    @cached_property
    def _numbers(self) -> list[int]:
        return sorted(key for key in self.scalars if type(key) is int)

    @cached_property
    def _addresses(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {4: [], 6: []}
        texts = [text for text in self._texts if _ADDRESS.fullmatch(text)]
        self._effort.spend(ADDRESS * len(texts))
        for address in filter(None, map(address_of, texts)):
            found[address.version].append(int(address))
        return {version: sorted(numbers) for version, numbers in found.items()}

    def has_prefix(self, prefix: str) -> bool:
        return _begins(self._texts, prefix)

    def has_suffix(self, suffix: str) -> bool:
        return _begins(self._reversed, suffix[::-1])

    def has_lowered(self, text: str) -> bool:
        return text in self._lowered

    def has_between(self, bottom: int, top: int) -> bool:
        return _has_between(self._numbers, bottom, top)

    def has_address(self, version: int, first: int, last: int) -> bool:
        return _has_between(self._addresses[version], first, last)

    def has_other_than(self, keys: frozenset[Key]) -> bool:
        """Return True if a value is none of these."""
        return len(self.scalars) > sum(key in self.scalars for key in keys)

    def column(self, name: str) -> ValueColumn:
        if self._columns is None:
            self._columns = {}
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._column(name)
        return column

    def _column(self, name: str) -> ValueColumn:
        found: list[object] = []
        missing = bare = False
        self._effort.spend(len(self.objects) // LOOKS)
        for one in self.objects:
            value = one.get(name, _NOTHING)
            if type(value) is Array:
                self._effort.spend(PLACE)
                found += value._values
                missing = missing or not (value.scalars or value.objects)
                bare = bare or not value.scalars
            else:
                found.append(value)
                missing = missing or value is _NOTHING
                bare = bare or value is _NOTHING or type(value) is dict
        return ValueColumn(Array([value for value in found if value is not _NOTHING], self._effort), missing, bare)


def _begins(texts: list[str], prefix: str) -> bool:
    at = bisect_left(texts, prefix)
    return at < len(texts) and texts[at].startswith(prefix)


def _has_between(numbers: list[int], bottom: int, top: int) -> bool:
    at = bisect_left(numbers, bottom)
    return at < len(numbers) and numbers[at] <= top


def _elements(values: list[object]) -> Iterable[object]:
    """Return the elements of an array and of the arrays in it, at any depth."""
    return _within(values) if any(type(value) is list for value in values) else values


def _within(values: list[object]) -> Iterator[object]:
    places = [iter(values)]
    while places:
        for value in places[-1]:
            if type(value) is list:
                places.append(iter(value))
                break
            yield value
        else:
            places.pop()
