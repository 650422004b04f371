"""A long log for PlainBench to judge.

It is made up: an open loop of single sends, two workers with eight slots each, latencies on every call, and every so
often a retry.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from plainbench.config.model import CallFaults, Config, Faults, Fixed, Lane, TopicConfig, WorkerConfig
from plainbench.record import manifest
from plainbench.record.events import SUFFIX, Event, Recorder
from plainbench.record.machine import machine, versions
from plainbench.record.manifest import Manifest

_PER_MESSAGE = 5
"""Events of a message: sending, sent, received, a fault, acked."""


def make(run: Path, events: int) -> None:
    """Make a run's folder with a log of about so many events."""
    messages = events // _PER_MESSAGE
    config = Config(
        topics=[TopicConfig("orders", [Lane("priority", 3), Lane("normal", 1)])],
        workers=[WorkerConfig("alpha", concurrency=8, lease_ms=1_000), WorkerConfig("beta", concurrency=8)],
        faults=Faults(queue=CallFaults(latency=Fixed(0.1))),
    )
    facts = machine(run)
    began = datetime.now(UTC).isoformat()
    manifest.write(Manifest("bench", began, 0, "none", [], versions(()), facts, str(run), "", config), run)
    _write(run / f"lab{SUFFIX}", _run(messages))
    _write(run / f"generator-0-0{SUFFIX}", _sends(messages))
    for number, worker in enumerate(("alpha", "beta")):
        _write(run / f"worker-{number}-0{SUFFIX}", _deliveries(messages, worker, number))


def _write(path: Path, events: Iterator[Event]) -> None:
    recorder = Recorder(path)
    for event in events:
        recorder.record(event)
    recorder.close()


def _lane(number: int) -> str:
    return "normal" if number % 4 == 0 else "priority"


def _run(messages: int) -> Iterator[Event]:
    yield Event(0, "run", what="began")
    for second in range(messages // 10_000):
        yield Event(second * 1_000_000, "depth", "orders", "normal", figures={"ready": 3.0, "leased": 16.0})
    yield Event(messages * 100 + 10_000_000, "run", what="settled")


def _sends(messages: int) -> Iterator[Event]:
    for number in range(1, messages + 1):
        at, lane = number * 100, _lane(number)
        yield Event(at, "sending", "orders", lane, number, worker="generator-0/0")
        yield Event(at + 70, "sent", "orders", lane, number, worker="generator-0/0", due=at - 5, took=65)


def _deliveries(messages: int, worker: str, which: int) -> Iterator[Event]:
    for number in range(1 + which, messages + 1, 2):
        at, lane, slot = number * 100 + 500 + number % 97, _lane(number), f"{worker}/{number // 2 % 8}"
        yield Event(at, "received", "orders", lane, number, worker=slot, attempt=1, took=90)
        stream = f"queue/{slot}/0/latency"
        yield Event(at + 10, "fault", worker=slot, what="latency", where="ack", stream=stream, index=number, ms=0.1)
        if number % 1_000 == 0:
            yield Event(at + 200, "retried", "orders", lane, number, worker=slot, attempt=1, took=80)
            yield Event(at + 1_200, "received", "orders", lane, number, worker=slot, attempt=2, took=80)
            yield Event(at + 1_900, "acked", "orders", lane, number, worker=slot, attempt=2, took=80)
        else:
            yield Event(at + 200, "acked", "orders", lane, number, worker=slot, attempt=1, took=80)
