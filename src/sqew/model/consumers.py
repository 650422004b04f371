"""Consumers: durable claims that are finished in order."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from sqew.model.messages import Columns, Message
from sqew.model.operation import Operation
from sqew.model.progress import Progress

CLAIMED_AT_ONCE = 1_000
"""How many messages are claimed, or finished, in one transaction at most: everybody else waits for some 8 ms."""
CHUNKS_IN_PART = 5
"""How many chunks of a claim, each of what was claimed at once, whoever reads it gets as one part."""


class OpenedConsumer(Struct, frozen=True):
    """A consumer that somebody has opened. Whoever had it before is fenced off by the ``epoch``."""

    epoch: int
    claims: list[int]
    """The numbers of those that are open."""
    last: int
    """The highest number that a claim of it ever had; 0: there was none."""


class ClaimPart(Struct, frozen=True):
    """A part of a claim that one reader reads: its number, and how many messages it has."""

    part: int
    count: int


class Claim(Struct, frozen=True):
    """What a consumer has leased together."""

    number: int
    count: int
    parts: list[ClaimPart]


class OpenClaim(Struct, frozen=True):
    """A claim that is neither finished nor given back yet: how many messages it was made of, and its lease's end."""

    number: int
    count: int
    lease_until: int


class ConsumerInfo(Struct, frozen=True):
    """A consumer of a queue. ``held_until``: how long nobody but its owner may open it; None: anybody may."""

    name: str
    queue: str
    owner: str
    epoch: int
    held_until: int | None
    last: int
    claims: list[OpenClaim]


class OpenConsumer(Operation[OpenedConsumer], frozen=True):
    """Read a queue as the consumer of that name, which is made if there is none.

    Nobody but ``owner`` can open it for ``hold_ms``. What whoever had it before still does is refused.
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
    """Ack what a consumer has claimed, up to a claim's number: ``limit`` messages at a time."""

    queue: str
    consumer: str
    epoch: int
    up_to: int
    limit: int = 1000


class GrowClaim(Operation[Progress], frozen=True):
    """Receive up to ``limit`` messages into a claim. ``chunk``: how many such steps there were before.

    It is done when nothing is ready, and where the claim is there already. `SealClaim` answers it.
    """

    queue: str
    consumer: str
    epoch: int
    number: int
    chunk: int = 0
    limit: int = 1000
    lease_ms: int = 3_600_000


class SealClaim(Operation[Claim], frozen=True):
    """A claim as it is, to which nothing is added from now on. There may be none: then it has no messages."""

    queue: str
    consumer: str
    epoch: int
    number: int
    lease_ms: int = 3_600_000


class ReadClaim(Operation[list[Message] | None], frozen=True):
    """The messages of a claim that one step has received, as far as it still has them; None: there is no such step."""

    writes: ClassVar[bool] = False
    queue: str
    consumer: str
    number: int
    chunk: int


class ReadClaimColumns(Operation[Columns], frozen=True):
    """The same column by column. ``after``: the next step; None: there is no such step."""

    writes: ClassVar[bool] = False
    queue: str
    consumer: str
    number: int
    chunk: int


class ListConsumers(Operation[list[ConsumerInfo]], frozen=True):
    """The consumers of a queue by name, those after ``after``."""

    writes: ClassVar[bool] = False
    queue: str
    after: str = ""
    limit: int = 1000


class CloseConsumer(Operation[None], frozen=True):
    """Forget a consumer, and have what it has claimed given back: `GiveBackClaims` does it at once, a sweep later.

    While somebody holds it that is a conflict, unless ``force``.
    """

    queue: str
    consumer: str
    force: bool = False


class GiveBackClaims(Operation[Progress], frozen=True):
    """Give back ``limit`` messages of a consumer that was closed."""

    queue: str
    consumer: str
    limit: int = 200
