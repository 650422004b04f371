"""Answers: one JSON document for machines, tables for people on a terminal, aligned text in a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# Bodies come from anywhere: a terminal must not be made to obey what stands in them.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))


@dataclass(frozen=True)
class Column:
    """A column of a table. ``optional`` ones are left out where every cell is empty."""

    title: str
    right: bool = False
    optional: bool = False
    cut: bool = False
    """On a terminal, one line and no more, however long the text is."""


@dataclass(frozen=True)
class Table:
    """Rows of cells, or the sentence that says that there are none."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    empty: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and values, one pair to a line."""

    pairs: Sequence[tuple[str, object]]


Part = Table | Facts | str


def write(parts: Sequence[Part], plain: bool) -> None:
    """Show an answer to people, on stdout. ``plain``: without colours and other escape sequences."""
    if sys.stdout.isatty():
        _draw(parts, plain)
    else:
        _print_plain(parts)


def _draw(parts: Sequence[Part], plain: bool) -> None:
    console = console_on(sys.stdout, plain)
    for number, part in enumerate(parts):
        if isinstance(part, Table) and not part.rows:
            click.echo(part.empty, err=True)
            continue
        if number and not isinstance(part, str):
            console.print()
        console.print(_drawn(part))


def console_on(file: Any, plain: bool) -> Console:
    """A rich console that draws on a file. Rich is loaded here and nowhere else."""
    from rich.console import Console

    return Console(file=file, highlight=False, color_system=None if plain else "auto", soft_wrap=False)


def write_json(document: Any) -> None:
    """A document as one line; on a terminal as many, indented."""
    import msgspec

    encoded = msgspec.json.encode(document)
    if sys.stdout.isatty():
        encoded = msgspec.json.format(encoded, indent=2)
    click.echo(encoded)


def shown(value: object) -> str:
    """A value as a cell: nothing for None, yes or no, control characters made visible."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.2g}"
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), str(value))


def moment(at_ms: int | None, now_ms: int) -> str:
    """A time, and how far away it is: ``2026-01-31T12:00:00Z (3 s ago)``."""
    if at_ms is None:
        return ""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%SZ} ({relative(at_ms - now_ms)})"


def relative(ms: int) -> str:
    """``in 29 s``, ``2 h ago``, ``now``."""
    if abs(ms) < 1_000:
        return "now"
    return f"in {span(ms)}" if ms > 0 else f"{span(-ms)} ago"


def span(ms: float) -> str:
    """A length of time in the largest unit that fits: ``90000`` is ``1 min``."""
    unit, size = next(((unit, size) for unit, size in _UNITS if ms >= size), ("ms", 1))
    return f"{round(ms / size)} {unit}"


def byte_count(count: float) -> str:
    """``4.0 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def plural(count: int, noun: str) -> str:
    """``1 message``, ``2 messages``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _used(table: Table) -> tuple[list[Column], list[list[str]]]:
    """The columns that have something to say, and their cells."""
    cells = [[shown(cell) for cell in row] for row in table.rows]
    kept = [
        index for index, column in enumerate(table.columns) if not column.optional or any(row[index] for row in cells)
    ]
    return [table.columns[index] for index in kept], [[row[index] for index in kept] for row in cells]


def _print_plain(parts: Sequence[Part]) -> None:
    for number, part in enumerate(parts):
        if number and (isinstance(part, Facts) or (isinstance(part, Table) and part.rows)):
            click.echo()
        match part:
            case str():
                click.echo(shown(part))
            case Facts():
                _print_facts(part)
            case Table() if part.rows:
                _print_table(part)
            case Table():
                click.echo(part.empty, err=True)


def _print_facts(facts: Facts) -> None:
    width = max(len(name) for name, _ in facts.pairs)
    click.echo("\n".join(f"{name:{width}}  {shown(value)}".rstrip() for name, value in facts.pairs))


def _print_table(table: Table) -> None:
    columns, rows = _used(table)
    lines = [[column.title.upper() for column in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        cells = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        click.echo("  ".join(cells).rstrip())


def _drawn(part: Part) -> RenderableType:
    from rich.text import Text

    match part:
        case str():
            return Text(shown(part))
        case Facts():
            return _drawn_facts(part)
        case Table():
            return _drawn_table(part)


def _drawn_facts(facts: Facts) -> RenderableType:
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.pairs:
        grid.add_row(name, Text(shown(value)))
    return grid


def _drawn_table(table: Table) -> RenderableType:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    columns, rows = _used(table)
    drawn = RichTable(
        box=box.SIMPLE_HEAD, header_style="bold cyan", pad_edge=False, show_edge=False, padding=(0, 1, 0, 0)
    )
    for column in columns:
        # Only what may be cut gives way where the terminal is narrow.
        drawn.add_column(column.title, justify="right" if column.right else "left", no_wrap=not column.cut)
    for row in rows:
        drawn.add_row(
            *(
                Text(cell, no_wrap=True, overflow="ellipsis" if column.cut else "fold")
                for cell, column in zip(row, columns, strict=True)
            )
        )
    return drawn
