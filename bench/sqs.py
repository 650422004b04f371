"""The benchmark of SQS, as ``python3 dev bench sqs`` runs it. See docs/benchmarks-sqs.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from bench import command, report, served, sqs_boto3, sqs_fifo, sqs_raw


class Scale(Struct, frozen=True):
    """The length of everything."""

    raw: sqs_raw.Scale
    boto3: sqs_boto3.Scale
    fifo: sqs_fifo.Scale
    needed_bytes: int = 3 << 30


SCALES = {
    "quick": Scale(
        sqs_raw.Scale(seconds=1, rounds=1),
        sqs_boto3.Scale(seconds=0.5, rounds=1, backlog=20_000, fill_within_s=6),
        sqs_fifo.Scale(seconds=0.5, rounds=1, retained=(1_000, 50_000), fill_within_s=6, groups=(1, 100)),
    ),
    "default": Scale(
        sqs_raw.Scale(seconds=1, rounds=3),
        sqs_boto3.Scale(seconds=1, rounds=2, backlog=200_000, fill_within_s=40),
        sqs_fifo.Scale(seconds=2, rounds=1, retained=(1_000, 200_000), fill_within_s=40),
    ),
    "full": Scale(
        sqs_raw.Scale(seconds=2, rounds=7),
        sqs_boto3.Scale(seconds=2, rounds=5, backlog=200_000, fill_within_s=120),
        sqs_fifo.Scale(seconds=5, rounds=3, retained=(1_000, 200_000), fill_within_s=120),
    ),
}


def _draw(sections: Sequence[report.Section], to: Path) -> None:
    from bench.sqs_plot import draw

    draw(sections, to)


BENCHMARK = command.Benchmark(
    name="bench.sqs",
    doc="Measure SQS, beside its emulators.",
    lengths={"quick": "about two minutes: does it run at all?", "full": "about an hour: for figures to publish"},
    scales=SCALES,
    sections={
        "raw": lambda folder, seed, scale: sqs_raw.measure(folder, seed, scale.raw),
        "boto3": lambda folder, seed, scale: sqs_boto3.measure(folder, seed, scale.boto3),
        "fifo": lambda folder, seed, scale: sqs_fifo.measure(folder, seed, scale.fifo),
    },
    packages=("apsw", "msgspec", "httptools", "uvloop", "boto3"),
    draw=_draw,
)


def main(arguments: list[str] | None = None) -> int:
    return served.run(BENCHMARK, arguments)


if __name__ == "__main__":
    command.exit_with(main)
