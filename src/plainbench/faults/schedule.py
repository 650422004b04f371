"""The faults that a run may have, one by one: shrinking takes faults away until only those are left that matter."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from sqew.errors import BadValue


class Firing(Struct, frozen=True, order=True):
    """A fault that happened: the stream that decided it, and the number of the decision."""

    stream: str
    index: int


class Schedule(Struct, frozen=True):
    """The only faults that may happen, whatever else the dice say."""

    firings: frozenset[Firing]
    seed: int | None = None
    """Seed of the decisions: with another seed there are others."""

    def allows(self, stream: str, index: int) -> bool:
        return Firing(stream, index) in self.firings


def write(schedule: Schedule, path: Path) -> None:
    """Write a schedule to a file, for `plainbench run --schedule`."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(schedule, order="deterministic")) + b"\n")
    except OSError as error:
        raise BadValue(f"The schedule can't be written to {path}: {error.strerror}.") from error


def read(path: Path) -> Schedule:
    """Read a schedule that `write` has written."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Schedule)
    except OSError as error:
        raise BadValue(f"The schedule {path} can't be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise BadValue(f"{path} is no schedule of faults ({error}). `plainbench shrink` writes one.") from error
