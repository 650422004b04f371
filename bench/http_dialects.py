"""Whole cycles (send, receive, settle) in each dialect, beside those in Sqew's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from bench import serving, wrk
from bench.http_throughput import AT, DURABILITIES, Durability, around, rate_text
from bench.loads import Job, in_hq, in_native, in_sqew
from bench.report import Figure, Section, Table
from bench.timing import Spread, in_turn, ratios, spread
from bench.workspace import say

TITLE = "Dialects"
LOADS: dict[str, Callable[[int, str], dict[Job, wrk.Load]]] = {"Sqew": in_sqew, "/v1": in_native, "hq": in_hq}
"""Loads by the dialect's name, Sqew's own first: the others are compared with it."""
LEAST_OF_OWN = 0.85


class Scale(Struct, frozen=True):
    seconds: int
    rounds: int


class Outcome(Struct, frozen=True):
    """Cycles of one dialect."""

    durability: Durability
    dialect: str
    requests_per_s: Spread
    cpu_us: Spread
    of_own: Spread
    """Requests a second, as a multiple of those of Sqew's own dialect in the same round."""
    refused: float


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    """Measure each dialect in turn, round after round, on the same server."""
    outcomes = [outcome for durability in DURABILITIES for outcome in _measured(folder, seed, scale, durability)]
    rows = [
        [
            outcome.dialect,
            outcome.durability,
            f"{rate_text(outcome.requests_per_s.median)}/s, {outcome.cpu_us.median:.0f} µs",
            around(outcome.of_own) + (f", {outcome.refused:.1%} refused" if outcome.refused else ""),
        ]
        for outcome in outcomes
    ]
    table = Table(
        f"Cycles at {AT} connections: requests a second, the server's CPU per request, and the rate as a multiple of "
        "that in Sqew's own dialect",
        ["dialect", "durability", "requests", "of Sqew's own"],
        rows,
        "A cycle is three requests. Median over the rounds [quartiles]; the multiples are of the same round.",
    )
    figures = [
        Figure(
            f"cycles in the dialect {outcome.dialect}, {outcome.durability}: of Sqew's own",
            f"≥ {LEAST_OF_OWN}",
            around(outcome.of_own),
            outcome.of_own.median >= LEAST_OF_OWN,
        )
        for outcome in outcomes
        if outcome.dialect != next(iter(LOADS))
    ]
    return Section("dialects", TITLE, [table], figures, {"outcomes": outcomes})


def _measured(folder: Path, seed: int, scale: Scale, durability: Durability) -> list[Outcome]:
    runs: dict[str, list[wrk.Run]] = defaultdict(list)
    with ExitStack() as stack:
        served = stack.enter_context(serving.sqew(folder, durability))
        for number in range(scale.rounds):
            say(f"dialects, {durability}: round {number + 1} of {scale.rounds}")
            for dialect, loads in in_turn(list(LOADS.items()), number):
                queue = f"cycles-{list(LOADS).index(dialect)}"
                if not number:
                    serving.make_queue(served, queue)
                run = wrk.run(served, loads(seed, queue)["cycle"], AT, scale.seconds, folder)
                if run is not None:
                    runs[dialect].append(run)
    own = [run.requests_per_s for run in runs[next(iter(LOADS))]]
    return [
        Outcome(
            durability,
            dialect,
            spread([run.requests_per_s for run in runs[dialect]]),
            spread([run.cpu_us for run in runs[dialect]]),
            ratios([run.requests_per_s for run in runs[dialect]], own),
            max(run.refused for run in runs[dialect]),
        )
        for dialect in LOADS
    ]
