"""The table of topics and lanes: depths, rates and latencies."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from plainbench.record.timeline import Row
from plainbench.tui.numbers import count, duration

_WIDE = 110
_STATES = ("ready", "leased", "delayed", "blocked", "dead")
_SHORT = {"delayed": "delay", "blocked": "block", "received": "recvd", "retried": "retry"}
_RATES = ("sent", "received", "acked", "retried", "died")
_PARTS = ("p50", "p95", "p99")
_LEAST = {"dead": 4, "died": 4}
_BAD = frozenset({"dead", "died"})


class Lanes(DataTable[Text]):
    """A row for each topic, and one for each lane of a topic that has several. The left and right keys move in time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "app.peek", "Peek", show=False),
        Binding("left", "app.step(-1)", "Step", key_display="←→"),
        Binding("right", "app.step(1)", "Step on", show=False),
        Binding("shift+left", "app.step(-10)", "Ten steps back", show=False),
        Binding("shift+right", "app.step(10)", "Ten steps on", show=False),
        Binding("home", "app.seek(0)", "To the beginning", show=False),
        Binding("end", "app.follow", "To the end", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(cursor_type="row", cell_padding=0, header_height=2, id="lanes")
        self._keys: list[tuple[str, str]] = []
        self._columns: tuple[object, ...] = ()

    @property
    def chosen(self) -> tuple[str, str] | None:
        """The topic and lane under the cursor."""
        return self._keys[self.cursor_row] if 0 <= self.cursor_row < len(self._keys) else None

    def choose(self, topic: str, lane: str = "") -> None:
        self.move_cursor(row=self._keys.index((topic, lane)))

    def show(self, rows: list[Row]) -> None:
        wide = self.size.width >= _WIDE
        states = [state for state in _STATES if state != "blocked" or any(row.depths.get(state) for row in rows)]
        keys = [(row.topic, row.lane) for row in rows]
        columns = (wide, self.size.width, *states)
        if columns != self._columns or keys != self._keys:
            chosen = self.cursor_row
            self._lay_out(wide, states, rows)
            self._columns, self._keys = columns, keys
            self.move_cursor(row=min(chosen, len(rows) - 1))
            return
        for number, row in enumerate(rows):
            for column, cell in enumerate(_cells(row, states)):
                if self.get_cell_at((number, column + 1)) != cell:  # type: ignore[arg-type]
                    self.update_cell_at((number, column + 1), cell)  # type: ignore[arg-type]

    def _lay_out(self, wide: bool, states: list[str], rows: list[Row]) -> None:
        self.clear(columns=True)
        titles = [("depth", state) for state in states]
        titles += [("per second", kind) for kind in _RATES]
        titles += [("latency ms", part) for part in _PARTS]
        gap = 3 if wide else 1
        widths = [max(_LEAST.get(name, 5), len(_title(name, wide))) + gap for _, name in titles]
        self.add_column(Text("\ntopic"), width=max(9, min(40, self.size.width - sum(widths))))
        for over, (_, name), width in zip(_overheads(titles, widths, gap), titles, widths, strict=True):
            self.add_column(Text(f"{over}\n{_title(name, wide).rjust(width)}"), width=width)
        for row in rows:
            label = Text(f" {row.lane}" if row.lane else row.topic, style="" if row.lane else "bold", no_wrap=True)
            label.truncate(self.ordered_columns[0].width, overflow="ellipsis")
            self.add_row(label, *_cells(row, states))


def _overheads(titles: list[tuple[str, str]], widths: list[int], gap: int) -> list[str]:
    """Return the names of groups of columns, each written across the columns of its group."""
    pieces: list[str] = []
    for group in dict.fromkeys(group for group, _ in titles):
        mine = [width for (of, _), width in zip(titles, widths, strict=True) if of == group]
        line = f"{' ' * gap}{f' {group} '.center(sum(mine) - gap, '─')}"
        for width in mine:
            pieces.append(line[:width])
            line = line[width:]
    return pieces


def _title(name: str, wide: bool) -> str:
    return name if wide else _SHORT.get(name, name)


def _cells(row: Row, states: list[str]) -> list[Text]:
    cells = [_cell(row.depths.get(state), state) for state in states]
    cells += [_cell(row.rates[kind], kind) for kind in _RATES]
    for part in _PARTS:
        value = None if row.latency is None else getattr(row.latency, part)
        cells.append(Text("–" if value is None else duration(value), style="dim" if value is None else "cyan",
                          justify="right"))  # fmt: skip
    return cells


def _cell(value: float | None, name: str) -> Text:
    if value is None:
        return Text("–", style="dim", justify="right")
    style = "dim" if not value else "red" if name in _BAD else "yellow" if name == "retried" else ""
    return Text(count(value), style=style, justify="right")
