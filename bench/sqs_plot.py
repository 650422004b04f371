"""Picture of the results of the benchmark of SQS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import sqs_boto3, sqs_fifo, sqs_raw
from bench.http_plot import COLOURS, PEER_COLOURS
from bench.report import Section


def draw(sections: Sequence[Section], to: Path) -> None:
    """Draw the raw wire, boto3 with its most threads, and FIFO queues at their fullest, as far as measured."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = {section.name: section.data["outcomes"] for section in sections}
    panels: list[Any] = []
    if "raw" in found:
        panels.append(lambda axis: _raw(axis, found["raw"]))
    if "boto3" in found:
        panels.append(lambda axis: _boto3(axis, found["boto3"]))
    if "fifo" in found:
        panels.append(lambda axis: _fifo(axis, found["fifo"]))
    if not panels:
        return
    mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "sqew"})
    figure, axes = plt.subplots(1, len(panels), figsize=(6 * len(panels), 4.6), layout="constrained", squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=True):
        panel(axis)
        axis.set_axisbelow(True)
        axis.grid(axis="y", alpha=0.3, linewidth=0.6)
    figure.savefig(to, dpi=130, metadata={"Date": None} if to.suffix == ".svg" else None)
    plt.close(figure)


def _bars(axis: Any, heights: dict[str, dict[str, float]], title: str) -> None:
    """Draw bars by their subject and by contender, on a logarithmic axis."""
    names = list(dict.fromkeys(name for found in heights.values() for name in found))
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        places = [place + (number + 0.5) * width - 0.4 for place, found in enumerate(heights.values()) if name in found]
        axis.bar(
            places,
            [found[name] for found in heights.values() if name in found],
            width,
            color=COLOURS.get(name) or PEER_COLOURS[number % len(PEER_COLOURS)],
            label=name,
        )
    axis.set(yscale="log", title=title)
    axis.set_xticks(range(len(heights)), list(heights), rotation=20)
    # Below: there are bars of every height.
    axis.legend(frameon=False, fontsize=9, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))


def _raw(axis: Any, outcomes: Sequence[sqs_raw.Outcome]) -> None:
    heights: dict[str, dict[str, float]] = {}
    for outcome in outcomes:
        heights.setdefault(outcome.job, {})[outcome.contender] = outcome.requests_per_s.median
    _bars(axis, heights, "requests a second, raw")


def _boto3(axis: Any, outcomes: Sequence[sqs_boto3.Outcome]) -> None:
    threads = max(outcome.case.threads for outcome in outcomes)
    heights: dict[str, dict[str, float]] = {job: {} for job in sqs_boto3.JOBS}
    for outcome in outcomes:
        if outcome.case == sqs_boto3.Case(0, threads):
            heights[outcome.job][outcome.contender] = outcome.calls_per_s.median
    _bars(axis, heights, f"calls a second through boto3, {threads} threads")


def _fifo(axis: Any, outcomes: Sequence[sqs_fifo.Outcome]) -> None:
    most = max(outcome.case.retained for outcome in outcomes)
    heights: dict[str, dict[str, float]] = {}
    for outcome in outcomes:
        if outcome.case.retained == most:
            heights.setdefault(f"{outcome.case.groups:,} groups", {})[outcome.contender] = outcome.receive_ms.median
    _bars(axis, heights, f"FIFO receive through boto3, ms, {most:,} retained")
