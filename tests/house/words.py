"""Names in the source: their definitions, and the words that they are made of."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).parents[2] / "src"
WORDS = Path(__file__).parent / "words" / "old.txt"
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Name(NamedTuple):
    """A name that a file defines: of a function, a class, a parameter, a variable, an attribute or an import."""

    path: str
    line: int
    name: str

    def words(self) -> list[str]:
        """Return the words that the name is made of, in lower case."""
        return [part.lower() for part in _PARTS.findall(self.name)]

    def __str__(self) -> str:
        return f"src/{self.path}:{self.line}: {self.name}"


def old_words() -> dict[str, str]:
    """Return each word that names don't use any more, with the word that replaces it."""
    lines = [line for line in WORDS.read_text().splitlines() if not line.startswith("#")]
    return {old: new.strip() for old, _, new in (line.partition(" ") for line in lines)}


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield every file of the source, by its path."""
    for path in sorted(SRC.rglob("*.py")):
        yield path.relative_to(SRC).as_posix(), ast.parse(path.read_text())


def names() -> Iterator[Name]:
    """Yield every name that the source defines, and the name of each of its modules."""
    for path, tree in trees():
        file = Path(path)
        yield Name(path, 1, file.parent.name if file.stem == "__init__" else file.stem)
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    yield Name(path, node.lineno, name)
                case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                    yield Name(path, node.lineno, name)
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    yield Name(path, node.lineno, name)


def summaries() -> Iterator[tuple[str, int, str]]:
    """Yield the first line of every docstring, with its place."""
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
                doc := ast.get_docstring(node)
            ):
                yield path, getattr(node, "lineno", 1), doc.partition("\n")[0]


def comments() -> Iterator[tuple[str, int, str]]:
    """Yield every comment of the source, in Python and in SQL, with its place. Migrations stay as they were applied."""
    for path in sorted(SRC.rglob("*.py")):
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.COMMENT:
                    yield path.relative_to(SRC).as_posix(), token.start[0], token.string
    for path in sorted(SRC.rglob("*.sql")):
        if "migrations" not in path.parts:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if comment := line.partition("--")[2]:
                    yield path.relative_to(SRC).as_posix(), number, comment
