"""The benchmark of queues in PostgreSQL, as ``python3 dev bench postgres`` runs it. See docs/benchmarks-postgres.md."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from bench import command, postgres_shapes, postgres_throughput, report
from bench.postgres_cluster import Cluster, cluster
from bench.workspace import say


class Scale(Struct, frozen=True):
    """The length of everything."""

    throughput: postgres_throughput.Scale
    shapes: postgres_shapes.Scale
    needed_bytes: int = 3 << 30


SCALES = {
    "quick": Scale(
        postgres_throughput.Scale(rounds=1, clients=(8,), singles=1_000, batched=10_000, servers=(1,)),
        postgres_shapes.Scale(backlogs=(1_000, 100_000), groups=(1_000, 20_000), passed=10_000, claims=100),
    ),
    "default": Scale(
        postgres_throughput.Scale(rounds=3, clients=(8, 32), singles=3_000, batched=30_000),
        postgres_shapes.Scale(backlogs=(1_000, 100_000), groups=(1_000, 200_000), passed=60_000, claims=300),
    ),
    "full": Scale(
        postgres_throughput.Scale(rounds=7, clients=(8, 32), singles=5_000, batched=50_000),
        postgres_shapes.Scale(
            backlogs=(1_000, 100_000, 1_000_000), groups=(1_000, 200_000), passed=60_000, claims=1_000
        ),
    ),
}

T = TypeVar("T")


def _on_a_cluster(
    measure: Callable[[Cluster, T], report.Section], scale_of: Callable[[Scale], T]
) -> Callable[[Path, int, Scale], report.Section]:
    def run(folder: Path, _seed: int, scale: Scale) -> report.Section:
        with cluster(folder) as running:
            say(f"PostgreSQL {running.version}")
            return measure(running, scale_of(scale))

    return run


def _draw(sections: Sequence[report.Section], to: Path) -> None:
    sys.exit("bench: this benchmark has tables only; leave out --plot.")


BENCHMARK = command.Benchmark(
    name="bench.postgres",
    doc="Measure queues in PostgreSQL.",
    lengths={"quick": "two minutes: does it run at all?", "full": "half an hour: for figures to publish"},
    scales=SCALES,
    sections={
        "throughput": _on_a_cluster(postgres_throughput.measure, lambda scale: scale.throughput),
        "shapes": _on_a_cluster(postgres_shapes.measure, lambda scale: scale.shapes),
    },
    packages=("asyncpg", "msgspec", "uvloop"),
    draw=_draw,
)


def main(arguments: list[str] | None = None) -> int:
    return command.run(BENCHMARK, arguments)


if __name__ == "__main__":
    command.exit_with(main)
