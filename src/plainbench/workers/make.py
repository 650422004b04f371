"""The choice of the handler that a worker's configuration describes."""

from __future__ import annotations

from plainbench.config.model import WorkerConfig
from plainbench.drivers.base import Delivered
from plainbench.run.context import RunContext
from plainbench.workers import Done, Handler, Verdict
from plainbench.workers.command import CommandHandler
from plainbench.workers.function import FunctionHandler


class AtOnce:
    """The handler of a worker that names neither a command nor a function: it does no work."""

    def handle(self, topic: str, delivery: Delivered) -> Verdict:
        return Done()

    def close(self) -> None:
        pass


def open_handler(context: RunContext, worker: WorkerConfig, name: str, life: int) -> Handler:
    """Open the handler for one consumer."""
    if worker.cmd:
        return CommandHandler(context, worker, name, life)
    return FunctionHandler(context, worker, name, life) if worker.call else AtOnce()
