"""The work on messages: by a command, or by a Python function (docs/plainbench.md has the protocol)."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from plainbench.drivers.base import Delivered


class Done(Struct, frozen=True):
    """Success: the message is acked."""


class Retry(Struct, frozen=True):
    """A delay: the message is delivered again, after the queue's backoff or after ``after_ms``."""

    after_ms: int | None = None
    reason: str = ""


class Dead(Struct, frozen=True):
    """A final failure: the message goes to the dead letters."""

    reason: str = ""


Verdict = Done | Retry | Dead


class Handler(Protocol):
    """The work of one consumer."""

    def handle(self, topic: str, delivery: Delivered) -> Verdict:
        """Handle a message. Failures become a verdict; only errors that end the run are raised."""

    def close(self) -> None: ...
