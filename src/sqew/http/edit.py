"""Read-modify-write: changes computed from what was read, with nothing written in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from sqew.core.broker import Broker
from sqew.errors import ChangedMeanwhile
from sqew.operations import Operation

T = TypeVar("T")
R = TypeVar("R")


class Edits:
    """Read-modify-write changes, taken in turn. If another process comes between, they are computed anew."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turns: WeakValueDictionary[Operation[Any], asyncio.Lock] = WeakValueDictionary()

    async def make(self, read: Operation[T], change: Callable[[T], Awaitable[Operation[R]]]) -> R:
        """Read something, and carry out the change that is computed from it.

        The change must be refused with `ChangedMeanwhile` if what it was computed from has changed since. It may be
        computed several times.
        """
        turn = self._turns.setdefault(read, asyncio.Lock())
        async with turn:
            while True:
                operation = await change(await self._broker.run(read))
                with contextlib.suppress(ChangedMeanwhile):
                    return await self._broker.run(operation)
