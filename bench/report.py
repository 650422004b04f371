"""Results as tables for a terminal, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct


class Table(Struct, frozen=True):
    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


class Figure(Struct, frozen=True):
    """A figure to reach, and the verdict."""

    name: str
    wanted: str
    measured: str
    reached: bool

    @property
    def verdict(self) -> str:
        return "PASS" if self.reached else "MISS"


class Section(Struct, frozen=True):
    """The results of one part of the benchmark."""

    name: str
    title: str
    tables: list[Table]
    figures: list[Figure]
    data: dict[str, Any]


def figures_table(sections: Iterable[Section]) -> Table:
    rows = [
        [figure.verdict, figure.name, figure.wanted, figure.measured]
        for section in sections
        for figure in section.figures
    ]
    missed = sum(row[0] == "MISS" for row in rows)
    return Table("Figures to reach", ["", "figure", "wanted", "measured"], rows, f"{len(rows) - missed} of {len(rows)}")


def as_text(machine: dict[str, Any], sections: Sequence[Section]) -> str:
    tables = [*(table for section in sections for table in section.tables), figures_table(sections)]
    return "\n\n".join([describe(machine), *map(_text, tables)]) + "\n"


def as_markdown(machine: dict[str, Any], sections: Sequence[Section]) -> str:
    parts = [describe(machine)]
    for section in sections:
        parts += [f"### {section.title}", *map(_markdown, section.tables)]
    return "\n\n".join([*parts, "### Figures to reach", _markdown(figures_table(sections))]) + "\n"


def as_json(machine: dict[str, Any], sections: Sequence[Section]) -> bytes:
    return msgspec.json.format(msgspec.json.encode({"machine": machine, "sections": sections})) + b"\n"


def describe(machine: dict[str, Any]) -> str:
    """Describe the machine in a paragraph."""
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    return (
        f"{machine['date']}, Sqew {machine['sqew']} ({machine['commit']}), {machine['python']}, "
        f"SQLite {machine['sqlite']} (Python's own: {machine['sqlite_of_python']}), {packages}.\n"
        f"{machine['cores']} cores ({machine['cpu']}), {machine['system']}, {machine['file_system']}, "
        f"fsync of 4 KiB: p50 {machine['fsync_us']['p50']:.0f} µs, p95 {machine['fsync_us']['p95']:.0f} µs; "
        f"load {machine['load_before']:.1f} at the start and {machine.get('load_after', 0):.1f} at the end."
    )


def _text(table: Table) -> str:
    grid = [table.columns, *table.rows]
    widths = [max(len(row[column]) for row in grid) for column in range(len(table.columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in grid]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([table.title, "", lines[0], rule, *lines[1:], *([table.note] if table.note else [])])


def _markdown(table: Table) -> str:
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([f"**{table.title}**", "", *lines, *(["", table.note] if table.note else [])])
