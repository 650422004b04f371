"""Makes the handler that a worker's configuration describes."""

from __future__ import annotations

from sqew.lab.config.model import WorkerConfig
from sqew.lab.drivers.base import Delivered
from sqew.lab.scene import Scene
from sqew.lab.workers import Done, Handler, Verdict
from sqew.lab.workers.command import CommandHandler
from sqew.lab.workers.function import FunctionHandler


class AtOnce:
    """No work at all: what a worker does that names neither a command nor a function."""

    def handle(self, topic: str, delivery: Delivered) -> Verdict:
        return Done()

    def close(self) -> None:
        pass


def open_handler(scene: Scene, worker: WorkerConfig, name: str, life: int) -> Handler:
    """What does the work of one slot."""
    if worker.cmd:
        return CommandHandler(scene, worker, name, life)
    return FunctionHandler(scene, worker, name, life) if worker.call else AtOnce()
