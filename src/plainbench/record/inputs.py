"""The files that decide what a run does, and hashes of their contents."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from plainbench.config.model import CallFaults, Config, Histogram, Latency, Recorded, WorkerConfig
from plainbench.record.events import SUFFIX
from sqew.formats.files import files_of

_READ_TOGETHER = 1024 * 1024


class Input(Struct, frozen=True):
    """A file as it was when the run began."""

    path: str
    """Relative to the configuration's folder if it is in there."""
    what: str
    """The role in the run: messages, arrivals, a latency, a worker …"""
    bytes: int
    sha256: str


def inputs_of(config: Config, folder: Path) -> list[Input]:
    """Return all files that a configuration names, and those that these consist of. Each is listed once, by name."""
    found: dict[Path, str] = {}
    for path, what in _named(config, folder):
        found.setdefault(path.resolve(), what)
    inputs = [fingerprint(path, what, folder) for path, what in found.items() if path.is_file()]
    return sorted(inputs, key=lambda one: one.path)


def fingerprint(path: Path, what: str, folder: Path) -> Input:
    """Return a file's size and the hash of its contents."""
    home = folder.resolve()
    shown = path.relative_to(home) if path.is_relative_to(home) else path
    return Input(str(shown), what, path.stat().st_size, sha256(path))


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_TOGETHER):
            digest.update(block)
    return digest.hexdigest()


def changes(inputs: list[Input], folder: Path) -> list[str]:
    """Return a sentence for each file that has changed or is gone."""
    sentences = []
    for one in inputs:
        path = folder / one.path
        if not path.is_file():
            sentences.append(f"{one.path} ({one.what}) is gone")
        elif path.stat().st_size != one.bytes or sha256(path) != one.sha256:
            sentences.append(f"{one.path} ({one.what}) has changed")
    return sentences


def _named(config: Config, folder: Path) -> Iterator[tuple[Path, str]]:
    for workload in config.workload:
        if workload.input is not None:
            yield from ((path, "messages") for path in files_of(workload.input, folder))
        if isinstance(workload.arrivals, Recorded):
            yield from ((path, "arrivals") for path in _recorded(folder / workload.arrivals.file))
    for latency in _latencies(config):
        if isinstance(latency, Histogram):
            yield folder / latency.file, "latencies"
    for worker in config.workers:
        yield from ((path, f"worker {worker.name}") for path in _program(worker, folder))
    yield from ((folder / fixture, "fixture") for fixture in config.sqlite.app_fixtures)
    if ":" in config.target.driver:
        yield from ((path, "driver") for path in _module(config.target.driver, folder))


def _recorded(path: Path) -> list[Path]:
    return sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]


def _latencies(config: Config) -> Iterator[Latency | None]:
    calls: list[CallFaults] = [config.faults.queue, config.faults.db]
    yield from (faults.latency for faults in calls)
    yield config.faults.network.latency
    yield from (worker.work for worker in config.workers)


def _program(worker: WorkerConfig, folder: Path) -> Iterator[Path]:
    """Yield the command and those of its arguments that are files; or the file of the function's module."""
    for number, part in enumerate(worker.cmd):
        if (folder / part).is_file():
            yield folder / part
        elif number == 0 and (program := shutil.which(part)) is not None:
            yield Path(program)
    if worker.call is not None:
        yield from _module(worker.call, folder)


def _module(reference: str, folder: Path) -> Iterator[Path]:
    name = reference.rpartition(":")[0]
    if name.endswith(".py"):
        yield folder / name
        return
    beside = (folder / Path(*name.split("."))).with_suffix(".py")
    if beside.is_file():
        yield beside
        return
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return  # what can't be found is complained of when it is called for
    if spec is not None and spec.origin is not None and name.partition(".")[0] not in sys.stdlib_module_names:
        yield Path(spec.origin)
