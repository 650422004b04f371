"""The run so far as small graphs, for the topic or lane that is chosen: depth, rate, latency and faults."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct
from rich.text import Text
from textual.widget import Widget

from plainbench.faults.labels import CRASHES
from plainbench.record.snapshots import Measure, Snapshot, quantile
from plainbench.record.timeline import DELAY, Timeline
from plainbench.tui.numbers import count, duration

LEFT, RIGHT = 9, 7
"""Cells beside a graph for its name and its largest value."""
_ROOMY = 4
"""Number of lines per graph from which on a blank line separates two graphs."""
_BARS = " ▁▂▃▄▅▆▇█"
_OPEN = ("ready", "delayed", "blocked")
_DEADLY = CRASHES | {"died"}


class Column(Struct):
    """A column of the graphs. None: nothing is known of it."""

    depth: float | None = None
    rate: float = 0.0
    p99: float | None = None
    mark: str = " "


def columns_of(timeline: Timeline, span: range, width: int, chosen: tuple[str, str], measure: Measure) -> list[Column]:
    """Return the moments of a span in ``width`` columns; if there are fewer moments, several columns show the same."""
    columns = []
    depth = _depth_before(timeline, span.start, chosen)
    for number in range(width if span else 0):
        first = span.start + number * len(span) // width
        until = max(first + 1, span.start + (number + 1) * len(span) // width)
        snapshots = [timeline.snapshots[index] for index in range(first, until)]
        column = _column(snapshots, chosen, measure, timeline.snapshots.width_us)
        depth = column.depth = depth if column.depth is None else column.depth
        columns.append(column)
    return columns


def _depth_before(timeline: Timeline, index: int, chosen: tuple[str, str]) -> float | None:
    for earlier in range(index - 1, -1, -1):
        if timeline.snapshots[earlier].depths:
            return _depth(timeline.snapshots[earlier], chosen)
    return None


def _is_of(topic: str, lane: str, chosen: tuple[str, str]) -> bool:
    return topic == chosen[0] and chosen[1] in ("", lane)


def _depth(snapshot: Snapshot, chosen: tuple[str, str]) -> float | None:
    if not snapshot.depths:
        return None
    return sum(
        depths.get(state, 0)
        for (topic, lane), depths in snapshot.depths.items()
        if _is_of(topic, lane, chosen)
        for state in _OPEN
    )


def _column(snapshots: Sequence[Snapshot], chosen: tuple[str, str], measure: Measure, width_us: int) -> Column:
    depths = [depth for snapshot in snapshots if (depth := _depth(snapshot, chosen)) is not None]
    acked = 0
    latencies: Counter[int] = Counter()
    for snapshot in snapshots:
        for (topic, lane), served in snapshot.lanes.items():
            if _is_of(topic, lane, chosen):
                acked += served.counts["acked"]
                latencies.update(served.latencies[measure])
    return Column(
        max(depths) if depths else None,
        acked / (len(snapshots) * width_us / 1e6),
        quantile(latencies, 0.99),
        _mark(snapshots),
    )


def _mark(snapshots: Sequence[Snapshot]) -> str:
    kinds = {one.what for snapshot in snapshots for one in snapshot.happenings.values() if one.what != "started"}
    return "×" if kinds & _DEADLY else "!" if kinds - {DELAY} else "·" if kinds else " "


class History(Widget):
    """Graphs of the same columns, one above the other; the column of the time that is shown is marked."""

    DEFAULT_CSS = "History { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="history")
        self._columns: list[Column] = []
        self._cursor: int | None = None

    @property
    def columns_wide(self) -> int:
        return max(1, self.size.width - LEFT - RIGHT)

    def show(self, columns: list[Column], cursor: int | None) -> None:
        self._columns, self._cursor = columns, cursor
        self.refresh()

    def render(self) -> Text:
        height = max(1, (self.size.height - 1) // 3)
        gap = "\n" if height >= _ROOMY else ""
        height -= len(gap)
        text = Text(no_wrap=True)
        self._graph(text, "waiting", height, "blue", count, lambda column: column.depth)
        text.append(gap)
        self._graph(text, "acked/s", height, "green", count, lambda column: column.rate)
        text.append(gap)
        self._graph(text, "p99, log", height, "cyan", duration, lambda column: column.p99, logarithmic=True)
        self._marks(text)
        return text

    def _graph(
        self, text: Text, name: str, height: int, style: str, worded: Callable[[float], str],
        value_of: Callable[[Column], float | None], *, logarithmic: bool = False,
    ) -> None:  # fmt: skip
        values = [value_of(column) for column in self._columns]
        known = [value for value in values if value is not None]
        most = max(known, default=0.0)
        scaled = [_scaled(value, known, most, logarithmic) for value in values]
        for line in range(height - 1, -1, -1):
            text.append((name if line == height - 1 else "").ljust(LEFT), style="bold" if line == height - 1 else "")
            for number, part in enumerate(scaled):
                eighths = 0 if part is None else min(8, max(0, round(part * height * 8) - line * 8))
                if part and not line:
                    eighths = max(1, eighths)
                text.append(_BARS[eighths], style=f"{style} on grey37" if number == self._cursor else style)
            text.append(" " * (self.columns_wide - len(scaled)))
            text.append(f"{worded(most) if known else '–'}".rjust(RIGHT) if line == height - 1 else "", style="dim")
            text.append("\n")

    def _marks(self, text: Text) -> None:
        text.append("faults".ljust(LEFT), style="bold")
        for number, column in enumerate(self._columns):
            style = {"×": "bold red", "!": "yellow", "·": "dim"}.get(column.mark, "")
            text.append(column.mark, style=f"{style} on grey37" if number == self._cursor else style)


def _scaled(value: float | None, known: Sequence[float], most: float, logarithmic: bool) -> float | None:
    if value is None or not most:
        return None
    if not logarithmic:
        return value / most
    least = max(1.0, min(known)) / 2
    return math.log(max(value, 1.0) / least) / math.log(max(most, 1.0) / least)
