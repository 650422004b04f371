"""Consumers: durable claims that are finished in order."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from sqew.model.messages import Columns, Message
from sqew.model.operation import Operation
from sqew.model.progress import Progress

CLAIMED_AT_ONCE = 1_000
"""Messages that are claimed, or finished, in one transaction, at most: all others wait for some 8 ms."""
CHUNKS_IN_PART = 5
"""Chunks of a claim, each received in one transaction, that are read as one part."""


class OpenedConsumer(Struct, frozen=True):
    """An open consumer. Its previous owner is fenced off by the ``epoch``."""

    epoch: int
    claims: list[int]
    """The numbers of its open claims."""
    last: int
    """The highest number that any of its claims ever had; 0: there was none."""


class ClaimPart(Struct, frozen=True):
    """A part of a claim, read by one reader: its number, and its count of messages."""

    part: int
    count: int


class Claim(Struct, frozen=True):
    """A claim: messages that a consumer has leased together."""

    number: int
    count: int
    parts: list[ClaimPart]


class OpenClaim(Struct, frozen=True):
    """A claim that is neither finished nor given back yet: its original count of messages, and the end of its lease."""

    number: int
    count: int
    lease_until: int


class ConsumerInfo(Struct, frozen=True):
    """A consumer of a queue. ``held_until``: the time until which only its owner may open it; None: anyone may."""

    name: str
    queue: str
    owner: str
    epoch: int
    held_until: int | None
    last: int
    claims: list[OpenClaim]


class OpenConsumer(Operation[OpenedConsumer], frozen=True):
    """Open a consumer of a queue, making it if need be.

    For ``hold_ms`` no other ``owner`` can open it. Operations of its previous owner are refused.
    """

    queue: str
    consumer: str
    owner: str
    hold_ms: int = 30_000


class RenewConsumer(Operation[None], frozen=True):
    """Hold a consumer for longer (None: as long as it was opened for), and its open claims for ``lease_ms``."""

    queue: str
    consumer: str
    epoch: int
    hold_ms: int | None = None
    lease_ms: int = 3_600_000


class FinishClaims(Operation[Progress], frozen=True):
    """Ack the messages of a consumer's claims, up to a claim's number: ``limit`` messages at a time."""

    queue: str
    consumer: str
    epoch: int
    up_to: int
    limit: int = 1000


class GrowClaim(Operation[Progress], frozen=True):
    """Receive up to ``limit`` messages into a claim. ``chunk``: the number of such steps before this one.

    It is done when no message is ready, or if the claim exists already. `SealClaim` returns the claim.
    """

    queue: str
    consumer: str
    epoch: int
    number: int
    chunk: int = 0
    limit: int = 1000
    lease_ms: int = 3_600_000


class SealClaim(Operation[Claim], frozen=True):
    """Return a claim, to which nothing is added from now on. If there is none, it has no messages."""

    queue: str
    consumer: str
    epoch: int
    number: int
    lease_ms: int = 3_600_000


class ReadClaim(Operation[list[Message] | None], frozen=True):
    """Return the messages that one step received into a claim, as far as it still has them; None: no such step."""

    writes: ClassVar[bool] = False
    queue: str
    consumer: str
    number: int
    chunk: int


class ReadClaimColumns(Operation[Columns], frozen=True):
    """Return those messages column by column. ``after``: the next step; None: no such step."""

    writes: ClassVar[bool] = False
    queue: str
    consumer: str
    number: int
    chunk: int


class ListConsumers(Operation[list[ConsumerInfo]], frozen=True):
    """List the consumers of a queue by name, after ``after``."""

    writes: ClassVar[bool] = False
    queue: str
    after: str = ""
    limit: int = 1000


class CloseConsumer(Operation[None], frozen=True):
    """Forget a consumer, and have its claims given back: `GiveBackClaims` does it at once, a sweep later.

    It is a conflict if its owner holds it, unless ``force``.
    """

    queue: str
    consumer: str
    force: bool = False


class GiveBackClaims(Operation[Progress], frozen=True):
    """Give back ``limit`` messages of a closed consumer."""

    queue: str
    consumer: str
    limit: int = 200
