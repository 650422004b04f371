"""Worker that finishes the promotions whose clients are gone."""

from __future__ import annotations

import asyncio

from sqew.core.broker import Broker
from sqew.operations import FinishPromotion, NextPromotion

_LOOK_AGAIN_MS = 5_000
"""Milliseconds between looks: a promotion is left alone for longer than that."""
_OTHERS_AT_IT_S = 0.1


class Promoter:
    """A worker that finishes promotions. Any number may be at one store: each chunk is moved by one alone."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def run(self) -> None:
        """Go on with every promotion that was left undone, for ever."""
        while True:
            due_at = await self._broker.run(NextPromotion())
            wait_ms = _LOOK_AGAIN_MS if due_at is None else min(due_at - self._broker.now(), _LOOK_AGAIN_MS)
            if wait_ms > 0:
                await asyncio.sleep(wait_ms / 1000)
            elif not await self._broker.run(FinishPromotion()):
                await asyncio.sleep(_OTHERS_AT_IT_S)
