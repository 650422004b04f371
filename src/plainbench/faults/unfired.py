"""Faults that were configured and never happened: a run without them shows nothing of what it was meant to show."""

from __future__ import annotations

from collections.abc import Iterable

from plainbench.config.model import CallFaults, Config

Fired = set[tuple[str, str]]
"""Faults that have happened: each one's name, and its stream up to the first slash (queue, db, network …)."""


def unfired(config: Config, fired: Fired) -> list[str]:
    """Return a sentence for each fault that the configuration has and that never happened."""
    faults = config.faults
    network = faults.network
    expected = [
        *_of_calls("queue", faults.queue),
        *_of_calls("db", faults.db),
        *(("disk_full", "disk_full") for _ in faults.disk_full[:1]),
        *(("clock_jump", "clock_jump") for _ in faults.clock_jump[:1]),
        *((("latency", "network"),) if network.latency is not None else ()),
        *((("reset", "network"),) if network.reset_rate else ()),
        *(("stall", "network") for _ in network.stall[:1]),
        *((("slice", "network"),) if network.slice_bytes else ()),
        *((("limit", "network"),) if network.bytes_per_s else ()),
    ]
    return [
        f"The fault {what} of {place} was configured, and never happened: raise its rate, or run for longer."
        for what, place in expected
        if (what, place) not in fired
    ]


def _of_calls(place: str, faults: CallFaults) -> Iterable[tuple[str, str]]:
    if faults.latency is not None:
        yield "latency", place
    if faults.error_rate:
        yield from ((kind, place) for kind, weight in faults.errors.items() if weight)
    if faults.crash is not None and (faults.crash.rate or faults.crash.at):
        yield faults.crash.point, place
