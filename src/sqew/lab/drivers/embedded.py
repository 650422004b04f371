"""Our own queue, in the process of who uses it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar, Literal

from sqew import operations as ops
from sqew.commits import GroupCommit
from sqew.embedded import Queue
from sqew.engine import Engine
from sqew.errors import SqewError
from sqew.lab.drivers.base import Delivered, Item, Left, Place
from sqew.lab.drivers.ours import DURABILITY, OurDriver, depths_of, number_in
from sqew.lab.faults.disk import disk_of
from sqew.lab.faults.store import FaultyStore, SharedStore
from sqew.lab.faults.times import clock_of
from sqew.lab.faults.writer import contention
from sqew.settings import Settings, resolve
from sqew.stores.sqlite import SQLiteStore
from sqew.waiting import Doorbell

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


class EmbeddedDriver(OurDriver):
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
        self._queue: Queue = Queue(GroupCommit(engine, shared.store), settings)
        self._replying = place.injector.replying if place.injector is not None else lambda: None
        self.durability = DURABILITY[place.config.sqlite.pragmas.synchronous]

    @classmethod
    def _shared(cls, place: Place, settings: Settings, now: int) -> SharedStore:
        with cls._opening:
            if settings.db not in cls._stores:
                cls._stores[settings.db] = SharedStore(
                    closed=lambda: cls._stores.pop(settings.db, None),
                    store=SQLiteStore(
                        settings.db,
                        now=now,
                        durability=settings.durability,
                        # In virtual time nobody waits for real.
                        busy_timeout_ms=0 if place.time.is_virtual else settings.busy_timeout_ms,
                        wal_autocheckpoint_pages=settings.wal_autocheckpoint_pages,
                        random=Random(place.config.seed),
                        vfs=disk_of(place),
                    ),
                )
            return cls._stores[settings.db].take()

    def send(self, topic: str, items: Sequence[Item]) -> None:
        super().send(topic, items)
        self._replying()

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        deliveries = super().receive(topic, limit, lease_ms, wait_s)
        self._replying()
        return deliveries

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        refusals = super().ack(topic, deliveries)
        self._replying()
        return refusals

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        super().retry(topic, delivery, after_ms)
        self._replying()

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        super().bury(topic, delivery, reason)
        self._replying()

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
                yield Left(number_in(message.headers, message.id), where or message.state)
            after = page.after

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        depths = depths_of(self._queue.run(ops.Measure(topic)))
        return {**depths, "": {**depths[""], "wal_bytes": _size(f"{self._path}-wal")}}

    def close(self) -> None:
        with contextlib.suppress(SqewError), self._opening:
            super().close()


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
