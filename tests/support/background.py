"""A broker on a file with a webhook sender or a scheduler, as a server has them, and a clock that a test may move."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from sqew.background.scheduler import Scheduler
from sqew.background.service import for_ever
from sqew.background.webhooks.poster import Poster
from sqew.background.webhooks.sender import WebhookSender
from sqew.clock import Clock
from sqew.core.broker import Broker
from sqew.core.engine import creation, limits_of, open_file
from sqew.core.publisher import Publisher
from sqew.envelopes.sns import new_event
from sqew.errors import StoreBusy
from sqew.model import (
    Delivered,
    Delivery,
    DeliveryState,
    ExpressionKind,
    Form,
    Message,
    NewMessage,
    Published,
    Schedule,
    Subscription,
    TargetKind,
)
from sqew.operations import (
    ClaimDeliveries,
    GetSchedule,
    ListDeliveries,
    NextDelivery,
    Peek,
    SaveSchedule,
    Subscribe,
)
from sqew.rules.webhook_addresses import WebhookAddresses
from sqew.schedules.changes import SCHEDULE_HEADER, changed_schedule, new_schedule
from sqew.settings import resolve

ACCOUNT = "123456789012"
BASE_URL = "http://sqew.example"
HERE = "127.0.0.1"
RETRIES_MS = (10_000, 30_000, 60_000, 300_000)
POLL_MS = 5
WITHIN_S = 30


class Attempt(NamedTuple):
    """The outcome of an attempt at a delivery."""

    went_well: bool
    took_s: float
    ended: Delivered


class Work:
    """A webhook sender at work."""

    def __init__(self, sender: WebhookSender, task: asyncio.Task[None], attempts: asyncio.Queue[Attempt]) -> None:
        self.sender, self.task, self._attempts = sender, task, attempts

    async def attempt(self) -> Attempt:
        """Return the next attempt that ends."""
        return await self._attempts.get()

    async def stop(self, within_s: float = 0) -> None:
        """Stop it as a server does."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.sender.stop(within_s)


class House:
    """A broker, and shorthands for what a test is about."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.publisher = Publisher(broker, ACCOUNT, BASE_URL)
        self._refused: set[type] = set()
        self._refusal = asyncio.Event()
        self._looked = asyncio.Event()
        self.broker.observe_batch = self._executed
        self.public_text: Callable[[Sequence[Any]], object] = len
        """A function that gets the operations of every transaction."""

    def _executed(self, operations: Any, results: Any, _seconds: float) -> None:
        self.public_text(operations)
        if any(isinstance(operation, ClaimDeliveries | NextDelivery) for operation in operations):
            self._looked.set()
        if any(isinstance(result, StoreBusy) for result in results):
            self._refused |= {type(operation) for operation in operations}
            self._refusal.set()

    async def a_look(self) -> None:
        """Wait until a webhook sender has looked for deliveries from now on, and has begun with what it found."""
        # It looks whether anything is due, claims it, and looks again when it has begun with that.
        for _ in range(3):
            self._looked.clear()
            await self._looked.wait()

    async def refusal_of(self, *operations: type) -> None:
        """Wait until the store was too busy for each of these operations."""
        while not self._refused >= set(operations):
            self._refusal.clear()
            await self._refusal.wait()

    async def queue(self, name: str, **policy: Any) -> None:
        await self.broker.run(creation(resolve({}, {}, None), name, {"dead_letter": None, **policy}))

    async def subscribe(self, pattern: str, target: str, form: Form = 0) -> Subscription:
        protocol: Any = "queue" if "://" not in target else target.partition(":")[0]
        return (await self.broker.run(Subscribe(pattern, protocol, target, form))).subscription

    async def publish(self, routing_key: str, *values: object, **options: Any) -> list[Published]:
        messages = [NewMessage(json.dumps(value).encode(), **options) for value in values]
        return await self.publisher.publish([new_event(routing_key, message) for message in messages])

    async def deliveries(self, state: DeliveryState | None = None) -> list[Delivery]:
        return await self.broker.run(ListDeliveries(state, limit=1_000))

    async def schedule(
        self, name: str, kind: ExpressionKind, expression: str, target: str = "ticks", **more: Any
    ) -> Schedule:
        target_kind: TargetKind = more.pop("target_kind", "queue")
        schedule = new_schedule(
            name, target_kind, target, kind, expression, NewMessage(b'"tick"'), self.broker.now(), **more
        )
        return (await self.broker.run(SaveSchedule(schedule, 0))).schedule

    async def change(self, name: str, **changes: Any) -> Schedule:
        existing = await self.reads(name)
        changed = changed_schedule(existing, changes, self.broker.now())
        return (await self.broker.run(SaveSchedule(changed, existing.version))).schedule

    async def reads(self, name: str) -> Schedule:
        return await self.broker.run(GetSchedule(name))

    async def messages(self, queue: str = "ticks") -> list[Message]:
        return await self.broker.run(Peek(queue, 1_000))

    async def slots(self, name: str, queue: str = "ticks") -> list[str]:
        """Return, in order, the slots of a schedule whose messages are in a queue."""
        marks = [message.headers[SCHEDULE_HEADER] for message in await self.messages(queue)]
        return sorted(mark["scheduled_for"] for mark in marks if mark["name"] == name)

    def scheduler(self, **options: Any) -> Scheduler:
        return Scheduler(self.broker, self.publisher, **options)

    @contextlib.asynccontextmanager
    async def running_scheduler(self, **options: Any) -> AsyncIterator[asyncio.Queue[bool]]:
        """Run a scheduler until the block ends; the queue yielded gets the success of each fire, as True or False."""
        fires: asyncio.Queue[bool] = asyncio.Queue()
        scheduler = self.scheduler(observe=fires.put_nowait, **options)
        task = asyncio.create_task(for_ever("schedules", scheduler.run))
        try:
            yield fires
        finally:
            task.cancel()
            await asyncio.wait([task])

    @contextlib.asynccontextmanager
    async def sender(
        self,
        *,
        timeout_s: float = WITHIN_S,
        allow: str = HERE,
        webhook_addresses: WebhookAddresses | None = None,
        **options: Any,
    ) -> AsyncIterator[Work]:
        """Run a webhook sender until the block ends. It may post to this machine, and polls every few milliseconds."""
        attempts: asyncio.Queue[Attempt] = asyncio.Queue()
        sender = WebhookSender(
            self.broker,
            Poster(webhook_addresses or WebhookAddresses(allow), timeout_s),
            ACCOUNT,
            RETRIES_MS,
            timeout_ms=round(timeout_s * 1000),
            **{"poll_ms": POLL_MS, **options},
            observe=lambda *attempt: attempts.put_nowait(Attempt(*attempt)),
        )
        work = Work(sender, asyncio.create_task(for_ever("deliveries", sender.run)), attempts)
        try:
            yield work
        finally:
            await work.stop()


def ms(text: str) -> int:
    """Return the epoch milliseconds of a time such as 2026-03-29T01:00:00Z."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def utc(at_ms: int) -> str:
    """Return a time in the form in which a message names its slot."""
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the file's write lock, as another process might."""
    with contextlib.closing(apsw.Connection(str(folder / "queue.db"))) as another:
        another.execute("BEGIN IMMEDIATE")
        yield


@contextlib.asynccontextmanager
async def house(folder: Path, clock: Clock | None = None, **changes: Any) -> AsyncIterator[House]:
    """Yield a broker on a file of this folder, for as long as a test may take."""
    settings = resolve({"db": folder / "queue.db", "durability": "fast", **changes}, {}, None)
    engine, _ = open_file(settings, clock)
    async with asyncio.timeout(WITHIN_S), Broker(engine, limits_of(settings)) as broker:
        yield House(broker)
