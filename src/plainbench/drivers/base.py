"""The contract between the lab and a queue. A driver is a small class that fulfils it with the means of one queue.

Every consumer of a worker and every generator opens a driver of its own, in its own thread, so a driver need not be
safe to share. It is given the lab's number of each message and must return it with the delivery, however the queue
carries it: as a header, an attribute, or in an envelope round the body.
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
    """A message as a worker gets it. ``handle`` holds what the driver needs to settle it."""

    number: int
    body: bytes
    lane: str = ""
    attempt: int = 1
    group: str | None = None
    headers: Mapping[str, Any] | None = None
    handle: Any = None


class Left(Struct, frozen=True, gc=False):
    """A message that is in the queue while no client uses it."""

    number: int
    where: Literal["ready", "leased", "delayed", "blocked", "dead"]


class Topic(Struct, frozen=True):
    """A queue as the lab wants it. `Driver.create` refuses the features that a rival lacks, with a sentence."""

    name: str
    lanes: Mapping[str, int] = {}  # msgspec copies it
    """Lanes with their weights; none: a single lane."""
    fifo: bool = False
    max_attempts: int | None = 5
    base_backoff_ms: int = 1000
    lease_ms: int = 30_000


class NotOffered(Invalid):
    """A feature that the driver's queue does not have."""


class Note(Protocol):
    def __call__(self, what: str, where: str, stream: str, index: int, ms: float | None = None) -> None: ...


class Allows(Protocol):
    def __call__(self, stream: str, index: int) -> bool: ...


def _always(stream: str, index: int) -> bool:
    return True


def _unheard(what: str, where: str, stream: str, index: int, ms: float | None = None) -> None:
    pass


class Place(Struct, frozen=True):
    """The context in which a driver uses a queue."""

    config: Config
    folder: Path
    """Folder in which relative paths start."""
    time: Time
    note: Note = _unheard
    """Callback that records a fault that has happened in the event log."""
    allows: Allows = _always
    """Callback that returns True if a fault that is due may happen: see `plainbench.faults.schedule`."""
    process: str = ""
    """Name of the process: drivers of one process share a clock. In virtual time several names share one process."""
    injector: Injector | None = None
    """Injector that delays calls and makes them fail. Only drivers that are `faults_inside` use it."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The configuration's ``target.options``."""
        return self.config.target.opened()


class Driver(Protocol):
    """A queue. Errors worth a retry are `SqewError`; after `sqew.errors.OutcomeUnknown` the outcome is unknown."""

    name: ClassVar[str]
    """The driver's name in ``target.driver``."""
    does: ClassVar[str]
    """A line on what it measures, for `plainbench drivers`."""
    needs: ClassVar[Sequence[str]]
    """Packages beyond the base install."""
    options: ClassVar[Mapping[str, str]]
    """Options that ``target.options`` may hold: each one's name, and a sentence on it."""
    runs_in_virtual_time: ClassVar[bool]
    faults_inside: ClassVar[bool]
    """True if the driver puts the injector into the store itself. Otherwise the lab wraps the driver."""
    shows_dead: ClassVar[bool]
    """True if `left` shows all dead letters: then one that is not there is lost."""
    leases_outlive: ClassVar[bool]
    """True if a message stays leased when its receiver's connection ends, until the lease does."""

    def __init__(self, place: Place) -> None: ...

    @property
    def durability(self) -> str:
        """The durability of a send that was answered, in a few words: it is printed beside every throughput."""

    def create(self, topic: Topic) -> None:
        """Create the queue unless it exists."""

    def send(self, topic: str, items: Sequence[Item]) -> None:
        """Return when all are stored as safely as `durability` says. Raise if none is stored, or if that is unknown."""

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        """Receive up to ``limit`` messages; wait for the first for up to ``wait_s``."""

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        """Acknowledge messages, and return an error for each that was refused."""

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        """Give a message back, to be delivered again after ``after_ms``, or after the queue's backoff."""

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        """Move a message to the dead letters."""

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        """Extend a message's lease to ``lease_ms`` from now."""

    def left(self, topic: str) -> Iterable[Left]:
        """Return what is in the queue and its dead letters, while no client uses it."""

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        """Return the number of ready, leased, delayed and dead messages by lane, as far as the queue tells."""

    def close(self) -> None: ...
