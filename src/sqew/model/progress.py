"""Progress of work that is done in steps, and what a transaction did."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Literal

from msgspec import Struct

FactKind = Literal[
    "sent", "received", "acked", "nacked", "extended", "expired", "dead", "requeued", "purged", "removed"
]
NO_REASON = ""


class Progress(Struct, frozen=True):
    """One step of work that is done in steps (purge, requeue): how many, and whether that was all."""

    count: int
    done: bool
    after: int = 0
    """The id after which the next step goes on, where steps leave something behind."""
    keys_below: int = 0
    """Of a purge: the keys of messages with lower ids are to be forgotten."""
    after_key: str = ""
    """The key after which the next step goes on with that."""


class Fact(Struct, frozen=True, gc=False):
    """One thing that happened to a message: what the event log and the meter are made of."""

    kind: FactKind
    queue: str
    lane: str
    id: int
    attempts: int
    by: str | None = None
    age_ms: int = 0
    """received: since it was due; acked: since it was received; otherwise 0."""
    reason: str = NO_REASON


class Commit(Struct, frozen=True):
    """What one transaction did: a result or an error per operation, and what others may want to know."""

    results: list[Any]
    facts: list[Fact]
    woken: AbstractSet[str]
    """The queues in which a message became ready, or got a new time to become so; and `DELIVERIES`, `SCHEDULES`,
    `MOVES`."""
    ran_at: int | None = None
    """The time at which it was done, where that is later than it was asked for: what it sent was created then."""
