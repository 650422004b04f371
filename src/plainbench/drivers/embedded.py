"""The driver of Sqew in the process that uses it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar, Literal, TypeVar

from plainbench.config.model import CallFaults
from plainbench.drivers.base import Delivered, Item, Left, Place
from plainbench.drivers.sqew import DURABILITY, OurDriver, depths_of, number_in
from plainbench.faults.clock import clock_of
from plainbench.faults.disk import disk_of
from plainbench.faults.injector import Call, Injector
from plainbench.faults.lock_holder import contention
from plainbench.faults.store import FaultyStore, SharedStore
from sqew import operations as ops
from sqew.clock import Clock
from sqew.core.engine import Engine
from sqew.core.thread_executors import GroupCommitExecutor
from sqew.embedded import Queue
from sqew.errors import SqewError
from sqew.settings import Settings, resolve
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.notifier import SocketNotifier

R = TypeVar("R")

_SCANNED = 5_000


def settings_of(place: Place) -> Settings:
    """Return Sqew's settings for the configuration's pragmas."""
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


def _store(place: Place, settings: Settings, clock: Clock) -> SQLiteStore:
    return SQLiteStore(
        settings.db,
        now=clock.now(),
        durability=settings.durability,
        # In virtual time nobody waits for real.
        busy_timeout_ms=0 if place.time.is_virtual else settings.busy_timeout_ms,
        wal_autocheckpoint_pages=settings.wal_autocheckpoint_pages,
        random=Random(place.config.seed),
        vfs=disk_of(place),
    )


class SharedQueue:
    """A queue for all threads of a process, as an application has it. The last thread to let go of it closes it."""

    def __init__(self, queue: Queue, closed: Callable[[], object]) -> None:
        self.queue = queue
        self._closed, self._users = closed, 0

    def take(self) -> SharedQueue:
        self._users += 1
        return self

    def let_go(self) -> None:
        self._users -= 1
        if not self._users:
            self._closed()
            self.queue.close()


class EmbeddedDriver(OurDriver):
    """A driver of Sqew in this process; see `plainbench.drivers.base.Driver`."""

    name: ClassVar[str] = "sqew"
    does: ClassVar[str] = "Sqew in the process of who uses it, on the SQLite file of sqlite.queue_file."
    needs: ClassVar[Sequence[str]] = ()
    options: ClassVar[Mapping[str, str]] = {}
    runs_in_virtual_time: ClassVar[bool] = True
    faults_inside: ClassVar[bool] = True
    shows_dead: ClassVar[bool] = True
    leases_outlive: ClassVar[bool] = True

    _stores: ClassVar[dict[str, SharedStore]] = {}
    _queues: ClassVar[dict[str, SharedQueue]] = {}
    _opening: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, place: Place) -> None:
        settings, clock = settings_of(place), clock_of(place)
        self._path = settings.db
        self.durability = DURABILITY[place.config.sqlite.pragmas.synchronous]
        self._faulty: FaultyStore | None = None
        self._injector: Injector | None = None
        self._plain: SharedQueue | None = None
        if place.time.is_virtual or place.config.faults.queue != CallFaults():
            self._faulty, self._injector = self._faulty_store(place, settings, clock), place.injector
            address = SocketNotifier(":memory:" if place.time.is_virtual else settings.db)
            engine = Engine(self._faulty, clock, address)
            self._queue: Queue = Queue(GroupCommitExecutor(engine, self._faulty.store), settings)
        else:
            self._plain = self._shared_queue(place, settings, clock)
            self._queue = self._plain.queue

    @classmethod
    def _faulty_store(cls, place: Place, settings: Settings, clock: Clock) -> FaultyStore:
        with cls._opening:
            if settings.db not in cls._stores:
                store = _store(place, settings, clock)
                cls._stores[settings.db] = SharedStore(store, lambda: cls._stores.pop(settings.db, None))
            shared = cls._stores[settings.db].take()
        busy_s = settings.busy_timeout_ms / 1000 if place.time.is_virtual else 0.0
        return FaultyStore(
            shared, place.injector, clock, lambda: contention(settings.db), lambda: place.time.sleep(busy_s)
        )

    @classmethod
    def _shared_queue(cls, place: Place, settings: Settings, clock: Clock) -> SharedQueue:
        with cls._opening:
            if settings.db not in cls._queues:
                store = _store(place, settings, clock)
                executor = GroupCommitExecutor(Engine(store, clock, SocketNotifier(settings.db)), store)
                queue = Queue(executor, settings)
                cls._queues[settings.db] = SharedQueue(queue, lambda: cls._queues.pop(settings.db, None))
            return cls._queues[settings.db].take()

    @property
    def is_plain(self) -> bool:
        """True if it is used as an application uses it: no call can fail, so nothing of the lab is in between."""
        return self._plain is not None

    def _call(self, call: Call, function: Callable[[], R]) -> R:
        """Run a call with the fault that is decided for it: of several transactions, the first meets it."""
        injector, store = self._injector, self._faulty
        if injector is None or store is None:
            return function()
        decision = store.upcoming = injector.decide(call)
        try:
            result = function()
        finally:
            store.upcoming = None
        injector.reach("before_reply", decision)
        return result

    def send(self, topic: str, items: Sequence[Item]) -> None:
        self._call("send", lambda: super(EmbeddedDriver, self).send(topic, items))

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        return self._call("receive", lambda: super(EmbeddedDriver, self).receive(topic, limit, lease_ms, wait_s))

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        return self._call("ack", lambda: super(EmbeddedDriver, self).ack(topic, deliveries))

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        self._call("retry", lambda: super(EmbeddedDriver, self).retry(topic, delivery, after_ms))

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        self._call("retry", lambda: super(EmbeddedDriver, self).bury(topic, delivery, reason))

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        self._call("extend", lambda: super(EmbeddedDriver, self).extend(topic, delivery, lease_ms))

    def left(self, topic: str) -> Iterator[Left]:
        dead_letters = self._queue.info(topic).policy.dead_letter
        yield from self._in_queue(topic, None)
        if dead_letters is not None:
            yield from self._in_queue(dead_letters, "dead")

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
            if self._plain is None:
                super().close()
            else:
                self._plain.let_go()


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
