"""`Queue.events`: publishing under a routing key, and subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from sqew.embedded.publishing import EmbeddedPublisher, ExecuteOperation
from sqew.envelopes.sns import check_base_url, new_event
from sqew.errors import BadValue
from sqew.matching.routing import check_pattern
from sqew.model import RAW, Form, NewMessage, Published, Subscription
from sqew.operations import GetQueue, ListSubscriptions, Subscribe, Unsubscribe
from sqew.rules.bodies import encode_body
from sqew.rules.limits import Limits
from sqew.rules.values import check_iterable, seconds_as_ms, seconds_of, shown
from sqew.rules.webhook_addresses import WebhookAddresses
from sqew.settings import Settings


class EmbeddedEvents:
    """Events and subscriptions of the queues in a file.

        q.events.subscribe("orders.*", queue="audit")
        q.events.publish("orders.created", {"sku": 7})

    A server on the same file posts events to endpoints: an embedded queue posts nothing.
    """

    def __init__(self, run: ExecuteOperation, publisher: EmbeddedPublisher, settings: Settings, limits: Limits) -> None:
        self._run, self._publisher, self._limits = run, publisher, limits
        self._addresses = WebhookAddresses(settings.delivery_allow)

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
        """Send a message to every queue that has a matching subscription, and have it posted to every such endpoint.

        It is on disk when this returns, in all queues or in none. A string is sent as text, anything else as JSON.
        """
        if type(body) is NewMessage:
            raise BadValue("A NewMessage says everything of itself. Publish it with publish_many, in a list.")
        encoded, format = encode_body(body, self._limits)
        delay_seconds = seconds_of("delay_", delay_seconds, delay_ms)
        ttl_seconds = seconds_of("ttl_", ttl_seconds, ttl_ms, at_least=1)
        message = NewMessage(
            encoded,
            format,
            headers,
            priority,
            group=group,
            delay_ms=None if delay_seconds is None else seconds_as_ms("delay_seconds", delay_seconds),
            ttl_ms=None if ttl_seconds is None else seconds_as_ms("ttl_seconds", ttl_seconds, at_least=1),
        )
        return self._publisher.publish([new_event(routing_key, message)])[0]

    def publish_many(self, routing_key: str, bodies: Iterable[Any]) -> list[Published]:
        """Publish a batch in one transaction: bodies, or `sqew.NewMessage` objects for more than a body each."""
        check_iterable("bodies", bodies)
        messages = [
            body if isinstance(body, NewMessage) else NewMessage(*encode_body(body, self._limits)) for body in bodies
        ]
        return self._publisher.publish([new_event(routing_key, message) for message in messages]) if messages else []

    def subscribe(
        self,
        pattern: str,
        *,
        queue: str | None = None,
        endpoint: str | None = None,
        envelope: bool = False,
        signature_version: Literal[1, 2] | None = None,
    ) -> Subscription:
        """Have events that match a pattern sent to a queue or to an HTTP endpoint; return the subscription, new or old.

        In a pattern ``*`` stands for one word and ``#`` for any number. ``envelope``: send them in a signed envelope,
        as SNS does, with a signature of version 2 by default; otherwise they are sent as they are.
        """
        form = form_of(envelope, signature_version)
        if form != RAW:
            check_base_url(self._publisher.flows.base_url)
        if queue is not None and endpoint is None:
            operation = Subscribe(pattern, "queue", queue, form)
        elif endpoint is not None and queue is None:
            is_safe = self._addresses.check_url(endpoint).scheme == "https"
            operation = Subscribe(pattern, "https" if is_safe else "http", endpoint, form)
        else:
            raise BadValue("A subscription leads to one place. Give queue='orders', or endpoint='https://…'.")
        return self._run(operation).subscription

    def unsubscribe(self, id: int) -> None:
        """Delete a subscription, and the deliveries still on their way to its endpoint."""
        self._run(Unsubscribe(id))

    def subscriptions(
        self, pattern: str | None = None, queue: str | None = None, *, limit: int | None = None, after: int = 0
    ) -> list[Subscription]:
        """Return subscriptions by id, after the given one: all, those to exactly a pattern, or those of a queue.

        Without a ``limit`` at most ``max_batch`` are returned.
        """
        if pattern is not None and queue is not None:
            raise BadValue("Subscriptions are listed by pattern or by queue. Give one of the two.")
        if pattern is not None:
            check_pattern(pattern)
        found = self._run(ListSubscriptions(pattern, queue, after, self._limits.max_batch if limit is None else limit))
        if queue is not None and not found:
            # It may be gone and still have some; but a name that nobody knows is a mistake.
            self._run(GetQueue(queue))
        return found


def form_of(envelope: object, signature_version: object) -> Form:
    """Return the form of a subscription's events, as it is stored."""
    if type(envelope) is not bool:
        raise BadValue(f"envelope can't be {shown(envelope)}: it must be True or False.")
    if signature_version not in (None, 1, 2):
        raise BadValue(f"signature_version can't be {shown(signature_version)}: it must be 1 or 2.")
    if not envelope:
        if signature_version is not None:
            raise BadValue("signature_version is for events in an envelope. Leave it out, or set envelope.")
        return RAW
    return 1 if signature_version == 1 else 2
