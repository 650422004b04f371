"""Plots as SVG: lines over time and CDFs. Colours come from the page, so that they suit light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Literal

import numpy as np
from msgspec import Struct

from plainbench.report.series import Axis, Curve, FaultRow, Line, Values

Scale = Literal["linear", "log"]

WIDTH, LEFT, RIGHT = 1000, 64, 780
"""Sizes of all plots over time: so their axes are one above the other. Right of them is room for names."""
_TOP, _HEIGHT, _ROW = 14, 190, 17
_CDF_WIDTH, _CDF_LEFT, _CDF_RIGHT, _CDF_HEIGHT = 470, 68, 455, 230
_CURVES_IN_A_ROW = 2
_LINES_AT_MOST = 40
"""Number of faults that are drawn as lines through the plot, the rarest first."""


class Extent(Struct, frozen=True):
    """The range of an axis, and its scale."""

    low: float
    high: float
    scale: Scale

    def part(self, value: float) -> float:
        """Return the position of a value between the ends, from 0 to 1."""
        if self.scale == "linear":
            return (value - self.low) / (self.high - self.low)
        return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        if self.scale == "linear":
            return _even_ticks(self.high)
        first, last = round(math.log10(self.low)), round(math.log10(self.high))
        every = max(1, math.ceil((last - first) / 6))
        return [10.0**power for power in range(first, last + 1, every)]


def extent(values: Sequence[Values], scale: Scale) -> Extent:
    """Return an axis that has room for all values, with round ends."""
    known = np.concatenate([*values, np.zeros(0)])
    known = known[np.isfinite(known)]
    if scale == "linear":
        most = float(known.max(initial=0.0))
        return Extent(0.0, _even_ticks(most or 1.0)[-1], scale)
    known = known[known > 0]
    low = 10.0 ** math.floor(math.log10(float(known.min(initial=np.inf)))) if len(known) else 1.0
    high = 10.0 ** math.ceil(math.log10(float(known.max(initial=0)) * 1.0001)) if len(known) else 10.0
    return Extent(low, max(high, low * 10), scale)


def _even_ticks(most: float, parts: int = 4) -> list[float]:
    """Return 0 and about ``parts`` round numbers, the last of which is not below ``most``.

    >>> _even_ticks(84)
    [0.0, 25.0, 50.0, 75.0, 100.0]
    """
    rough = most / parts
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * 0.999)
    return [round(step * number, 9) for number in range(math.ceil(most / step - 1e-9) + 1)]


def number(value: float) -> str:
    """Return a short form of a number, for an axis.

    >>> [number(value) for value in (0, 0.01, 2.5, 1000, 25_000, 3_000_000)]
    ['0', '0.01', '2.5', '1000', '25k', '3M']
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1000 if unit == 'k' else size):.3g}{unit}"
    return f"{value:.4g}"


def milliseconds(value: float) -> str:
    """Return a duration with its unit.

    >>> [milliseconds(ms) for ms in (0, 0.05, 1, 100, 1000, 60_000)]
    ['0', '50 µs', '1 ms', '100 ms', '1 s', '60 s']
    """
    if not value:
        return "0"
    if value < 1:
        return f"{value * 1000:.3g} µs"
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def _opening(attributes: str, width: int, height: int, title: str) -> str:
    return f'<svg {attributes} viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'


# Over time


def over_time(
    identifier: str, title: str, axis: Axis, lines: Sequence[Line], *, scale: Scale = "linear",
    worded: Callable[[float], str] = number, faults: Sequence[FaultRow] = (),
) -> str:  # fmt: skip
    """Draw lines over the time of the run; under them a row for each fault, on the same axis."""
    shown = extent([line.values for line in lines], scale)
    bottom = _TOP + _HEIGHT
    height = bottom + len(faults) * _ROW + (10 if faults else 0) + 24
    parts = [
        _opening(f'class="plot" data-plot="{identifier}"', WIDTH, height, title),
        *_grid(shown, worded),
        *_time_axis(axis, height - 24),
        *(_through(axis, row) for row in _seldom(faults)),
        *(_path(axis, shown, line, colour) for colour, line in enumerate(lines)),
        *_never(axis, lines),
        *_legend(lines, worded),
        *_fault_rows(axis, faults, bottom + 10),
        f'<line class="cursor" x1="0" x2="0" y1="{_TOP}" y2="{height - 24}"/>',
        "</svg>",
    ]
    return "".join(parts)


def _x(axis: Axis, seconds: float) -> float:
    return LEFT + (RIGHT - LEFT) * seconds / axis.end_s


def _y(shown: Extent, value: float) -> float:
    return _TOP + _HEIGHT * (1 - min(1.0, max(0.0, shown.part(value))))


def _grid(shown: Extent, worded: Callable[[float], str]) -> Iterator[str]:
    for tick in shown.ticks():
        y = _y(shown, tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick end" x="{LEFT - 6}" y="{y + 3.5:.1f}">{worded(tick)}</text>'


def _time_axis(axis: Axis, bottom: float) -> Iterator[str]:
    for tick in _even_ticks(axis.end_s, 8):
        if tick <= axis.end_s:
            x = _x(axis, tick)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>'
            yield f'<text class="tick middle" x="{x:.1f}" y="{bottom + 16}">{number(tick)} s</text>'


def _path(axis: Axis, shown: Extent, line: Line, colour: int) -> str:
    step = axis.step_us / 1e6
    pen, points = "M", []
    for place, value in enumerate(line.values):
        if not math.isfinite(value):
            pen = "M"
            continue
        points.append(f"{pen}{_x(axis, (place + 0.5) * step):.1f},{_y(shown, value):.1f}")
        pen = "L"
    # A point without neighbours would be a line of no length.
    return f'<path class="line c{colour}" d="{"".join(_dotted(points))}"/>'


def _dotted(points: Sequence[str]) -> Iterator[str]:
    for place, point in enumerate(points):
        yield point
        alone = point[0] == "M" and (place + 1 == len(points) or points[place + 1][0] == "M")
        if alone:
            yield "m-3,0h6"


def _never(axis: Axis, lines: Sequence[Line]) -> Iterator[str]:
    """Mark, along the upper edge, steps in which so many messages were never done that the quantile is one of them."""
    step = axis.step_us / 1e6
    for colour, line in enumerate(lines):
        for place in np.flatnonzero(np.isposinf(line.values)):
            x, width = _x(axis, place * step), (RIGHT - LEFT) / axis.steps
            yield (
                f'<rect class="never c{colour}" x="{x:.1f}" y="{_TOP - 5 - 4 * colour}" width="{max(2, width):.1f}" '
                f'height="3"><title>{escape(line.name)}: never</title></rect>'
            )


def _legend(lines: Sequence[Line], worded: Callable[[float], str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        y = _TOP + 8 + 34 * place if len(lines) <= 5 else _TOP + 8 + 19 * place
        finite = line.values[np.isfinite(line.values)]
        most = f"at most {worded(float(finite.max()))}" if len(finite) else "–"
        if np.isposinf(line.values).any():
            most = "some never"
        yield f'<line class="line c{place}" x1="{RIGHT + 14}" x2="{RIGHT + 32}" y1="{y}" y2="{y}"/>'
        yield f'<text class="name" x="{RIGHT + 38}" y="{y + 4}">{escape(line.name)}</text>'
        if len(lines) <= 5:
            yield f'<text class="tick" x="{RIGHT + 38}" y="{y + 17}">{most}</text>'


def _seldom(faults: Sequence[FaultRow]) -> Iterator[FaultRow]:
    drawn = 0
    for row in sorted(faults, key=lambda row: row.total):
        drawn += row.total
        if drawn > _LINES_AT_MOST:
            return
        yield row


def _through(axis: Axis, row: FaultRow) -> str:
    """Draw a line through the plot for each time of a fault."""
    lines = "".join(f"M{_x(axis, at):.1f},{_TOP}V{_TOP + _HEIGHT}" for at in row.times_s)
    return f'<path class="fault through" d="{lines}"><title>{escape(row.name)}</title></path>'


def _fault_rows(axis: Axis, faults: Sequence[FaultRow], top: float) -> Iterator[str]:
    width = (RIGHT - LEFT) / axis.steps
    for place, row in enumerate(faults):
        y, most = top + place * _ROW, max(1, int(row.counts.max()))
        yield f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y + 8}" y2="{y + 8}"/>'
        for step in np.flatnonzero(row.counts):
            count = int(row.counts[step])
            x = LEFT + step * width
            yield (
                f'<rect class="fault" x="{x:.1f}" y="{y + 2}" width="{max(2.0, width - 0.5):.1f}" height="12" '
                f'opacity="{0.3 + 0.7 * count / most:.2f}"/>'
            )
        yield f'<text class="name" x="{RIGHT + 14}" y="{y + 12}">{escape(row.name)}'
        yield f'<tspan class="tick"> ×{row.total}</tspan></text>'


# CDFs


def cdf(title: str, curves: Sequence[Curve]) -> str:
    """Draw the part that took no longer: the time on a logarithmic axis, the part by nines, so that the tail shows."""
    shown = extent([curve.ms for curve in curves], "log")
    nines = min(5, max(2, math.ceil(max((-math.log10(1 - part) for part in _last_parts(curves)), default=2))))
    rows = math.ceil(len(curves) / _CURVES_IN_A_ROW)
    bottom = _TOP + _CDF_HEIGHT
    parts = [_opening('class="plot cdf"', _CDF_WIDTH, bottom + 26 + 17 * rows, title)]
    for part in [0.0, 0.5, *(1 - 10.0**-power for power in range(1, nines + 1))]:
        y = _nine_y(part, nines)
        parts.append(f'<line class="grid" x1="{_CDF_LEFT}" x2="{_CDF_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{_CDF_LEFT - 6}" y="{y + 3.5:.1f}">{part * 100:.7g} %</text>')
    for tick in shown.ticks():
        x = _cdf_x(shown, tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(f'<text class="tick middle" x="{x:.1f}" y="{bottom + 16}">{milliseconds(tick)}</text>')
    for colour, curve in enumerate(curves):
        points = (f"{_cdf_x(shown, ms):.1f},{_nine_y(part, nines):.1f}" for ms, part in _steps(curve))
        path = "M" + "L".join(points) if len(curve.ms) else ""
        parts.append(f'<path class="line c{colour}" d="{path}"/>')
        x, y = 20 + (_CDF_WIDTH - 20) // _CURVES_IN_A_ROW * (colour % 2), bottom + 36 + 17 * (colour // 2)
        parts.append(f'<line class="line c{colour}" x1="{x}" x2="{x + 18}" y1="{y - 4}" y2="{y - 4}"/>')
        parts.append(f'<text class="name" x="{x + 24}" y="{y}">{escape(curve.name)}</text>')
    return "".join([*parts, "</svg>"])


def _last_parts(curves: Sequence[Curve]) -> Iterator[float]:
    """Yield the highest part of each curve that is not all of it."""
    for curve in curves:
        below = curve.part[curve.part < 1]
        if len(below):
            yield float(below.max())


def _steps(curve: Curve) -> Iterator[tuple[float, float]]:
    part = 0.0
    for ms, reached in zip(curve.ms.tolist(), curve.part.tolist(), strict=True):
        yield ms, part
        yield ms, reached
        part = reached


def _cdf_x(shown: Extent, ms: float) -> float:
    return _CDF_LEFT + (_CDF_RIGHT - _CDF_LEFT) * shown.part(ms)


def _nine_y(part: float, nines: int) -> float:
    """Return the height of a part: 0 at the bottom, then 90 %, 99 % … at equal distances; all of it is at the top."""
    height = nines if part >= 1 else min(float(nines), -math.log10(1 - part))
    return _TOP + _CDF_HEIGHT * (1 - height / nines)
