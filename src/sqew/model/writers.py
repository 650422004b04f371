"""Writers: messages that are staged, and promoted all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from sqew.model.messages import NewMessages
from sqew.model.operation import Operation


class Staged(Struct, frozen=True, omit_defaults=True):
    """How many messages of a part were taken."""

    staged: int
    promoted: bool = False
    """The writer's epoch is in the queue already, or will be: nothing was stored."""


class Promotion(Struct, frozen=True):
    """What became of an epoch of a writer."""

    promoted: int | None
    """How many messages of it were moved into the queue; None: that is forgotten, as of any but the last epoch."""
    duplicates: int | None = 0
    """How many of them had keys that were known, and so were not added."""
    repeated: bool = False
    """It was done before: nothing was added."""
    done: bool = True
    """False: there are more to be moved."""


class Staging(Struct, frozen=True):
    """What a writer has staged of an epoch."""

    epoch: int
    parts: int
    messages: int
    promoting: bool
    """Whether it was decided that it is to be in the queue. Otherwise it waits for that."""


class WriterInfo(Struct, frozen=True):
    """Who sends to a queue in whole epochs."""

    name: str
    epoch: int | None
    """The last epoch that is in the queue, or will be; None: none yet."""
    promoted: int
    """How many messages of that epoch were moved into the queue."""
    duplicates: int
    staged: list[Staging]
    """What waits to be promoted."""


class Stage(Operation[Staged], frozen=True):
    """Keep messages until the epoch of their writer is promoted. ``part`` is one attempt of one task to send some.

    ``offset``: how many messages of the part were staged before. Where these have been as well, nothing is stored.
    """

    queue: str
    writer: str
    epoch: int
    part: str
    messages: NewMessages
    offset: int | None = None


class Promote(Operation[Promotion], frozen=True):
    """Decide that the messages of some parts of an epoch, so many each, are to be in the queue, and no others.

    They are moved there by `StepPromotion`, again and again, until that is done.
    """

    queue: str
    writer: str
    epoch: int
    parts: Mapping[str, int]


class StepPromotion(Operation[Promotion], frozen=True):
    """Move some of a writer's messages into the queue, if it was decided that they are to be there."""

    queue: str
    writer: str
    epoch: int


class FinishPromotion(Operation[bool], frozen=True):
    """The same for the writer that has left it undone for longest; whether there was one that nobody else is at."""

    polls: ClassVar[bool] = True


class NextPromotion(Operation[int | None], frozen=True):
    """When the next promotion is or will be left undone for too long."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class AbortStaging(Operation[None], frozen=True):
    """Forget what was staged of an epoch, if anything was."""

    queue: str
    writer: str
    epoch: int


class GetWriter(Operation[WriterInfo], frozen=True):
    writes: ClassVar[bool] = False
    queue: str
    name: str


class ListWriters(Operation[list[WriterInfo]], frozen=True):
    """The writers of a queue by name, those after ``after``."""

    writes: ClassVar[bool] = False
    queue: str
    after: str = ""
    limit: int = 100
