"""Picture of the results of the HTTP benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.http_peers import Outcome as Peer
from bench.http_throughput import AT, DURABILITIES, MOST_CPU, Ceiling, Outcome
from bench.loads import JOBS
from bench.report import Section

COLOURS = {"durable": "#d1495b", "fast": "#edae49", "constant": "#9aa0a6"}
PEER_COLOURS = ("#d1495b", "#edae49", "#2e86ab", "#66a182")
LINES = {"send": "o", "cycle": "s", "receive 1": "D", "ack": "^"}


def draw(sections: Sequence[Section], to: Path) -> None:
    """Draw rates, the cost of a request, and the peers, as far as they were measured."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = {section.name: section.data for section in sections}
    panels: list[Any] = []
    if "throughput" in found:
        outcomes, ceilings = found["throughput"]["outcomes"], found["throughput"]["ceilings"]
        panels += [
            lambda axis: _rates(axis, outcomes),
            lambda axis: _costs(axis, outcomes, ceilings),
            lambda axis: _connections(axis, outcomes, ceilings),
        ]
    if "peers" in found:
        panels.append(lambda axis: _peers(axis, found["peers"]["outcomes"]))
    if not panels:
        return
    mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "sqew"})
    height = (len(panels) + 1) // 2
    figure, axes = plt.subplots(height, 2, figsize=(14, 4.9 * height), layout="constrained", squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        panel(axis)
        axis.set_axisbelow(True)
        axis.grid(axis="y", alpha=0.3, linewidth=0.6)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.savefig(to, dpi=130, metadata={"Date": None} if to.suffix == ".svg" else None)
    plt.close(figure)


def _rates(axis: Any, outcomes: Sequence[Outcome]) -> None:
    """Draw messages a second, by job; hatched: with a backlog."""
    shown = [outcome for outcome in outcomes if outcome.connections == AT]
    backlogs = sorted({outcome.backlog for outcome in shown})
    width = 0.8 / (len(DURABILITIES) * len(backlogs))
    for number, (durability, backlog) in enumerate((d, b) for d in DURABILITIES for b in backlogs):
        rates = {o.job: o.counted for o in shown if (o.durability, o.backlog) == (durability, backlog)}
        places = [JOBS.index(job) + (number + 0.5) * width - 0.4 for job in rates]
        label = f"{durability}, {f'{backlog:,} messages' if backlog else 'empty'}"
        _bars(axis, places, list(rates.values()), width, COLOURS[durability], label, "//" if backlog else "")
    axis.set_xticks(range(len(JOBS)), [job.replace(" ", "\n") for job in JOBS])
    axis.set_ylabel("messages (cycle: requests) a second")
    axis.set_title(f"Throughput at {AT} connections (line: quartiles)", fontsize=10.5)
    axis.legend(frameon=False, fontsize=9, loc="upper left")


def _bars(
    axis: Any, places: Sequence[float], rates: Sequence[Any], width: float, colour: str, label: str, hatch: str = ""
) -> None:
    medians = [rate.median for rate in rates]
    axis.bar(places, medians, width * 0.92, color=colour, label=label, hatch=hatch, edgecolor="white", linewidth=0)
    for place, rate in zip(places, rates, strict=True):
        axis.plot([place, place], [rate.low, rate.high], color="#222222", linewidth=1)


def _costs(axis: Any, outcomes: Sequence[Outcome], ceilings: Sequence[Ceiling]) -> None:
    """Draw the server's processor time for one request of one message."""
    shown = [o for o in outcomes if (o.connections, o.backlog) == (AT, 0) and o.job in LINES]
    jobs = list(dict.fromkeys(outcome.job for outcome in shown))
    ceiling = next(one.cpu_us.median for one in ceilings if one.connections == AT)
    width = 0.8 / len(DURABILITIES)
    for number, durability in enumerate(DURABILITIES):
        costs = {o.job: o.cpu_us for o in shown if o.durability == durability}
        places = [jobs.index(job) + (number + 0.5) * width - 0.4 for job in costs]
        _bars(axis, places, list(costs.values()), width, COLOURS[durability], durability)
    axis.axhline(ceiling, color=COLOURS["constant"], linewidth=1.5, label="constant answer")
    label = f"{MOST_CPU} × constant: the most for a send"
    axis.axhline(ceiling * MOST_CPU, color="#222222", linewidth=1, linestyle="--", label=label)
    axis.set_xticks(range(len(jobs)), jobs)
    axis.set_ylabel("µs of the server's CPU per request")
    axis.set_ylim(top=axis.get_ylim()[1] * 1.25)
    axis.set_title(f"What a request costs at {AT} connections, empty queue", fontsize=10.5)
    axis.legend(frameon=False, fontsize=9, loc="upper left", ncols=2)


def _connections(axis: Any, outcomes: Sequence[Outcome], ceilings: Sequence[Ceiling]) -> None:
    rates = [(one.connections, one.requests_per_s.median) for one in ceilings]
    axis.plot(*zip(*rates, strict=True), color=COLOURS["constant"], marker="P", label="constant answer")
    for durability, style in zip(DURABILITIES, ("-", ":"), strict=True):
        for job, mark in LINES.items():
            points = sorted(
                (o.connections, o.requests_per_s.median)
                for o in outcomes
                if (o.durability, o.backlog, o.job) == (durability, 0, job)
            )
            if points:
                label = f"{job}, {durability}"
                axis.plot(*zip(*points, strict=True), style, color=COLOURS[durability], marker=mark, label=label)
    axis.set_xscale("log", base=2)
    axis.set_xticks([one.connections for one in ceilings], [str(one.connections) for one in ceilings])
    axis.set_xlabel("connections")
    axis.set_ylabel("requests a second")
    axis.set_ylim(0, axis.get_ylim()[1] * 1.25)
    axis.set_title("Requests that arrive together share a commit", fontsize=10.5)
    axis.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)


def _peers(axis: Any, outcomes: Sequence[Peer]) -> None:
    names = list(dict.fromkeys(outcome.contender for outcome in outcomes))
    jobs = list(dict.fromkeys(outcome.job for outcome in outcomes))
    width = 0.8 / len(names)
    for number, (name, colour) in enumerate(zip(names, PEER_COLOURS, strict=False)):
        rates = {o.job: o.requests_per_s for o in outcomes if o.contender == name}
        places = [jobs.index(job) + (number + 0.5) * width - 0.4 for job in rates]
        durability = next(o.durability for o in outcomes if o.contender == name)
        _bars(axis, places, list(rates.values()), width, colour, f"{name} ({durability})")
    axis.set_yscale("log")
    axis.set_ylim(top=axis.get_ylim()[1] * 6)
    axis.set_xticks(range(len(jobs)), jobs)
    axis.set_ylabel("requests a second (log)")
    axis.set_title(f"Emulators of SQS at {AT} connections", fontsize=10.5)
    axis.legend(frameon=False, fontsize=9, loc="upper left", ncols=2)
