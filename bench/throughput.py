"""Messages a second, as a ratio to raw SQL and to the peers at the same durability."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.bodies import Bodies
from bench.contenders import (
    JOBS,
    PEERS,
    SYNCHRONOUS,
    Contender,
    Durability,
    Job,
    RawSQL,
    RawTransactions,
    Sqew,
    open_all,
)
from bench.report import Figure, Section, Table
from bench.timing import Spread, in_turn, ratios, spread
from bench.workspace import say

BATCH = 100
ONE_AT_A_TIME = 0.6
IN_BATCHES = 0.5
TITLE = "Throughput"


class Scale(Struct, frozen=True):
    rounds: dict[Durability, int]
    round_ms: int
    """Milliseconds that raw SQL should take for one job of a round. In 5 ms all still warm up after others' turns."""


class _Runner:
    """A contender, and the messages that it holds between the jobs of a round."""

    def __init__(self, contender: Contender, bodies: Bodies) -> None:
        self.contender = contender
        self._bodies = bodies
        self._sent: list[int] = []
        self._seen: list[int] = []
        self._handles: list[list[Any]] = []

    def run(self, job: Job, count: int) -> tuple[float, float]:
        """Return the seconds for one message: on the wall, and of the processor."""
        prepare, work = self._steps(job, count)
        prepare()
        start, busy = time.perf_counter(), time.process_time()
        work()
        return (time.perf_counter() - start) / count, (time.process_time() - busy) / count

    def _steps(self, job: Job, count: int) -> tuple[Callable[[], object], Callable[[], object]]:
        contender = self.contender
        match job:
            case "enqueue":
                values = self._new(count)
                return _nothing, lambda: self._fill(values)
            case "claim + ack":
                return _nothing, lambda: self._claim_and_ack(count)
            case "take":
                values = self._new(count)
                fill = self._fill_in_batches if "enqueue x100" in contender.jobs else self._fill
                return lambda: fill(values), lambda: self._seen.extend([contender.take()["n"] for _ in range(count)])
            case "enqueue x100":
                values = self._new(count)
                return _nothing, lambda: self._fill_in_batches(values)
            case "claim x100":
                return _nothing, lambda: self._claim_batches(count // BATCH)
            case "ack x100":
                return _nothing, self._ack_batches

    def end_round(self) -> None:
        """Assert that each message sent came back once, or is still there, and nothing else; then start anew."""
        contender, seen = self.contender, set(self._seen)
        assert len(seen) == len(self._seen), f"{contender.name} delivered a message twice"
        assert seen <= set(self._sent), f"{contender.name} delivered what was not sent"
        left, waiting = len(self._sent) - len(seen), contender.waiting()
        assert waiting == left, f"{contender.name} holds {waiting} messages and should hold {left}"
        # Who can do all the jobs has nothing left.
        assert not left or contender.jobs < frozenset(JOBS), f"{contender.name} still holds {left} messages"
        contender.tidy()
        assert contender.waiting() == 0
        contender.checkpoint()
        self._sent, self._seen, self._handles = [], [], []

    def _new(self, count: int) -> list[dict[str, Any]]:
        values = self._bodies.take(count)
        self._sent += [value["n"] for value in values]
        return values

    def _fill(self, values: Sequence[dict[str, Any]]) -> None:
        for value in values:
            self.contender.enqueue(value)

    def _fill_in_batches(self, values: Sequence[dict[str, Any]]) -> None:
        for first in range(0, len(values), BATCH):
            self.contender.enqueue_many(values[first : first + BATCH])

    def _claim_and_ack(self, count: int) -> None:
        contender, seen = self.contender, self._seen
        for _ in range(count):
            handle, value = contender.claim()
            contender.ack(handle)
            seen.append(value["n"])
        contender.remove_finished()

    def _claim_batches(self, count: int) -> None:
        for _ in range(count):
            handles, values = self.contender.claim_many(BATCH)
            self._handles.append(handles)
            self._seen += [value["n"] for value in values]

    def _ack_batches(self) -> None:
        for handles in self._handles:
            self.contender.ack_many(handles)


def _nothing() -> None:
    pass


class Outcome(Struct, frozen=True):
    """A contender at a job."""

    durability: Durability
    synchronous: str
    job: Job
    contender: str
    per_second: float
    of_raw: Spread
    of_sqew: Spread
    cpu_of_raw: Spread
    """The same by processor time: what other programs on the machine do to it is not in there, nor is the disk."""
    cpu_us: float


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    outcomes: list[Outcome] = []
    for durability in ("durable", "fast"):
        outcomes += _measure(folder / durability, seed, scale, durability)
    tables = [_table(outcomes, durability) for durability in ("durable", "fast")]
    return Section("throughput", TITLE, tables, _figures(outcomes), {"outcomes": outcomes})


def _measure(folder: Path, seed: int, scale: Scale, durability: Durability) -> list[Outcome]:
    contenders = open_all(folder, durability)
    try:
        runners = [_Runner(contender, Bodies(seed + place)) for place, contender in enumerate(contenders)]
        counts = _calibrate(runners[0], scale)
        wall: dict[tuple[Job, str], list[float]] = defaultdict(list)
        cpu: dict[tuple[Job, str], list[float]] = defaultdict(list)
        rounds = scale.rounds[durability]
        for number in range(-1, rounds):
            if number % 10 == 0:
                say(f"throughput, {durability}: round {number} of {rounds}")
            for job in JOBS:
                for runner in in_turn([runner for runner in runners if job in runner.contender.jobs], number):
                    seconds, busy = runner.run(job, counts[job])
                    if number >= 0:  # the first one warms up
                        wall[job, runner.contender.name].append(seconds)
                        cpu[job, runner.contender.name].append(busy)
            for runner in runners:
                runner.end_round()
        return [
            Outcome(
                durability,
                contender.synchronous(),
                job,
                contender.name,
                1 / spread(taken).median,
                ratios(wall[job, RawSQL.name], taken),
                ratios(wall[job, Sqew.name], taken),
                ratios(cpu[job, RawSQL.name], cpu[job, contender.name]),
                spread(cpu[job, contender.name]).median * 1e6,
            )
            for contender in contenders
            for job in JOBS
            if (taken := wall.get((job, contender.name)))
        ]
    finally:
        for contender in contenders:
            contender.close()


def _calibrate(raw: _Runner, scale: Scale) -> dict[Job, int]:
    """Return the messages of a round for each job: enough to time, and no more, whatever the disk."""
    counts: dict[Job, int] = {}
    for job in JOBS:
        batched = "x100" in job
        taken, _ = raw.run(job, 5 * BATCH if batched else 60)
        fit = int(scale.round_ms / 1000 / taken)
        counts[job] = min(max(fit, 5 * BATCH), 100 * BATCH) // BATCH * BATCH if batched else min(max(fit, 40), 2_500)
    raw.end_round()
    # What one job enqueues the next one takes.
    counts["claim + ack"] = counts["enqueue"] = min(counts["claim + ack"], counts["enqueue"])
    for job in ("claim x100", "ack x100"):
        counts[job] = counts["enqueue x100"]
    return counts


def _table(outcomes: Sequence[Outcome], durability: Durability) -> Table:
    rows = []
    found = {(outcome.job, outcome.contender): outcome for outcome in outcomes if outcome.durability == durability}
    names = [RawSQL.name, RawTransactions.name, Sqew.name, *PEERS]
    for job in JOBS:
        cells = []
        for name in names:
            outcome = found.get((job, name))
            if outcome is None:
                cells.append("–")
            elif name == RawSQL.name:
                cells.append(f"{_rate(outcome.per_second)}/s")
            else:
                ratio = outcome.of_raw
                around = f" [{ratio.low:.2f}–{ratio.high:.2f}]" if name == Sqew.name else ""
                cells.append(f"{ratio.median:.2f}{around}  {_rate(outcome.per_second)}/s")
        cells.append(f"{found[job, Sqew.name].cpu_of_raw.median:.2f}")
        rows.append([job, *cells])
    return Table(
        f"Throughput, {durability} (WAL, synchronous={SYNCHRONOUS[durability]}, every contender): ratio to raw apsw, "
        "messages a second",
        ["job", *names, "sqew, by processor time"],
        rows,
        "Ratio: median over the rounds [quartiles]; above 1 is faster than raw. –: it can't do that.",
    )


def _figures(outcomes: Sequence[Outcome]) -> list[Figure]:
    figures = []
    for outcome in outcomes:
        if outcome.contender == Sqew.name:
            least = IN_BATCHES if "x100" in outcome.job else ONE_AT_A_TIME
            figures.append(
                Figure(
                    f"{outcome.job}, {outcome.durability}: part of raw apsw",
                    f"≥ {least}",
                    f"{outcome.of_raw.median:.2f}",
                    outcome.of_raw.median >= least,
                )
            )
        elif outcome.contender in PEERS:
            times = 1 / outcome.of_sqew.median
            figures.append(
                Figure(
                    f"{outcome.job}, {outcome.durability}: times {outcome.contender}", "> 1", f"{times:.2f}", times > 1
                )
            )
    return figures


def _rate(per_second: float) -> str:
    return f"{per_second / 1000:.1f}k" if per_second >= 1000 else f"{per_second:.0f}"
