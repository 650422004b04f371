"""The SQL of a store: read from ``queries/*.sql``, where every statement has a name and a reason.

A file holds ``-- name: x`` (a statement) and ``-- fragment: x`` (a piece of SQL that others include as ``{x}``),
each followed by comment lines on when it runs, and the SQL. Statements that all databases share are in this package;
a store has files of its own for those that it writes differently, and for those that only it has.
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
    """The statements of a store by their names: ``statements.ready``."""

    def __init__(self, package: str, dialect: Callable[[str], str] = str) -> None:
        """Read the statements. ``dialect`` turns what is written for all databases into what this one reads."""
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
    """Add the definitions in the files of a package. They replace earlier ones of the same name."""
    seen: set[tuple[str, str]] = set()
    for file in sorted(resources.files(package).joinpath("queries").iterdir(), key=lambda file: file.name):
        _, *parts = _HEADING.split(file.read_text(encoding="utf-8"))
        for kind, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            if (kind, name) in seen:
                raise ValueError(f"{file.name}: {kind} {name} is defined twice")
            seen.add((kind, name))
            (texts if kind == "name" else fragments)[name] = " ".join(_COMMENT.sub("", text).split())


def names(prefix: str, after: str) -> tuple[str, str, str]:
    """Return bounds for {of_names}, of names with a prefix that come after a name.

    A name is at least the first, below the second, and not the third. The database goes straight to the first of them,
    however many others there are.
    """
    end = prefix + chr(sys.maxunicode)
    # hq's clients may call a queue nothing at all, and after nothing comes that one, too.
    return max(prefix, after), end, after or end
