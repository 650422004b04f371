"""Dead letters, and moves of them between queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from sqew.model.messages import Page
from sqew.model.operation import Operation
from sqew.model.progress import Progress

MoveStatus = Literal["running", "completed", "cancelled", "failed"]


class MoveTask(Struct, frozen=True):
    """A redrive that a server carries out in the background."""

    id: str
    source: str
    """The dead-letter queue."""
    destination: str | None
    """None: each message goes to where it came from."""
    per_second: int | None
    """None: as fast as may be."""
    status: MoveStatus
    moved: int
    to_move: int
    """How many messages there were when it started."""
    reason: str
    """Why it failed: ``queue_not_found`` or ``no_origin``."""
    started_at: int


MOVES = "\0moves"
"""What a commit stirs beside queues: there is something to post, a schedule has a new time, or dead letters are to be
moved. No queue is so named."""


class ListDead(Operation[Page], frozen=True):
    """The dead letters of a queue: in its dead-letter queue, and in its archive. Ids above ``after`` in order of id.

    A page has at most ``limit`` of them, and 8 MiB or a little more.
    """

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 100
    after: int = 0


class RequeueDead(Operation[Progress], frozen=True):
    """Bring dead letters of a queue back to it with attempts 0: all, or those with the given ids.

    ``unspent``: only those in its archive that ran out of attempts and have some again, because the queue now allows
    more. They keep their count; a step looks at those after the id ``after``.
    """

    queue: str
    ids: Sequence[int] | None = None
    limit: int = 1000
    unspent: bool = False
    after: int = 0


class PurgeDead(Operation[Progress], frozen=True):
    """Delete dead letters of a queue: all, or those with the given ids."""

    queue: str
    ids: Sequence[int] | None = None
    limit: int = 1000


class Redrive(Operation[Progress], frozen=True):
    """Send what lies in a dead-letter queue back to where each message came from (or all to ``to``).

    Messages that were sent there directly, or whose queue is gone, stay, unless ``to`` is given. ``until``: only what
    had come there by that time. Without ``to`` a step goes on after the id ``after``.
    """

    dead_letter: str
    to: str | None = None
    limit: int = 1000
    until: int | None = None
    after: int = 0


class StartMove(Operation[MoveTask], frozen=True):
    """Have a server redrive a dead-letter queue in the background, at so many messages a second if a rate is given.

    ``to_move`` is how many messages lie there, for those who watch: to count them takes too long for a transaction.
    """

    id: str
    source: str
    destination: str | None = None
    per_second: int | None = None
    to_move: int = 0


class ListMoves(Operation[list[MoveTask]], frozen=True):
    """The newest of the tasks that move messages out of a dead-letter queue."""

    writes: ClassVar[bool] = False
    source: str
    limit: int = 10


class CancelMove(Operation[MoveTask], frozen=True):
    """Move nothing more. What was moved stays where it is."""

    id: str


class NextMove(Operation[int | None], frozen=True):
    """When the next step of any such task is due."""

    writes: ClassVar[bool] = False


class StepMove(Operation[None], frozen=True):
    """Take the step that is longest due: up to ``limit`` messages, or as many as its rate allows."""

    limit: int = 100
