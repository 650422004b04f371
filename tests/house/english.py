"""A lint for docstrings: a function's begins with a verb, a class's and a module's with a noun.

`python3 dev check` runs it over `src`; `python tests/house/english.py FOLDER …` over other folders. What a docstring
should look like, before and after, is in CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


def _words(name: str) -> frozenset[str]:
    """Read a list of words. Its first line says what the list is for."""
    lines = (Path(__file__).parent / "words" / f"{name}.txt").read_text().splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


RIDDLES = _words("riddles")
OF_AMOUNTS = frozenset({"most", "more", "none", "never"})
"""Words that may begin the docstring of a constant: “Most messages of a batch”."""
VERBS = _words("verbs")
NOUNS_TOO = _words("nouns_too")
VERBS_ALONE = VERBS - NOUNS_TOO

# Decorators under which a function reads as an attribute, whose docstring is a noun's.
_ATTRIBUTES = re.compile(r"(^|\.)(cached_)?property$|\.(setter|getter)$")
# A class that names an action, such as the operation Send, may say what it does.
_ACTIONS = re.compile(r"(^|\.)Operation(\[|$)")
_NOUN_FOLLOWS = re.compile(r"\w+ of\b")
_FIRST_WORD = re.compile(r"[\W_]*([^\W_][\w'’-]*)")


class Finding(NamedTuple):
    """A docstring that begins with the wrong kind of word."""

    path: Path
    line: int
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: {self.reason}"


def findings_in(path: Path) -> Iterator[Finding]:
    """Yield the docstrings of a file that begin with the wrong kind of word."""
    tree = ast.parse(path.read_text(), str(path))
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            yield from _attribute_findings(path, body)
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        doc = ast.get_docstring(node)
        reason = None if doc is None else _reason(node, doc)
        if reason is not None:
            line, name = (1, "module") if isinstance(node, ast.Module) else (node.lineno, node.name)
            yield Finding(path, line, name, reason)


def _attribute_findings(path: Path, body: list[ast.stmt]) -> Iterator[Finding]:
    """Yield the docstrings below attributes and constants that begin as riddles."""
    for one, doc in pairwise(body):
        match one, doc:
            case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text))):
                word = (match.group(1) if (match := _FIRST_WORD.match(text)) else "").lower()
                if word in RIDDLES - OF_AMOUNTS:
                    name = ast.unparse(one).partition(" = ")[0].partition(":")[0]
                    yield Finding(path, doc.lineno, name, f"begins with “{word}”: name the thing that it is about")


def _reason(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, doc: str) -> str | None:
    """Return why a docstring begins badly, or None if it begins well."""
    # Code, such as ``a.b`` or an option, names a thing: that is as good as a noun, not as a verb.
    is_code = doc.lstrip()[:1] in ("`", "-", "{", "/")
    word = (match.group(1) if (match := _FIRST_WORD.match(doc)) else "").lower()
    if not is_code and word in RIDDLES:
        return f"begins with “{word}”: name the thing that it is about"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_attribute(node):
        # “Number of messages” is no request to number anything.
        is_noun = word in NOUNS_TOO and _NOUN_FOLLOWS.match(doc)
        if is_code or word not in VERBS or is_noun:
            return f"begins with “{word}”: begin a function's docstring with a verb, such as “Return”"
        return None
    if is_code or _is_action(node):
        return None
    if word in VERBS_ALONE or _third_person(word):
        return f"begins with the verb “{word}”: begin with a noun here"
    return None


def _third_person(word: str) -> bool:
    """Return True for “reads” and “carries”, which say what a class does before the class is named."""
    stems = {word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ies") + "y"} - {word, word + "y"}
    return bool(stems & VERBS_ALONE)


def _is_attribute(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(_ATTRIBUTES.search(ast.unparse(decorator)) for decorator in node.decorator_list)


def _is_action(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return isinstance(node, ast.ClassDef) and any(_ACTIONS.search(ast.unparse(base)) for base in node.bases)


def main(places: list[str]) -> int:
    """Print each finding and their number; return 1 if there are any."""
    files = sorted(
        path for place in map(Path, places) for path in ([place] if place.is_file() else place.rglob("*.py"))
    )
    if not files:
        sys.stdout.write(f"there is no Python in {' '.join(places)}\n")
        return 2
    findings = [finding for path in files for finding in findings_in(path)]
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    sys.stdout.write(f"{len(findings)} docstrings of {len(files)} files begin with the wrong kind of word\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["src"]))
