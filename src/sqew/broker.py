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

from sqew.checks import check_operation
from sqew.engine import Engine, Stepwise, limits_of, open_file, split
from sqew.errors import BadValue, SqewError, StoreClosed
from sqew.model import Extension, NewMessage, Received, Ref, Release, Sent, Settled
from sqew.operations import Ack, DeleteQueue, Extend, LastId, Nack, Operation, Purge, Receive, Send
from sqew.rules import Limits, check_batch, check_ms, shown
from sqew.settings import resolve
from sqew.waiting import IDLE_MS, pause

R = TypeVar("R")


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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, operation: Operation[R]) -> R:
        """Execute an operation together with whatever else arrives in this tick."""
        check_operation(operation, self._limits)
        return await self._enter(operation)

    async def _enter(self, operation: Operation[R]) -> R:
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
        except Exception as error:  # noqa: BLE001 (whatever it is, nobody may be left waiting for an answer)
            results = [error] * len(pending)
        for (_, future), result in zip(pending, results, strict=True):
            if future.cancelled():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    async def send(self, queue: str, messages: Sequence[NewMessage]) -> list[Sent]:
        """Send messages; each is on disk when this returns."""
        return await self.run(Send(queue, messages))

    async def receive(self, operation: Receive, wait_ms: int = 0) -> Received:
        """Receive; when nothing is ready, wait for it for up to ``wait_ms``."""
        if type(operation) is not Receive:
            raise BadValue(f"receive takes a Receive, and not {shown(operation)}.")
        check_operation(operation, self._limits)
        check_batch(operation.limit, self._limits)
        check_ms("wait_ms", wait_ms)
        received = await self._enter(operation)
        if received.messages or not wait_ms:
            return received
        return await self._wait(operation, self._engine.clock.now() + wait_ms)

    async def _wait(self, operation: Receive, deadline: int) -> Received:
        waiters, clock, queue, lane = self._engine.waiters, self._engine.clock, operation.queue, operation.lane
        while True:
            woken = asyncio.Event()
            wake = _Alarm(self._loop, woken)
            waiters.add(queue, lane, wake)
            heard = self._engine.doorbell.listen(waiters)
            try:
                # Again, now that nothing can be missed.
                received = await self._enter(operation)
                pause_ms = 0 if received.messages else pause(clock.now(), deadline, received.next_due_at, heard)
                if pause_ms:
                    self._engine.sweep_if_overdue(received.next_due_at)
                    if pause_ms >= IDLE_MS:
                        self._engine.store.idle()
                    # Not wait_for: before Python 3.12 it forgets a cancellation that comes together with the event.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause_ms / 1000):
                            await woken.wait()
            except BaseException:
                waiters.leave(queue, lane, wake, nothing_left=False)
                raise
            if received.messages or clock.now() >= deadline:
                nothing_left = not received.messages and received.next_due_at is None and not woken.is_set()
                waiters.leave(queue, lane, wake, nothing_left=nothing_left)
                return received
            waiters.discard(queue, lane, wake)

    async def ack(self, queue: str | None, refs: Sequence[Ref]) -> list[Settled | SqewError]:
        """Finish messages: for each, that it is settled, or why not."""
        return await self.run(Ack(queue, refs))

    async def nack(self, queue: str | None, releases: Sequence[Release]) -> list[Settled | SqewError]:
        """Give messages back, to be tried again or to be dead: for each, that it is settled, or why not."""
        return await self.run(Nack(queue, releases))

    async def extend(self, queue: str | None, extensions: Sequence[Extension]) -> list[Settled | SqewError]:
        """Set the end of leases: for each, that it is settled, or why not."""
        return await self.run(Extend(queue, extensions))

    async def in_steps(self, operation: Stepwise) -> int:
        """Carry out an operation that works in steps to its end, with others in between; how many it dealt with."""
        check_operation(operation, self._limits)
        count = 0
        for part in split(operation):
            done = False
            while not done:
                progress = await self._enter(part)
                count, done = count + progress.count, progress.done
        return count

    async def purge(self, queue: str) -> int:
        """Delete every message that is in the queue now; how many there were."""
        return await self.in_steps(Purge(queue, await self.run(LastId()), self._limits.max_batch))

    async def delete(self, queue: str) -> None:
        """Delete a queue and its messages."""
        if not self._closed:
            # Figures are stored by the queue's name: what is kept back now would be those of the next one of the name.
            self._engine.flush()
        await self.run(DeleteQueue(queue))

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
