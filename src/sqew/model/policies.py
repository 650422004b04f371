"""Policies: what a queue does with its messages."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

Keep = Literal["delete", "archive"]
DEFAULT_LANE = "normal"
"""The lane of a queue that names none, and of a message that names none where the queue has it."""


class Backoff(Struct, frozen=True, forbid_unknown_fields=True):
    """How long a nacked message waits: ``min(cap, base * 2**(attempts-1)) + jitter``, or ``base + jitter`` if fixed.

    The jitter is uniform between 0 and ``jitter_ms``, so that messages that failed together don't return together.
    """

    kind: Literal["exponential", "fixed"] = "exponential"
    base_ms: int = 1_000
    cap_ms: int = 900_000
    jitter_ms: int = 250

    def delay_ms(self, attempts: int, random: float) -> int:
        """The wait after the given number of deliveries; ``random`` is in [0, 1)."""
        if self.kind == "fixed":
            wait = self.base_ms
        else:
            # Past 2**40 the cap has long decided; the shift must not build a huge integer first.
            wait = min(self.cap_ms, self.base_ms << min(max(attempts - 1, 0), 40))
        return wait + int(random * (self.jitter_ms + 1))


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """What a queue does with its messages."""

    visibility_ms: int = 30_000
    """How long a lease lasts when the receiver does not say."""
    max_attempts: int | None = None
    """After this many deliveries without ack a message is dead. None: never."""
    dead_letter: str | None = None
    """The queue that dead messages move to. None: the archive, as ``dead``."""
    backoff: Backoff = Backoff()
    delay_ms: int = 0
    """How long a message waits before its first delivery when its sender does not say."""
    ttl_ms: int | None = None
    """How long a message lives when its sender does not say. None: for ever."""
    fifo: bool = False
    """Deliver in order within a group, one group's messages to one receiver at a time. Fixed at creation."""
    deduplicate: Literal["key", "content"] = "key"
    """``content``: a message without a key gets the SHA-256 of its body as its key."""
    deduplicate_within: Literal["queue", "group"] = "queue"
    """Whether a key is unique in the whole queue, or in each of its groups."""
    key_retention_ms: int = 300_000
    """How long a key is remembered after its message is gone."""
    key_retention_from: Literal["gone", "sent"] = "gone"
    """``sent``: a key is remembered for so long after its message was sent, gone or not, as SQS does."""
    lanes: dict[str, int] = msgspec.field(default_factory=lambda: {DEFAULT_LANE: 1})
    """Lane names and their weights."""
    keep: Keep = "delete"
    """What ack does with the message."""
    archive_retention_ms: int | None = 604_800_000
    """How long archived messages are kept. None: for ever."""
    rate_limit: float | None = None
    """Messages a second that senders may add. None: no limit."""
    quota: int | None = None
    """How many messages the queue may hold. None: no limit."""
    max_body_bytes: int | None = None
    """The largest body that the queue takes. None: what the server takes."""
    receive_wait_ms: int = 0
    """How long a receive by SQS waits for a message when it does not say."""
