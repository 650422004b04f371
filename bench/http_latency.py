"""Latency of a request at a fixed rate, alone and while another client exports the whole queue."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import msgspec
import uvloop
from msgspec import Struct

from bench import serving
from bench.bodies import Bodies
from bench.http_throughput import DURABILITIES, SYNCHRONOUS, around, copied
from bench.loads import SIZE
from bench.open_loop import Cycle, Export, Generator, Seen
from bench.report import Figure, Section, Table
from bench.serving import HOST, QUEUE, Served
from bench.timing import Spread, in_turn, ratios
from bench.workspace import remove, say

CONNECTIONS = 32
MOST = 3.0
_WARM_UP_S = 0.5
T = TypeVar("T")


class Scale(Struct, frozen=True):
    rates: tuple[int, ...]
    seconds: float
    rounds: int


class ExportScale(Struct, frozen=True):
    rate: int
    seconds: float
    """Seconds of measuring without an export; with one, it lasts as long as the export."""
    rounds: int


class Outcome(Struct, frozen=True):
    contender: str
    rate: int
    rounds: list[Seen]


class ExportOutcome(Struct, frozen=True):
    durability: str
    without: list[Seen]
    during: list[Seen]
    lines: list[int]
    seconds: list[float]
    p99_ratio: Spread


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    """Measure the whole cycle at some rates, and the constant answer beside it."""
    seen: dict[tuple[str, int], list[Seen]] = defaultdict(list)
    with ExitStack() as stack:
        served = {
            f"sqew, {durability} (synchronous={SYNCHRONOUS[durability]})": stack.enter_context(
                serving.sqew(folder, durability)
            )
            for durability in DURABILITIES
        }
        served["constant answer"] = stack.enter_context(serving.constant(folder))
        for number in range(scale.rounds):
            say(f"latency: round {number + 1} of {scale.rounds}")
            for rate in scale.rates:
                for name in in_turn(list(served), number):
                    seen[name, rate].append(_run(_at_a_rate(served[name], seed, rate, scale.seconds)))
    outcomes = [Outcome(name, rate, rounds) for (name, rate), rounds in seen.items()]
    return Section("latency", "Latency at a fixed rate", [_table(outcomes)], [], {"outcomes": outcomes})


async def _at_a_rate(served: Served, seed: int, rate: int, seconds: float) -> Seen:
    generator = Generator(served.port, _cycle(seed))
    await generator.connect(CONNECTIONS)
    try:
        await generator.run(rate, _WARM_UP_S)
        return await generator.run(rate, seconds)
    finally:
        generator.close()


def _table(outcomes: Sequence[Outcome]) -> Table:
    seen = [one for outcome in outcomes for one in outcome.rounds]
    return Table(
        f"Whole cycle at a fixed rate over {CONNECTIONS} connections, from the intended start of each request, µs",
        ["requests a second", "server", "p50", "p99", "worst", "p99 of the generator's own lag"],
        [
            [
                f"{outcome.rate:,}",
                outcome.contender,
                *(
                    f"{statistics.median(getattr(one, field) for one in outcome.rounds):,.0f}"
                    for field in ("p50", "p99", "worst", "lag_p99")
                ),
            ]
            for outcome in sorted(outcomes, key=lambda outcome: outcome.rate)
        ],
        f"Median over the rounds. What the generator is late by is in the latencies. {_refusals(seen)}",
    )


def _refusals(seen: Sequence[Seen]) -> str:
    refused = sum(one.refused for one in seen)
    return (
        f"{refused:,} of {sum(one.count for one in seen):,} requests were refused." if refused else "None was refused."
    )


def measure_export(folder: Path, seed: int, scale: ExportScale, filled: Path, size: int) -> Section:
    """Measure the whole cycle at one rate, with and without a client that exports the queue."""
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for durability in DURABILITIES:
        file = copied(filled, folder / f"{durability}.db")
        with serving.sqew(folder, durability, file) as served:
            outcomes.append(_run(_beside_exports(served, durability, seed, scale)))
        remove(file)
    return Section(
        "export",
        "Latency during an export",
        [_export_table(outcomes, scale, size)],
        [_export_figure(outcome, size) for outcome in outcomes],
        {"outcomes": outcomes},
    )


async def _beside_exports(served: Served, durability: str, seed: int, scale: ExportScale) -> ExportOutcome:
    generator = Generator(served.port, _cycle(seed))
    await generator.connect(CONNECTIONS)
    without, during, lines, seconds = [], [], [], []
    try:
        await generator.run(scale.rate, _WARM_UP_S)
        for number in range(scale.rounds):
            say(f"export, {durability}: round {number + 1} of {scale.rounds}")
            without.append(await generator.run(scale.rate, scale.seconds))
            begun = time.perf_counter()
            _, export = await asyncio.get_running_loop().create_connection(
                lambda: Export(f"/queues/{QUEUE}/export"), HOST, served.port
            )
            during.append(await generator.run_during(scale.rate, export.ended))
            lines.append(export.lines)
            seconds.append(time.perf_counter() - begun)
            export.stop()
    finally:
        generator.close()
    ratio = ratios([one.p99 for one in during], [one.p99 for one in without])
    return ExportOutcome(durability, without, during, lines, seconds, ratio)


def _export_figure(outcome: ExportOutcome, size: int) -> Figure:
    # What was acked before the export came to it is missing from it.
    is_whole = min(outcome.lines) >= 0.99 * size
    refused = sum(one.refused for one in (*outcome.without, *outcome.during))
    return Figure(
        f"p99 while one client exports {size:,} messages, {outcome.durability}: times that without",
        f"≤ {MOST:.0f}",
        around(outcome.p99_ratio)
        + ("" if is_whole else f"; an export ended after {min(outcome.lines):,} messages")
        # An error is quicker than an answer.
        + (f"; {refused:,} requests were refused" if refused else ""),
        outcome.p99_ratio.median <= MOST and is_whole and not refused,
    )


def _export_table(outcomes: Sequence[ExportOutcome], scale: ExportScale, size: int) -> Table:
    rows = []
    seen = [one for outcome in outcomes for one in (*outcome.without, *outcome.during)]
    for outcome in outcomes:
        name = f"{outcome.durability} (synchronous={SYNCHRONOUS[outcome.durability]})"
        speed = statistics.median(n / s for n, s in zip(outcome.lines, outcome.seconds, strict=True))
        for state, rounds in (
            ("alone", outcome.without),
            (f"exporting {speed:,.0f} messages a second", outcome.during),
        ):
            cells = [
                f"{statistics.median(getattr(one, field) for one in rounds):,.0f}"
                for field in ("p50", "p99", "worst", "lag_p99")
            ]
            rows.append([name, state, *cells])
    return Table(
        f"Whole cycle at {scale.rate:,} requests a second on a queue of {size:,} messages, from the intended start, µs",
        ["durability", "", "p50", "p99", "worst", "p99 of the generator's own lag"],
        rows,
        f"Median over the rounds. The client that exports reads as fast as the server sends. {_refusals(seen)}",
    )


def _cycle(seed: int) -> Cycle:
    return Cycle(QUEUE, msgspec.json.encode(Bodies(seed, SIZE).next()))


def _run(work: Coroutine[object, object, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
