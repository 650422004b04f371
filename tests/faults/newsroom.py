"""Events, endpoints and schedules in a file or a database at which servers live and die, and a check of their fate."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Protocol

import apsw

from sqew.clock import Clock
from sqew.envelopes.sns import new_event
from sqew.model import Delivery, DeliveryState, Message, NewMessage, Schedule
from sqew.operations import (
    CreateQueue,
    GetSchedule,
    LastId,
    ListDeliveries,
    Operation,
    Publish,
    SaveSchedule,
    Scan,
    Subscribe,
)
from sqew.rules.policies import default_policy
from sqew.schedules.changes import new_schedule
from sqew.stores.contract import Store
from sqew.stores.sqlite import SQLiteStore
from tests.faults.consistency import problems_of, problems_of_database
from tests.support.endpoint import Hook, Received, resets, status
from tests.support.postgres import Awaited, fetch_column

SECOND = 1_000
ENDPOINTS = ("/steady", "/shaky", "/slow")
TO_QUEUE = [f"to-queue-{number}" for number in range(20)]
TO_TOPIC = [f"to-topic-{number}" for number in range(5)]
FLAGS = [
    "--wal-autocheckpoint-pages", "50", "--delivery-allow", "127.0.0.1", "--delivery-poll-ms", "20",
    "--delivery-timeout-ms", "2000", "--delivery-retries", "100ms " * 20, "--schedule-poll-ms", "50",
]  # fmt: skip


async def fails_at_first(received: Received, writer: asyncio.StreamWriter) -> bool:
    """Answer every third event with an error, then with a reset, before accepting it."""
    value, attempt = json.loads(received.body), received.headers["x-sqew-attempt"]
    if value % 3 == 0 and attempt == "1":
        return await status(503)(received, writer)
    if value % 3 == 0 and attempt == "2":
        return await resets(received, writer)
    return await status(200)(received, writer)


async def takes_its_time(received: Received, writer: asyncio.StreamWriter) -> bool:
    await asyncio.sleep(0.1)
    return await status(200)(received, writer)


class Place(Protocol):
    """A place where a newsroom keeps everything."""

    database: str | None
    """The URL for servers; None: the file in their folder."""
    flags: Sequence[str]
    """Further flags for servers."""

    def open(self, now: int) -> Store: ...

    def inconsistencies(self) -> list[str]:
        """Return what is wrong with it, whatever other processes are at it."""


class File:
    """A file ``queue.db`` in a folder."""

    database = None
    flags = ()

    def __init__(self, folder: Path) -> None:
        self._path = folder / "queue.db"

    def open(self, now: int) -> Store:
        return SQLiteStore(self._path, now=now, durability="fast")

    def inconsistencies(self) -> list[str]:
        with closing(apsw.Connection(str(self._path))) as connection, connection:
            return problems_of(connection)


class Database:
    """A PostgreSQL database. Servers that poll all the time would leave each other no time to start."""

    flags = ("--delivery-poll-ms", "200", "--schedule-poll-ms", "200")

    def __init__(self, url: str) -> None:
        self.database: str | None = url
        self._url = url

    def open(self, now: int) -> Store:
        return Awaited(self._url, now, Random(1))

    def inconsistencies(self) -> list[str]:
        return problems_of_database(partial(fetch_column, self._url))


class Newsroom:
    """A newsroom, seen from a process that is never killed."""

    def __init__(self, place: Place, hook: Hook) -> None:
        self.place, self.hook = place, hook
        self.clock = Clock()
        self._store = place.open(self.clock.now())
        for name in ("ticks", "inbox", "heard"):
            self.run(CreateQueue(name, default_policy(name, {"dead_letter": None})))
        for path in ENDPOINTS:
            self.run(Subscribe("news.*", "http", hook.url(path)))
        self.run(Subscribe("news.#", "queue", "inbox"))
        self.run(Subscribe("clock.second", "queue", "heard"))
        self.run(Subscribe("clock.#", "http", hook.url("/clock"), 2))
        hook.does("/shaky", fails_at_first)
        hook.does("/slow", takes_its_time)
        self.first_slots = {name: self._every_second(name) for name in (*TO_QUEUE, *TO_TOPIC)}

    def _every_second(self, name: str) -> int:
        now, tick = self.clock.now(), NewMessage(b'"tick"')
        more: dict[str, Any] = {"catchup": True, "catchup_limit": 1_000}
        if name in TO_QUEUE:
            schedule = new_schedule(name, "queue", "ticks", "every", "1 second", tick, now, **more)
        else:
            schedule = new_schedule(name, "topic", "clock.second", "every", "1 second", tick, now, **more)
        self.run(SaveSchedule(schedule, 0))
        assert schedule.next_fire_at is not None
        return schedule.next_fire_at

    def run(self, operation: Operation[Any]) -> Any:
        (result,) = self._store.run([operation], self.clock.now()).results
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        self._store.close()

    def deliveries(self, state: DeliveryState | None = None) -> list[Delivery]:
        found: list[Delivery] = self.run(ListDeliveries(state, limit=1_000))
        return found

    def schedules(self) -> list[Schedule]:
        return [self.run(GetSchedule(name)) for name in self.first_slots]

    def wait_until_all_is_done(self, patience_s: float = 60) -> None:
        """Wait until everything up to now is posted and every slot has fired, as long as posts still arrive."""
        now, arrived, since = self.clock.now(), -1, 0.0
        while left := self._left_of(now):
            if arrived != (arrived := len(self.hook.received())):
                since = time.monotonic()
            assert time.monotonic() < since + patience_s, left[:3]
            time.sleep(0.05)

    def _left_of(self, then: int) -> list[Schedule | Delivery]:
        late = [schedule for schedule in self.schedules() if (schedule.next_fire_at or 0) <= then]
        return late + [delivery for delivery in self.deliveries() if delivery.created_at <= then]

    def messages(self, queue: str) -> list[Message]:
        """Return all messages of a queue."""
        last: int = self.run(LastId())
        found: list[Message] = self.run(Scan(queue, 0, last, last + 1)).messages
        return found

    def problems(self, published: set[int]) -> list[str]:
        """Return everything that is not as it should be, now that all servers have ended."""
        found = self.place.inconsistencies() + self._wrong_slots()
        inbox = Counter(json.loads(message.body) for message in self.messages("inbox"))
        if inbox != Counter(published):
            found.append(f"inbox: {_difference(inbox, Counter(published))}")
        for path in ENDPOINTS:
            arrived = {json.loads(request.body) for request in self.hook.received(path)}
            if arrived != published:
                found.append(f"{path}: lost {sorted(published - arrived)}, made up {sorted(arrived - published)}")
        return found

    def _wrong_slots(self) -> list[str]:
        """Return the schedules whose slots were not sent once each, from the first to the last."""
        sent = {name: Counter[str]() for name in self.first_slots}
        for queue in ("ticks", "heard"):
            for message in self.messages(queue):
                mark = message.headers["_schedule"]
                sent[mark["name"]][mark["scheduled_for"]] += 1
        found = []
        for schedule in self.schedules():
            assert schedule.next_fire_at is not None
            due = range(self.first_slots[schedule.name], schedule.next_fire_at, SECOND)
            expected = Counter(_utc(slot) for slot in due)
            if sent[schedule.name] != expected:
                found.append(f"{schedule.name}: {_difference(sent[schedule.name], expected)}")
            if schedule.fired != len(due) or schedule.skipped or schedule.last_error:
                found.append(f"{schedule.name}: {schedule}")
        events = sum(sent[name].total() for name in TO_TOPIC)
        notices = {request.headers["x-amz-sns-message-id"] for request in self.hook.received("/clock")}
        # The servers fired on until they were stopped, and were not waited for once more.
        notices |= {delivery.message_id for delivery in self.deliveries() if delivery.state != "exhausted"}
        if len(notices) != events:
            found.append(f"/clock: {len(notices)} of {events} events arrived")
        return found

    def posted_twice(self) -> int:
        """Count the repeated deliveries to endpoints that refuse nothing."""
        posts = [*self.hook.received("/steady"), *self.hook.received("/slow")]
        return len(posts) - len({request.headers["x-sqew-delivery"] for request in posts})


class Press(threading.Thread):
    """A publisher that runs until it is ended, and keeps what it published."""

    def __init__(self, newsroom: Newsroom, seed: int) -> None:
        super().__init__()
        self.published: set[int] = set()
        self.over = threading.Event()
        self._place, self._random, self._clock = newsroom.place, Random(seed), newsroom.clock

    def run(self) -> None:
        values = count()
        with closing(self._place.open(self._clock.now())) as store:
            while not self.over.wait(self._random.uniform(0, 0.04)):
                batch = [next(values) for _ in range(self._random.randint(1, 3))]
                events = [new_event("news.today", NewMessage(str(value).encode())) for value in batch]
                (result,) = store.run([Publish(events)], self._clock.now()).results
                assert not isinstance(result, Exception)
                self.published.update(batch)

    def end(self) -> None:
        self.over.set()
        self.join(20)


def _difference(found: Counter[Any], expected: Counter[Any]) -> str:
    return f"lost {sorted((expected - found).elements())}, too many {sorted((found - expected).elements())}"


def _utc(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"
