"""Picture of the results of the benchmark of events."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.events_deliveries import Outcome as Delivered
from bench.events_publish import MOST_FOR_TEN, SEND, TEN, Outcome
from bench.http_plot import COLOURS
from bench.http_throughput import DURABILITIES
from bench.report import Section


def draw(sections: Sequence[Section], to: Path) -> None:
    """Draw the cost of a publish by its fan-out and by the other subscriptions, and deliveries, as far as measured."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = {section.name: section.data["outcomes"] for section in sections}
    panels: list[Any] = []
    if "publish" in found:
        panels += [lambda axis: _fan_out(axis, found["publish"]), lambda axis: _growth(axis, found["publish"])]
    if "deliveries" in found:
        panels.append(lambda axis: _deliveries(axis, found["deliveries"]))
    if not panels:
        return
    mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "sqew"})
    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 4.4), layout="constrained", squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=True):
        panel(axis)
        axis.set_axisbelow(True)
        axis.grid(axis="y", alpha=0.3, linewidth=0.6)
    figure.savefig(to, dpi=130, metadata={"Date": None} if to.suffix == ".svg" else None)
    plt.close(figure)


def _fan_out(axis: Any, outcomes: Sequence[Outcome]) -> None:
    for durability in DURABILITIES:
        shown = [o for o in outcomes if o.durability == durability and o.case != SEND and not o.case.others]
        shown.sort(key=lambda outcome: outcome.case.matching)
        places = [outcome.case.matching for outcome in shown]
        axis.plot(places, [o.of_send.median for o in shown], "o-", color=COLOURS[durability], label=durability)
    axis.plot([TEN], [MOST_FOR_TEN], "_", color="black", markersize=16, label=f"wanted at {TEN}")
    axis.set(xscale="log", yscale="log", xlabel="matching queues", title="CPU of a publish, in sends")
    axis.legend(frameon=False)


def _growth(axis: Any, outcomes: Sequence[Outcome]) -> None:
    for durability in DURABILITIES:
        shown = [o for o in outcomes if o.durability == durability and o.case.matching == TEN]
        shown.sort(key=lambda outcome: outcome.case.others)
        places = [max(outcome.case.others, 100) for outcome in shown]
        axis.plot(places, [o.cpu_us.median for o in shown], "o-", color=COLOURS[durability], label=durability)
    axis.set(
        xscale="log",
        xlabel="subscriptions that don't match (100: none)",
        title=f"CPU of a publish to {TEN} queues, µs",
    )
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False)


def _deliveries(axis: Any, outcomes: Sequence[Delivered]) -> None:
    names = [str(outcome.endpoints) for outcome in outcomes]
    axis.bar(names, [outcome.per_s.median for outcome in outcomes], color=COLOURS["durable"], width=0.6)
    axis.set(xlabel="endpoints", title="deliveries a second")
