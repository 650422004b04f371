"""Cost of the event log: the same queue with and without it, taking turns."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct

from bench.bodies import Bodies
from bench.report import Figure, Section, Table
from bench.timing import Spread, in_turn, ratios, spread
from bench.workspace import say
from sqew import Queue

MOST = 0.15
TITLE = "Event log"
QUEUE = "bench"


class Scale(Struct, frozen=True):
    rounds: int
    cycles: int


class Outcome(Struct, frozen=True):
    durability: str
    without_us: float
    with_us: float
    slowdown: Spread
    cpu_slowdown: Spread
    """The slowdown by processor time, that of the log's own thread included."""


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = [_measure(folder, seed, scale, durability) for durability in ("durable", "fast")]
    table = Table(
        "One enqueue, claim and ack, with and without event_log",
        ["durability", "without", "with", "slowdown", "by processor time"],
        [
            [
                f"{outcome.durability} (synchronous={'FULL' if outcome.durability == 'durable' else 'NORMAL'})",
                f"{outcome.without_us:.0f} µs",
                f"{outcome.with_us:.0f} µs",
                _percent(outcome.slowdown),
                _percent(outcome.cpu_slowdown),
            ]
            for outcome in outcomes
        ],
        "Median over the rounds [quartiles]. The log's writer is a thread: on a busy machine its time is not free.",
    )
    figures = [
        Figure(
            f"event log, {outcome.durability}: slower by",
            f"≤ {MOST:.0%}",
            f"{outcome.slowdown.median:+.1%}",
            outcome.slowdown.median <= MOST,
        )
        for outcome in outcomes
    ]
    return Section("event-log", TITLE, [table], figures, {"outcomes": outcomes})


def _measure(folder: Path, seed: int, scale: Scale, durability: str) -> Outcome:
    log = folder / f"{durability}.jsonl"
    without = Queue.open(folder / f"{durability}-without.db", durability=durability)
    recorded = Queue.open(folder / f"{durability}-with.db", durability=durability, event_log=str(log))
    wall: dict[Queue, list[float]] = {without: [], recorded: []}
    cpu: dict[Queue, list[float]] = {without: [], recorded: []}
    bodies = Bodies(seed)
    with without, recorded:
        for queue in wall:
            queue.create(QUEUE)
        for number in range(scale.rounds + 1):
            if number % 10 == 0:
                say(f"event log, {durability}: round {number} of {scale.rounds}")
            for queue in in_turn([without, recorded], number):
                seconds, busy = _cycles(queue, bodies, scale.cycles)
                if number:  # the first one warms up
                    wall[queue].append(seconds)
                    cpu[queue].append(busy)
    lines = sum(1 for _ in log.open("rb"))
    expected = 3 * scale.cycles * (scale.rounds + 1)
    assert lines == expected, f"the event log has {lines} lines and should have {expected}"
    return Outcome(
        durability,
        spread(wall[without]).median * 1e6,
        spread(wall[recorded]).median * 1e6,
        _less_one(ratios(wall[recorded], wall[without])),
        _less_one(ratios(cpu[recorded], cpu[without])),
    )


def _cycles(queue: Queue, bodies: Bodies, count: int) -> tuple[float, float]:
    """Return the seconds of one cycle, on the wall and of the processor."""
    values = bodies.take(count)
    start, busy = time.perf_counter(), time.process_time()
    for value in values:
        queue.enqueue(QUEUE, value)
        message = queue.claim(QUEUE, consumer="worker-1")
        assert message is not None
        queue.ack(message)
    # The log's thread writes up to 100 ms later: into the time of whoever is next, if it were not for this.
    log = queue._engine._event_log
    if log is not None:
        log.flush()
    return (time.perf_counter() - start) / count, (time.process_time() - busy) / count


def _less_one(ratio: Spread) -> Spread:
    return Spread(ratio.median - 1, ratio.low - 1, ratio.high - 1, ratio.count)


def _percent(part: Spread) -> str:
    return f"{part.median:+.1%} [{part.low:+.1%} – {part.high:+.1%}]"
