"""Our own queue, in the process of who uses it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal

from sqew import operations as ops
from sqew.commits import GroupCommit
from sqew.embedded import Queue
from sqew.engine import Engine
from sqew.errors import SqewError
from sqew.lab.drivers.base import Delivered, Item, Left, Place, Topic
from sqew.lab.faults.disk import disk_of
from sqew.lab.faults.store import FaultyStore, SharedStore
from sqew.lab.faults.times import clock_of
from sqew.lab.faults.writer import contention
from sqew.model import Message, NewMessage
from sqew.settings import Settings, resolve
from sqew.stores.sqlite import SQLiteStore
from sqew.waiting import Doorbell

NUMBER = "lab"
"""The header that holds a message's number."""
_SCANNED = 5_000


def settings_of(place: Place) -> Settings:
    """Our settings, as the configuration's pragmas say."""
    pragmas = place.config.sqlite.pragmas
    return resolve(
        {
            "db": str(place.folder / place.config.sqlite.queue_file),
            "durability": "durable" if pragmas.synchronous == "FULL" else "fast",
            "busy_timeout_ms": pragmas.busy_timeout_ms,
            "wal_autocheckpoint_pages": pragmas.wal_autocheckpoint_pages,
            "max_batch": 10_000,
        },
        {},
        None,
    )


class EmbeddedDriver:
    """Implements `sqew.lab.drivers.base.Driver`."""

    name: ClassVar[str] = "sqew"
    does: ClassVar[str] = "Sqew in the process of who uses it, on the SQLite file of sqlite.queue_file."
    needs: ClassVar[Sequence[str]] = ()
    options: ClassVar[Mapping[str, str]] = {}
    runs_in_virtual_time: ClassVar[bool] = True
    faults_inside: ClassVar[bool] = True

    _stores: ClassVar[dict[str, SharedStore]] = {}
    _opening: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, place: Place) -> None:
        settings = settings_of(place)
        clock = clock_of(place)
        self._path = settings.db
        shared = self._shared(place, settings, clock.now())
        busy_s = settings.busy_timeout_ms / 1000 if place.time.is_virtual else 0.0
        store = FaultyStore(shared, place.injector, lambda: contention(settings.db), lambda: place.time.sleep(busy_s))
        engine = Engine(store, clock, Doorbell(":memory:" if place.time.is_virtual else settings.db))
        self._queue = Queue(GroupCommit(engine, shared.store), settings)
        self._replying = place.injector.replying if place.injector is not None else lambda: None
        self.durability = (
            "durable: synchronous=FULL" if settings.durability == "durable" else "fast: synchronous=NORMAL"
        )

    @classmethod
    def _shared(cls, place: Place, settings: Settings, now: int) -> SharedStore:
        with cls._opening:
            if settings.db not in cls._stores:
                cls._stores[settings.db] = SharedStore(
                    SQLiteStore(
                        settings.db,
                        now=now,
                        durability=settings.durability,
                        # In virtual time nobody waits for real.
                        busy_timeout_ms=0 if place.time.is_virtual else settings.busy_timeout_ms,
                        wal_autocheckpoint_pages=settings.wal_autocheckpoint_pages,
                        random=Random(place.config.seed),
                        vfs=disk_of(place),
                    )
                )
            return cls._stores[settings.db]

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
        messages = [
            NewMessage(
                item.body, "json", {**(item.headers or {}), NUMBER: item.number}, item.priority, item.lane, item.group,
                item.key,
            )
            for item in items
        ]  # fmt: skip
        self._queue.run(ops.Send(topic, messages))
        self._replying()

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        operation = ops.Receive(topic, limit, None, lease_ms)
        messages = self._queue.receive(operation, round(wait_s * 1000)).messages
        self._replying()
        return [_delivered(message) for message in messages]

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        refusals = self._queue.ack_many([delivery.handle for delivery in deliveries])
        self._replying()
        return refusals

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        self._queue.nack(delivery.handle, delay_seconds=None if after_ms is None else after_ms / 1000)
        self._replying()

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        self._queue.dead_letter(delivery.handle, reason=reason)
        self._replying()

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        self._queue.extend_lease(delivery.handle, lease_ms / 1000)

    def left(self, topic: str) -> Iterator[Left]:
        letters = self._queue.info(topic).policy.dead_letter
        yield from self._in_queue(topic, None)
        if letters is not None:
            yield from self._in_queue(letters, "dead")

    def _in_queue(self, queue: str, where: Literal["dead"] | None) -> Iterator[Left]:
        after: int | None = 0
        last = self._queue.run(ops.LastId())
        while after is not None:
            page = self._queue.run(ops.Scan(queue, after, last, _SCANNED))
            for message in page.messages:
                yield Left(number_of(message), where or message.state)
            after = page.after

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        measured = self._queue.run(ops.Measure(topic))
        depths = {
            lane: {"ready": depth.ready, "leased": depth.leased, "delayed": depth.delayed, "blocked": depth.blocked}
            for lane, depth in measured.lanes.items()
        }
        return {**depths, "": {"dead": measured.dead, "wal_bytes": _size(f"{self._path}-wal")}}

    def close(self) -> None:
        """What is shared is closed with the process."""
        with contextlib.suppress(SqewError):
            self._queue.close()


def _delivered(message: Message) -> Delivered:
    return Delivered(
        number_of(message), message.body, message.lane, message.attempts, message.group, message.headers, message
    )


def number_of(message: Message) -> int:
    """The lab's number; of what the lab did not send, the message's id below 0."""
    number = (message.headers or {}).get(NUMBER)
    return number if type(number) is int else -message.id


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
