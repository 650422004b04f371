"""What the lab asks of a queue. A driver is a small class that says it in the words of one.

Every slot of a worker and every generator opens a driver of its own, in its own thread, so a driver need not be safe to
share. It is told the lab's number of each message and must give it back with the delivery, however the queue carries
it: as a header, an attribute, or in an envelope round the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from msgspec import Struct

from plainbench.config.model import Config
from plainbench.faults.injector import Injector
from plainbench.run.clock import Time
from sqew.errors import Invalid, SqewError


class Item(Struct, frozen=True, gc=False):
    """A message to send."""

    number: int
    body: bytes
    """JSON or text, in UTF-8."""
    lane: str | None = None
    priority: int = 0
    group: str | None = None
    key: str | None = None
    headers: Mapping[str, Any] | None = None


class Delivered(Struct, frozen=True, gc=False):
    """A message as a worker gets it. ``handle`` is whatever the driver needs to settle it."""

    number: int
    body: bytes
    lane: str = ""
    attempt: int = 1
    group: str | None = None
    headers: Mapping[str, Any] | None = None
    handle: Any = None


class Left(Struct, frozen=True, gc=False):
    """A message that is in the queue while nobody uses it."""

    number: int
    where: Literal["ready", "leased", "delayed", "blocked", "dead"]


class Topic(Struct, frozen=True):
    """A queue as the lab wants it. What a rival can't do it refuses in `Driver.create`, with a sentence."""

    name: str
    lanes: Mapping[str, int] = {}  # msgspec copies it
    """By weight; none: there is one lane."""
    fifo: bool = False
    max_attempts: int | None = 5
    base_backoff_ms: int = 1000
    lease_ms: int = 30_000


class NotOffered(Invalid):
    """The queue that the driver speaks to has no such thing."""


class Note(Protocol):
    def __call__(self, what: str, where: str, stream: str, index: int, ms: float | None = None) -> None: ...


class Allows(Protocol):
    def __call__(self, stream: str, index: int) -> bool: ...


def _always(stream: str, index: int) -> bool:
    return True


def _unheard(what: str, where: str, stream: str, index: int, ms: float | None = None) -> None:
    pass


class Place(Struct, frozen=True):
    """Where a queue is, and how it is to be used."""

    config: Config
    folder: Path
    """Relative paths start here."""
    time: Time
    note: Note = _unheard
    """Has it on the event log that a fault has happened."""
    allows: Allows = _always
    """Whether a fault that is due may happen: see `plainbench.faults.schedule`."""
    process: str = ""
    """Whose process it is: who has the same shares a clock. In virtual time all are in one, and yet are several."""
    injector: Injector | None = None
    """What makes calls slow and has them fail. Only drivers that are `faults_inside` look at it."""

    @property
    def options(self) -> Mapping[str, Any]:
        """What the configuration says under ``target.options``."""
        return self.config.target.opened()


class Driver(Protocol):
    """A queue. Errors that are worth trying again are `SqewError`; after `sqew.errors.OutcomeUnknown` nobody knows."""

    name: ClassVar[str]
    """What ``target.driver`` calls it."""
    does: ClassVar[str]
    """One line on what it measures, for `plainbench drivers`."""
    needs: ClassVar[Sequence[str]]
    """Packages beyond the base install."""
    options: ClassVar[Mapping[str, str]]
    """What ``target.options`` may hold: each option's name, and a sentence on it."""
    runs_in_virtual_time: ClassVar[bool]
    faults_inside: ClassVar[bool]
    """Whether it puts the injector into the store itself. Otherwise the lab wraps the driver."""
    shows_dead: ClassVar[bool]
    """Whether `left` shows all dead letters: then one that is not there is lost."""
    leases_outlive: ClassVar[bool]
    """Whether a message stays with who received it when their connection ends, until the lease does."""

    def __init__(self, place: Place) -> None: ...

    @property
    def durability(self) -> str:
        """What a send survives once it is answered, in a few words: it is printed beside every throughput."""

    def create(self, topic: Topic) -> None:
        """Make the queue unless it is there."""

    def send(self, topic: str, items: Sequence[Item]) -> None:
        """Return when all are as safe as `durability` says. Raise if none is stored, or if nobody knows."""

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        """Up to ``limit`` messages; wait for the first for up to ``wait_s``."""

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        """Done with them: an error for each that was refused."""

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        """Give it back: to be delivered again after the queue's backoff, or after so long."""

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        """Give it up: to the dead letters."""

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        """Keep it for so long from now."""

    def left(self, topic: str) -> Iterable[Left]:
        """What is in the queue and its dead letters, while nobody uses it."""

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        """By lane: how many are ready, leased, delayed and dead, as far as the queue tells."""

    def close(self) -> None: ...
