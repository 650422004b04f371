"""Worker for the tasks that move dead letters back."""

from __future__ import annotations

import asyncio
import contextlib

from sqew.core.broker import Broker
from sqew.model import MOVES
from sqew.operations import NextMove, StepMove

_STEP = 100
"""Messages that a task without a rate moves in a step, before other operations have their turn."""
_LOOK_AGAIN_MS = 5_000
"""Milliseconds between looks for tasks that another process has started."""


class MoveTaskRunner:
    """A worker that moves dead letters. Any number may be at one store: a step's transaction has its task to itself."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._woken = asyncio.Event()
        broker.wake_on(MOVES, self._woken)

    async def run(self) -> None:
        """Take every step when it is due, for ever."""
        while True:
            self._woken.clear()
            due_at = await self._broker.run(NextMove())
            wait_ms = _LOOK_AGAIN_MS if due_at is None else min(due_at - self._broker.now(), _LOOK_AGAIN_MS)
            if wait_ms <= 0:
                await self._broker.run(StepMove(_STEP))
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._woken.wait()
