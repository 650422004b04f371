"""Changes that are made up from what is there: to read, to think, and to write without anybody coming between."""

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
    """Here they take turns. If another process has come between, the store says so, and they are made up anew."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turns: WeakValueDictionary[Operation[Any], asyncio.Lock] = WeakValueDictionary()

    async def make(self, read: Operation[T], change: Callable[[T], Awaitable[Operation[R]]]) -> R:
        """Look at something, and carry out the change that is made up from it.

        The change must be one that is refused with `ChangedMeanwhile` where what it was made up from is no longer so.
        It may be made up several times.
        """
        turn = self._turns.setdefault(read, asyncio.Lock())
        async with turn:
            while True:
                operation = await change(await self._broker.run(read))
                with contextlib.suppress(ChangedMeanwhile):
                    return await self._broker.run(operation)
