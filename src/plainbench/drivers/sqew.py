"""Parts that the drivers of Sqew share: embedded or behind a server, it has the same methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plainbench.drivers.base import Delivered, Item, Topic
from sqew import operations as ops
from sqew.client import Client
from sqew.embedded import Queue
from sqew.errors import NoAnswer, OutcomeUnknown, RequestTimeout, SqewError
from sqew.model import Depths, Message, NewMessage

NUMBER = "lab"
"""The header that holds a message's number."""


DURABILITY = {"FULL": "durable: synchronous=FULL", "NORMAL": "fast: synchronous=NORMAL"}
"""Durability of an answered call, by the file's ``synchronous`` pragma."""


class OurDriver:
    """The methods of `plainbench.drivers.base.Driver` that are the same for all of Sqew."""

    _queue: Queue | Client

    def create(self, topic: Topic) -> None:
        policy: dict[str, Any] = {
            "max_attempts": topic.max_attempts,
            "base_backoff_ms": topic.base_backoff_ms,
            "visibility_ms": topic.lease_ms,
            "fifo": topic.fifo,
        }
        if topic.lanes:
            policy["lanes"] = dict(topic.lanes)
        self._queue.create(topic.name, exist_ok=True, **policy)

    def send(self, topic: str, items: Sequence[Item]) -> None:
        try:
            self._queue.run(ops.Send(topic, [_new_message(item) for item in items]))
        except (NoAnswer, RequestTimeout) as error:
            raise OutcomeUnknown(str(error)) from error

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        operation = ops.Receive(topic, limit, None, lease_ms)
        messages = self._queue.receive(operation, round(wait_s * 1000)).messages
        return [_delivered(message) for message in messages]

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        return self._queue.ack_many([delivery.handle for delivery in deliveries])

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        self._queue.nack(delivery.handle, delay_seconds=None if after_ms is None else after_ms / 1000)

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        self._queue.dead_letter(delivery.handle, reason=reason)

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        self._queue.extend_lease(delivery.handle, lease_ms / 1000)

    def close(self) -> None:
        self._queue.close()


def depths_of(measured: Depths) -> dict[str, Mapping[str, int]]:
    """Return the counts by lane; those that belong to no lane are under the empty name."""
    lanes = {
        lane: {"ready": depth.ready, "leased": depth.leased, "delayed": depth.delayed, "blocked": depth.blocked}
        for lane, depth in measured.lanes.items()
    }
    return {**lanes, "": {"dead": measured.dead}}


def _new_message(item: Item) -> NewMessage:
    headers = {**(item.headers or {}), NUMBER: item.number}
    return NewMessage(item.body, "json", headers, item.priority, item.lane, item.group, item.key)


def _delivered(message: Message) -> Delivered:
    number = number_in(message.headers, message.id)
    return Delivered(number, message.body, message.lane, message.attempts, message.group, message.headers, message)


def number_in(headers: Mapping[str, Any] | None, id: int) -> int:
    """Return the lab's number of a message, or its id below 0 if the lab did not send it."""
    number = (headers or {}).get(NUMBER)
    return number if type(number) is int else -id
