"""The recording of runs: a configuration is run, and its manifest and log are kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from plainbench.config.model import Config
from plainbench.config.target import check_target
from plainbench.drivers import driver_class
from plainbench.faults.schedule import Schedule
from plainbench.record import database_copy, manifest
from plainbench.record.events import LogFailed
from plainbench.record.inputs import inputs_of
from plainbench.record.machine import machine, versions
from plainbench.record.manifest import Manifest
from plainbench.run.real_time import RealRun
from plainbench.run.supervisor import Supervisor
from plainbench.run.virtual_time import VirtualRun
from sqew.errors import BadValue, StoreUnusable

Watch = Callable[[Supervisor], None]


class Recording:
    """A run and its folder. The manifest is in there before anything happens."""

    def __init__(
        self, config: Config, folder: Path, config_file: Path, *, runs: Path | None = None,
        schedule: Schedule | None = None, repeats: Path | None = None,
    ) -> None:  # fmt: skip
        """Prepare a run. ``repeats``: the folder of the run to do again, on copies of its databases from before."""
        folder = folder.resolve()
        kind = driver_class(config.target.driver, folder)
        # What a flag has changed was not in the file that was checked.
        for _key, sentence in check_target(config, folder):
            raise BadValue(f"{sentence[:1].upper()}{sentence[1:]}")
        config.target.opened()
        inputs = inputs_of(config, folder)
        self.run = manifest.new_folder((runs or folder / config.runs).resolve())
        self._folder, self._schedule, self._config = folder, schedule, config
        if repeats is None:
            kept = database_copy.keep(config, folder, self.run)
        else:
            kept = manifest.read(repeats).before
            self._config = database_copy.restored(config, kept, repeats, self.run)
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
        """Run to the end and return why it ended. The folder of a run that can't even be prepared is removed."""
        kind = VirtualRun if self._config.mode == "virtual" else RealRun

        def look(supervisor: Supervisor) -> None:
            if not self.manifest.durability:
                # Only the queue itself can tell, once it is open.
                self.manifest = replace(self.manifest, durability=supervisor.driver.durability)
                manifest.write(self.manifest, self.run)
            watch(supervisor)

        run: RealRun | VirtualRun | None = None
        try:
            run = kind(self._config, self._folder, self.run, self._schedule, look)
            return run.go()
        except LogFailed as error:
            raise StoreUnusable(str(error)) from error
        finally:
            if run is None or not run.is_prepared:
                # Nothing has happened that could be judged or repeated.
                shutil.rmtree(self.run)
