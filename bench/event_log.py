"""Cost of the event log and the meter to a queue that sends, receives and acks one message at a time.

One store does all the work. Rounds without and with the log take turns, so that both meet the same machine. Lines that
a round leaves to be written count as a part of it. The times are medians over the rounds, the slowdowns are medians of
the ratios of neighbouring rounds. On a busy machine look at the processor time, which includes the writing thread's.
The ceiling is the store alone; the log may cost 15 %.

    python bench/event_log.py [ROUNDS] [CYCLES PER ROUND]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqew.clock import Clock
from sqew.model import Fact, NewMessage, Policy, Ref
from sqew.observe.eventlog import EventLog
from sqew.observe.meter import Meter
from sqew.operations import Ack, CreateQueue, Operation, Receive, Send
from sqew.stores.sqlite.store import SQLiteStore

BODY = b'{"sku": 7, "note": "' + b"x" * 234 + b'"}'

Times = tuple[float, float]
Record = Callable[[Sequence[Fact], int], None]
Finish = Callable[[], object]


def cycles(store: SQLiteStore, clock: Clock, count: int, record: Record | None, finish: Finish) -> Times:
    """Return microseconds by the clock and of processor time for one send, receive and ack."""

    def run(operation: Operation[Any]) -> Any:
        now_us = clock.now_us()
        commit = store.run([operation], now_us // 1000)
        if record is not None:
            record(commit.facts, now_us)
        return commit.results[0]

    start, start_cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        run(Send("orders", [NewMessage(BODY)]))
        (message,) = run(Receive("orders", by="worker-1")).messages
        run(Ack("orders", [Ref(message.id, message.lease.token)]))
    if record is not None:
        finish()
    wall, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    return wall / count * 1e6, cpu / count * 1e6


def compare(folder: Path, rounds: int, count: int, name: str, record: Record, finish: Finish) -> None:
    clock = Clock()
    store = SQLiteStore(folder / f"{name}.db", now=clock.now(), durability="fast")
    store.run([CreateQueue("orders", Policy())], clock.now())
    cycles(store, clock, count, record, finish)
    without: list[Times] = []
    recorded: list[Times] = []
    for number in range(rounds):
        for on in (True, False) if number % 2 else (False, True):
            (recorded if on else without).append(cycles(store, clock, count, record if on else None, finish))
    store.close()
    print(name)
    for measure, label in enumerate(("clock", "processor")):
        alone, both = [times[measure] for times in without], [times[measure] for times in recorded]
        slowdown = statistics.median(b / a for a, b in zip(alone, both, strict=True)) - 1
        print(
            f"  {label:10} store alone {statistics.median(alone):6.1f} µs   "
            f"with it {statistics.median(both):6.1f} µs   slowdown {slowdown:+6.1%}"
        )


def main(rounds: int = 200, count: int = 500) -> None:
    print(f"{rounds} rounds of {count} cycles (send, receive, ack; 256-byte bodies), SQLite, durability fast")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with EventLog(folder / "events.jsonl") as log:
            compare(folder, rounds, count, "event log", log.record, log.flush)
        meter = Meter()

        def count_facts(facts: Sequence[Fact], now_us: int) -> None:
            meter.record(facts, now_us // 1000)

        compare(folder, rounds, count, "meter", count_facts, lambda: meter.drain(time.time_ns() // 1_000_000))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
