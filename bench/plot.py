"""Picture of the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.contenders import JOBS, PEERS, SYNCHRONOUS, RawSQL, RawTransactions, Sqew
from bench.latency import MOST
from bench.latency import Outcome as Claims
from bench.report import Section
from bench.throughput import Outcome as Rate

NAMES = (RawSQL.name, RawTransactions.name, Sqew.name, *PEERS)
COLOURS = {
    RawSQL.name: "#9aa0a6",
    RawTransactions.name: "#c9cdd2",
    Sqew.name: "#d1495b",
    PEERS[0]: "#2e86ab",
    PEERS[1]: "#66a182",
    PEERS[2]: "#edae49",
}
LINES = ("#d1495b", "#2e86ab", "#66a182", "#edae49", "#6a4c93", "#444444")
MARKS = "osD^vP"


def draw(sections: Sequence[Section], to: Path) -> None:
    """Draw throughput and claim latency, as far as they were measured."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = {section.name: section.data["outcomes"] for section in sections}
    rows = [name for name in ("throughput", "backlog") if name in found]
    if not rows:
        return
    mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "sqew"})
    figure, axes = plt.subplots(len(rows), 2, figsize=(14, 4.9 * len(rows)), layout="constrained", squeeze=False)
    for row, name in zip(axes, rows, strict=True):
        if name == "throughput":
            for axis, durability in zip(row, ("durable", "fast"), strict=True):
                _throughput(axis, [outcome for outcome in found[name] if outcome.durability == durability], durability)
            row[0].set_ylabel("messages a second (log)")
            row[0].legend(ncols=2, frameon=False, loc="upper left", fontsize=9)
        else:
            _ratios(row[0], found[name])
            _latencies(row[1], found[name])
            row[1].legend(frameon=False, loc="upper left", fontsize=9, ncols=2)
    figure.savefig(to, dpi=130, metadata={"Date": None} if to.suffix == ".svg" else None)
    plt.close(figure)


def _throughput(axis: Any, outcomes: Sequence[Rate], durability: str) -> None:
    rates = {(outcome.job, outcome.contender): outcome for outcome in outcomes}
    width = 0.8 / len(NAMES)
    for place, job in enumerate(JOBS):
        # Side by side, without a gap for those that can't do the job.
        present = [name for name in NAMES if (job, name) in rates]
        for number, name in enumerate(present):
            outcome = rates[job, name]
            at = place + (number - (len(present) - 1) / 2) * width
            first = place == min(index for index, job in enumerate(JOBS) if (job, name) in rates)
            axis.bar(at, outcome.per_second, width * 0.92, color=COLOURS[name], label=name if first else None)
        # Above the group, where no bar is in the way.
        highest = max(rates[job, name].per_second for name in present)
        ratio = rates[job, Sqew.name].of_raw.median
        axis.text(
            place, highest * 1.12, f"{ratio:.2f}", ha="center", va="bottom", fontweight="bold", color=COLOURS[Sqew.name]
        )
    axis.set_yscale("log")
    top = max(outcome.per_second for outcome in outcomes)
    axis.set_ylim(min(outcome.per_second for outcome in outcomes) / 2, top * 8)
    axis.set_xticks(range(len(JOBS)), [job.replace(" x100", "\n×100").replace(" + ", "\n+ ") for job in JOBS])
    axis.set_title(
        f"Throughput, {durability} (WAL, synchronous={SYNCHRONOUS[durability]}); number: sqew / raw apsw", fontsize=10.5
    )
    axis.grid(axis="y", alpha=0.3, linewidth=0.6)
    axis.set_axisbelow(True)


def _ratios(axis: Any, outcomes: Sequence[Claims]) -> None:
    """Draw p50 at the largest backlog as a multiple of that at the smallest, state by state."""
    largest, smallest = max(outcome.size for outcome in outcomes), min(outcome.size for outcome in outcomes)
    shown = [outcome for outcome in outcomes if outcome.size == largest][::-1]
    for place, outcome in enumerate(shown):
        ratio = outcome.of_smallest
        axis.barh(place, ratio.median, 0.6, color=LINES[len(shown) - 1 - place])
        axis.plot([ratio.low, ratio.high], [place, place], color="#222222", linewidth=1.2)
        axis.text(max(ratio.median, ratio.high) + 0.02, place, f"{ratio.median:.2f}", va="center", fontsize=9)
    axis.axvline(MOST, color="#222222", linestyle="--", linewidth=1)
    axis.text(MOST + 0.02, len(shown) - 1, f"at most {MOST}", fontsize=9, va="center")
    axis.set_yticks(range(len(shown)), [outcome.title for outcome in shown])
    axis.set_xlim(0, max(MOST + 0.35, *(outcome.of_smallest.high + 0.2 for outcome in shown)))
    axis.set_xlabel(f"claim p50 at {largest:,} messages / at {smallest:,} (line: quartiles over the rounds)")
    axis.set_title("Claims don't slow down with the backlog (fast)", fontsize=10.5)


def _latencies(axis: Any, outcomes: Sequence[Claims]) -> None:
    for colour, mark, state in zip(LINES, MARKS, dict.fromkeys(outcome.title for outcome in outcomes), strict=False):
        points = [outcome for outcome in outcomes if outcome.title == state]
        sizes = [outcome.size for outcome in points]
        axis.plot(sizes, [o.claim_us.p50 for o in points], marker=mark, color=colour, linewidth=1.6, label=state)
        axis.plot(sizes, [o.claim_us.p99 for o in points], marker=mark, color=colour, linewidth=0.8, linestyle=":")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(10, max(outcome.claim_us.p99 for outcome in outcomes) * 8)
    axis.set_xlabel("messages in the queue (log)")
    axis.set_ylabel("time of one claim, µs (log)")
    axis.set_title("Claim latency (fast): p50 solid, p99 dotted", fontsize=10.5)
    axis.grid(alpha=0.3, linewidth=0.6)
