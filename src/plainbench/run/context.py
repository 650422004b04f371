"""The context of a run, which all its participants share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from plainbench.config.model import Config
from plainbench.drivers import open_driver
from plainbench.drivers.base import Driver, Place
from plainbench.faults.injector import Injector
from plainbench.faults.schedule import Schedule
from plainbench.record.events import Event, Recorder
from plainbench.run.clock import Time
from plainbench.run.randomness import Streams
from sqew.errors import SqewError


class Stop(Protocol):
    """A flag for the participants of a run: is it over?"""

    def is_set(self) -> bool: ...


class RunContext(Struct, frozen=True):
    """A run, as one of its processes sees it."""

    config: Config
    folder: Path
    """Folder in which relative paths of the configuration start."""
    run: Path
    """Folder in which the run is recorded."""
    time: Time
    recorder: Recorder
    stop: Stop
    schedule: Schedule | None = None
    """The only faults that may happen, whatever else the dice say; None: all that they say."""

    @property
    def streams(self) -> Streams:
        return Streams(self.config.seed)

    def said(self, error: SqewError) -> str:
        """Return an error's sentence for the log, without the run's folder: with it, no two logs would be alike."""
        return str(error).replace(f"{self.run}{os.sep}", "")

    def note(self, what: str, where: str, stream: str, index: int, ms: float | None = None) -> None:
        """Record a fault that belongs to no actor's call."""
        self.recorder.record(
            Event(self.time.now_us(), "fault", what=what, where=where, stream=stream, index=index, ms=ms)
        )

    def allows(self, stream: str, index: int) -> bool:
        """Return True if a fault that is due may happen."""
        return self.schedule is None or self.schedule.allows(stream, index)

    def injector(self, place: str, owner: str, life: int) -> Injector:
        """Return an injector that decides on the faults of one actor's calls, to the ``queue`` or the ``db``."""
        faults = self.config.faults.queue if place == "queue" else self.config.faults.db
        return Injector(faults, self, place, owner, life)

    def driver(self, owner: str, life: int, *, faultless: bool = False) -> Driver:
        """Open the queue for one actor: ``owner`` is its name, ``life`` how often it was started before."""
        injector = None if faultless else self.injector("queue", owner, life)
        process = f"{owner.partition('/')[0]}/{life}"
        return open_driver(Place(self.config, self.folder, self.time, self.note, self.allows, process, injector))
