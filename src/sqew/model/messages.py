"""Messages: types and operations for sending, receiving, settling and inspecting them."""

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
    """Messages by the thousand, in columns: each field is a list with a value per message, or one value for all."""

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
        """True if the messages differ in their bodies alone, and have neither headers, nor groups, nor keys."""
        return not any(isinstance(getattr(self, name), list) for name in self.__struct_fields__[1:])

    def part(self, start: int, end: int) -> NewMessages:
        """Return a slice of the messages."""
        return NewMessages(*(value[start:end] if isinstance(value, list) else value for value in structs.astuple(self)))

    def __iter__(self) -> Iterator[NewMessage]:
        """Yield each of the messages."""
        columns = (value if isinstance(value, list) else repeat(value, len(self)) for value in structs.astuple(self))
        # Strict: a column that is too short must not cut off the others.
        return starmap(NewMessage, zip(*columns, strict=True))


class Lease(Struct, frozen=True, gc=False):
    """A receiver's hold on a message: its token gives the right to settle the message."""

    token: str
    expires_at: int
    by: str | None = None

    def __repr__(self) -> str:
        # Without the token: whoever has it may settle the message, and what is printed is read by others.
        return f"Lease(expires_at={self.expires_at}, by={self.by!r})"


class Death(Struct, frozen=True, gc=False):
    """The reason, the time and the queue of a dead letter's death."""

    queue: str
    reason: str
    at: int


class Message(Struct, frozen=True, gc=False):
    """A message as it is in the store, or as it was delivered."""

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
    """True if the stored bytes no longer match their checksum: body and headers are withheld."""
    first_received_at: int | None = None
    """The time of its first delivery; None if there was none, or if the operation does not read it."""

    def __repr__(self) -> str:
        body = shortened(repr(self.body))
        shown = f"id={self.id}, queue={self.queue!r}, body={body}, attempts={self.attempts}, state={self.state!r}"
        others = (("lane", self.lane), ("group", self.group), ("key", self.key), ("headers", self.headers or None))
        more = "".join(f", {name}={shortened(repr(value))}" for name, value in others if value is not None)
        held = "" if self.lease is None else f", lease={self.lease!r}"
        died = "" if self.death is None else f", death={self.death!r}"
        return f"Message({shown}{more}{held}{died})"

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
    """A reference to an archived message. A dead one that is requeued has the same id when it finishes again."""

    id: int
    finished_at: int


class Ref(Struct, frozen=True, gc=False):
    """A reference to a message, and the right to settle it: its lease's token, its holder's name, or neither (any)."""

    id: int
    token: str | None = None
    by: str | None = None


class Release(Struct, frozen=True, gc=False):
    """A nack: retry after ``delay_ms`` (None: the queue's backoff), or never if ``dead``.

    ``undelivered``: the receiver never got the message, so its receive is not counted. The other fields are ignored.
    """

    ref: Ref
    delay_ms: int | None = None
    dead: bool = False
    reason: str = NO_REASON
    undelivered: bool = False


class Extension(Struct, frozen=True, gc=False):
    """A lease's extension: it ends ``lease_ms`` from now (0: at once)."""

    ref: Ref
    lease_ms: int


class Sent(Struct, frozen=True, gc=False):
    """The result for a sent message: its id, or the id of the first message with its key.

    ``available_at`` is the time from which a new message can be received; 0 for a duplicate, and through a client.
    """

    id: int
    duplicate: bool = False
    available_at: int = 0


class Received(Struct, frozen=True, gc=False):
    """The messages of a receive. If there are none, ``next_due_at`` is the time to look again: the next message is due.

    It may be earlier, if the store has not looked at everything. None: look again only after a notification.
    """

    messages: list[Message]
    next_due_at: int | None = None
    wait_ms: int = 0
    """The milliseconds that the queue's policy has an empty receive wait."""
    lease_ms: int = 0
    """The duration of the leases, if there are any: a receiver with another clock can't tell it from their ends."""


class Settled(Struct, frozen=True, gc=False):
    """The result of an ack, nack or extend that took effect. ``due_at``: when the message is due again, if it is."""

    id: int
    due_at: int | None = None
    dead: bool = False


class Recent(Struct, frozen=True):
    """A message in a list of the newest."""

    id: int
    queue: str
    state: str
    """The state of a message, or the outcome of a finished one."""
    attempts: int
    created_at: int
    until: int | None
    """The time at which its lease or its delay ends, or it was finished."""
    body: bytes | None
    """The body, or None if it is long."""
    body_bytes: int


class Page(Struct, frozen=True):
    """A page of a queue's messages, in order of id. ``after``: the id after which the next begins; None: no more."""

    messages: list[Message]
    after: int | None


class ArchivePage(Struct, frozen=True):
    """A page of a queue's finished messages, in order of id."""

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
"""The columns of a message."""
ARCHIVE_COLUMNS = (*MESSAGE_COLUMNS, "outcome", "finished_at", "reason")
"""The columns of a finished message, with its outcome."""


class Same(Struct, frozen=True, gc=False):
    """A column in which every message has the same value."""

    value: Any


class Columns(Struct, frozen=True):
    """A page of a queue's messages, in order of id, column by column. Times are in microseconds.

    A body is bytes, or None if it is damaged. ``after``: the id after which the next page begins; None: no more.
    """

    count: int
    values: dict[str, Sequence[Any] | Same]
    after: int | None


class Bounds(Struct, frozen=True):
    """The first and the last id of a queue's messages (or of its archive's), and their number."""

    first: int | None
    last: int | None
    count: int


class Send(Operation[list[Sent]], frozen=True, gc=False):
    """Send messages. ``keyed``: a FIFO queue refuses messages without a key, unless it makes keys of their bodies.

    ``sync_commit``: True to wait for the disk; None: as the store is set. ``apart``: the messages come from several
    senders of one each, so a rate limit must not let them through as one batch. ``is_job``: `Limits.jobs` apply.
    """

    queue: str
    messages: Sequence[NewMessage] | NewMessages
    keyed: bool = False
    sync_commit: bool | None = None  # type: ignore[misc]  # an operation's own, where others have their kind's
    apart: bool = False
    is_job: bool = False


class Receive(Operation[Received], frozen=True, gc=False):
    """Lease up to ``limit`` ready messages.

    ``finish`` finishes them at once instead: they are archived (or deleted, as the policy says) in the same
    transaction. ``attempt_id`` names a receive from a FIFO queue: a receiver that did not get the answer and repeats it
    within five minutes gets the same messages under the same lease, which begins anew; unless one of them was settled
    or extended since.
    """

    queue: str
    limit: int = 1
    lane: str | None = None
    lease_ms: int | None = None
    by: str | None = None
    finish: bool = False
    attempt_id: str | None = None


class Ack(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Finish messages. ``queue`` None: find them by id alone.

    ``in_time``: only while the lease lasts. Otherwise it may have run out, as long as no other receiver has the
    message.
    """

    queue: str | None
    refs: Sequence[Ref]
    in_time: bool = False


class Nack(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Give messages back, to be retried or to be dead. ``in_time``: only those whose lease lasts, as for `Ack`."""

    queue: str | None
    releases: Sequence[Release]
    in_time: bool = False


class Extend(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Set the end of leases. ``in_time``: only of those that last, as for `Ack`.

    ``most_ms``: the lease ends at most so long after the message was received.
    """

    queue: str | None
    extensions: Sequence[Extension]
    in_time: bool = False
    most_ms: int | None = None


class Remove(Operation[list[bool]], frozen=True):
    """Delete messages, leased ones included, archiving nothing."""

    queue: str
    ids: Sequence[int]


class Purge(Operation[Progress], frozen=True):
    """Delete up to ``limit`` messages with ids up to ``up_to``, leased ones included, and forget all keys.

    Keys of messages sent since the first step stay: that step returns the id ``keys_below`` for the next ones, and each
    step returns the last key that it looked at.
    """

    queue: str
    up_to: int
    limit: int
    keys_below: int = 0
    after_key: str = ""


class Peek(Operation[list[Message]], frozen=True):
    """Return the first messages in the order of receiving, in every state: 8 MiB or a little more."""

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 10
    lane: str | None = None


class ListRecent(Operation[list[Recent]], frozen=True):
    """List the newest messages of all queues, archived ones included, the newest first. Long bodies are left out."""

    writes: ClassVar[bool] = False
    limit: int = 100


class Get(Operation[Message], frozen=True):
    """Return one message by id. ``queue`` None: from any queue."""

    writes: ClassVar[bool] = False
    queue: str | None
    id: int


class Scan(Operation[Page], frozen=True):
    """Read the messages of a queue by id, in every state, after ``after`` and up to ``up_to``, in steps.

    A step looks at ``limit`` messages of all queues, so its duration does not depend on the rest of the store; it may
    find none of this queue.
    """

    writes: ClassVar[bool] = False
    queue: str
    after: int
    up_to: int
    limit: int


class ReadBounds(Operation[Bounds], frozen=True):
    """Return the first and last id of a queue's messages (or its archive's), and their number. Grows as `Measure`."""

    writes: ClassVar[bool] = False
    queue: str
    archive: bool = False


class ReadColumns(Operation[Columns], frozen=True):
    """Read the messages of a queue, or of its archive, by id: as `Scan` does, but column by column.

    ``columns``: at least these are returned. ``lane`` and ``state``: only messages in that lane or state.
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
    """Return the id of the newest message (0: none), up to which a purge deletes "everything until now"."""

    writes: ClassVar[bool] = False


class NextDue(Operation[int | None], frozen=True):
    """Return the time at which the next message of a queue (or lane) is or will be due."""

    writes: ClassVar[bool] = False
    queue: str
    lane: str | None = None


class ListArchive(Operation[ArchivePage], frozen=True):
    """List finished messages of a queue by id: a page of at most ``limit``, and 8 MiB or a little more."""

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 100
    after: int = 0
    outcome: Outcome | None = None


class DeleteArchived(Operation[int], frozen=True):
    """Delete these finished messages from a queue's archive; return how many were still there."""

    queue: str
    finished: Sequence[Finished]
