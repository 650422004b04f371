"""The drawing that opens docs/architecture.md: its rooms are the packages that exist."""

from __future__ import annotations

import re
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


def test_every_room_is_drawn():
    drawn = set(re.findall(r"[a-z]+", DRAWING))

    missing = rooms() - drawn

    assert not missing, f"draw {sorted(missing)} in docs/architecture.md"


def test_no_room_is_drawn_that_is_not_there():
    # A room stands at the head of a column, or is one of those named between dots.
    columns = re.findall(r"(?:^ {16}|^ \d  \w+ +|  )([a-z]+) {2,}[A-Za-z]", DRAWING, re.MULTILINE)
    drawn = {name for name in columns if name not in RUNGS}

    assert drawn
    assert drawn <= rooms()


def test_the_table_has_each_room():
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == rooms()


def test_little_lies_loose_at_the_top():
    loose = {path.stem for path in (ROOT / "src" / "sqew").glob("*.py")} - {"__init__", "__main__"}

    assert len(loose) <= MOST_LOOSE, sorted(loose)
