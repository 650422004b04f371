"""Runs a configuration and records it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from sqew.lab.config.model import Config
from sqew.lab.drivers import driver_class
from sqew.lab.faults.schedule import Schedule
from sqew.lab.real import RealRun
from sqew.lab.record import before, manifest
from sqew.lab.record.inputs import inputs_of
from sqew.lab.record.machine import machine, versions
from sqew.lab.record.manifest import Manifest
from sqew.lab.supervisor import Supervisor
from sqew.lab.virtual import VirtualRun

Watch = Callable[[Supervisor], None]


class Recording:
    """One run and its folder. The manifest is in there before anything happens."""

    def __init__(
        self, config: Config, folder: Path, config_file: Path, *, runs: Path | None = None,
        schedule: Schedule | None = None, repeats: Path | None = None,
    ) -> None:  # fmt: skip
        """``repeats``: the folder of the run that this one does again, on copies of what that one began with."""
        folder = folder.resolve()
        kind = driver_class(config.target.driver, folder)
        inputs = inputs_of(config, folder)
        self.run = manifest.new_folder((runs or folder / config.runs).resolve())
        self._folder, self._schedule, self._config = folder, schedule, config
        if repeats is None:
            kept = before.keep(config, folder, self.run)
        else:
            kept = manifest.read(repeats).before
            self._config = before.restored(config, kept, repeats, self.run)
        self.manifest = Manifest(
            id=self.run.name,
            began=datetime.now(UTC).isoformat(timespec="milliseconds"),
            seed=config.seed,
            durability="",
            inputs=inputs,
            versions=versions(kind.needs),
            machine=machine(self.run),
            folder=str(folder),
            config_file=str(config_file.resolve()),
            config=config,
            before=kept,
            schedule=schedule,
            replay_of="" if repeats is None else repeats.name,
        )
        manifest.write(self.manifest, self.run)

    def go(self, watch: Watch = lambda _supervisor: None) -> str:
        """Run it to its end: why it ended."""
        kind = VirtualRun if self._config.mode == "virtual" else RealRun

        def look(supervisor: Supervisor) -> None:
            if not self.manifest.durability:
                # Only the queue itself can tell, once it is open.
                self.manifest = replace(self.manifest, durability=supervisor.driver.durability)
                manifest.write(self.manifest, self.run)
            watch(supervisor)

        return kind(self._config, self._folder, self.run, self._schedule, look).go()
