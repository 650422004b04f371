"""Tables and facts as lines on a screen, as wide as it is and no wider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from sqew.terminal.cells import cut, fold, pad, width
from sqew.terminal.screen import Screen

if TYPE_CHECKING:
    from sqew.terminal.output import Column

TITLES = {"fg": "cyan", "bold": True}
"""The style of a table's titles."""
_GAPS = (2, 1)
_WHOLE, _BROKEN = 20, 12
"""Words of up to `_WHOLE` cells stay whole if they can; longer ones are broken, into no fewer than `_BROKEN`."""

Rows = Sequence[Sequence[str]]


def lines_of_table(
    columns: Sequence[Column], rows: Rows, screen: Screen, titles: dict[str, Any] = TITLES
) -> Iterator[str]:
    """Return the lines of a table; if it is too wide for the screen however it is folded, each row as facts."""
    for gap in _GAPS:
        widths = _widths(columns, rows, screen.width - gap * (len(columns) - 1))
        if widths is not None:
            return _table(columns, rows, widths, gap, screen, titles)
    return _rows_as_facts(columns, rows, screen)


def lines_of_facts(pairs: Sequence[tuple[str, str]], screen: Screen) -> Iterator[str]:
    """Yield names and values, a pair to a line; long values continue on lines below."""
    names = max(width(name) for name, _ in pairs)
    for name, value in pairs:
        folded = fold(value, max(screen.width - names - _GAPS[0], _BROKEN))
        for label, line in zip_longest([name], folded, fillvalue=""):
            space = " " * (names - width(label) + _GAPS[0])
            yield (screen.paint(label, dim=True) + space + line).rstrip(" ")


def _rows_as_facts(columns: Sequence[Column], rows: Rows, screen: Screen) -> Iterator[str]:
    names = max(width(column.title) for column in columns)
    room = max(screen.width - names - _GAPS[0], _BROKEN)
    for number, row in enumerate(rows):
        if number:
            yield ""
        pairs = [
            (column.title, cut(cell, room, screen.ellipsis) if column.cut else cell)
            for column, cell in zip(columns, row, strict=True)
        ]
        yield from lines_of_facts(pairs, screen)


def _table(
    columns: Sequence[Column], rows: Rows, widths: Sequence[int], gap: int, screen: Screen, titles: dict[str, Any]
) -> Iterator[str]:
    heads = [fold(column.title, size) for column, size in zip(columns, widths, strict=True)]
    height = max(map(len, heads))
    for line in zip(*([""] * (height - len(head)) + head for head in heads), strict=True):
        yield screen.paint(in_columns(columns, line, widths, gap), **titles)
    yield screen.rule * (sum(widths) + gap * (len(columns) - 1))
    for row in rows:
        cells = (
            [cut(cell, size, screen.ellipsis)] if column.cut else fold(cell, size)
            for column, cell, size in zip(columns, row, widths, strict=True)
        )
        for line in zip_longest(*cells, fillvalue=""):
            yield in_columns(columns, line, widths, gap)


def in_columns(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], gap: int) -> str:
    """Return cells side by side, numbers aligned to the right."""
    padded = (pad(cell, size, column.right) for column, cell, size in zip(columns, cells, widths, strict=True))
    return (" " * gap).join(padded).rstrip(" ")


def _widths(columns: Sequence[Column], rows: Rows, room: int) -> list[int] | None:
    """Return the widths of the columns, in all no wider than the room; None if that is impossible.

    Columns that may be cut give way first, then titles are folded, then strings at their spaces, and at last long
    words.
    """
    if room < len(columns):
        return None
    cells = [[cut(row[index], room) for row in rows] for index in range(len(columns))]
    widths = [max(map(width, (column.title, *texts))) for column, texts in zip(columns, cells, strict=True)]
    least = [_least(column, texts) for column, texts in zip(columns, cells, strict=True)]
    for floors in zip(*least, strict=True):
        _narrow(widths, floors, sum(widths) - room)
    return widths if sum(widths) <= room else None


def _narrow(widths: list[int], floors: Sequence[int], excess: int) -> None:
    """Take cells from the widest columns that are wider than their floor."""
    for _ in range(excess):
        wide = [index for index, floor in enumerate(floors) if widths[index] > floor]
        if not wide:
            return
        widths[max(wide, key=widths.__getitem__)] -= 1


def _least(column: Column, cells: Sequence[str]) -> tuple[int, int, int, int]:
    """Return the least widths of a column, from those while others can give way to the last resort."""
    title, text = width(column.title), max(map(width, cells), default=0)
    word_of_title = max(map(width, column.title.split()), default=0)
    if column.cut:
        return (max(title, column.least),) * 4
    natural, folded_title = max(title, text), max(word_of_title, text)
    if column.right:  # a number that is broken reads as another
        return natural, folded_title, folded_title, folded_title
    word = max((width(word) for cell in cells for word in cell.split()), default=0)
    unbroken = word if word <= _WHOLE else _BROKEN
    return natural, folded_title, max(word_of_title, unbroken), max(word_of_title, min(unbroken, _BROKEN))
