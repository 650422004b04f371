"""The benchmark of the embedded queue, as ``python3 dev bench`` runs it. See docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from bench import command, latency, opening, recording, report, throughput


class Scale(Struct, frozen=True):
    """The length of everything."""

    throughput: throughput.Scale
    backlog: latency.Scale
    opening: opening.Scale
    recording: recording.Scale
    needed_bytes: int


SCALES = {
    "quick": Scale(
        throughput.Scale(rounds={"durable": 4, "fast": 6}, round_ms=20),
        latency.Scale(sizes=(1_000, 10_000, 50_000), rounds=30, claims=30),
        opening.Scale(sizes=(1_000, 50_000), repeats=2, cycles=2_000),
        recording.Scale(rounds=20, cycles=100),
        needed_bytes=256 << 20,
    ),
    "default": Scale(
        throughput.Scale(rounds={"durable": 12, "fast": 20}, round_ms=40),
        latency.Scale(sizes=(1_000, 100_000, 1_000_000), rounds=80, claims=50),
        opening.Scale(sizes=(1_000, 1_000_000), repeats=3, cycles=10_000),
        recording.Scale(rounds=50, cycles=150),
        needed_bytes=5 << 29,
    ),
    "full": Scale(
        throughput.Scale(rounds={"durable": 40, "fast": 80}, round_ms=60),
        latency.Scale(sizes=(1_000, 100_000, 1_000_000), rounds=240, claims=50),
        opening.Scale(sizes=(1_000, 100_000, 1_000_000), repeats=7, cycles=10_000),
        recording.Scale(rounds=150, cycles=200),
        needed_bytes=5 << 29,
    ),
}


def _draw(sections: Sequence[report.Section], to: Path) -> None:
    from bench.plot import draw

    draw(sections, to)


BENCHMARK = command.Benchmark(
    name="bench.embedded",
    doc="Measure the embedded queue.",
    lengths={
        "quick": "half a minute, small backlogs: does it run at all?",
        "full": "up to 15 minutes: for figures to publish",
    },
    scales=SCALES,
    sections={
        "throughput": lambda folder, seed, scale: throughput.measure(folder, seed, scale.throughput),
        "backlog": lambda folder, seed, scale: latency.measure(folder, seed, scale.backlog),
        "opening": lambda folder, seed, scale: opening.measure(folder, seed, scale.opening),
        "event-log": lambda folder, seed, scale: recording.measure(folder, seed, scale.recording),
    },
    packages=("apsw", "msgspec", "litequeue", "persist-queue", "huey"),
    draw=_draw,
)


def main(arguments: list[str] | None = None) -> int:
    return command.run(BENCHMARK, arguments)


if __name__ == "__main__":
    command.exit_with(main)
