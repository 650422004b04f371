"""The drawing that opens docs/architecture.md: its rooms are the packages that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
DRAWING = PAGE.split("```")[1]
KEPT_FOR_PROGRAMS = {"lab"}
"""Packages that hold only names, for programs that were written with them."""
MOST_LOOSE = 12
RUNGS = {"programs", "surfaces", "pure"}


def rooms() -> set[str]:
    """Return the packages of sqew, and those beside it."""
    inside = {path.parent.name for path in (ROOT / "src" / "sqew").glob("*/__init__.py")}
    beside = {path.parent.name for path in (ROOT / "src").glob("*/__init__.py")}
    return (inside | beside) - KEPT_FOR_PROGRAMS - {"sqew", "pyspark_sqew"}


def drawn() -> dict[str, set[str]]:
    """Return the rooms of each rung: those at the heads of its columns, or, where it has none, those between dots."""
    rungs: dict[str, set[str]] = {}
    rung = ""
    for line in DRAWING.splitlines():
        if found := re.match(r" \d  (\w+) +(.*)", line):
            rung, rest = found[1], found[2]
        elif line.startswith(" " * 16):
            rest = line.strip()
        else:
            continue
        heads = re.findall(r"(?:^|  )([a-z]+) {2,}[A-Za-z]", rest)
        between_dots = [part.strip() for part in re.split(r" {3,}", rest)[0].split("·")] if " · " in rest else []
        names = heads or (between_dots if rung in RUNGS else [])
        rungs.setdefault(rung, set()).update(names if rung in RUNGS else {rung})
    return rungs


def test_every_room_is_drawn_once_and_no_other():
    found = [name for names in drawn().values() for name in names]

    assert sorted(found) == sorted(rooms())


def test_the_rungs_are_those_that_the_linter_knows():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [set(layer.split(" : ")) for layer in contracts[0]["layers"]]

    for names, layer in zip(drawn().values(), layers, strict=True):
        assert names - {"plainbench"} <= layer


def test_the_table_has_each_room():
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == rooms()


def test_little_lies_loose_at_the_top():
    loose = {path.stem for path in (ROOT / "src" / "sqew").glob("*.py")} - {"__init__", "__main__"}

    assert len(loose) <= MOST_LOOSE, sorted(loose)
