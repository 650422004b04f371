"""Who does the work: a command, or a Python function (docs/plainbench.md has the protocol)."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from plainbench.drivers.base import Delivered


class Done(Struct, frozen=True):
    """It is done: ack."""


class Retry(Struct, frozen=True):
    """Not now: deliver it again, after the queue's backoff or after so long."""

    after_ms: int | None = None
    reason: str = ""


class Dead(Struct, frozen=True):
    """Never: to the dead letters."""

    reason: str = ""


Verdict = Done | Retry | Dead


class Handler(Protocol):
    """Does the work of one slot."""

    def handle(self, topic: str, delivery: Delivered) -> Verdict:
        """Do it. Whatever goes wrong becomes a verdict; nothing is raised but what ends the run."""

    def close(self) -> None: ...
