"""The tables, facts and sentences of the command line, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from sqew.terminal.output import Column, Facts, Table, shown


def table(of: Table) -> str:
    """Render a table; optional columns without anything in them are left out, as on a terminal."""
    if not of.rows:
        return f'<p class="soft">{escape(of.empty)}</p>'
    used = [
        place
        for place, column in enumerate(of.columns)
        if not column.optional or any(shown(row[place]) for row in of.rows)
    ]
    head = "".join(f"<th{_side(of.columns[place])}>{escape(of.columns[place].title)}</th>" for place in used)
    last: object = None
    rows = []
    for row in of.rows:
        first = ' class="first"' if row[0] != last else ""
        last = row[0]
        rows.append(f"<tr{first}>{''.join(_cell(of.columns[place], shown(row[place])) for place in used)}</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _side(column: Column) -> str:
    return ' class="right"' if column.right else ""


def _cell(column: Column, value: str) -> str:
    kinds = [*(["right"] if column.right else []), *(["never"] if value == "never" else [])]
    marked = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<td{marked}>{escape(value)}</td>"


def facts(of: Facts) -> str:
    """Render names and values."""
    pairs = "".join(f"<dt>{escape(shown(name))}</dt><dd>{escape(shown(value))}</dd>" for name, value in of.pairs)
    return f"<dl>{pairs}</dl>"


def bullets(sentences: Iterable[str], kind: str) -> Iterator[str]:
    """Yield a list of sentences, or nothing if there are none."""
    items = "".join(f"<li>{escape(shown(sentence))}</li>" for sentence in sentences)
    if items:
        yield f'<ul class="{kind}">{items}</ul>'
