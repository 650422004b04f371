"""The benchmark of events, deliveries and schedules, as ``python3 dev bench events`` runs it.

See docs/benchmarks-events.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from bench import command, events_deliveries, events_publish, events_schedules, report, served


class Scale(Struct, frozen=True):
    """The length of everything."""

    publish: events_publish.Scale
    deliveries: events_deliveries.Scale
    schedules: events_schedules.Scale
    needed_bytes: int = 2 << 30


SCALES = {
    "quick": Scale(
        events_publish.Scale(seconds=1, rounds=1, matching=(1, 10, 100), others=(10_000,)),
        events_deliveries.Scale(deliveries=1_000, rounds=1, endpoints=(1, 10)),
        events_schedules.Scale(schedules=10_000, due=1_000, rounds=1),
    ),
    "default": Scale(
        events_publish.Scale(seconds=2, rounds=3, matching=(1, 10, 1_000), others=(1_000, 10_000, 100_000)),
        events_deliveries.Scale(deliveries=5_000, rounds=3, endpoints=(1, 10, 100)),
        events_schedules.Scale(schedules=100_000, due=1_000, rounds=2),
    ),
    "full": Scale(
        events_publish.Scale(seconds=3, rounds=7, matching=(1, 10, 100, 1_000), others=(1_000, 10_000, 100_000)),
        events_deliveries.Scale(deliveries=20_000, rounds=5, endpoints=(1, 10, 100)),
        events_schedules.Scale(schedules=100_000, due=1_000, rounds=5),
    ),
}


def _draw(sections: Sequence[report.Section], to: Path) -> None:
    from bench.events_plot import draw

    draw(sections, to)


BENCHMARK = command.Benchmark(
    name="bench.events",
    doc="Measure events, deliveries and schedules.",
    lengths={"quick": "half a minute: does it run at all?", "full": "a quarter of an hour: for figures to publish"},
    scales=SCALES,
    sections={
        "publish": lambda folder, seed, scale: events_publish.measure(folder, seed, scale.publish),
        "deliveries": lambda folder, seed, scale: events_deliveries.measure(folder, seed, scale.deliveries),
        "schedules": lambda folder, seed, scale: events_schedules.measure(folder, seed, scale.schedules),
    },
    packages=("apsw", "msgspec", "httptools", "uvloop"),
    draw=_draw,
)


def main(arguments: list[str] | None = None) -> int:
    return served.run(BENCHMARK, arguments)


if __name__ == "__main__":
    command.exit_with(main)
