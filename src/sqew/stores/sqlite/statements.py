"""The SQL of this store: read from ``queries/*.sql``, where every statement has a name and a reason.

A file holds ``-- name: x`` (a statement) and ``-- fragment: x`` (a piece of SQL that others include as ``{x}``),
each followed by comment lines on when it runs, and the SQL.
"""

from __future__ import annotations

import re
import sys
from importlib import resources

_HEADING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


def _load() -> dict[str, str]:
    statements: dict[str, str] = {}
    fragments: dict[str, str] = {}
    for file in sorted(resources.files(__package__).joinpath("queries").iterdir(), key=lambda file: file.name):
        _, *parts = _HEADING.split(file.read_text(encoding="utf-8"))
        for kind, name, sql in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            into = statements if kind == "name" else fragments
            if name in into:
                raise ValueError(f"{file.name}: {kind} {name} is defined twice")
            into[name] = " ".join(_COMMENT.sub("", sql).split())
    # Fragments may include others, which include none.
    fragments = {name: sql.format_map(fragments) for name, sql in fragments.items()}
    return {name: sql.format_map(fragments) for name, sql in statements.items()}


STATEMENTS = _load()


def sql(name: str) -> str:
    """The statement of that name."""
    return STATEMENTS[name]


def names(prefix: str, after: str) -> tuple[str, str, str]:
    """Names that begin so and come after one, for {of_names}: at least the first, below the second, not the third.

    SQLite goes to where the first of them is, however many others there are.
    """
    return max(prefix, after), prefix + chr(sys.maxunicode), after
