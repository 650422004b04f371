"""Compiled policies: the part that runs on every publish, for every filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from sqew.matching.filters.budget import LONG, Effort
from sqew.matching.filters.values import Array, Key, key_of


class Test(NamedTuple):
    """A test that a value passes or fails."""

    passes: Callable[[Key], bool]
    one_passes: Callable[[Array], bool] | None = None
    """A function that finds in a few steps if a value of an array passes; None: each value has to be tested."""
    reads: int = 0
    """The number of pieces that it looks for in a string, each from one end to the other."""


class Node(Protocol):
    absent: bool
    """True if a message without this property is accepted."""
    only_absent: bool
    """True if only a message without this property is accepted."""
    weight: int
    """The most comparisons that it takes, if there are no arrays."""

    def accepts(self, value: object, effort: Effort) -> bool: ...


class Leaf:
    """The values that a property may have, and the tests of which it must pass one."""

    __slots__ = ("_exact", "_in_arrays", "_reads", "_slow", "_tests", "absent", "only_absent", "weight")

    def __init__(self, exact: Iterable[Key], tests: Iterable[Test], absent: bool) -> None:
        tests = tuple(tests)
        self._exact = frozenset(exact)
        self._tests = tuple([test.passes for test in tests])
        self._in_arrays = tuple([test.one_passes for test in tests if test.one_passes is not None])
        self._slow = tuple([test for test in tests if test.one_passes is None])
        self._reads = sum(test.reads for test in tests)
        self.absent = absent
        self.only_absent = absent and not self._exact and not self._tests
        self.weight = 1 + len(tests)

    def accepts(self, value: object, effort: Effort) -> bool:
        if type(value) is Array:
            return self._accepts_one_of(value, effort)
        if type(value) is dict:
            return self.absent  # an object has properties, and no value of its own
        key = key_of(value)
        if key in self._exact:
            return True
        if self._reads and type(key) is str:
            effort.spend(len(key) // LONG * self._reads)
        for test in self._tests:  # noqa: SIM110  # any() would take twice the time
            if test(key):
                return True
        return False

    def _accepts_one_of(self, array: Array, effort: Effort) -> bool:
        scalars = array.scalars
        if not scalars:
            return self.absent
        if not self._exact.isdisjoint(scalars) or any(test(array) for test in self._in_arrays):
            return True
        return any(_asked_each(test, array, effort) for test in self._slow)


def _asked_each(test: Test, array: Array, effort: Effort) -> bool:
    passes, asked = False, 0
    for asked, key in enumerate(array.scalars, 1):  # noqa: B007
        if test.passes(key):
            passes = True
            break
    effort.spend(asked * (1 + (1 + array.mean_length // LONG) * test.reads))
    return passes


class Fields:
    """The properties that an object must have. In an array of objects, one of them must have them all."""

    __slots__ = ("_children", "_is_simple", "absent", "only_absent", "weight")

    def __init__(self, children: dict[str, Node]) -> None:
        self._children = tuple(children.items())
        self._is_simple = len(children) == 1 and not any(type(child) is Both for child in children.values())
        self.absent = all(child.absent for child in children.values())
        self.only_absent = all(child.only_absent for child in children.values())
        self.weight = sum(child.weight for child in children.values())

    def accepts(self, value: object, effort: Effort) -> bool:
        if type(value) is dict:
            for name, child in self._children:
                if name in value:
                    if not child.accepts(value[name], effort):
                        return False
                elif not child.absent:
                    return False
            return True
        if type(value) is Array:
            return self._accepts_array(value, effort)
        return self.absent

    def _accepts_array(self, array: Array, effort: Effort) -> bool:
        objects = array.objects
        if not objects or (array.scalars and self.absent and not self.only_absent):
            return self.absent
        if self._is_simple:
            return self._accepts_column(array, effort)
        # What must not be there must not be in any of them.
        verdict, asked = self.only_absent, 0
        for asked, one in enumerate(objects, 1):  # noqa: B007
            if self.accepts(one, effort) is not verdict:
                verdict = not verdict
                break
        effort.spend(asked * (1 + self.weight))
        return verdict

    def _accepts_column(self, array: Array, effort: Effort) -> bool:
        """Return True if an array is accepted by a single property: then all its objects are looked at together."""
        [(name, child)] = self._children
        column = array.column(name)
        if child.accepts(column.values, effort):
            return True
        is_lacking = column.bare if type(child) is Leaf else column.missing
        return is_lacking and child.absent and not self.only_absent


class Both:
    """A property with values of its own and properties below it, as ``a`` beside ``a.b``: an array can have both."""

    __slots__ = ("_fields", "_leaf", "absent", "only_absent", "weight")

    def __init__(self, leaf: Leaf, fields: Fields) -> None:
        self._leaf = leaf
        self._fields = fields
        self.absent = leaf.absent and fields.absent
        self.only_absent = leaf.only_absent and fields.only_absent
        self.weight = leaf.weight + fields.weight

    def accepts(self, value: object, effort: Effort) -> bool:
        return self._leaf.accepts(value, effort) and self._fields.accepts(value, effort)


def tree_of(leaves: dict[tuple[str, ...], Leaf]) -> Fields:
    """Build the tree of an object's properties from the leaves below it, each with the names that lead to it."""
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
