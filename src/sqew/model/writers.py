"""Writers: messages that are staged, and promoted all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from sqew.model.messages import NewMessages
from sqew.model.operation import Operation


class Staged(Struct, frozen=True, omit_defaults=True):
    """The result of staging: the number of messages of a part that were stored."""

    staged: int
    promoted: bool = False
    """True if the writer's epoch is in the queue already, or will be: nothing was stored."""


class Promotion(Struct, frozen=True):
    """The result of promoting an epoch of a writer."""

    promoted: int | None
    """The number of messages moved into the queue; None: forgotten, as for all but the last epoch."""
    duplicates: int | None = 0
    """The number of messages that were not added because their keys were known."""
    repeated: bool = False
    """True if the epoch was promoted before: nothing was added."""
    done: bool = True
    """False if there are more messages to be moved."""


class Staging(Struct, frozen=True):
    """The messages that a writer has staged for an epoch."""

    epoch: int
    parts: int
    messages: int
    promoting: bool
    """True once it is decided that they are to be in the queue; until then the epoch waits to be promoted."""


class WriterInfo(Struct, frozen=True):
    """A writer, which sends to a queue in whole epochs."""

    name: str
    epoch: int | None
    """The last epoch that is in the queue, or will be; None: none yet."""
    promoted: int
    """The number of messages of that epoch that were moved into the queue."""
    duplicates: int
    staged: list[Staging]
    """The epochs that wait to be promoted."""


class Stage(Operation[Staged], frozen=True):
    """Store messages until the epoch of their writer is promoted. ``part`` is one attempt of one task to send some.

    ``offset``: the number of the part's messages staged before. Messages that were staged already are not stored again.
    """

    queue: str
    writer: str
    epoch: int
    part: str
    messages: NewMessages
    offset: int | None = None


class Promote(Operation[Promotion], frozen=True):
    """Decide that the messages of some parts of an epoch, so many each, are to be in the queue, and no others.

    `StepPromotion`, repeated until it is done, moves them there.
    """

    queue: str
    writer: str
    epoch: int
    parts: Mapping[str, int]


class StepPromotion(Operation[Promotion], frozen=True):
    """Move some of a writer's messages into the queue, once their promotion is decided."""

    queue: str
    writer: str
    epoch: int


class FinishPromotion(Operation[bool], frozen=True):
    """Execute a step of the promotion left unfinished for longest; return whether one was left unfinished."""

    polls: ClassVar[bool] = True


class NextPromotion(Operation[int | None], frozen=True):
    """Return the time at which a promotion is or will be left unfinished for too long."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class AbortStaging(Operation[None], frozen=True):
    """Forget the messages staged for an epoch, if there are any."""

    queue: str
    writer: str
    epoch: int


class GetWriter(Operation[WriterInfo], frozen=True):
    writes: ClassVar[bool] = False
    queue: str
    name: str


class ListWriters(Operation[list[WriterInfo]], frozen=True):
    """List the writers of a queue by name, after ``after``."""

    writes: ClassVar[bool] = False
    queue: str
    after: str = ""
    limit: int = 100
