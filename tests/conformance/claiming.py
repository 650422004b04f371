"""Shorthands for tests of consumers."""

from __future__ import annotations

from sqew.model import Claim, ConsumerInfo, OpenedConsumer
from sqew.operations import (
    FinishClaims,
    GiveBackClaims,
    GrowClaim,
    ListConsumers,
    OpenConsumer,
    ReadClaim,
    SealClaim,
)
from tests.conformance.driver import QUEUE, Driver, ids

LEASE_MS = 60_000
HOLD_MS = 30_000


def opened(store: Driver, owner: str = "one", consumer: str = "c", queue: str = QUEUE) -> OpenedConsumer:
    return store.run(OpenConsumer(queue, consumer, owner, HOLD_MS))


def claim(store: Driver, epoch: int, number: int = 1, limit: int = 1000, queue: str = QUEUE) -> Claim:
    """Make a claim in steps of up to 1,000, as a server does."""
    taken = chunk = 0
    while taken < limit:
        grown = store.run(GrowClaim(queue, "c", epoch, number, chunk, min(limit - taken, 1000), LEASE_MS))
        if grown.done:
            break
        taken, chunk = taken + (grown.count if grown.after else 0), grown.after
    return store.run(SealClaim(queue, "c", epoch, number, LEASE_MS))


def finish(store: Driver, epoch: int, up_to: int, limit: int = 1000) -> int:
    count, done = 0, False
    while not done:
        progress = store.run(FinishClaims(QUEUE, "c", epoch, up_to, limit))
        count, done = count + progress.count, progress.done
    return count


def give_back(store: Driver, limit: int = 200) -> None:
    while not store.run(GiveBackClaims(QUEUE, "c", limit)).done:
        pass


def claimed(store: Driver, number: int = 1, chunk: int = 0, queue: str = QUEUE) -> list[int]:
    return ids(store.run(ReadClaim(queue, "c", number, chunk)) or [])


def consumers(store: Driver) -> list[ConsumerInfo]:
    return store.run(ListConsumers(QUEUE))
