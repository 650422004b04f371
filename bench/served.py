"""Benchmarks of servers, with the preparations that only they need."""

from __future__ import annotations

import sys
from typing import TypeVar

from bench import command, serving, wrk

S = TypeVar("S", bound=command.Scale)


def run(benchmark: command.Benchmark[S], arguments: list[str] | None) -> int:
    """Measure servers, on a machine that can."""
    if sys.platform != "linux":
        sys.exit("bench: this benchmark needs Linux: it reads the servers' processor time from the kernel.")
    if not wrk.is_there():
        sys.exit("bench: wrk is not here. Install it (Debian: sudo apt-get install wrk).")
    serving.pin_the_load()
    try:
        return command.run(benchmark, arguments)
    except serving.NotServed as error:
        sys.exit(f"bench: {error}")
