"""Writers of a server: `Client.writers`, and its twin for an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqew.client import writer_calls as calls
from sqew.client.protocols import AsyncDo, Do
from sqew.model import Promotion, Staged, WriterInfo

Found = list[WriterInfo]


class Writers:
    """Writers, which send in whole epochs, each exactly once: stage messages in parts, then promote them together."""

    def __init__(self, do: Do) -> None:
        self._do = do

    def stage(
        self, queue: str, writer: str, epoch: int, part: str, bodies: Iterable[Any], *, offset: int | None = None
    ) -> Staged:
        """Stage bodies, or `sqew.NewMessage` objects: they can't be received before their epoch is promoted.

        ``part`` is a name of your own for one attempt of one task. With ``offset`` (how many messages of the part came
        before), they are sent again if there was no answer, and stored once.
        """
        return self._do(calls.stage(queue, writer, epoch, part, bodies, offset))

    def promote(self, queue: str, writer: str, epoch: int, parts: Mapping[str, int]) -> Promotion:
        """Put the staged messages of an epoch into the queue: all of them, once, however often this is called.

        ``parts`` says how many messages each has. Messages in other parts are dropped.
        """
        return self._do(calls.promote(queue, writer, epoch, parts))

    def abort(self, queue: str, writer: str, epoch: int) -> None:
        """Delete the staged messages of an epoch, if there are any."""
        self._do(calls.abort(queue, writer, epoch))

    def get(self, queue: str, writer: str) -> WriterInfo:
        """Return a writer: the last of its epochs that was promoted, and what is staged."""
        return self._do(calls.writer(queue, writer))

    def list(self, queue: str, *, limit: int = 100, after: str = "") -> Found:
        """Return the writers of a queue by name, those after the given one."""
        return self._do(calls.writers(queue, limit, after))


class AsyncWriters:
    """The methods of `Writers`, to be awaited."""

    def __init__(self, do: AsyncDo) -> None:
        self._do = do

    async def stage(
        self, queue: str, writer: str, epoch: int, part: str, bodies: Iterable[Any], *, offset: int | None = None
    ) -> Staged:
        """Stage bodies, or `sqew.NewMessage` objects: they can't be received before their epoch is promoted."""
        return await self._do(calls.stage(queue, writer, epoch, part, bodies, offset))

    async def promote(self, queue: str, writer: str, epoch: int, parts: Mapping[str, int]) -> Promotion:
        """Put the staged messages of an epoch into the queue: all of them, once, however often this is called."""
        return await self._do(calls.promote(queue, writer, epoch, parts))

    async def abort(self, queue: str, writer: str, epoch: int) -> None:
        """Delete the staged messages of an epoch, if there are any."""
        await self._do(calls.abort(queue, writer, epoch))

    async def get(self, queue: str, writer: str) -> WriterInfo:
        """Return a writer: the last of its epochs that was promoted, and what is staged."""
        return await self._do(calls.writer(queue, writer))

    async def list(self, queue: str, *, limit: int = 100, after: str = "") -> Found:
        """Return the writers of a queue by name, those after the given one."""
        return await self._do(calls.writers(queue, limit, after))
