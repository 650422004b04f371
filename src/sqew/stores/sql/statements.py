"""The SQL of a store: read from ``queries/*.sql``, where every statement has a name and a reason.

A file holds ``-- name: x`` (a statement) and ``-- fragment: x`` (a piece of SQL that others include as ``{x}``),
each followed by comment lines on when it runs, and the SQL. What databases say alike is in this package; a store has
files of its own for what it says differently, and for what only it says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING

_HEADING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


class Statements:
    """Every statement of a store by its name: ``statements.ready``."""

    def __init__(self, package: str, dialect: Callable[[str], str] = str) -> None:
        """``dialect`` turns what is written for all databases into what this one reads."""
        self._fragments: dict[str, str] = {}
        texts: dict[str, str] = {}
        for each in (__package__, package):
            _read(each, texts, self._fragments)
        # Fragments may include others, which include none.
        fragments = {name: text.format_map(self._fragments) for name, text in self._fragments.items()}
        self.texts = {name: dialect(text.format_map(fragments)) for name, text in texts.items()}
        self.__dict__.update(self.texts)

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> str: ...


def _read(package: str, texts: dict[str, str], fragments: dict[str, str]) -> None:
    """Add what the files of a package define to what others have defined before, or put it in its place."""
    seen: set[tuple[str, str]] = set()
    for file in sorted(resources.files(package).joinpath("queries").iterdir(), key=lambda file: file.name):
        _, *parts = _HEADING.split(file.read_text(encoding="utf-8"))
        for kind, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            if (kind, name) in seen:
                raise ValueError(f"{file.name}: {kind} {name} is defined twice")
            seen.add((kind, name))
            (texts if kind == "name" else fragments)[name] = " ".join(_COMMENT.sub("", text).split())


def names(prefix: str, after: str) -> tuple[str, str, str]:
    """Names that begin so and come after one, for {of_names}: at least the first, below the second, not the third.

    The database goes to where the first of them is, however many others there are.
    """
    end = prefix + chr(sys.maxunicode)
    # hq's clients may call a queue nothing at all, and after nothing comes that one, too.
    return max(prefix, after), end, after or end
