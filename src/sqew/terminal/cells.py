"""Widths of strings in a terminal's cells, and ways to make a string fit into fewer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_JOINER, _AS_EMOJI, _SOFT_HYPHEN = "\u200d", "\ufe0f", "\xad"
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_HANGUL_VOWELS_AND_TAILS = range(0x1160, 0x1200)
_WORD = re.compile("[^ ]+ *| +")


def width(text: str) -> int:
    """Return the number of cells of a string: two for a wide character, none for one that is drawn on top of another.

    >>> width("café"), width("cafe\\u0301"), width("日本"), width("👍🏽")
    (4, 4, 4, 2)
    """
    return len(text) if text.isascii() else sum(size for _, size in _drawn_together(text))


def pad(text: str, to: int, right: bool = False) -> str:
    """Return a string with spaces after it, or before it if it is aligned to the right."""
    spaces = " " * (to - width(text)) if to else ""
    return spaces + text if right else text + spaces


def cut(text: str, to: int, sign: str = "…") -> str:
    """Cut a string to at most so many cells, with a sign at its end if something is missing.

    >>> cut("a long text", 7), cut("short", 7)
    ('a long…', 'short')
    """
    whole = _split(text, to)[0]
    return text if len(whole) == len(text) else _split(text, to - 1)[0] + sign


def fold(text: str, to: int) -> list[str]:
    """Break a string into lines of at most so many cells: at spaces, and within words that are longer than a line.

    >>> fold("a word and averylongword", 10)
    ['a word and', 'averylongw', 'ord']
    """
    to = max(to, 2)  # a wide character needs as much
    lines, line, room = [], "", to
    for word in _WORD.findall(text):
        bare = word.rstrip(" ")
        spaces, size = len(word) - len(bare), width(bare)
        if size > room and line and (size <= to or room < 1):
            lines.append(line.rstrip(" "))
            line, room = "", to
        while size > room:
            part, bare = _split(bare, room)
            lines.append((line + part).rstrip(" "))
            line, room, size = "", to, width(bare)
        line, room = line + bare + " " * spaces, room - size - spaces
    return [*lines, line.rstrip(" ")] if line.strip(" ") or not lines else lines


def _split(text: str, at: int) -> tuple[str, str]:
    """Return the start of a string that fits into so many cells, and the rest."""
    if text.isascii():
        return text[: max(at, 0)], text[max(at, 0) :]
    used = end = 0
    for together, size in _drawn_together(text):
        if used + size > at:
            break
        used, end = used + size, end + len(together)
    return text[:end], text[end:]


def _drawn_together(text: str) -> Iterator[tuple[str, int]]:
    """Yield the characters of a string, each with the marks that belong to it, and their width in cells."""
    together, size = "", 0
    for char in text:
        joined = _size_joined(together, size, char) if together else None
        if joined is not None:
            together, size = together + char, joined
        else:
            if together:
                yield together, size
            together, size = char, _size(char)
    if together:
        yield together, size


def _size_joined(together: str, size: int, char: str) -> int | None:
    """Return their width with one more character; None if it stands on its own."""
    if char == _AS_EMOJI:
        return 2
    if not _size(char):
        return size
    if ord(char) in _SKIN_TONES and size == 2:
        return size
    if together[-1] == _JOINER and unicodedata.category(char) == "So":
        return max(size, _size(char))
    if ord(char) in _FLAG_LETTERS and len(together) == 1 and ord(together) in _FLAG_LETTERS:
        return 2
    return None


@lru_cache(4096)
def _size(char: str) -> int:
    if ord(char) in _HANGUL_VOWELS_AND_TAILS:
        return 0
    if unicodedata.category(char) in ("Mn", "Me", "Cf") and char != _SOFT_HYPHEN:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
