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
    """A redrive that a server executes in the background."""

    id: str
    source: str
    """The dead-letter queue."""
    destination: str | None
    """The queue to move them to. None: each message goes to the queue it came from."""
    per_second: int | None
    """The messages moved per second. None: as fast as possible."""
    status: MoveStatus
    moved: int
    to_move: int
    """The number of messages when it started."""
    reason: str
    """The reason of a failure: ``queue_not_found`` or ``no_origin``."""
    started_at: int


MOVES = "\0moves"
"""A place that a commit can wake besides queues, like `DELIVERIES` (there is something to post) and `SCHEDULES` (one
has a new time): dead letters are to be moved. No queue can have such a name."""


class ListDead(Operation[Page], frozen=True):
    """List the dead letters of a queue, both in its dead-letter queue and in its archive, by id, after ``after``.

    A page has at most ``limit`` of them, and 8 MiB or a little more.
    """

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 100
    after: int = 0


class RequeueDead(Operation[Progress], frozen=True):
    """Bring dead letters of a queue back to it with attempts 0: all, or those with the given ids.

    ``unspent``: only those in its archive that ran out of attempts and have some again, because the queue now allows
    more. They keep their count; a step looks at those with ids above ``after``.
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
    """Send the messages of a dead-letter queue back to the queues they came from (or all to ``to``).

    Messages that were sent there directly, or whose queue is gone, stay, unless ``to`` is given. ``until``: only
    messages that had come there by that time. Without ``to``, a step goes on after the id ``after``.
    """

    dead_letter: str
    to: str | None = None
    limit: int = 1000
    until: int | None = None
    after: int = 0


class StartMove(Operation[MoveTask], frozen=True):
    """Have a server redrive a dead-letter queue in the background, with an optional rate in messages per second.

    ``to_move`` is the number of messages there, to show progress: counting them takes too long for a transaction.
    """

    id: str
    source: str
    destination: str | None = None
    per_second: int | None = None
    to_move: int = 0


class ListMoves(Operation[list[MoveTask]], frozen=True):
    """List the newest tasks that move messages out of a dead-letter queue."""

    writes: ClassVar[bool] = False
    source: str
    limit: int = 10


class CancelMove(Operation[MoveTask], frozen=True):
    """Stop moving. Messages that were moved stay in their queues."""

    id: str


class NextMove(Operation[int | None], frozen=True):
    """Return the time at which the next step of any move is due."""

    writes: ClassVar[bool] = False


class StepMove(Operation[None], frozen=True):
    """Execute the step that is longest overdue: move up to ``limit`` messages, or as many as its rate allows."""

    limit: int = 100
