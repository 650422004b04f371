"""Progress of stepwise operations, and the results of a transaction."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Literal

from msgspec import Struct

FactKind = Literal[
    "sent", "received", "acked", "nacked", "extended", "expired", "dead", "requeued", "purged", "removed"
]
NO_REASON = ""


class Progress(Struct, frozen=True):
    """The result of one step of an operation (purge, requeue): a count, and whether it was the last step."""

    count: int
    done: bool
    after: int = 0
    """The id after which the next step goes on, if steps leave messages behind."""
    keys_below: int = 0
    """The id below which messages' keys are to be forgotten, in a purge."""
    after_key: str = ""
    """The key after which the next step goes on forgetting."""


class Fact(Struct, frozen=True, gc=False):
    """An event in the life of a message: the event log and the meter are made of facts."""

    kind: FactKind
    queue: str
    lane: str
    id: int
    attempts: int
    by: str | None = None
    age_ms: int = 0
    """Milliseconds since it was due (received) or since it was received (acked); otherwise 0."""
    reason: str = NO_REASON


class Commit(Struct, frozen=True):
    """The results of one transaction, one per operation (or an error), and the facts for its observers."""

    results: list[Any]
    facts: list[Fact]
    woken: AbstractSet[str]
    """The places that it wakes: queues in which a message became ready or got a new time to become so, and
    `DELIVERIES`, `SCHEDULES`, `MOVES`."""
    ran_at: int | None = None
    """The time of the transaction, if it is later than its caller's: messages sent in it were created then."""
