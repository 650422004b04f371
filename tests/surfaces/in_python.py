"""`Queue`, `Client` and `AsyncClient`, whose methods have the same names."""

from __future__ import annotations

import functools
from typing import Any

from sqew.errors import SqewError
from sqew.model import Backoff, Lease, Message
from tests.surfaces.surface import Held, Refused, Seen


def _seen(message: Message) -> Seen:
    death = message.death
    return Seen(
        message.id, message.value, message.attempts, message.state, message.headers, message.key, message.group,
        message.lane, message.priority, None if death is None else death.reason, None if death is None else death.queue,
    )  # fmt: skip


def _held(queue: str, id: int, token: str) -> Message:
    """Return the message that `claim` would have given for a lease with this token."""
    lease = Lease(token, 0, None)
    return Message(id, queue, b"", "json", {}, 0, "normal", None, None, 1, 0, 0, None, "leased", lease)


class InPython:
    """A surface over an object with the methods of `sqew.Queue`."""

    def __init__(self, q: Any) -> None:
        self._q = q

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("_"):
            return found

        @functools.wraps(found)
        def call(*given: Any, **named: Any) -> Any:
            try:
                return found(*given, **named)
            except SqewError as error:
                raise Refused(error.code, error.public_text) from error

        return call

    def create(self, queue: str, **policy: Any) -> None:
        if "backoff" in policy:
            policy["backoff"] = Backoff(**policy["backoff"])
        self._q.create(queue, **policy)

    def delete(self, queue: str) -> None:
        self._q.delete(queue)

    def send(self, queue: str, value: Any, **options: Any) -> int:
        return self._q.enqueue(queue, value, **options)

    def receive(self, queue: str, limit: int = 1, **options: Any) -> list[Held]:
        return [Held(m.id, m.value, m.attempts, m.lease.token) for m in self._q.claim_many(queue, limit, **options)]

    def ack(self, queue: str, id: int, token: str) -> None:
        self._q.ack(_held(queue, id, token))

    def nack(self, queue: str, id: int, token: str, **options: Any) -> None:
        if options.pop("dead", False):
            self._q.dead_letter(_held(queue, id, token), **options)
        else:
            self._q.nack(_held(queue, id, token), **options)

    def extend(self, queue: str, id: int, token: str, ms: int) -> None:
        self._q.extend_lease(_held(queue, id, token), ms=ms)

    def get(self, queue: str, id: int) -> Seen:
        return _seen(self._q.get(queue, id))

    def peek(self, queue: str, limit: int = 10) -> list[Seen]:
        return [_seen(message) for message in self._q.peek(queue, limit)]

    def remove(self, queue: str, id: int) -> None:
        if self._q.remove(queue, [id]) != [True]:
            raise Refused("message_not_found", "remove said so")

    def purge(self, queue: str) -> int:
        return self._q.purge(queue)

    def stats(self, queue: str) -> dict[str, int]:
        depths = self._q.stats(queue).depths
        states = {state: depths.total(state) for state in ("ready", "delayed", "leased", "blocked")}
        return states | {"dead": depths.dead, "archived": depths.archived}

    def archive(self, queue: str) -> list[tuple[int, str]]:
        return [(found.message.id, found.outcome) for found in self._q.archive(queue)]

    def dead_letters(self, queue: str) -> list[Seen]:
        return [_seen(message) for message in self._q.dead_letters(queue)]

    def requeue(self, queue: str, ids: list[int] | None = None) -> int:
        return self._q.requeue(queue, ids)

    def purge_dead(self, queue: str, ids: list[int] | None = None) -> int:
        return self._q.purge_dead(queue, ids)

    def consumers(self, queue: str) -> list[tuple[str, list[int]]]:
        return [(found.name, [claim.number for claim in found.claims]) for found in self._q.consumers.list(queue)]

    def release(self, queue: str, consumer: str, *, force: bool = False) -> None:
        self._q.consumers.release(queue, consumer, force=force)

    def open_consumer(self, queue: str, consumer: str, owner: str, hold_ms: int = 30_000) -> tuple[int, list[int]]:
        opened = self._q.consumers.open(queue, consumer, owner=owner, hold_ms=hold_ms)
        return opened.epoch, opened.claims

    def claim(self, queue: str, consumer: str, epoch: int, **options: Any) -> tuple[int, int, int]:
        claim = self._q.consumers.claim(queue, consumer, epoch, **options)
        return claim.number, claim.count, len(claim.parts)

    def read(self, queue: str, consumer: str, number: int, part: int = 0) -> list[Seen]:
        return [_seen(message) for message in self._q.consumers.read(queue, consumer, number, part)]

    def renew(self, queue: str, consumer: str, epoch: int, **options: Any) -> None:
        self._q.consumers.renew(queue, consumer, epoch, **options)

    def writers(self, queue: str) -> list[tuple[str, int | None, int]]:
        found = self._q.writers.list(queue)
        return [(writer.name, writer.epoch, sum(staging.messages for staging in writer.staged)) for writer in found]

    def stage(self, queue: str, writer: str, epoch: int, part: str, values: list[Any]) -> int:
        return self._q.writers.stage(queue, writer, epoch, part, values).staged

    def promote(self, queue: str, writer: str, epoch: int, parts: dict[str, int]) -> tuple[int | None, bool]:
        promotion = self._q.writers.promote(queue, writer, epoch, parts)
        return promotion.promoted, promotion.repeated

    def abort(self, queue: str, writer: str, epoch: int) -> None:
        self._q.writers.abort(queue, writer, epoch)

    def subscribe(self, pattern: str, queue: str | None = None, endpoint: str | None = None) -> int:
        return self._q.events.subscribe(pattern, queue=queue, endpoint=endpoint).id

    def subscriptions(self, queue: str) -> list[tuple[int, str, str]]:
        return [(found.id, found.pattern, found.target) for found in self._q.events.subscriptions(queue=queue)]

    def unsubscribe(self, id: int) -> None:
        self._q.events.unsubscribe(id)

    def publish(self, routing_key: str, value: Any) -> dict[str, Any]:
        published = self._q.events.publish(routing_key, value)
        return {
            "messages": list(published.messages),
            "deliveries": published.deliveries,
            "missing": list(published.missing),
        }

    def deliveries(self, subscription: int) -> list[tuple[int, str, int]]:
        found = self._q.deliveries.list(subscription_id=subscription)
        return [(delivery.id, delivery.state, delivery.attempts) for delivery in found]

    def retry(self, delivery: int) -> None:
        self._q.deliveries.retry(delivery)

    def drop(self, delivery: int) -> None:
        self._q.deliveries.drop(delivery)

    def schedule(self, name: str, queue: str, value: Any, **timing: str) -> None:
        self._q.schedules.create(name, queue=queue, message=value, **timing)

    def scheduled(self, name: str) -> dict[str, Any]:
        found = self._q.schedules.get(name)
        return {
            "status": found.status,
            "canonical": found.canonical,
            "sentence": found.human_readable,
            "fired": found.fired,
        }

    def pause(self, name: str) -> None:
        self._q.schedules.pause(name)

    def resume(self, name: str) -> None:
        self._q.schedules.resume(name)

    def run_schedule(self, name: str) -> list[int]:
        return self._q.schedules.run(name).ids

    def unschedule(self, name: str) -> None:
        self._q.schedules.delete(name)

    def preview(self, **timing: Any) -> dict[str, Any]:
        found = self._q.schedules.preview(**timing)
        return {"canonical": found.canonical, "sentence": found.human_readable, "fires": len(found.next_fires)}
