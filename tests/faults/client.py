"""A client that records each request to a store before it sends it, and each answer as soon as it has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any, NamedTuple

import msgspec

from sqew import operations as ops
from sqew.errors import SqewError, StoreBusy, StoreError, StoreFull
from sqew.model import Message, NewMessage, Policy, Ref, Release, Settled
from sqew.stores.contract import Store
from tests.faults.history import Action, Entry, Event, Record, Step, clock

STANDARD, FIFO = "jobs", "ordered.fifo"
GROUPS = ("a", "b", "c")
_FAR = 1_000_000_000
"""Milliseconds after which every lease, delay and backoff of a test has ended."""


def create_queues(store: Store, now: int) -> None:
    """Create the two queues that the workloads use, unless they exist."""
    store.run([ops.CreateQueue(STANDARD, Policy(), exist_ok=True), ops.CreateQueue(FIFO, Policy(fifo=True), True)], now)


def body(value: str, padding: int = 0) -> bytes:
    return msgspec.json.encode({"value": value, "padding": "x" * padding})


def value_of(message: Message) -> str:
    return str(message.value["value"])


class Held(NamedTuple):
    """A message in the client's hands."""

    queue: str
    entry: Entry
    ref: Ref


class Client:
    """A process's view of a store. Every call and every answer goes to ``record``."""

    def __init__(self, store: Store, record: Record, name: str, now: Callable[[], int]) -> None:
        self.store, self.name, self.now = store, name, now
        self._record = record
        self._calls = count()

    def send(self, queue: str, messages: Sequence[tuple[str, NewMessage]]) -> list[int]:
        """Send (value, message) pairs."""
        entries = [Entry(value, group=message.group) for value, message in messages]
        operation = ops.Send(queue, [message for _, message in messages])
        sent = self._ask(
            "send",
            operation,
            entries,
            lambda results: [Entry(e.value, r.id, group=e.group) for e, r in zip(entries, results, strict=True)],
        )
        return [one.id for one in sent]

    def receive(self, queue: str, limit: int, lease_ms: int, action: Action = "receive") -> list[Held]:
        operation = ops.Receive(queue, limit, lease_ms=lease_ms, by=self.name)
        received = self._ask(action, operation, [], lambda result: [_entry(queue, m) for m in result.messages])
        return [
            Held(queue, _entry(queue, m), Ref(m.id, m.lease.token)) for m in received.messages if m.lease is not None
        ]

    def ack(self, held: Sequence[Held]) -> list[Settled | SqewError]:
        return self._settle("ack", held, ops.Ack(held[0].queue, [h.ref for h in held]))

    def nack(self, held: Sequence[Held], delay_ms: int) -> list[Settled | SqewError]:
        return self._settle("nack", held, ops.Nack(held[0].queue, [Release(h.ref, delay_ms) for h in held]))

    def drain(self) -> None:
        """Take everything that is left, once every lease has run out. The clock is not to be used after this."""
        # A millisecond each: the drain's own leases have run out by its next receive.
        later = count(self.now() + _FAR)
        self.now = lambda: next(later)
        for queue in (STANDARD, FIFO):
            while held := self.receive(queue, 100, 1, action="drain"):
                # Without this a FIFO group would show no more than its head. Not recorded: it is no client's ack.
                self.store.run([ops.Ack(queue, [h.ref for h in held])], self.now())

    def _settle(self, action: Action, held: Sequence[Held], operation: ops.Operation[Any]) -> list[Any]:
        entries = [h.entry for h in held]
        return self._ask(  # type: ignore[no-any-return]
            action,
            operation,
            entries,
            lambda results: [e for e, r in zip(entries, results, strict=True) if isinstance(r, Settled)],
        )

    def _ask(
        self, action: Action, operation: ops.Operation[Any], asked: list[Entry], told: Callable[[Any], list[Entry]]
    ) -> Any:
        call, now = next(self._calls), self.now()

        def record(step: Step, entries: list[Entry], error: str = "") -> None:
            self._record(Event(clock(), self.name, call, step, action, now, entries, error))

        record("call", asked)
        try:
            result = self.store.run([operation], now).results[0]
            if isinstance(result, SqewError):
                raise result
        except SqewError as error:
            certain = not isinstance(error, StoreError) or isinstance(error, StoreFull | StoreBusy)
            record("failed" if certain else "unknown", asked, type(error).__name__)
            raise
        record("ok", told(result))
        return result


class Workload:
    """A seeded run of sends, receives, acks and nacks through one client, as producers and consumers make them."""

    def __init__(self, client: Client, random: Random) -> None:
        self._client, self._random = client, random
        self._values = count()

    def send(self, most: int = 5) -> None:
        random = self._random
        queue = random.choice((STANDARD, FIFO))
        messages = []
        for _ in range(random.randint(1, most)):
            value = f"{self._client.name}-{next(self._values)}"
            # One in ten is too long for its row and goes to a table of its own.
            padding = random.choice((0, 20, 300)) if random.random() < 0.9 else 6_000
            group = random.choice(GROUPS) if queue == FIFO else None
            priority = random.choice((0, 0, 0, 5)) if queue == STANDARD else 0
            key = value if random.random() < 0.3 else None
            messages.append((value, NewMessage(body(value, padding), group=group, priority=priority, key=key)))
        self._client.send(queue, messages)

    def consume(self, most: int = 5, lease_ms: int = 300) -> int:
        """Receive a few messages, then finish, give back or forget each."""
        random = self._random
        held = self._client.receive(random.choice((STANDARD, FIFO)), random.randint(1, most), lease_ms)
        fates = [random.random() for _ in held]
        done = [h for h, fate in zip(held, fates, strict=True) if fate < 0.8]
        if done:
            self._client.ack(done)
        for one in (h for h, fate in zip(held, fates, strict=True) if 0.8 <= fate < 0.9):
            self._client.nack([one], random.choice((0, 50)))
        return len(held)


def _entry(queue: str, message: Message) -> Entry:
    expires_at = 0 if message.lease is None else message.lease.expires_at
    group = f"{queue}/{message.group}" if queue == FIFO else None
    return Entry(value_of(message), message.id, message.attempts, expires_at, group)
