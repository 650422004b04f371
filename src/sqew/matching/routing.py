"""Routing keys, the patterns that match them, and a trie that finds all matching patterns at once.

A key is words separated by dots: ``orders.eu.created``. In a pattern ``*`` stands for exactly one word and ``#`` for
any number of them, none included.
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

from sqew.errors import BadPattern, BadRoutingKey, shortened
from sqew.rules.regions import REGION

T = TypeVar("T")

LONGEST_KEY = 256
MOST_WORDS = 64
MOST_MANY = 4
"""The most `#` that a pattern may have: each multiplies the ways in which a key can match."""
ONE, MANY = "*", "#"

_IN_REGION = re.compile(f"{REGION}:")
"""The prefix of topics of SNS in other regions than the usual one."""
_NOT_IN_A_WORD = re.compile(r"[^A-Za-z0-9_-]")
_KEY = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){0,63}")
_EXAMPLE = "Use words of letters, digits, '-' and '_' with dots between, as in 'orders.eu.created'"


def check_routing_key(key: object) -> None:
    """Raise `BadRoutingKey` unless events may be published under this key."""
    if isinstance(key, str) and len(key) <= LONGEST_KEY and _KEY.fullmatch(key):
        return
    if not _mistake(key, wildcards=False):
        return
    mistake = _mistake(key, wildcards=False)
    raise BadRoutingKey(f"{_shown(key)} can't be a routing key: {mistake}. {_EXAMPLE}.")


def check_pattern(pattern: object) -> None:
    """Raise `BadPattern` unless the pattern may be subscribed to."""
    mistake = _mistake(pattern, wildcards=True)
    if mistake:
        raise BadPattern(
            f"{_shown(pattern)} can't be a pattern: {mistake}. {_EXAMPLE}; "
            "a whole word may be '*' (exactly one word) or '#' (any number of words)."
        )


def _mistake(text: object, *, wildcards: bool) -> str:
    """Return the mistake and its position, counted from 1; empty if there is none."""
    if not isinstance(text, str):
        return "it is not a text"
    if not text:
        return "it is empty"
    region = _IN_REGION.match(text)
    first = region.end() if region else 0
    text = text[first:]
    if len(text) > LONGEST_KEY:
        return f"it has {len(text)} characters, and {LONGEST_KEY} are the most"
    words = text.split(".")
    if len(words) > MOST_WORDS:
        return f"it has {len(words)} words, and {MOST_WORDS} are the most"
    position, count, before = 1 + first, 0, ""
    for word in words:
        if not word:
            return f"there is no word at position {position}"
        if wildcards and word == MANY:
            count += 1
            if before == MANY:
                return f"'#' at position {position} follows another, which stands for any number of words already"
            if count > MOST_MANY:
                return f"'#' at position {position} is one too many: {MOST_MANY} are the most"
        before = word
        wrong = None if wildcards and word in (ONE, MANY) else _NOT_IN_A_WORD.search(word)
        if wrong:
            character, at = wrong[0], position + wrong.start()
            if character in (ONE, MANY):
                part = "must be a whole word" if wildcards else "is for patterns"
                return f"'{character}' at position {at} {part}"
            return f"{character!r} at position {at} is not allowed"
        position += len(word) + 1
    return ""


def _shown(text: object) -> str:
    return shortened(repr(text), 80)


class _Node(Generic[T]):
    """The patterns that share the words so far."""

    __slots__ = ("many", "one", "values", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node[T]] | None = None
        self.one: _Node[T] | None = None
        self.many: _Node[T] | None = None
        self.values: list[T] | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.words or self.one or self.many or self.values)


class PatternTrie(Generic[T]):
    """Patterns, each with the values that were added under it.

    A match walks the words of a key once, however many patterns there are that have nothing to do with it.

    >>> trie = PatternTrie[str]()
    >>> for pattern in ("orders.*", "orders.#", "#.created", "payments.*"):
    ...     trie.add(pattern, pattern)
    >>> sorted(trie.match("orders.created"))
    ['#.created', 'orders.#', 'orders.*']
    """

    def __init__(self) -> None:
        self._root = _Node[T]()

    def add(self, pattern: str, value: T) -> None:
        node = self._root
        for word in pattern.split("."):
            node = _step(node, word)
        if node.values is None:
            node.values = []
        node.values.append(value)

    def remove(self, pattern: str, value: T) -> None:
        """Remove a value that was added under a pattern. Raise `ValueError` if it was not."""
        path = [(self._root, "")]
        for word in pattern.split("."):
            child = _child(path[-1][0], word)
            if child is None:
                raise ValueError(pattern)
            path.append((child, word))
        values = path[-1][0].values
        if values is None:
            raise ValueError(pattern)
        values.remove(value)
        # Branches that lead nowhere any more are cut, or patterns that come and go would fill the memory.
        for (parent, _), (node, word) in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            if not node.is_empty:
                break
            _cut(parent, word)

    def match(self, key: str) -> list[T]:
        """Return the values of every pattern that matches, in no particular order."""
        words = key.split(".")
        end = len(words)
        found: list[T] = []
        # From where on a `#` was followed. It is reached on several ways: each word is walked on from once, or
        # `#.a.#.a.#` would take a time that grows with every `#` as a power of the words.
        followed: dict[int, int] = {}
        places = [(self._root, 0)]
        while places:
            node, at = places.pop()
            many = node.many
            if many is not None:
                known = followed.get(id(many), end + 1)
                if at < known:
                    followed[id(many)] = at
                    places += [(many, later) for later in range(at, known)]
            if at == end:
                if node.values:
                    found += node.values
                continue
            if node.one is not None:
                places.append((node.one, at + 1))
            if node.words is not None:
                child = node.words.get(words[at])
                if child is not None:
                    places.append((child, at + 1))
        return found


def _child(node: _Node[T], word: str) -> _Node[T] | None:
    if word == ONE:
        return node.one
    if word == MANY:
        return node.many
    return node.words.get(word) if node.words else None


def _step(node: _Node[T], word: str) -> _Node[T]:
    """Return the node for a word; make it if there is none."""
    child = _child(node, word)
    if child is None:
        child = _Node()
        if word == ONE:
            node.one = child
        elif word == MANY:
            node.many = child
        elif node.words is None:
            node.words = {word: child}
        else:
            node.words[word] = child
    return child


def _cut(node: _Node[T], word: str) -> None:
    if word == ONE:
        node.one = None
    elif word == MANY:
        node.many = None
    elif node.words is not None:
        del node.words[word]
        node.words = node.words or None
