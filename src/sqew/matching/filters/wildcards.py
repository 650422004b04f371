"""Wildcard patterns, in which ``*`` stands for any number of characters, and their cost."""

from __future__ import annotations

import re

from sqew.errors import BadFilterPolicy
from sqew.matching.filters.nodes import Test
from sqew.matching.filters.values import Key

_TOKEN = re.compile(r"\*\*?|\\[*\\]|\\|[^*\\]+", re.DOTALL)

MOST_WILDCARDS = 3
MOST_POINTS = 100


def read_wildcard(pattern: str) -> Test:
    """Compile a pattern into a test. It looks for each part from left to right, and never goes back."""
    pieces = _pieces(pattern)
    if len(pieces) == 1:
        return Test(lambda key: key == pieces[0], lambda array: pieces[0] in array.scalars)
    if len(pieces) - 1 > MOST_WILDCARDS:
        raise BadFilterPolicy(f"Filter policy is too complex: a pattern can have at most {MOST_WILDCARDS} wildcards")
    first, *middle, last = pieces
    shortest = len(first) + len(last)

    def test(key: Key) -> bool:
        if type(key) is not str or len(key) < shortest or not key.startswith(first) or not key.endswith(last):
            return False
        at, end = len(first), len(key) - len(last)
        for piece in middle:
            at = key.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True

    return Test(test, reads=len(middle))


def _pieces(pattern: str) -> list[str]:
    r"""Return the pieces between the wildcards. ``\*`` is an asterisk and ``\\`` a backslash; positions count bytes
    from the quotation mark on, as AWS counts them."""
    pieces: list[list[str]] = [[]]
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text == "**":
            raise BadFilterPolicy(f"Consecutive wildcard characters at pos {_position(pattern, token.start())}")
        if text == "\\":
            raise BadFilterPolicy(f"Invalid escape character at pos {_position(pattern, token.start())}")
        if text == "*":
            pieces.append([])
        else:
            pieces[-1].append(text[1:] if text[0] == "\\" else text)
    return ["".join(piece) for piece in pieces]


def _position(pattern: str, at: int) -> int:
    return len(pattern[:at].encode()) + 1


def points_of(values: list[object]) -> int:
    """Return the cost of one property's patterns: 0 without wildcards, else the points of each, times the number of
    patterns."""
    patterns = [value for value in values if isinstance(value, dict)]
    if not any(map(_has_wildcard, patterns)):
        return 0
    return sum(map(_points, patterns)) * len(values)


def _has_wildcard(expression: dict[str, object]) -> bool:
    negated = expression.get("anything-but")
    return "wildcard" in expression or (isinstance(negated, dict) and "wildcard" in negated)


def _points(expression: dict[str, object]) -> int:
    if "anything-but" in expression:
        return 1
    pattern = expression.get("wildcard")
    if not isinstance(pattern, str):
        return 0
    wildcards = len(_pieces(pattern)) - 1
    return 3 if wildcards > 1 else wildcards
