"""Compiler of filter policies: from the JSON of a policy to a filter."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from sqew.errors import BadFilterPolicy
from sqew.matching.filters.budget import MOST_LEVELS
from sqew.matching.filters.content import Content
from sqew.matching.filters.expressions import read_values
from sqew.matching.filters.nodes import Fields, Leaf, tree_of
from sqew.matching.filters.wildcards import MOST_POINTS, points_of

Scope = Literal["MessageAttributes", "MessageBody"]

MOST_BYTES = 256 * 1024
MOST_KEYS = 5
MOST_COMBINATIONS = 150

_OR = "$or"
_RESERVED = frozenset(
    (
        "exactly", "equals-ignore-case", "prefix", "suffix", "anything-but", "exists", "wildcard", "numeric", "cidr",
        "=", "<", "<=", ">", ">=", "regex", "not-wildcard", "not-equals-ignore-case", "date-after", "date-on-or-after",
        "date-before", "date-on-or-before", "in-date-range", "ip-address-in-range", "ip-address-not-in-range",
    )
)  # fmt: skip


class _Rule(msgspec.Struct, frozen=True):
    """The values of one property."""

    leaf: Leaf
    weight: int
    """The number of values times the depth of the property: its factor in the number of combinations."""


_Branch: TypeAlias = dict[tuple[str, ...], _Rule]
"""Rules that must all hold. A policy without ``$or`` is one branch."""


class Filter:
    """A compiled policy. It never changes, and any number of threads may use it."""

    __slots__ = ("_branches", "_of_body", "_weight")

    def __init__(self, branches: tuple[Fields, ...], scope: Scope) -> None:
        self._branches = branches
        self._of_body = scope == "MessageBody"
        self._weight = sum(branch.weight for branch in branches)

    def matches(self, content: Content) -> bool:
        """Return True if the subscription wants this message."""
        branches = self._branches
        if not branches:
            return True
        fields = content.fields if self._of_body else content.values
        if not fields:
            return False  # so AWS says of {"exists": false} too, when there is nothing at all
        effort = content.effort
        effort.spend(self._weight)
        for branch in branches:  # noqa: SIM110  # any() would take twice the time
            if branch.accepts(fields, effort):
                return True
        return False


def compile_filter(policy: str, scope: Scope) -> Filter:
    """Compile a policy, or raise `BadFilterPolicy`. The policy ``{}`` lets everything through.

    >>> compile_filter('{"colour": [{"starts-with": "re"}]}', "MessageAttributes")
    Traceback (most recent call last):
      ...
    sqew.errors.BadFilterPolicy: Unrecognized match type starts-with
    """
    fields = _parse(policy)
    if not fields:
        return Filter((), scope)
    reading = _Reading()
    branches = reading.read(fields, (), [{}])
    if scope == "MessageAttributes":
        if reading.nested:
            raise BadFilterPolicy(
                "Filter policy scope MessageAttributes does not support nested filter policy", subject=""
            )
    else:
        branches = [{tuple(".".join(path).split(".")): rule for path, rule in branch.items()} for branch in branches]
    _check_limits(branches, reading.points)
    return Filter(tuple(tree_of({path: rule.leaf for path, rule in branch.items()}) for branch in branches), scope)


def _parse(policy: str) -> dict[str, object]:
    try:
        data = policy.encode()
        if len(data) > MOST_BYTES:
            raise BadFilterPolicy(f"Filter policy has {len(data)} bytes, and {MOST_BYTES} are the most")
        fields = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise BadFilterPolicy(f"failed to parse JSON. {error}") from error
    if not isinstance(fields, dict):
        raise BadFilterPolicy("Filter is not an object")
    return fields


def _check_limits(branches: list[_Branch], points: int) -> None:
    if any(len(path) > MOST_LEVELS for branch in branches for path in branch):
        raise _too_complex()
    if any(len(branch) > MOST_KEYS for branch in branches):
        raise BadFilterPolicy(f"Filter policy can not have more than {MOST_KEYS} keys")
    if sum(map(_combinations, branches)) > MOST_COMBINATIONS:
        raise _too_complex()
    if points > MOST_POINTS:
        raise BadFilterPolicy(
            f"Filter policy is too complex: its wildcards count {points} points, and {MOST_POINTS} are the most"
        )


def _combinations(branch: _Branch) -> int:
    product = 1
    for rule in branch.values():
        product *= rule.weight
    return product


def _too_complex() -> BadFilterPolicy:
    return BadFilterPolicy("Filter policy is too complex")


class _Reading:
    """A walk through a policy, with the points and the nesting that it came across."""

    def __init__(self) -> None:
        self.nested = False
        self.points = 0
        self._level = 0

    def read(
        self, fields: dict[str, object], path: tuple[str, ...], branches: list[_Branch], *, within_or: bool = False
    ) -> list[_Branch]:
        """Return the branches so far with the properties of an object added to each; an ``$or`` makes more of them."""
        if not fields:
            raise BadFilterPolicy("Empty objects are not allowed")
        self._level += 1
        if self._level > MOST_LEVELS:
            raise _too_complex()
        for name, value in fields.items():
            if name == _OR and _is_operator(value):
                branches = self._either(value, path, branches)
            elif within_or and name in _RESERVED:
                raise BadFilterPolicy(f"{name} is Ruler reserved fieldName which cannot be used inside {_OR}.")
            elif isinstance(value, dict):
                self.nested = True
                branches = self.read(value, (*path, name), branches, within_or=within_or)
            elif isinstance(value, list):
                self._values(value, (*path, name), branches)
            else:
                raise BadFilterPolicy(f'"{name}" must be an object or an array')
        self._level -= 1
        return branches

    def _either(self, options: object, path: tuple[str, ...], branches: list[_Branch]) -> list[_Branch]:
        made: list[_Branch] = []
        for option in options:  # type: ignore[attr-defined]  # a list of objects: `_is_operator` said so
            made += self.read(option, path, [dict(branch) for branch in branches], within_or=True)
            if len(made) > MOST_COMBINATIONS:
                raise _too_complex()
        return made

    def _values(self, values: list[object], path: tuple[str, ...], branches: list[_Branch]) -> None:
        rule = _Rule(read_values(values), len(values) * len(path))
        self.points += points_of(values)
        for branch in branches:
            branch[path] = rule


def _is_operator(value: object) -> bool:
    """Return True if ``$or`` is the operator here; otherwise it is a name like any other."""
    if not isinstance(value, list) or len(value) < 2:
        return False
    return all(isinstance(option, dict) and not _RESERVED & option.keys() for option in value)
