"""Latency of a claim, against the size and the state of the backlog."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from bench.backlogs import READY, STATES, State, build, check
from bench.report import Figure, Section, Table
from bench.timing import Quantiles, Spread, in_turn, quantile, quantiles, ratios
from bench.workspace import evict, remove, say
from sqew import Queue

MOST = 1.5
TITLE = "Claim latency against backlog"
WARM_UP = 200


class Scale(Struct, frozen=True):
    sizes: tuple[int, ...]
    rounds: int
    claims: int
    """Claims in a round, of each size."""


class Outcome(Struct, frozen=True):
    """Claims out of one backlog."""

    state: str
    title: str
    size: int
    claim_us: Quantiles
    of_smallest: Spread
    """The p50 of each round, as a multiple of that of the smallest backlog."""
    open_ms: float
    cold_claim_ms: float


class _Backlog:
    """An open backlog and the times of its claims."""

    def __init__(self, path: Path, state: State, size: int) -> None:
        self.size = size
        self._state = state
        self.taken: list[int] = []
        self.medians: list[float] = []
        evict(path)
        start = time.perf_counter_ns()
        self.queue = Queue.open(path, durability="fast")
        opened = time.perf_counter_ns()
        cold = self._claim()
        self.open_ms, self.cold_claim_ms = (opened - start) / 1e6, cold / 1e6

    def run(self, claims: int) -> list[int]:
        return [self._claim() for _ in range(claims)]

    def _claim(self) -> int:
        """Return the nanoseconds of one claim. The message goes back, untimed."""
        name, queue = self._state.queue, self.queue
        start = time.perf_counter_ns()
        message = queue.claim(name, lease_seconds=60)
        taken = time.perf_counter_ns() - start
        assert message is not None, f"nothing to claim: {self._state.name}, {self.size}"
        self._state.settle(queue, message, self.size)
        return taken


def measure(folder: Path, seed: int, scale: Scale, states: Sequence[State] = STATES) -> Section:
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    ready: dict[int, Path] = {}
    for state in states:
        paths = {}
        for size in scale.sizes:
            say(f"backlog: {state.title}, {size:,} messages")
            paths[size] = folder / f"{state.name}-{size}.db"
            build(paths[size], state, size, seed, ready.get(size))
            if state is READY:
                # Claims don't change what others are made of.
                ready[size] = folder / f"base-{size}.db"
                paths[size].rename(ready[size])
                build(paths[size], state, size, seed, ready[size])
        outcomes += _measure(state, paths, scale)
        for path in paths.values():
            remove(path)
    for path in ready.values():
        remove(path)
    return Section("backlog", TITLE, [_table(outcomes)], _figures(outcomes), {"outcomes": outcomes})


def _measure(state: State, paths: dict[int, Path], scale: Scale) -> list[Outcome]:
    backlogs = [_Backlog(path, state, size) for size, path in paths.items()]
    for backlog in backlogs:
        check(backlog.queue, state, backlog.size)
        backlog.run(WARM_UP)
    for number in range(scale.rounds):
        for backlog in in_turn(backlogs, number):
            taken = backlog.run(scale.claims)
            backlog.taken += taken
            backlog.medians.append(quantile(sorted(taken), 0.5))
    for backlog in backlogs:
        assert backlog.queue.stats(state.queue).depths.total() == backlog.size, "messages were lost"
        backlog.queue.close()
    return [
        Outcome(
            state.name,
            state.title,
            backlog.size,
            quantiles(backlog.taken),
            ratios(backlog.medians, backlogs[0].medians),
            backlog.open_ms,
            backlog.cold_claim_ms,
        )
        for backlog in backlogs
    ]


def _table(outcomes: Sequence[Outcome]) -> Table:
    smallest = outcomes[0].size
    return Table(
        "Claim latency, fast (WAL, synchronous=NORMAL): warm, µs; and the first claim after opening with nothing in "
        "memory, ms",
        ["state (at 1M; fewer in proportion)", "backlog", "p50", "p95", "p99", f"p50 / p50 at {smallest:,}", "cold"],
        [
            [
                outcome.title,
                f"{outcome.size:,}",
                f"{outcome.claim_us.p50:.0f}",
                f"{outcome.claim_us.p95:.0f}",
                f"{outcome.claim_us.p99:.0f}",
                "" if outcome.size == smallest else _around(outcome.of_smallest),
                f"{outcome.cold_claim_ms:.1f}",
            ]
            for outcome in outcomes
        ],
        "The sizes take turns in short rounds; the ratio is the median over the rounds [quartiles].",
    )


def _around(ratio: Spread) -> str:
    return f"{ratio.median:.2f} [{ratio.low:.2f}–{ratio.high:.2f}]"


def _figures(outcomes: Sequence[Outcome]) -> list[Figure]:
    largest = max(outcome.size for outcome in outcomes)
    smallest = min(outcome.size for outcome in outcomes)
    return [
        Figure(
            f"claim p50 at {largest:,} / at {smallest:,}: {outcome.title}",
            f"≤ {MOST}",
            f"{outcome.of_smallest.median:.2f}",
            outcome.of_smallest.median <= MOST,
        )
        for outcome in outcomes
        if outcome.size == largest
    ]
