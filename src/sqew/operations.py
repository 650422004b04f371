"""What a store can be asked to do, as values.

An operation is data, so it can be collected with its neighbours into one transaction, wrapped with faults, logged and
replayed. ``Operation[R]`` answers an ``R``. Everything is batch-first: one message is a batch of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from sqew.errors import SqewError
from sqew.model import (
    Activity,
    ArchivedMessage,
    Depths,
    Extension,
    KeyInfo,
    KeyRing,
    KeyScope,
    Message,
    NewMessage,
    Outcome,
    Page,
    Policy,
    Progress,
    QueueInfo,
    QueueTotals,
    Received,
    Ref,
    Release,
    Sent,
    Settled,
    Swept,
)

R = TypeVar("R")


class Operation(Struct, Generic[R], frozen=True):
    """Something to do to the store, answered with an ``R``."""

    writes: ClassVar[bool] = True


class CreateQueue(Operation[QueueInfo], frozen=True):
    """Make a queue. Where it exists with the same policy, or ``exist_ok``, answer what is there.

    ``letters`` is the policy of its dead-letter queue, to be made with it where there is none of that name.
    """

    name: str
    policy: Policy
    exist_ok: bool = False
    letters: Policy | None = None


class UpdateQueue(Operation[QueueInfo], frozen=True):
    """Change some fields of a queue's policy."""

    name: str
    changes: Mapping[str, Any]


class DeleteQueue(Operation[None], frozen=True):
    """Delete a queue. Its messages are gone at once; their rows are swept away in steps."""

    name: str


class GetQueue(Operation[QueueInfo], frozen=True):
    writes: ClassVar[bool] = False
    name: str


class ListQueues(Operation[list[QueueInfo]], frozen=True):
    """Queues by name, those after ``after``."""

    writes: ClassVar[bool] = False
    prefix: str = ""
    after: str = ""
    limit: int | None = None


class CreateKey(Operation[KeyInfo], frozen=True):
    """Give a queue an API key. What opens the queue is not in it, but its SHA-256: `sqew.keys` makes both.

    ``secret``: every request with the key must be signed with it.
    """

    queue: str
    id: str
    digest: bytes
    scopes: Sequence[KeyScope]
    label: str = ""
    secret: str | None = None


class ListKeys(Operation[list[KeyInfo]], frozen=True):
    """The keys of a queue, or of all queues."""

    writes: ClassVar[bool] = False
    queue: str | None = None


class DeleteKey(Operation[None], frozen=True):
    queue: str
    id: str


class ReadKeys(Operation[KeyRing | None], frozen=True):
    """All keys, for whoever checks requests by them. None: they are still those of ``known_version``."""

    writes: ClassVar[bool] = False
    known_version: int = 0


class Send(Operation[list[Sent]], frozen=True, gc=False):
    queue: str
    messages: Sequence[NewMessage]


class Receive(Operation[Received], frozen=True, gc=False):
    """Lease up to ``limit`` ready messages.

    ``finish`` takes them for good instead: archived (or deleted, as the policy says) in the same transaction.
    """

    queue: str
    limit: int = 1
    lane: str | None = None
    lease_ms: int | None = None
    by: str | None = None
    finish: bool = False


class Ack(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Finish messages. ``queue`` None: by id alone, wherever they are."""

    queue: str | None
    refs: Sequence[Ref]


class Nack(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Give messages back, to be tried again or to be dead."""

    queue: str | None
    releases: Sequence[Release]


class Extend(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Set the end of leases."""

    queue: str | None
    extensions: Sequence[Extension]


class Remove(Operation[list[bool]], frozen=True):
    """Delete messages whoever holds them, archiving nothing."""

    queue: str
    ids: Sequence[int]


class Purge(Operation[Progress], frozen=True):
    """Delete up to ``limit`` of the messages with ids up to ``up_to``, leased ones included."""

    queue: str
    up_to: int
    limit: int


class Peek(Operation[list[Message]], frozen=True):
    """The first messages in the order in which they would be received, in every state."""

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 10
    lane: str | None = None


class Get(Operation[Message], frozen=True):
    """One message by id. ``queue`` None: wherever it is."""

    writes: ClassVar[bool] = False
    queue: str | None
    id: int


class Scan(Operation[Page], frozen=True):
    """The messages of a queue by id, in every state, those after ``after`` and up to ``up_to``, in steps.

    A step looks at ``limit`` messages of whatever queues, so it takes as long whatever else the store holds; it may
    find none of this queue.
    """

    writes: ClassVar[bool] = False
    queue: str
    after: int
    up_to: int
    limit: int


class LastId(Operation[int], frozen=True):
    """The id of the newest message there is (0: none): where a purge of "everything until now" ends."""

    writes: ClassVar[bool] = False


class Measure(Operation[Depths], frozen=True):
    """Count a queue's messages by lane and state. Grows with the backlog: keep it off the hot path."""

    writes: ClassVar[bool] = False
    queue: str


class Ages(Operation[tuple[int, int] | None], frozen=True):
    """When the oldest and the newest message of a queue were created; None where it is empty. Grows as `Measure`."""

    writes: ClassVar[bool] = False
    queue: str


class NextDue(Operation[int | None], frozen=True):
    """When the next message of a queue (or lane) is or will be due."""

    writes: ClassVar[bool] = False
    queue: str
    lane: str | None = None


class ListDead(Operation[list[Message]], frozen=True):
    """The dead letters of a queue: in its dead-letter queue, and in its archive. Ids above ``after`` in order of id."""

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 100
    after: int = 0


class RequeueDead(Operation[Progress], frozen=True):
    """Bring dead letters of a queue back to it with attempts 0: all, or those with the given ids."""

    queue: str
    ids: Sequence[int] | None = None
    limit: int = 1000


class PurgeDead(Operation[Progress], frozen=True):
    """Delete dead letters of a queue: all, or those with the given ids."""

    queue: str
    ids: Sequence[int] | None = None
    limit: int = 1000


class Redrive(Operation[Progress], frozen=True):
    """Send what lies in a dead-letter queue back to where each message came from (or all to ``to``).

    Messages that were sent there directly, or whose queue is gone, stay, unless ``to`` is given.
    """

    dead_letter: str
    to: str | None = None
    limit: int = 1000


class ListArchive(Operation[list[ArchivedMessage]], frozen=True):
    """Finished messages of a queue, in order of id."""

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 100
    after: int = 0
    outcome: Outcome | None = None


class Sweep(Operation[Swept], frozen=True):
    """One small step of upkeep: at most ``limit`` rows of each kind."""

    limit: int = 200


class RecordActivity(Operation[None], frozen=True):
    """Add counts to the stored figures."""

    counts: Sequence[Activity]


class ReadActivity(Operation[list[Activity]], frozen=True):
    """The stored figures of a queue. Minute 0 holds what is older than the kept minutes."""

    writes: ClassVar[bool] = False
    queue: str


class Survey(Operation[list[QueueTotals]], frozen=True):
    """Depths and totals of all queues by name, counted in one pass over the store. Grows with the backlog."""

    writes: ClassVar[bool] = False
