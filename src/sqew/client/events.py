"""Publishing and subscribing through a server: `Client.events`, and its twin for an event loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from sqew.client import event_calls as calls
from sqew.client.calls import message_of, messages_of
from sqew.client.protocols import AsyncDo, Do
from sqew.model import Published, Subscription
from sqew.rules.values import seconds_of


class Events:
    """Events and subscriptions of a server."""

    def __init__(self, do: Do) -> None:
        self._do = do

    def publish(
        self,
        routing_key: str,
        body: Any,
        *,
        priority: int = 0,
        headers: dict[str, Any] | None = None,
        group: str | None = None,
        delay_seconds: float | None = None,
        ttl_seconds: float | None = None,
        delay_ms: int | None = None,
        ttl_ms: int | None = None,
    ) -> Published:
        """Send a message to every queue whose subscription matches, and have it posted to every such endpoint.

        It is on disk when this returns, in all queues or in none. A string is sent as text, anything else as JSON.
        """
        delay_seconds = seconds_of("delay_", delay_seconds, delay_ms)
        ttl_seconds = seconds_of("ttl_", ttl_seconds, ttl_ms, at_least=1)
        message = message_of(body, None, priority, headers, None, group, delay_seconds, ttl_seconds)
        return (self._do(calls.publish(routing_key, [message])))[0]

    def publish_many(self, routing_key: str, bodies: Iterable[Any]) -> list[Published]:
        """Publish a batch in one transaction: bodies, or `sqew.NewMessage` objects with more than a body."""
        messages = messages_of(bodies)
        return self._do(calls.publish(routing_key, messages)) if messages else []

    def subscribe(
        self,
        pattern: str,
        *,
        queue: str | None = None,
        endpoint: str | None = None,
        envelope: bool = False,
        signature_version: Literal[1, 2] | None = None,
    ) -> Subscription:
        """Subscribe a queue or an HTTP endpoint to events that match a pattern; return the subscription, old or new.

        In a pattern ``*`` stands for one word and ``#`` for any number. ``envelope``: they come in a signed envelope,
        as SNS would send them; otherwise as they are.
        """
        return self._do(calls.subscribe(pattern, queue, endpoint, envelope, signature_version))

    def unsubscribe(self, id: int) -> None:
        """Delete a subscription, and the deliveries still on their way to its endpoint."""
        self._do(calls.unsubscribe(id))

    def subscriptions(
        self, pattern: str | None = None, queue: str | None = None, *, limit: int | None = None, after: int = 0
    ) -> list[Subscription]:
        """Return subscriptions by id, those after the given one: all, those to exactly a pattern, or those of a queue.

        Without a ``limit``, there are at most as many as the server's ``max_batch``.
        """
        return self._do(calls.subscriptions(pattern, queue, limit, after))


class AsyncEvents:
    """The methods of `Events`, to be awaited."""

    def __init__(self, do: AsyncDo) -> None:
        self._do = do

    async def publish(
        self,
        routing_key: str,
        body: Any,
        *,
        priority: int = 0,
        headers: dict[str, Any] | None = None,
        group: str | None = None,
        delay_seconds: float | None = None,
        ttl_seconds: float | None = None,
        delay_ms: int | None = None,
        ttl_ms: int | None = None,
    ) -> Published:
        """Send a message to every queue whose subscription matches, and have it posted to every such endpoint.

        It is on disk when this returns, in all queues or in none. A string is sent as text, anything else as JSON.
        """
        delay_seconds = seconds_of("delay_", delay_seconds, delay_ms)
        ttl_seconds = seconds_of("ttl_", ttl_seconds, ttl_ms, at_least=1)
        message = message_of(body, None, priority, headers, None, group, delay_seconds, ttl_seconds)
        return (await self._do(calls.publish(routing_key, [message])))[0]

    async def publish_many(self, routing_key: str, bodies: Iterable[Any]) -> list[Published]:
        """Publish a batch in one transaction: bodies, or `sqew.NewMessage` objects with more than a body."""
        messages = messages_of(bodies)
        return await self._do(calls.publish(routing_key, messages)) if messages else []

    async def subscribe(
        self,
        pattern: str,
        *,
        queue: str | None = None,
        endpoint: str | None = None,
        envelope: bool = False,
        signature_version: Literal[1, 2] | None = None,
    ) -> Subscription:
        """Subscribe a queue or an HTTP endpoint to events that match a pattern; return the subscription, old or new.

        In a pattern ``*`` stands for one word and ``#`` for any number. ``envelope``: they come in a signed envelope,
        as SNS would send them; otherwise as they are.
        """
        return await self._do(calls.subscribe(pattern, queue, endpoint, envelope, signature_version))

    async def unsubscribe(self, id: int) -> None:
        """Delete a subscription, and the deliveries still on their way to its endpoint."""
        await self._do(calls.unsubscribe(id))

    async def subscriptions(
        self, pattern: str | None = None, queue: str | None = None, *, limit: int | None = None, after: int = 0
    ) -> list[Subscription]:
        """Return subscriptions by id, those after the given one: all, those to exactly a pattern, or those of a queue.

        Without a ``limit``, there are at most as many as the server's ``max_batch``.
        """
        return await self._do(calls.subscriptions(pattern, queue, limit, after))
