"""Limits on the sizes of messages, batches and answers."""

from __future__ import annotations

from msgspec import Struct

from sqew.errors import TooLarge

MOST_BYTES = 8 * 1024 * 1024
"""The bytes of messages at which an answer ends: all other operations wait while they are read."""
JOB_BODY_BYTES = 2 * 1_048_576
JOB_DEPTH = 128
"""The depth of a job in hq. It applies to hq's dialect unless the operator has set limits of their own."""


class Limits(Struct, frozen=True):
    """The limits on the sizes of messages and batches."""

    max_body_bytes: int = 1_048_576
    max_headers_bytes: int = 65_536
    max_batch: int = 1_000
    max_depth: int = 64
    jobs: Limits | None = None
    """The limits on bodies sent as hq's jobs, if they differ."""


def check_batch(count: int, limits: Limits) -> None:
    """Raise unless the size of a batch is allowed."""
    if count > limits.max_batch:
        raise TooLarge(f"A batch may hold {limits.max_batch} entries; this one holds {count}. Split it.")


def check_size(body: bytes, limits: Limits) -> None:
    """Raise unless the size of a body is allowed."""
    if len(body) > limits.max_body_bytes:
        raise TooLarge(
            f"The body has {len(body)} bytes; {limits.max_body_bytes} are allowed (max_body_bytes). "
            "Store the data elsewhere and send a reference to it."
        )
