"""The benchmark of the server, as ``python3 dev bench http`` runs it. See docs/benchmarks-http.md."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from bench import command, http_costs, http_dialects, http_latency, http_peers, http_throughput, report, served
from bench.loads import JOBS, Job

MAIN_JOBS: tuple[Job, ...] = ("cycle", "send", "receive 1", "ack", "send x100")
BACKLOG_JOBS: tuple[Job, ...] = ("cycle", "send", "receive 1", "ack", "send x100", "receive 10")


class Scale(Struct, frozen=True):
    """The length of everything."""

    throughput: http_throughput.Scale
    dialects: http_dialects.Scale
    peers: http_peers.Scale
    latency: http_latency.Scale
    export: http_latency.ExportScale
    costs: http_costs.Scale
    backlog: int
    needed_bytes: int


SCALES = {
    "quick": Scale(
        http_throughput.Scale(
            seconds=1, rounds={32: 1}, jobs={32: JOBS}, backlog_rounds=1, backlog_jobs=("cycle", "send")
        ),
        http_dialects.Scale(seconds=1, rounds=1),
        http_peers.Scale(seconds=1, rounds=1, jobs=("cycle", "send")),
        http_latency.Scale(rates=(1_000,), seconds=1, rounds=2),
        http_latency.ExportScale(rate=1_000, seconds=1, rounds=2),
        http_costs.Scale(starts=3, connections=1_000),
        backlog=50_000,
        needed_bytes=1 << 30,
    ),
    "default": Scale(
        http_throughput.Scale(
            seconds=1,
            rounds={1: 2, 8: 2, 32: 4, 128: 2},
            jobs={1: MAIN_JOBS, 8: MAIN_JOBS, 32: JOBS, 128: MAIN_JOBS},
            backlog_rounds=3,
            backlog_jobs=BACKLOG_JOBS,
        ),
        http_dialects.Scale(seconds=1, rounds=5),
        http_peers.Scale(seconds=1, rounds=2, jobs=("cycle", "send", "receive 1", "send x10", "receive 10")),
        http_latency.Scale(rates=(1_000, 5_000), seconds=2, rounds=3),
        http_latency.ExportScale(rate=2_000, seconds=3, rounds=3),
        http_costs.Scale(starts=5, connections=5_000),
        backlog=1_000_000,
        needed_bytes=5 << 30,
    ),
    "full": Scale(
        http_throughput.Scale(
            seconds=2,
            rounds={1: 4, 8: 4, 32: 10, 128: 4},
            jobs=dict.fromkeys((1, 8, 32, 128), JOBS),
            backlog_rounds=5,
        ),
        http_dialects.Scale(seconds=2, rounds=11),
        http_peers.Scale(seconds=2, rounds=5, jobs=http_peers.JOBS),
        http_latency.Scale(rates=(1_000, 5_000, 10_000), seconds=5, rounds=5),
        http_latency.ExportScale(rate=2_000, seconds=8, rounds=5),
        http_costs.Scale(starts=11, connections=5_000),
        backlog=1_000_000,
        needed_bytes=10 << 30,
    ),
}


@cache
def _backlog(folder: Path, size: int, seed: int) -> Path:
    """Return a file with that many messages, made once for all parts."""
    folder.mkdir(parents=True, exist_ok=True)
    return http_throughput.fill(folder / f"{size}.db", size, seed)


def _throughput(folder: Path, seed: int, scale: Scale) -> report.Section:
    return http_throughput.measure(
        folder, seed, scale.throughput, scale.backlog, lambda: _backlog(folder.parent / "filled", scale.backlog, seed)
    )


def _export(folder: Path, seed: int, scale: Scale) -> report.Section:
    filled = _backlog(folder.parent / "filled", scale.backlog, seed)
    return http_latency.measure_export(folder, seed, scale.export, filled, scale.backlog)


def _draw(sections: Sequence[report.Section], to: Path) -> None:
    from bench.http_plot import draw

    draw(sections, to)


BENCHMARK = command.Benchmark(
    name="bench.http",
    doc="Measure the server.",
    lengths={
        "quick": "about a minute, a small backlog: does it run at all?",
        "full": "about half an hour: for figures to publish",
    },
    scales=SCALES,
    sections={
        "throughput": _throughput,
        "dialects": lambda folder, seed, scale: http_dialects.measure(folder, seed, scale.dialects),
        "peers": lambda folder, seed, scale: http_peers.measure(folder, seed, scale.peers),
        "latency": lambda folder, seed, scale: http_latency.measure(folder, seed, scale.latency),
        "export": _export,
        "costs": lambda folder, seed, scale: http_costs.measure(folder, scale.costs),
    },
    packages=("apsw", "msgspec", "httptools", "uvloop"),
    draw=_draw,
)


def main(arguments: list[str] | None = None) -> int:
    return served.run(BENCHMARK, arguments)


if __name__ == "__main__":
    command.exit_with(main)
