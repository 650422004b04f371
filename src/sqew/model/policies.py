"""Policies: rules by which a queue treats its messages."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

Keep = Literal["delete", "archive"]
DEFAULT_LANE = "normal"
"""The lane of a queue that names none, and of a message that names none if the queue has it."""


class Backoff(Struct, frozen=True, forbid_unknown_fields=True):
    """The wait of a nacked message: ``min(cap, base * 2**(attempts-1)) + jitter``, or ``base + jitter`` if fixed.

    The jitter is uniform between 0 and ``jitter_ms``, so that messages that failed together don't return together.
    """

    kind: Literal["exponential", "fixed"] = "exponential"
    base_ms: int = 1_000
    cap_ms: int = 900_000
    jitter_ms: int = 250

    def delay_ms(self, attempts: int, random: float) -> int:
        """Return the wait after the given number of deliveries; ``random`` is in [0, 1)."""
        if self.kind == "fixed":
            wait = self.base_ms
        else:
            # Past 2**40 the cap has long decided; the shift must not build a huge integer first.
            wait = min(self.cap_ms, self.base_ms << min(max(attempts - 1, 0), 40))
        return wait + int(random * (self.jitter_ms + 1))


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules by which a queue treats its messages."""

    visibility_ms: int = 30_000
    """The duration of a lease if the receiver gives none."""
    max_attempts: int | None = None
    """The number of deliveries without ack after which a message is dead. None: never."""
    dead_letter: str | None = None
    """The queue that dead messages move to. None: the archive, as ``dead``."""
    backoff: Backoff = Backoff()
    delay_ms: int = 0
    """The wait before a message's first delivery if its sender gives none."""
    ttl_ms: int | None = None
    """The lifetime of a message if its sender gives none. None: for ever."""
    fifo: bool = False
    """True to deliver in order within a group, one group's messages to one receiver at a time. Fixed at creation."""
    deduplicate: Literal["key", "content"] = "key"
    """``content``: a message without a key gets the SHA-256 of its body as its key."""
    deduplicate_within: Literal["queue", "group"] = "queue"
    """The scope in which a key is unique: the whole queue, or each of its groups."""
    key_retention_ms: int = 300_000
    """The time for which a key is remembered after its message is gone."""
    key_retention_from: Literal["gone", "sent"] = "gone"
    """The start of a key's retention. ``sent``: when its message was sent, gone or not, as SQS does."""
    lanes: dict[str, int] = msgspec.field(default_factory=lambda: {DEFAULT_LANE: 1})
    """Lane names and their weights."""
    keep: Keep = "delete"
    """The fate of a message that is acked."""
    archive_retention_ms: int | None = 604_800_000
    """The time for which archived messages are kept. None: for ever."""
    rate_limit: float | None = None
    """The messages per second that senders may add. None: no limit."""
    quota: int | None = None
    """The number of messages that the queue may hold. None: no limit."""
    max_body_bytes: int | None = None
    """The largest body that the queue accepts. None: the server's limit."""
    receive_wait_ms: int = 0
    """The time that a receive by SQS waits for a message if it gives none."""
