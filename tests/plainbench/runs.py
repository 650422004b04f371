"""Runs of the lab for tests: a configuration, its folder, and the outcome."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from plainbench.config.model import Config
from plainbench.faults.schedule import Schedule
from plainbench.record.events import Event, log_files, read
from plainbench.run.real_time import RealRun
from plainbench.run.virtual_time import VirtualRun

QUICK = {"pragmas": {"synchronous": "NORMAL", "busy_timeout_ms": 200}}


def config(**changes: Any) -> Config:
    """Return the configuration of a small run on the topic ``orders``, with one worker."""
    fields: dict[str, Any] = {
        "seed": 7,
        "topics": [{"name": "orders", "base_backoff_ms": 50}],
        "workload": [{"topic": "orders", "messages": 200, "arrivals": {"type": "poisson", "rate": 400}}],
        "workers": [{"name": "w", "concurrency": 2, "lease_ms": 1_000}],
        "sqlite": QUICK,
        "until": {"idle_s": 5, "most_s": 60},
    }
    return msgspec.convert({**fields, **changes}, Config)


class Ran:
    """A run that is over."""

    def __init__(self, folder: Path, why: str) -> None:
        self.folder, self.why = folder, why
        self.events: list[Event] = list(read(folder))

    def of(self, kind: str, what: str | None = None) -> list[Event]:
        return [event for event in self.events if event.event == kind and what in (None, event.what)]

    @property
    def counts(self) -> Counter[str]:
        return Counter(event.event for event in self.events)

    @property
    def numbers_acked(self) -> set[int]:
        return {event.n for event in self.of("acked")}

    @property
    def log(self) -> bytes:
        return b"".join(path.read_bytes() for path in log_files(self.folder))


def _empty_folder(folder: Path) -> Path:
    place = folder / f"run-{len(list(folder.glob('run-*')))}"
    place.mkdir()
    return place


def run_virtual(folder: Path, schedule: Schedule | None = None, **changes: Any) -> Ran:
    run = _empty_folder(folder)
    return Ran(run, VirtualRun(config(mode="virtual", **changes), folder, run, schedule, lambda _: None).go())


def run_real(folder: Path, **changes: Any) -> Ran:
    run = _empty_folder(folder)
    return Ran(run, RealRun(config(**changes), folder, run, None, lambda _: None).go())
