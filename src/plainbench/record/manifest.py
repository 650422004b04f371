"""A run's folder, and the manifest in it: everything that is needed to repeat the run, or to know that it can't be.

``runs/<id>/`` holds ``manifest.json``, the event log (``*.events.jsonl``), ``summary.json`` and, of a run that found
messages in its queue, a copy of the queue from before. It is all there whatever ends the run.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from plainbench.config.model import Config
from plainbench.faults.schedule import Schedule
from plainbench.record.inputs import Input
from sqew.errors import BadValue, NotFound

MANIFEST = "manifest.json"
FORMAT = 1


class Manifest(Struct, frozen=True):
    """A description of a run. ``config`` holds every key, with the defaults of those that the file left out."""

    id: str
    began: str
    """Time at which it began, in UTC."""
    seed: int
    durability: str
    """Durability that the queue promised for an answered send; empty if the run ended before it could be asked."""
    inputs: list[Input]
    versions: dict[str, str]
    machine: dict[str, str]
    folder: str
    """Folder in which relative paths start."""
    config_file: str
    config: Config
    before: list[Input] = []  # msgspec copies it
    """Copies, in the run's folder, of the database files that were there when it began."""
    schedule: Schedule | None = None
    """The only faults that were allowed to happen; None: all."""
    replay_of: str = ""
    """The run that this one repeats."""
    format: int = FORMAT


def new_folder(runs: Path, now: datetime | None = None) -> Path:
    """Create a folder for a run, named after the time. Runs that begin in the same second are counted."""
    runs.mkdir(parents=True, exist_ok=True)
    name = f"{now or datetime.now(UTC):%Y-%m-%d-%H%M%S}"
    number = 1
    while True:
        folder = runs / (name if number == 1 else f"{name}-{number}")
        try:
            # Options and messages may hold what is nobody else's business.
            folder.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return folder


def write(manifest: Manifest, run: Path) -> None:
    """Write the manifest to the run's folder, whole or not at all."""
    path, draft = run / MANIFEST, run / f"{MANIFEST}.new"
    # It has the options as they were given, else the run could not be repeated.
    draft.touch(mode=0o600)
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    os.replace(draft, path)  # noqa: PTH105 (the same, and it says what it does)


def run_folder(named: str | Path) -> Path:
    """Return the folder of a run, named by the folder, its manifest, or ``runs/<id>.manifest.json``."""
    path = Path(named)
    if path.name == MANIFEST:
        path = path.parent
    elif path.name.endswith(f".{MANIFEST}") and not path.exists():
        path = path.with_name(path.name.removesuffix(f".{MANIFEST}"))
    if (path / MANIFEST).is_file():
        return path
    known = sorted(found.parent for found in path.parent.glob(f"*/{MANIFEST}"))
    hint = f" The last one there is {known[-1]}." if known else ""
    raise NotFound(f"There is no run in {named}. Give the folder of a run or its {MANIFEST}.{hint}")


def read(named: str | Path) -> Manifest:
    """Read the manifest of a run."""
    path = run_folder(named) / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise BadValue(f"{path} is not the manifest of a run: {error}.") from error
    if manifest.format > FORMAT:
        raise BadValue(f"{path} was written by a newer PlainBench. Use that, or one at least as new.")
    return manifest
