"""The broker: what can be done to queues from an event loop.

Operations that arrive in one tick of the loop run in one transaction at its end, so that they share one commit (and, if
durable, one fsync). Each gets its own answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from sqew.engine import Engine, limits_of, open_file
from sqew.errors import SqewError, StoreClosed
from sqew.model import NewMessage, Progress, Received, Sent
from sqew.operations import LastId, Operation, Purge, PurgeDead, Receive, Redrive, RequeueDead, Send
from sqew.rules import Limits, check_batch, check_message
from sqew.settings import resolve
from sqew.waiting import pause

R = TypeVar("R")
Stepwise = Purge | PurgeDead | Redrive | RequeueDead


class Broker:
    """Queues in a store, for one event loop. Create and use it in that loop's thread."""

    def __init__(self, engine: Engine, limits: Limits | None = None) -> None:
        self._engine = engine
        self._limits = limits or Limits()
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[Operation[Any], asyncio.Future[Any]]] = []
        self._closed = False

    @classmethod
    def open(cls, path: str | Path | None = None, **changes: Any) -> Self:
        """A broker on a file, making it if need be. ``changes`` are settings by name: ``durability="fast"``."""
        settings = resolve({**changes, "db": path}, {}, None)
        engine, _ = open_file(settings)
        return cls(engine, limits_of(settings))

    async def run(self, operation: Operation[R]) -> R:
        """Execute an operation together with whatever else arrives in this tick."""
        if self._closed:
            raise StoreClosed("The broker was closed. Start it again.")
        future: asyncio.Future[R] = self._loop.create_future()
        if not self._pending:
            self._loop.call_soon(self._commit)
        self._pending.append((operation, future))
        return await future

    def _commit(self) -> None:
        pending, self._pending = self._pending, []
        # Who was cancelled before the transaction began wants nothing done.
        pending = [(operation, future) for operation, future in pending if not future.cancelled()]
        if not pending:
            return
        try:
            results = self._engine.run([operation for operation, _ in pending])
        except SqewError as error:
            results = [error] * len(pending)
        for (_, future), result in zip(pending, results, strict=True):
            if future.cancelled():
                continue
            if isinstance(result, SqewError):
                future.set_exception(result)
            else:
                future.set_result(result)

    async def send(self, queue: str, messages: Sequence[NewMessage]) -> list[Sent]:
        """Send messages; each is on disk when this returns."""
        check_batch(len(messages), self._limits)
        for message in messages:
            check_message(message, self._limits)
        return await self.run(Send(queue, messages))

    async def receive(self, operation: Receive, wait_ms: int = 0) -> Received:
        """Receive; when nothing is ready, wait for it for up to ``wait_ms``."""
        check_batch(operation.limit, self._limits)
        received = await self.run(operation)
        if received.messages or wait_ms <= 0:
            return received
        engine, clock = self._engine, self._engine.clock
        deadline = clock.now() + wait_ms
        while True:
            woken = asyncio.Event()
            wake = _Alarm(self._loop, woken)
            engine.waiters.add(operation.queue, wake)
            heard = engine.doorbell.listen(engine.waiters)
            try:
                # Again, now that nothing can be missed.
                received = await self.run(operation)
                pause_ms = 0 if received.messages else pause(clock.now(), deadline, received.next_due_at, heard)
                if pause_ms:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(woken.wait(), pause_ms / 1000)
            except BaseException:
                engine.waiters.leave(operation.queue, wake, looked=False)
                raise
            if received.messages or clock.now() >= deadline:
                engine.waiters.leave(operation.queue, wake, looked=not received.messages and not woken.is_set())
                return received
            engine.waiters.discard(operation.queue, wake)

    async def in_steps(self, operation: Stepwise) -> int:
        """Carry out an operation that works in steps to its end, with others in between; how many it dealt with."""
        count = 0
        progress = Progress(0, False)
        while not progress.done:
            progress = await self.run(operation)
            count += progress.count
        return count

    async def purge(self, queue: str) -> int:
        """Delete every message that is in the queue now; how many there were."""
        return await self.in_steps(Purge(queue, await self.run(LastId()), self._limits.max_batch))

    async def close(self) -> None:
        """Finish what was begun, then close the store."""
        if not self._closed:
            self._commit()
            self._closed = True
            self._engine.close()


class _Alarm:
    """Sets an event from whatever thread."""

    __slots__ = ("_loop", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
        self._loop, self._woken = loop, woken

    def __call__(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)
