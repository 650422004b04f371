"""A compiled policy: the part that runs on every publish, for every filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias

HIGHEST_NUMBER = 1_000_000_000
_STEPS = 100_000  # five digits after the decimal point

Key: TypeAlias = str | int | tuple[object]
"""A value in the form it is compared in, each kind of its own type: a text as it is, a number as how many steps of
0.00001 it counts, anything else (true, false, null, a number out of range) in a tuple, where it equals only itself."""

Test: TypeAlias = Callable[[Key], bool]


def key_of(value: object) -> Key:
    """A value as it is compared."""
    if type(value) is str:
        return value
    if (type(value) is float or type(value) is int) and -HIGHEST_NUMBER <= value <= HIGHEST_NUMBER:
        return round(value * _STEPS)
    return (value,)


class Node(Protocol):
    absent: bool
    """Whether a message without this property is accepted."""
    only_absent: bool
    """Whether only a message without it is."""

    def accepts(self, value: object) -> bool: ...


class Leaf:
    """The values that a property may have, and the tests of which it must pass one."""

    __slots__ = ("_exact", "_tests", "absent", "only_absent")

    def __init__(self, exact: Iterable[Key], tests: Iterable[Test], absent: bool) -> None:
        self._exact = frozenset(exact)
        self._tests = tuple(tests)
        self.absent = absent
        self.only_absent = absent and not self._exact and not self._tests

    def accepts(self, value: object) -> bool:
        if type(value) is list:
            return self._accepts_one_of(value)
        if type(value) is dict:
            return self.absent  # an object has properties, and no value of its own
        key = key_of(value)
        if key in self._exact:
            return True
        for test in self._tests:  # noqa: SIM110  # any() would take twice the time
            if test(key):
                return True
        return False

    def _accepts_one_of(self, values: list[object]) -> bool:
        scalars = [value for value in _elements(values) if type(value) is not dict]
        return any(map(self.accepts, scalars)) if scalars else self.absent


class Fields:
    """The properties that an object must have. In an array of objects, one of them must have them all."""

    __slots__ = ("_children", "absent", "only_absent")

    def __init__(self, children: dict[str, Node]) -> None:
        self._children = tuple(children.items())
        self.absent = all(child.absent for child in children.values())
        self.only_absent = all(child.only_absent for child in children.values())

    def accepts(self, value: object) -> bool:
        if type(value) is dict:
            for name, child in self._children:
                if name in value:
                    if not child.accepts(value[name]):
                        return False
                elif not child.absent:
                    return False
            return True
        if type(value) is list:
            return self._accepts_array(value)
        return self.absent

    def _accepts_array(self, values: list[object]) -> bool:
        elements = list(_elements(values))
        if not elements:
            return self.absent
        # What must not be there must not be in any of them.
        return (all if self.only_absent else any)(map(self.accepts, elements))


class Both:
    """A property with values of its own and properties below it, as ``a`` beside ``a.b``: an array can have both."""

    __slots__ = ("_fields", "_leaf", "absent", "only_absent")

    def __init__(self, leaf: Leaf, fields: Fields) -> None:
        self._leaf = leaf
        self._fields = fields
        self.absent = leaf.absent and fields.absent
        self.only_absent = leaf.only_absent and fields.only_absent

    def accepts(self, value: object) -> bool:
        return self._leaf.accepts(value) and self._fields.accepts(value)


def _elements(values: list[object]) -> Iterator[object]:
    """What is in an array and the arrays in it, at any depth."""
    places = [iter(values)]
    while places:
        for value in places[-1]:
            if type(value) is list:
                places.append(iter(value))
                break
            yield value
        else:
            places.pop()


def tree_of(leaves: dict[tuple[str, ...], Leaf]) -> Fields:
    """The properties of an object by the leaves below it, each with the names that lead to it."""
    own: dict[str, Leaf] = {}
    deeper: dict[str, dict[tuple[str, ...], Leaf]] = {}
    for (name, *rest), leaf in leaves.items():
        if rest:
            deeper.setdefault(name, {})[tuple(rest)] = leaf
        else:
            own[name] = leaf
    children: dict[str, Node] = dict(own)
    for name, below in deeper.items():
        fields = tree_of(below)
        children[name] = Both(own[name], fields) if name in own else fields
    return Fields(children)
