"""What everybody who takes part in a run knows of it."""

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
    """Whether the run is over, for those who take part in it."""

    def is_set(self) -> bool: ...


class Scene(Struct, frozen=True):
    """A run, as one of its processes sees it."""

    config: Config
    folder: Path
    """Where relative paths of the configuration start."""
    run: Path
    """Where the run is recorded."""
    time: Time
    recorder: Recorder
    stop: Stop
    schedule: Schedule | None = None
    """Only these faults happen, whatever else the dice say; None: all that they say."""

    @property
    def streams(self) -> Streams:
        return Streams(self.config.seed)

    def said(self, error: SqewError) -> str:
        """An error's sentence for the log. Where the run is recorded must not show in it: else no two were alike."""
        return str(error).replace(f"{self.run}{os.sep}", "")

    def note(self, what: str, where: str, stream: str, index: int, ms: float | None = None) -> None:
        """Have it on the log that a fault has happened that is nobody's call."""
        self.recorder.record(
            Event(self.time.now_us(), "fault", what=what, where=where, stream=stream, index=index, ms=ms)
        )

    def allows(self, stream: str, index: int) -> bool:
        """Whether a fault that is due may happen."""
        return self.schedule is None or self.schedule.allows(stream, index)

    def injector(self, place: str, owner: str, life: int) -> Injector:
        """What decides on the faults of one actor's calls, to the ``queue`` or the ``db``."""
        faults = self.config.faults.queue if place == "queue" else self.config.faults.db
        return Injector(faults, self, place, owner, life)

    def driver(self, owner: str, life: int, *, faultless: bool = False) -> Driver:
        """The queue as one actor sees it: ``owner`` is its name, ``life`` how often it was started before."""
        injector = None if faultless else self.injector("queue", owner, life)
        process = f"{owner.partition('/')[0]}/{life}"
        return open_driver(Place(self.config, self.folder, self.time, self.note, self.allows, process, injector))
