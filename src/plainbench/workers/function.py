"""Work that is done by a Python function."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from plainbench.actors.app_database import AppDb
from plainbench.config.model import WorkerConfig
from plainbench.drivers import named
from plainbench.drivers.base import Delivered
from plainbench.faults.injector import Injected
from plainbench.record.events import Event
from plainbench.run.context import RunContext
from plainbench.workers import Dead, Done, Retry, Verdict
from sqew.errors import BadValue, StoreBusy


class Job:
    """A message as a function gets it."""

    def __init__(self, topic: str, delivery: Delivered, handler: FunctionHandler) -> None:
        self.topic, self.lane = topic, delivery.lane
        self.number, self.attempt = delivery.number, delivery.attempt
        self.group, self.headers, self.body = delivery.group, delivery.headers or {}, delivery.body
        self._handler = handler

    @cached_property
    def value(self) -> Any:
        """The body as a value, if it is JSON."""
        return msgspec.json.decode(self.body)

    @property
    def app(self) -> AppDb:
        """app.db, with its faults."""
        return self._handler.app


class FunctionHandler:
    """A handler that calls ``function(job)`` for each message.

    None or True is an ack; False or an exception is a retry; `Retry` and `Dead` say more.
    """

    def __init__(self, context: RunContext, worker: WorkerConfig, name: str, life: int) -> None:
        self._context, self._name, self._life = context, name, life
        function = named(worker.call or "", context.folder)
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise BadValue(f"workers: {worker.call} of {worker.name} must be a function that takes a job.")
        self._function: Callable[[Job], object] = function
        self._file = inspect.getsourcefile(inspect.unwrap(function)) if inspect.isroutine(function) else None

    @cached_property
    def app(self) -> AppDb:
        return AppDb(self._context, self._name, self._life)

    def handle(self, topic: str, delivery: Delivered) -> Verdict:
        try:
            result = self._function(Job(topic, delivery, self))
        except (Injected, StoreBusy) as error:
            # The fault itself is on the log.
            return Retry(reason=f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 (whatever the work raises, the message is tried again)
            reason = f"{type(error).__name__}: {error}"
            self._context.recorder.record(
                Event(
                    self._context.time.now_us(), "worker", worker=self._name, what="raised",
                    reason=f"{reason} ({_where(error, self._file)})",
                )
            )  # fmt: skip
            return Retry(reason=reason)
        if result is None or result is True:
            return Done()
        if isinstance(result, Done | Retry | Dead):
            return result
        return Retry(reason=f"it returned {result!r}")

    def close(self) -> None:
        if "app" in self.__dict__:
            self.app.close()


def _where(error: Exception, file: str | None) -> str:
    """Return the line of the function's own file at which it went wrong; if there is none, the last line of all."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1])
    return f"{Path(frame.filename).name}, line {frame.lineno}"
