"""Messages: sent, received, settled and looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat, starmap
from typing import Any, ClassVar, Literal, get_args

import msgspec
from msgspec import Struct, structs

from sqew.errors import BodyDamaged, SqewError, shortened
from sqew.model.operation import Operation
from sqew.model.progress import NO_REASON, Progress

Format = Literal["json", "text"]
Outcome = Literal["done", "dead"]
State = Literal["ready", "delayed", "leased", "blocked"]
STATES: tuple[State, ...] = get_args(State)


class NewMessage(Struct, frozen=True, gc=False):
    """A message to send. ``body`` is kept byte for byte; None fields take the queue's default."""

    body: bytes
    format: Format = "json"
    headers: dict[str, Any] | None = None
    priority: int = 0
    lane: str | None = None
    group: str | None = None
    key: str | None = None
    delay_ms: int | None = None
    ttl_ms: int | None = None


class NewMessages(Struct, frozen=True, array_like=True):
    """Messages by the thousand: for each of their fields a list with one value each, or the value that all have."""

    bodies: list[bytes]
    formats: Format | list[Format] = "json"
    headers: list[dict[str, Any] | None] | None = None
    priorities: int | list[int] = 0
    lanes: str | list[str | None] | None = None
    groups: list[str | None] | None = None
    keys: list[str | None] | None = None
    delays_ms: int | list[int | None] | None = None
    ttls_ms: int | list[int | None] | None = None

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def are_alike(self) -> bool:
        """Whether the messages differ in their bodies alone, and have neither headers, nor groups, nor keys."""
        return not any(isinstance(getattr(self, name), list) for name in self.__struct_fields__[1:])

    def part(self, start: int, end: int) -> NewMessages:
        """Some of the messages."""
        return NewMessages(*(value[start:end] if isinstance(value, list) else value for value in structs.astuple(self)))

    def __iter__(self) -> Iterator[NewMessage]:
        """Each of the messages."""
        columns = (value if isinstance(value, list) else repeat(value, len(self)) for value in structs.astuple(self))
        # Strict: a column that is too short must not cut off the others.
        return starmap(NewMessage, zip(*columns, strict=True))


class Lease(Struct, frozen=True, gc=False):
    """What a receiver holds: whoever knows the token may settle the message."""

    token: str
    expires_at: int
    by: str | None = None

    def __repr__(self) -> str:
        # Without the token: whoever has it may settle the message, and what is printed is read by others.
        return f"Lease(expires_at={self.expires_at}, by={self.by!r})"


class Death(Struct, frozen=True, gc=False):
    """Why a dead letter died, when, and in which queue."""

    queue: str
    reason: str
    at: int


class Message(Struct, frozen=True, gc=False):
    """A message as it stands in the store, or as it was delivered."""

    id: int
    queue: str
    body: bytes
    format: Format
    headers: dict[str, Any]
    priority: int
    lane: str
    group: str | None
    key: str | None
    attempts: int
    created_at: int
    available_at: int
    expires_at: int | None
    state: State
    lease: Lease | None = None
    death: Death | None = None
    damaged: bool = False
    """The stored bytes no longer match their checksum: body and headers are withheld."""
    first_received_at: int | None = None
    """When it was first delivered; None where it was not, or where nobody asked."""

    def __repr__(self) -> str:
        body = shortened(repr(self.body))
        told = f"id={self.id}, queue={self.queue!r}, body={body}, attempts={self.attempts}, state={self.state!r}"
        others = (("lane", self.lane), ("group", self.group), ("key", self.key), ("headers", self.headers or None))
        more = "".join(f", {name}={shortened(repr(value))}" for name, value in others if value is not None)
        held = "" if self.lease is None else f", lease={self.lease!r}"
        died = "" if self.death is None else f", death={self.death!r}"
        return f"Message({told}{more}{held}{died})"

    @property
    def value(self) -> Any:
        """The body as Python data: decoded JSON, or the text as a string."""
        if self.damaged:
            raise BodyDamaged(self.id)
        return msgspec.json.decode(self.body) if self.format == "json" else self.body.decode()


class ArchivedMessage(Struct, frozen=True):
    """A finished message and how it ended."""

    message: Message
    outcome: Outcome
    finished_at: int
    reason: str


class Finished(Struct, frozen=True, gc=False):
    """Which archived message is meant. A dead one that is requeued has the same id when it finishes again."""

    id: int
    finished_at: int


class Ref(Struct, frozen=True, gc=False):
    """Which message is meant, and by what right: its token, its holder's name, or neither (whoever holds it)."""

    id: int
    token: str | None = None
    by: str | None = None


class Release(Struct, frozen=True, gc=False):
    """One nack: try again after ``delay_ms`` (None: the queue's backoff), or never if ``dead``.

    ``undelivered``: its receiver never got it, so that the receive counts as if it had not been. The rest is ignored.
    """

    ref: Ref
    delay_ms: int | None = None
    dead: bool = False
    reason: str = NO_REASON
    undelivered: bool = False


class Extension(Struct, frozen=True, gc=False):
    """One extend: the lease now ends ``lease_ms`` from now (0: at once)."""

    ref: Ref
    lease_ms: int


class Sent(Struct, frozen=True, gc=False):
    """One sent message: its id, or the id of the first message with its key.

    Of a new one the store also says from when on it can be received; of a duplicate, and through a client, that is 0.
    """

    id: int
    duplicate: bool = False
    available_at: int = 0


class Received(Struct, frozen=True, gc=False):
    """What a receive took. When it took nothing, ``next_due_at`` is when to look again: when the next message is due.

    It may be sooner, where the store has not looked at everything. None: when somebody is told of a message.
    """

    messages: list[Message]
    next_due_at: int | None = None
    wait_ms: int = 0
    """Where it took nothing: how long the queue's policy would have it wait."""
    lease_ms: int = 0
    """Where it took something: how long the leases last. Their ends alone don't tell that to who has another clock."""


class Settled(Struct, frozen=True, gc=False):
    """One ack, nack or extend that took effect. ``due_at``: when the message is due again, if it is."""

    id: int
    due_at: int | None = None
    dead: bool = False


class Recent(Struct, frozen=True):
    """A message as a list of the newest shows it."""

    id: int
    queue: str
    state: str
    """That of a message, or how a finished one ended."""
    attempts: int
    created_at: int
    until: int | None
    """When its lease or its delay ends, or when it was finished."""
    body: bytes | None
    """None: it is long."""
    body_bytes: int


class Page(Struct, frozen=True):
    """A part of a queue's messages in the order of their ids. ``after``: where the next part begins; None: nowhere."""

    messages: list[Message]
    after: int | None


class ArchivePage(Struct, frozen=True):
    """The same of its finished messages."""

    messages: list[ArchivedMessage]
    after: int | None


MESSAGE_COLUMNS = (
    "id",
    "queue",
    "lane",
    "priority",
    "body",
    "format",
    "key",
    "group",
    "headers",
    "attempts",
    "state",
    "created_at",
    "available_at",
    "expires_at",
)
"""What is known of a message, column by column."""
ARCHIVE_COLUMNS = (*MESSAGE_COLUMNS, "outcome", "finished_at", "reason")
"""The same of a finished one, and how it ended."""


class Same(Struct, frozen=True, gc=False):
    """A column in which every message has the same value."""

    value: Any


class Columns(Struct, frozen=True):
    """Some of a queue's messages in the order of their ids, column by column. Times are in microseconds.

    A body is bytes, or None where it is damaged. ``after``: where the next part begins; None: nowhere.
    """

    count: int
    values: dict[str, Sequence[Any] | Same]
    after: int | None


class Bounds(Struct, frozen=True):
    """The ids that the messages of a queue (or of its archive) lie between, and how many there are."""

    first: int | None
    last: int | None
    count: int


class Send(Operation[list[Sent]], frozen=True, gc=False):
    """Send messages. ``keyed``: to a FIFO queue only with a key each, unless the queue makes them of their bodies.

    ``sync_commit``: whether the answer waits for the disk; None: as the store is set. ``apart``: they come from several
    who each send one, so they are no batch that a rate limit would let through as a whole. ``is_job``: `Limits.jobs`
    hold for it.
    """

    queue: str
    messages: Sequence[NewMessage] | NewMessages
    keyed: bool = False
    sync_commit: bool | None = None  # type: ignore[misc]  # an operation's own, where others have their kind's
    apart: bool = False
    is_job: bool = False


class Receive(Operation[Received], frozen=True, gc=False):
    """Lease up to ``limit`` ready messages.

    ``finish`` takes them for good instead: archived (or deleted, as the policy says) in the same transaction.
    ``attempt_id`` names a receive from a FIFO queue: who repeats it within five minutes, not having got the answer,
    gets the same messages under the same lease, which begins anew; unless one of them was settled or extended since.
    """

    queue: str
    limit: int = 1
    lane: str | None = None
    lease_ms: int | None = None
    by: str | None = None
    finish: bool = False
    attempt_id: str | None = None


class Ack(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Finish messages. ``queue`` None: by id alone, wherever they are.

    ``in_time``: only while the lease lasts. Otherwise it may have run out, as long as nobody else has the message.
    """

    queue: str | None
    refs: Sequence[Ref]
    in_time: bool = False


class Nack(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Give messages back, to be tried again or to be dead. ``in_time``: only those whose lease lasts, as for `Ack`."""

    queue: str | None
    releases: Sequence[Release]
    in_time: bool = False


class Extend(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Set the end of leases. ``in_time``: only of those that last, as for `Ack`.

    ``most_ms``: to no later than so long after the message was received.
    """

    queue: str | None
    extensions: Sequence[Extension]
    in_time: bool = False
    most_ms: int | None = None


class Remove(Operation[list[bool]], frozen=True):
    """Delete messages whoever holds them, archiving nothing."""

    queue: str
    ids: Sequence[int]


class Purge(Operation[Progress], frozen=True):
    """Delete up to ``limit`` of the messages with ids up to ``up_to``, leased ones included, and forget all keys.

    Keys of messages sent since the first step stay: that step answers the id ``keys_below`` for the others, and each
    step the last key that it looked at.
    """

    queue: str
    up_to: int
    limit: int
    keys_below: int = 0
    after_key: str = ""


class Peek(Operation[list[Message]], frozen=True):
    """The first messages in the order in which they would be received, in every state: 8 MiB or a little more."""

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 10
    lane: str | None = None


class ListRecent(Operation[list[Recent]], frozen=True):
    """The newest messages of all queues, those in the archives included, the newest first. Long bodies are left out."""

    writes: ClassVar[bool] = False
    limit: int = 100


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


class ReadBounds(Operation[Bounds], frozen=True):
    """Between which ids the messages of a queue, or of its archive, lie, and how many. Grows as `Measure`."""

    writes: ClassVar[bool] = False
    queue: str
    archive: bool = False


class ReadColumns(Operation[Columns], frozen=True):
    """The messages of a queue, or of its archive, by id: as `Scan` has them, but column by column.

    ``columns``: at least these are in it. ``lane`` and ``state``: only the messages that are there, or so.
    """

    writes: ClassVar[bool] = False
    queue: str
    after: int
    up_to: int
    limit: int
    columns: Sequence[str] = MESSAGE_COLUMNS
    archive: bool = False
    lane: str | None = None
    state: State | None = None


class LastId(Operation[int], frozen=True):
    """The id of the newest message there is (0: none): where a purge of "everything until now" ends."""

    writes: ClassVar[bool] = False


class NextDue(Operation[int | None], frozen=True):
    """When the next message of a queue (or lane) is or will be due."""

    writes: ClassVar[bool] = False
    queue: str
    lane: str | None = None


class ListArchive(Operation[ArchivePage], frozen=True):
    """Finished messages of a queue, in order of id: a page of at most ``limit``, and 8 MiB or a little more."""

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 100
    after: int = 0
    outcome: Outcome | None = None


class DeleteArchived(Operation[int], frozen=True):
    """Delete these finished messages from a queue's archive; how many were still there."""

    queue: str
    finished: Sequence[Finished]
