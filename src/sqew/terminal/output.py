"""Results: one JSON document for machines, tables for people on a terminal, aligned text in a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from sqew.terminal.cells import fold, pad, width
from sqew.terminal.layout import in_columns, lines_of_facts, lines_of_table
from sqew.terminal.screen import Screen, screen_on

# Bodies come from anywhere: a terminal must not be made to obey what stands in them.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))


@dataclass(frozen=True)
class Column:
    """A column of a table. ``optional`` ones are left out if every cell is empty."""

    title: str
    right: bool = False
    optional: bool = False
    cut: bool = False
    """On a terminal, one line and no more, however long the string is."""
    least: int = 8
    """A column that may be cut keeps so many cells."""


@dataclass(frozen=True)
class Table:
    """Rows of cells, or a sentence to show if there are none."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    empty: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and values, one pair to a line."""

    pairs: Sequence[tuple[str, object]]


Part = Table | Facts | str


def write(parts: Sequence[Part], plain: bool) -> None:
    """Show a result to people, on stdout. ``plain``: without colours and other escape sequences."""
    if sys.stdout.isatty():
        _draw(parts, plain)
    else:
        _print_plain(parts)


def _draw(parts: Sequence[Part], plain: bool) -> None:
    screen = screen_on(sys.stdout, plain)
    for number, part in enumerate(parts):
        if isinstance(part, Table) and not part.rows:
            click.echo(part.empty, err=True)
            continue
        if number and not isinstance(part, str):
            click.echo()
        click.echo("\n".join(_lines(part, screen)))


def _lines(part: Part, screen: Screen) -> Iterable[str]:
    match part:
        case str():
            return fold(shown(part), screen.width)
        case Facts():
            return lines_of_facts([(name, shown(value)) for name, value in part.pairs], screen)
        case Table():
            return lines_of_table(*_used(part), screen)


def write_json(document: Any) -> None:
    """Print a document as one line; on a terminal as many, indented."""
    import msgspec

    encoded = msgspec.json.encode(document)
    if sys.stdout.isatty():
        encoded = msgspec.json.format(encoded, indent=2)
    click.echo(encoded)


def shown(value: object) -> str:
    """Return a value as a cell: nothing for None, yes or no, control characters made visible."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.2g}"
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), str(value))


def moment(at_ms: int | None, now_ms: int) -> str:
    """Return a time, and how far away it is: ``2026-01-31T12:00:00Z (3 s ago)``."""
    if at_ms is None:
        return ""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%SZ} ({relative(at_ms - now_ms)})"


def relative(ms: int) -> str:
    """Return ``in 29 s``, ``2 h ago`` or ``now``."""
    if abs(ms) < 1_000:
        return "now"
    return f"in {span(ms)}" if ms > 0 else f"{span(-ms)} ago"


def span(ms: float) -> str:
    """Return a length of time in the largest unit that fits: ``90000`` is ``2 min``."""
    unit, size = next(((unit, size) for unit, size in _UNITS if ms >= size), ("ms", 1))
    return f"{round(ms / size)} {unit}"


def byte_count(count: float) -> str:
    """Return a size such as ``4.0 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def plural(count: int, noun: str) -> str:
    """Return ``1 message`` or ``2 messages``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _used(table: Table) -> tuple[list[Column], list[list[str]]]:
    """Return the columns to show, without optional ones that are empty, and their cells."""
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
    names = max(width(name) for name, _ in facts.pairs)
    click.echo("\n".join(f"{pad(name, names)}  {shown(value)}".rstrip() for name, value in facts.pairs))


def _print_table(table: Table) -> None:
    columns, rows = _used(table)
    lines = [[column.title.upper() for column in columns], *rows]
    # The last column needs no spaces after it, and its texts may be long.
    widths = [
        max(width(line[index]) for line in lines) if column.right or column is not columns[-1] else 0
        for index, column in enumerate(columns)
    ]
    for line in lines:
        click.echo(in_columns(columns, line, widths, gap=2))
