"""A store with the clock in the test's hand, and shorthands for what tests do with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

from sqew.errors import SqewError
from sqew.model import (
    Backoff,
    Commit,
    Delivered,
    Delivery,
    DeliveryOutcome,
    Depths,
    DueDelivery,
    Extension,
    Form,
    Message,
    NewEvent,
    NewMessage,
    Policy,
    Progress,
    Published,
    QueueInfo,
    Ref,
    Release,
    Schedule,
    Settled,
    Subscription,
    Swept,
)
from sqew.operations import (
    Ack,
    ClaimDeliveries,
    CreateQueue,
    Extend,
    Get,
    GetSchedule,
    ListArchive,
    ListDead,
    ListDeliveries,
    ListSchedules,
    ListSubscriptions,
    Measure,
    Nack,
    Operation,
    Peek,
    Publish,
    Receive,
    RequeueDead,
    SaveSchedule,
    Send,
    SettleDeliveries,
    Subscribe,
    Sweep,
    UpdateQueue,
)
from sqew.stores.contract import Store

R = TypeVar("R")

START = 1_700_000_000_000
QUEUE = "jobs"
ENDPOINT = "http://endpoint.example/hook"
CLAIM_MS = 10_000


class OpenStore(Protocol):
    """A function that opens the store of one test, as often and as many at a time as wanted."""

    def __call__(self, now: int, random: Random) -> Store: ...


class Driver:
    """A store and the time. Messages go to the queue ``jobs`` unless another is named."""

    def __init__(self, open_store: OpenStore, now: int = START) -> None:
        self.now = now
        self._open_store = open_store
        self._open: Callable[[], Store] = lambda: open_store(self.now, Random(7))
        self.store = self._open()

    def commit(self, *operations: Operation[Any]) -> Commit:
        """Run operations in one transaction."""
        return self.store.run(operations, self.now)

    def run(self, operation: Operation[R]) -> R:
        """Run one operation and return its result, or raise its error."""
        [result] = self.commit(operation).results
        if isinstance(result, SqewError):
            raise result
        return result

    def advance(self, ms: int) -> None:
        self.now += ms

    def reopen(self) -> None:
        self.store.close()
        self.store = self._open()

    def beside(self) -> Driver:
        """Open another store on the same data, as another process would."""
        return Driver(self._open_store, self.now)

    def create(self, queue: str = QUEUE, **policy: Any) -> QueueInfo:
        """Make a queue of default policy, but for the fields given and a backoff without jitter."""
        policy.setdefault("backoff", Backoff(jitter_ms=0))
        return self.run(CreateQueue(queue, Policy(**policy)))

    def update(self, queue: str = QUEUE, **changes: Any) -> QueueInfo:
        return self.run(UpdateQueue(queue, changes))

    def send(self, body: bytes = b"1", queue: str = QUEUE, **fields: Any) -> int:
        """Send one message and return its id."""
        [sent] = self.run(Send(queue, [NewMessage(body, **fields)]))
        return sent.id

    def send_many(self, count: int, queue: str = QUEUE, **fields: Any) -> list[int]:
        return [sent.id for sent in self.run(Send(queue, [NewMessage(b"1", **fields)] * count))]

    def receive(self, limit: int = 1, queue: str = QUEUE, **fields: Any) -> list[Message]:
        return self.run(Receive(queue, limit, **fields)).messages

    def receive_ids(self, limit: int = 1, queue: str = QUEUE, **fields: Any) -> list[int]:
        return ids(self.receive(limit, queue, **fields))

    def take(self, queue: str = QUEUE, **fields: Any) -> Message:
        """Receive the one message that must be there."""
        [message] = self.receive(1, queue, **fields)
        return message

    def ack(self, message: Message) -> Settled:
        return self._one(Ack(message.queue, [ref(message)]))

    def nack(self, message: Message, **fields: Any) -> Settled:
        return self._one(Nack(message.queue, [Release(ref(message), **fields)]))

    def extend(self, message: Message, lease_ms: int) -> Settled:
        return self._one(Extend(message.queue, [Extension(ref(message), lease_ms)]))

    def _one(self, operation: Operation[Any]) -> Settled:
        [result] = self.run(operation)
        if isinstance(result, SqewError):
            raise result
        return result

    def kill(self, queue: str = QUEUE, reason: str = "", **fields: Any) -> int:
        """Send a message, let it die and return its id."""
        id = self.send(queue=queue, **fields)
        [result] = self.run(Nack(queue, [Release(Ref(id), dead=True, reason=reason)]))
        assert result.dead
        return id

    def get(self, id: int, queue: str | None = QUEUE) -> Message:
        return self.run(Get(queue, id))

    def peek(self, limit: int = 100, queue: str = QUEUE, lane: str | None = None) -> list[Message]:
        return self.run(Peek(queue, limit, lane))

    def measure(self, queue: str = QUEUE) -> Depths:
        return self.run(Measure(queue))

    def total(self, queue: str = QUEUE) -> int:
        return self.measure(queue).total()

    def dead(self, queue: str = QUEUE) -> list[Message]:
        return self.run(ListDead(queue)).messages

    def archive(self, queue: str = QUEUE) -> dict[int, str]:
        """Return the outcome of each archived message by its id."""
        return {entry.message.id: entry.outcome for entry in self.run(ListArchive(queue)).messages}

    def requeue(self, queue: str = QUEUE, ids: Sequence[int] | None = None, limit: int = 1000) -> Progress:
        return self.run(RequeueDead(queue, ids, limit))

    def sweep(self, limit: int = 200) -> Swept:
        return self.run(Sweep(limit))

    def sweep_all(self) -> int:
        """Sweep until nothing is left to do now, and return the total count."""
        total = 0
        while count := self.sweep().count:
            total += count
        return total

    def subscribe(self, pattern: str, queue: str = QUEUE, form: Form = 0) -> Subscription:
        return self.run(Subscribe(pattern, "queue", queue, form)).subscription

    def subscribe_endpoint(self, pattern: str, url: str = ENDPOINT, form: Form = 0) -> Subscription:
        return self.run(Subscribe(pattern, "http", url, form)).subscription

    def subscriptions(self, **fields: Any) -> list[Subscription]:
        return self.run(ListSubscriptions(**fields))

    def publish(self, routing_key: str, body: bytes = b"1", **fields: Any) -> Published:
        """Publish one event."""
        [published] = self.run(Publish([event(routing_key, body, **fields)]))
        return published

    def claim(
        self, limit: int = 100, per_subscription: int = 100, lease_ms: int = CLAIM_MS, **fields: Any
    ) -> list[DueDelivery]:
        return self.run(ClaimDeliveries(limit, per_subscription, lease_ms, **fields)).deliveries

    def settle(self, delivery: DueDelivery, *, delivered: bool = False, **fields: Any) -> Delivered:
        outcome = DeliveryOutcome(delivery.id, delivery.claimed_until, delivered, **fields)
        [ended] = self.run(SettleDeliveries([outcome]))
        return ended

    def deliveries(self, **fields: Any) -> list[Delivery]:
        return self.run(ListDeliveries(**fields))

    def save(self, schedule: Schedule, expected: int | None = None) -> Schedule:
        return self.run(SaveSchedule(schedule, expected)).schedule

    def schedule(self, name: str) -> Schedule:
        return self.run(GetSchedule(name))

    def schedule_names(self, **fields: Any) -> list[str]:
        return [schedule.name for schedule in self.run(ListSchedules(**fields))]


def event(routing_key: str, body: bytes = b"1", envelopes: dict[int, bytes] | None = None, **fields: Any) -> NewEvent:
    """Return an event whose id names its routing key."""
    return NewEvent(routing_key, NewMessage(body, **fields), f"id of {routing_key}", envelopes or {})


def endpoints(driver: Driver, count: int) -> list[int]:
    """Subscribe so many endpoints, each to a key of its own (``s0``, ``s1`` …), and return the subscriptions' ids."""
    made = []
    for done in range(0, count, 200):
        numbers = range(done, min(done + 200, count))
        made += driver.commit(*(Subscribe(f"s{n}", "http", f"http://{n}.example/") for n in numbers)).results
    return [one.subscription.id for one in made]


def publish_to(driver: Driver, endpoint: int, count: int = 1) -> None:
    """Publish events to one of these endpoints."""
    for done in range(0, count, 1000):
        driver.run(Publish([event(f"s{endpoint}")] * min(1000, count - done)))


def ids(messages: Sequence[Message]) -> list[int]:
    return [message.id for message in messages]


def ref(message: Message) -> Ref:
    """Return the reference by which a message's holder names it."""
    return Ref(message.id, message.lease.token if message.lease else None)


def states(driver: Driver, queue: str = QUEUE) -> dict[str, int]:
    """Count the messages by state, leaving out the states that hold none."""
    depths = driver.measure(queue)
    counts = {state: depths.total(state) for state in ("ready", "delayed", "leased", "blocked")}
    return {state: count for state, count in counts.items() if count}
