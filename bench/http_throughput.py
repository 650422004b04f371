"""Requests a second that the server answers, and the cost of each, against a connection that answers a constant."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from msgspec import Struct

from bench import serving, wrk
from bench.bodies import Bodies
from bench.loads import JOBS, SIZE, Job, in_sqew
from bench.report import Figure, Section, Table
from bench.serving import QUEUE, Served
from bench.timing import Spread, in_turn, spread
from bench.workspace import remove, say

Durability = Literal["durable", "fast"]
DURABILITIES: tuple[Durability, ...] = ("durable", "fast")
SYNCHRONOUS = {"durable": "FULL", "fast": "NORMAL"}
TITLE = "Throughput"
AT = 32
"""The number of connections that the figures are for."""
MOST_CPU = 2.2
LEAST_SENDS = {"fast": 35_000, "durable": 25_000}
LEAST_CYCLE = 25_000
LEAST_IN_BATCHES = 120_000
_WRK_IS_BUSY = 0.9


class Scale(Struct, frozen=True):
    seconds: int
    """Seconds that one run of wrk lasts."""
    rounds: dict[int, int]
    """Rounds by the number of connections."""
    jobs: dict[int, Sequence[Job]]
    backlog_rounds: int
    backlog_jobs: Sequence[Job] = JOBS


class Outcome(Struct, frozen=True):
    """A job at a number of connections."""

    durability: Durability
    backlog: int
    connections: int
    job: Job
    requests_per_s: Spread
    messages_per_s: Spread
    cpu_us: Spread
    of_constant: Spread
    """The server's processor time for a request, as a multiple of the constant's in the same round."""
    server_busy: Spread
    refused: float
    wrk_busy: float

    @property
    def counted(self) -> Spread:
        """The rate that counts for the job: messages, or requests if a message takes three."""
        return self.requests_per_s if self.job == "cycle" else self.messages_per_s


class Ceiling(Struct, frozen=True):
    """The connection that answers a constant, to the request that is a send."""

    connections: int
    requests_per_s: Spread
    cpu_us: Spread
    wrk_busy: float


def measure(folder: Path, seed: int, scale: Scale, backlog: int, filled: Callable[[], Path]) -> Section:
    """Measure an empty queue, then one with a backlog, in a copy of the file that ``filled`` makes."""
    measuring = _Measuring(folder, seed, scale.seconds)
    with ExitStack() as stack:
        measuring.constant = stack.enter_context(serving.constant(folder))
        for connections, rounds in scale.rounds.items():
            for number in range(rounds):
                say(f"throughput, {connections} connections: round {number + 1} of {rounds}")
                measuring.empty_round(number, connections, scale.jobs[connections])
        measuring.full_rounds(scale, backlog, filled())
    outcomes, ceilings = measuring.outcomes(), measuring.ceilings()
    tables = [
        *(
            _table(outcomes, ceilings, durability, size)
            for durability in DURABILITIES
            for size in sorted({outcome.backlog for outcome in outcomes})
        ),
        _cpu_table(outcomes, ceilings),
    ]
    return Section("throughput", TITLE, tables, _figures(outcomes), {"outcomes": outcomes, "ceilings": ceilings})


class _Measuring:
    """Runs, round after round, and their results."""

    constant: Served

    def __init__(self, folder: Path, seed: int, seconds: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._seconds = folder, seconds
        self._loads = in_sqew(seed)
        self._runs: dict[tuple[Durability, int, int, Job], list[wrk.Run]] = defaultdict(list)
        self._of_constant: dict[tuple[Durability, int, int, Job], list[float]] = defaultdict(list)
        self._constant: dict[int, list[wrk.Run]] = defaultdict(list)

    def empty_round(self, number: int, connections: int, jobs: Sequence[Job]) -> None:
        """Run one round on files that hold only messages of the round itself."""
        with ExitStack() as stack:
            served = {
                durability: stack.enter_context(serving.sqew(self._folder, durability)) for durability in DURABILITIES
            }
            self._round(number, connections, jobs, served, backlog=0)
        for file in self._folder.glob("*.db"):
            remove(file)

    def full_rounds(self, scale: Scale, backlog: int, filled: Path) -> None:
        """Run all rounds on files that hold a backlog, which grows and shrinks a little with each."""
        with ExitStack() as stack:
            served: dict[Durability, Served] = {}
            for durability in DURABILITIES:
                file = copied(filled, self._folder / f"filled-{durability}.db")
                served[durability] = stack.enter_context(serving.sqew(self._folder, durability, file))
            for number in range(scale.backlog_rounds):
                say(f"throughput, {backlog:,} messages in the queue: round {number + 1} of {scale.backlog_rounds}")
                self._round(number, AT, scale.backlog_jobs, served, backlog)
        for durability in DURABILITIES:
            remove(self._folder / f"filled-{durability}.db")

    def _round(
        self, number: int, connections: int, jobs: Sequence[Job], served: dict[Durability, Served], backlog: int
    ) -> None:
        runs: dict[tuple[Durability, Job], wrk.Run] = {}
        for job in jobs:
            # The constant answers sends, and stands beside them in time.
            contenders: list[tuple[Durability | None, Served]] = list(served.items())
            if job == "send":
                contenders.append((None, self.constant))
            for durability, server in in_turn(contenders, number):
                run = wrk.run(server, self._loads[job], connections, self._seconds, self._folder)
                if run is not None and durability is None:
                    self._constant[connections].append(run)
                elif run is not None and durability is not None:
                    runs[durability, job] = run
        ceiling = self._constant[connections][-1]
        for (chosen, job), run in runs.items():
            self._runs[chosen, backlog, connections, job].append(run)
            self._of_constant[chosen, backlog, connections, job].append(run.cpu_us / ceiling.cpu_us)

    def outcomes(self) -> list[Outcome]:
        return [
            Outcome(
                *key,
                spread([run.requests_per_s for run in runs]),
                spread([run.messages_per_s for run in runs]),
                spread([run.cpu_us for run in runs]),
                spread(self._of_constant[key]),
                spread([run.server_busy for run in runs]),
                max(run.refused for run in runs),
                max(run.wrk_busy for run in runs),
            )
            for key, runs in self._runs.items()
        ]

    def ceilings(self) -> list[Ceiling]:
        return [
            Ceiling(
                connections,
                spread([run.requests_per_s for run in runs]),
                spread([run.cpu_us for run in runs]),
                max(run.wrk_busy for run in runs),
            )
            for connections, runs in sorted(self._constant.items())
        ]


def fill(file: Path, size: int, seed: int) -> Path:
    """Fill a file with a backlog, sent through the server in batches."""
    say(f"sending a backlog of {size:,} messages")
    bodies = Bodies(seed, SIZE)
    with serving.sqew(file.parent, "fast", file) as served:
        for first in range(0, size, 1_000):
            batch = [{"payload": body} for body in bodies.take(min(1_000, size - first))]
            served.json("POST", f"/queues/{QUEUE}/messages", batch)
    return file


def copied(file: Path, to: Path) -> Path:
    """Copy a file to the disk with an fsync, so that no fsync of the benchmark has to wait for it."""
    shutil.copyfile(file, to)
    with to.open("rb") as written:
        os.fsync(written.fileno())
    return to


def _table(outcomes: Iterable[Outcome], ceilings: Sequence[Ceiling], durability: Durability, backlog: int) -> Table:
    found = {
        (outcome.job, outcome.connections): outcome
        for outcome in outcomes
        if (outcome.durability, outcome.backlog) == (durability, backlog)
    }
    columns = sorted({connections for _, connections in found})
    rows = [
        [
            "constant answer",
            *(_cell(one.requests_per_s, one.cpu_us, 0, one.wrk_busy) for one in ceilings if one.connections in columns),
        ]
    ]
    for job in JOBS:
        cells = [found.get((job, connections)) for connections in columns]
        if any(cells):
            rows.append([job, *("–" if cell is None else _outcome_cell(cell) for cell in cells)])
    state = f"{backlog:,} messages in the queue" if backlog else "empty queue"
    return Table(
        f"{durability} (WAL, synchronous={SYNCHRONOUS[durability]}), {state}: a second, and the server's CPU a request",
        ["messages (cycle, constant: requests)", *(f"{n} connection{'s' * (n > 1)}" for n in columns)],
        rows,
        "Median over the rounds [quartiles]. *: wrk itself was busy for more than 90 % of the time.",
    )


def _outcome_cell(outcome: Outcome) -> str:
    return _cell(outcome.counted, outcome.cpu_us, outcome.refused, outcome.wrk_busy)


def _cell(rate: Spread, cpu_us: Spread, refused: float, busy: float) -> str:
    around = f" [{rate_text(rate.low)}–{rate_text(rate.high)}]" if rate.count > 1 else ""
    mark = "*" if busy > _WRK_IS_BUSY else ""
    failed = f", {refused:.1%} refused" if refused else ""
    return f"{rate_text(rate.median)}{mark}{around}, {cpu_us.median:.0f} µs{failed}"


def _cpu_table(outcomes: Iterable[Outcome], ceilings: Sequence[Ceiling]) -> Table:
    found = {
        (outcome.job, outcome.durability): outcome
        for outcome in outcomes
        if (outcome.backlog, outcome.connections) == (0, AT)
    }
    ceiling = next(one.cpu_us.median for one in ceilings if one.connections == AT)
    rows = []
    for job in JOBS:
        cells = [found.get((job, durability)) for durability in DURABILITIES]
        if any(cells):
            texts = [
                "–" if cell is None else f"{cell.cpu_us.median:.1f} µs, {around(cell.of_constant)}" for cell in cells
            ]
            rows.append([job, *texts])
    return Table(
        f"The server's CPU per request at {AT} connections, empty queue, and as a multiple of the constant's "
        f"({ceiling:.1f} µs)",
        ["request", *(f"{durability} (synchronous={SYNCHRONOUS[durability]})" for durability in DURABILITIES)],
        rows,
        "Processor time of the whole process: what other programs do is not in it. Median of the ratios [quartiles].",
    )


def _figures(outcomes: Iterable[Outcome]) -> list[Figure]:
    found = {
        (outcome.durability, outcome.job): outcome
        for outcome in outcomes
        if (outcome.backlog, outcome.connections) == (0, AT)
    }
    figures = []
    for durability in ("fast", "durable"):
        send = found[durability, "send"]
        figures += [
            Figure(
                f"CPU per send, {durability}: times the constant answer's",
                f"≤ {MOST_CPU}",
                around(send.of_constant),
                send.of_constant.median <= MOST_CPU,
            ),
            _at_least(f"sends a second at {AT} connections, {durability}", LEAST_SENDS[durability], send),
            _at_least(f"whole cycle, requests a second, {durability}", LEAST_CYCLE, found[durability, "cycle"]),
            _at_least(
                f"batches of 100, messages a second, {durability}",
                LEAST_IN_BATCHES,
                found[durability, "send x100"],
            ),
        ]
    return figures


def _at_least(name: str, wanted: int, outcome: Outcome) -> Figure:
    measured, busy = outcome.counted.median, outcome.server_busy.median
    return Figure(name, f"≥ {wanted:,}", f"{measured:,.0f} (the server ran {busy:.0%} of the time)", measured >= wanted)


def around(ratio: Spread) -> str:
    return f"{ratio.median:.2f} [{ratio.low:.2f}–{ratio.high:.2f}]" if ratio.count > 1 else f"{ratio.median:.2f}"


def rate_text(per_second: float) -> str:
    return f"{per_second / 1000:.1f}k" if per_second >= 1000 else f"{per_second:.0f}"
