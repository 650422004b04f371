"""Lines over time as SVG, drawn by matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqew.errors import SparkUnusable
from sqew.installing import pip_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float | None]]
"""Seconds, and a value; None is infinite, which can't be drawn."""
_SIZE = (10.4, 2.9)
_STYLE: Any = {
    "svg.fonttype": "none",
    # Else names in the file, and so the file, would be others each time.
    "svg.hashsalt": "sqew",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9aa4ae",
    "axes.grid": True,
    "grid.color": "#e7eaee",
    "legend.frameon": False,
}


def over_time(
    title: str, unit: str, end_s: float, lines: Mapping[str, Points], *, log: bool = False, steps: bool = False
) -> str:
    """Return a plot of lines over all the seconds of a log, as SVG. ``steps``: values hold until they change."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise SparkUnusable(f"The report needs the package matplotlib: {pip_install('matplotlib')}.") from error

    with rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes: Axes = figure.subplots()
        for name, points in lines.items():
            values = [math.nan if value is None else value for _, value in points]
            style = "steps-post" if steps else "default"
            axes.plot([at for at, _ in points], values, label=_plain(name), linewidth=1.4, drawstyle=style)
        axes.set(xlabel="seconds", ylabel=unit, xlim=(0, end_s))
        if log and _has_any(lines):
            axes.set_yscale("log")
        if lines:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
    svg = drawn.getvalue()
    return svg[svg.index("<svg") :]


def _plain(name: str) -> str:
    """Return a name that matplotlib neither reads as a formula nor leaves out of the legend."""
    plain = name.replace("$", r"\$")
    return f" {plain}" if plain.startswith("_") else plain


def _has_any(lines: Mapping[str, Points]) -> bool:
    return any(value for points in lines.values() for _, value in points)
