"""Consumers of a server: `Client.consumers`, and its twin for an event loop."""

from __future__ import annotations

from sqew.client import consumer_calls as calls
from sqew.client.protocols import AsyncDo, Do
from sqew.model import Claim, ConsumerInfo, Message, OpenedConsumer
from sqew.rules.values import seconds_as_ms

Found = list[ConsumerInfo]
Claimed = list[Message]


class Consumers:
    """Consumers, which read a queue in claims that outlast the reader: each message at least once."""

    def __init__(self, do: Do) -> None:
        self._do = do

    def open(
        self, queue: str, consumer: str, *, owner: str, hold_ms: int = 30_000, hold_seconds: float | None = None
    ) -> OpenedConsumer:
        """Open the consumer of that name, made if there is none; for ``hold_ms`` only ``owner`` can open it again.

        Operations with an earlier epoch are refused from now on.
        """
        if hold_seconds is not None:
            hold_ms = seconds_as_ms("hold_seconds", hold_seconds)
        return self._do(calls.open_consumer(queue, consumer, owner, hold_ms))

    def claim(
        self,
        queue: str,
        consumer: str,
        epoch: int,
        *,
        after: int,
        limit: int = 10_000,
        lease_ms: int = 3_600_000,
        done: int | None = None,
        lease_seconds: float | None = None,
    ) -> Claim:
        """Ack all claims up to ``after``, and claim what is ready under the next number; if that is open, return it.

        Its ``count`` is 0 if nothing is ready: there is no claim then. With ``done``, only the claims up to that one
        are acked: so the next can be claimed while those before it are worked on.
        """
        if lease_seconds is not None:
            lease_ms = seconds_as_ms("lease_seconds", lease_seconds)
        return self._do(calls.claim(queue, consumer, epoch, after, limit, lease_ms, done))

    def read(self, queue: str, consumer: str, number: int, part: int) -> Claimed:
        """Return the messages of a part of a claim, in the order in which they were received."""
        return self._do(calls.read(queue, consumer, number, part))

    def renew(
        self,
        queue: str,
        consumer: str,
        epoch: int,
        *,
        hold_ms: int | None = None,
        lease_ms: int = 3_600_000,
        hold_seconds: float | None = None,
        lease_seconds: float | None = None,
    ) -> None:
        """Hold the consumer, and all that it has claimed, for longer (as long as it was opened for)."""
        if hold_seconds is not None:
            hold_ms = seconds_as_ms("hold_seconds", hold_seconds)
        if lease_seconds is not None:
            lease_ms = seconds_as_ms("lease_seconds", lease_seconds)
        self._do(calls.renew(queue, consumer, epoch, hold_ms, lease_ms))

    def release(self, queue: str, consumer: str, *, force: bool = False) -> None:
        """Forget a consumer and give back what it has claimed. ``force``: even while its owner holds it."""
        self._do(calls.release(queue, consumer, force))

    def list(self, queue: str, *, limit: int = 100, after: str = "") -> Found:
        """Return the consumers of a queue by name, those after the given one."""
        return self._do(calls.consumers(queue, limit, after))


class AsyncConsumers:
    """The methods of `Consumers`, to be awaited."""

    def __init__(self, do: AsyncDo) -> None:
        self._do = do

    async def open(
        self, queue: str, consumer: str, *, owner: str, hold_ms: int = 30_000, hold_seconds: float | None = None
    ) -> OpenedConsumer:
        """Open the consumer of that name, made if there is none; for ``hold_ms`` only ``owner`` can open it again.

        Operations with an earlier epoch are refused from now on.
        """
        if hold_seconds is not None:
            hold_ms = seconds_as_ms("hold_seconds", hold_seconds)
        return await self._do(calls.open_consumer(queue, consumer, owner, hold_ms))

    async def claim(
        self,
        queue: str,
        consumer: str,
        epoch: int,
        *,
        after: int,
        limit: int = 10_000,
        lease_ms: int = 3_600_000,
        done: int | None = None,
        lease_seconds: float | None = None,
    ) -> Claim:
        """Ack all claims up to ``after``, and claim what is ready under the next number; if that is open, return it.

        Its ``count`` is 0 if nothing is ready: there is no claim then. With ``done``, only the claims up to that one
        are acked: so the next can be claimed while those before it are worked on.
        """
        if lease_seconds is not None:
            lease_ms = seconds_as_ms("lease_seconds", lease_seconds)
        return await self._do(calls.claim(queue, consumer, epoch, after, limit, lease_ms, done))

    async def read(self, queue: str, consumer: str, number: int, part: int) -> Claimed:
        """Return the messages of a part of a claim, in the order in which they were received."""
        return await self._do(calls.read(queue, consumer, number, part))

    async def renew(
        self,
        queue: str,
        consumer: str,
        epoch: int,
        *,
        hold_ms: int | None = None,
        lease_ms: int = 3_600_000,
        hold_seconds: float | None = None,
        lease_seconds: float | None = None,
    ) -> None:
        """Hold the consumer, and all that it has claimed, for longer (as long as it was opened for)."""
        if hold_seconds is not None:
            hold_ms = seconds_as_ms("hold_seconds", hold_seconds)
        if lease_seconds is not None:
            lease_ms = seconds_as_ms("lease_seconds", lease_seconds)
        await self._do(calls.renew(queue, consumer, epoch, hold_ms, lease_ms))

    async def release(self, queue: str, consumer: str, *, force: bool = False) -> None:
        """Forget a consumer and give back what it has claimed. ``force``: even while its owner holds it."""
        await self._do(calls.release(queue, consumer, force))

    async def list(self, queue: str, *, limit: int = 100, after: str = "") -> Found:
        """Return the consumers of a queue by name, those after the given one."""
        return await self._do(calls.consumers(queue, limit, after))
