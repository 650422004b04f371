"""The benchmark of PlainBench itself, as ``python3 dev bench lab`` runs it. See docs/benchmarks-lab.md."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import numpy as np
from msgspec import Struct

from bench import command, lab_summary, report
from bench.workspace import say
from plainbench.config.model import AtOnce, Config, Pragmas, Sizes, SQLite, TopicConfig, WorkerConfig, Workload
from plainbench.drivers.base import Item, Place, Topic
from plainbench.drivers.embedded import EmbeddedDriver
from plainbench.run.clock import RealTime
from plainbench.run.real_time import RealRun
from plainbench.verdict import read_log
from plainbench.verdict.log_columns import ACKED
from plainbench.verdict.summary import summarize
from plainbench.workload.bodies import Synthetic

_SENT_TOGETHER, _TAKEN_TOGETHER = 1_000, 100
_SIZES = Sizes()
_BODY = Synthetic(_SIZES, np.random.default_rng(1)).body(1, 1, _SIZES.min)
"""A body like those that a run makes up."""


class Scale(Struct, frozen=True):
    """The length of everything."""

    rounds: int
    messages: int
    many: int
    events: int
    needed_bytes: int = 3 << 30


SCALES = {
    "quick": Scale(rounds=1, messages=20_000, many=100_000, events=500_000),
    "default": Scale(rounds=15, messages=100_000, many=1_000_000, events=5_000_000),
    "full": Scale(rounds=25, messages=200_000, many=1_000_000, events=5_000_000),
}


def _config(folder: Path, messages: int) -> Config:
    return Config(
        sqlite=SQLite(str(folder / "queue.db"), pragmas=Pragmas(synchronous="NORMAL")),
        topics=[TopicConfig("orders")],
        workload=[Workload("orders", AtOnce(_SENT_TOGETHER), messages=messages, size=_SIZES)],
        workers=[WorkerConfig("w", prefetch=_TAKEN_TOGETHER, heartbeat=False)],
    )


def _place(folder: Path, messages: int) -> Place:
    return Place(_config(folder, messages), folder, RealTime())


def _send(folder: Path, messages: int, starter: Connection) -> None:
    driver = EmbeddedDriver(_place(folder, messages))
    _await_beginning(starter)
    for first in range(0, messages, _SENT_TOGETHER):
        driver.send("orders", [Item(first + number, _BODY) for number in range(_SENT_TOGETHER)])
    driver.close()


def _take(folder: Path, messages: int, starter: Connection) -> None:
    driver, taken = EmbeddedDriver(_place(folder, messages)), 0
    _await_beginning(starter)
    while taken < messages:
        deliveries = driver.receive("orders", _TAKEN_TOGETHER, 30_000, 0.5)
        if deliveries:
            driver.ack("orders", deliveries)
        taken += len(deliveries)
    starter.send(time.monotonic_ns())
    driver.close()


def _await_beginning(starter: Connection) -> None:
    """Wait for the start, as the processes of a run do: the queue is open before anything is measured.

    Each process has a session of its own, as in a run. On a busy machine Linux shares its cores out by session, so
    without one the driver alone would come off worse.
    """
    os.setsid()
    starter.send("ready")
    starter.recv()


def _raw(folder: Path, messages: int) -> float:
    """Return the messages a second of the driver alone: one process sends, another receives and acks.

    The time is that of a run: it begins when both have opened the queue, and ends with the last ack.
    """
    driver = EmbeddedDriver(_place(folder, messages))
    driver.create(Topic("orders"))
    spawn = multiprocessing.get_context("spawn")
    started = []
    for work in (_send, _take):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=work, args=(folder, messages, theirs))
        process.start()
        theirs.close()
        started.append((process, ours))
    for _, connection in started:
        connection.recv()
    began_ns = time.monotonic_ns()
    for _, connection in started:
        connection.send("begin")
    _, taker = started[-1]
    last_ack_ns: int = taker.recv()
    for process, _ in started:
        process.join()
    driver.close()
    return messages / ((last_ack_ns - began_ns) / 1e9)


def _in_the_lab(folder: Path, messages: int) -> float:
    """Return the messages a second through a run, from its beginning to the last ack."""
    run = folder / "run"
    run.mkdir()
    RealRun(_config(folder, messages), folder, run, None, lambda _: None).go()
    handled = read_log.read(run).handled
    acked = handled["at"][handled["kind"] == ACKED]
    if len(acked) != messages:
        sys.exit(f"bench: {len(acked)} of {messages} messages were acked.")
    return messages / (int(acked.max()) / 1e6)


def overhead(folder: Path, _seed: int, scale: Scale) -> report.Section:
    raw: list[float] = []
    lab: list[float] = []
    for turn in range(scale.rounds):
        say(f"raw and lab, round {turn + 1} of {scale.rounds}")
        both = ((raw, _raw), (lab, _in_the_lab))
        # What the first leaves for the disk to write must not always slow the same one down.
        for found, measure in both if turn % 2 == 0 else reversed(both):
            place = folder / f"{measure.__name__}-{turn}"
            place.mkdir(parents=True)
            found.append(measure(place, scale.messages))
    parts = [with_lab / alone for with_lab, alone in zip(lab, raw, strict=True)]
    part = median(parts)
    rows = [
        ["the driver alone", f"{median(raw):,.0f}", ""],
        ["in the lab", f"{median(lab):,.0f}", f"{part:.2f} [{min(parts):.2f}–{max(parts):.2f}]"],
    ]
    return report.Section(
        "overhead",
        "What the lab costs",
        [report.Table("Messages a second, fast (synchronous=NORMAL)", ["", "messages/s", "part of the driver"], rows)],
        [report.Figure("the lab without faults: part of the driver alone", "≥ 0.85", f"{part:.2f}", part >= 0.85)],
        {"raw": raw, "lab": lab},
    )


def many(folder: Path, _seed: int, scale: Scale) -> report.Section:
    say(f"{scale.many:,} messages through the embedded engine")
    folder.mkdir(parents=True)
    began = time.perf_counter()
    rate = _in_the_lab(folder, scale.many)
    took = time.perf_counter() - began
    rows = [[f"{scale.many:,}", f"{scale.many / rate:.1f} s", f"{rate:,.0f}", f"{took:.1f} s"]]
    return report.Section(
        "many",
        "A long run",
        [
            report.Table(
                "From the first send to the last ack, fast (synchronous=NORMAL)",
                ["messages", "took", "messages/s", "with starting, reading the log"],
                rows,
            )
        ],
        [
            report.Figure(
                f"{scale.many:,} messages, first send to last ack", "< 240 s", f"{scale.many / rate:.1f} s",
                scale.many / rate < 240,
            )
        ],
        {"rate": rate, "took": took},
    )  # fmt: skip


def summary(folder: Path, _seed: int, scale: Scale) -> report.Section:
    say(f"a log of {scale.events:,} events")
    folder.mkdir(parents=True)
    lab_summary.make(folder, scale.events)
    began = time.perf_counter()
    found = summarize(folder)
    took = time.perf_counter() - began
    rows = [[f"{found.events:,}", f"{took:.1f} s", f"{took / found.events * 1e6:.2f} µs"]]
    return report.Section(
        "summary",
        "Verdict and figures of a log",
        [report.Table("Judge a recorded run", ["events", "took", "an event"], rows)],
        [report.Figure(f"summary of {found.events:,} events", "< 20 s", f"{took:.1f} s", took < 20)],
        {"took": took, "events": found.events},
    )


def _draw(_sections: Sequence[report.Section], _to: Path) -> None:
    sys.exit("bench: this benchmark has tables only; leave out --plot.")


BENCHMARK = command.Benchmark(
    name="bench.lab",
    doc="Measure PlainBench itself.",
    lengths={"quick": "half a minute: does it run at all?", "full": "ten minutes: for figures to publish"},
    scales=SCALES,
    sections={"overhead": overhead, "many": many, "summary": summary},
    packages=("apsw", "msgspec", "numpy"),
    draw=_draw,
)


def main(arguments: list[str] | None = None) -> int:
    return command.run(BENCHMARK, arguments)


if __name__ == "__main__":
    command.exit_with(main)
