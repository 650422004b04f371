"""Queues, and the operations on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

from sqew.model.operation import Operation
from sqew.model.policies import Policy

UPDATED = "updated_at"
"""The name in a queue's extras for the time of its last change."""


class QueueInfo(Struct, frozen=True):
    """A queue: its name and its policy."""

    name: str
    policy: Policy
    created_at: int
    extras: dict[str, Any] = {}  # msgspec copies it
    """Values that a dialect keeps with a queue and no other understands: SQS its tags and some attributes."""
    id: int = 0
    """The queue's number in the store, which no later queue gets. 0: an older server did not send it."""

    @property
    def updated_at(self) -> int:
        """The time of its policy's last change, or else of its creation."""
        return int(self.extras.get(UPDATED, self.created_at))


class CreateQueue(Operation[QueueInfo], frozen=True):
    """Create a queue. If it exists with the same policy, or ``exist_ok``, return the existing one.

    ``new``: it must not exist, whatever its policy. ``apart_from``: fail if there is a queue of that name; a FIFO queue
    that exists is refused then as well. ``assumed``: fields of the policy that no caller asked for. They may differ
    from the existing queue's: the settings they come from may have changed since. ``any_name``: allow a name that not
    every dialect can write.

    ``dead_letters`` is the policy of its dead-letter queue, to be created with it if there is none of that name.
    """

    name: str
    policy: Policy
    exist_ok: bool = False
    dead_letters: Policy | None = None
    extras: Mapping[str, Any] = {}  # msgspec copies it
    new: bool = False
    apart_from: str | None = None
    assumed: tuple[str, ...] = ()
    any_name: bool = False


class UpdateQueue(Operation[QueueInfo], frozen=True):
    """Change some fields of a queue's policy, and some of its extras: those that are None are removed.

    ``known``: only if the queue is still equal to it. Otherwise it was changed by another caller: `ChangedMeanwhile`.
    ``dead_letters``: as for `CreateQueue`.
    """

    name: str
    changes: Mapping[str, Any]
    extras: Mapping[str, Any] = {}  # msgspec copies it
    known: QueueInfo | None = None
    dead_letters: Policy | None = None


class DeleteQueue(Operation[None], frozen=True):
    """Delete a queue. Its messages are gone at once; their rows are swept in steps."""

    name: str


class GetQueue(Operation[QueueInfo], frozen=True):
    writes: ClassVar[bool] = False
    name: str


class ListQueues(Operation[list[QueueInfo]], frozen=True):
    """List queues by name, after ``after``."""

    writes: ClassVar[bool] = False
    prefix: str = ""
    after: str = ""
    limit: int | None = None


class ListDeadLetterSources(Operation[list[str]], frozen=True):
    """List the names of the queues whose dead letters go to this one, after ``after``."""

    writes: ClassVar[bool] = False
    queue: str
    after: str = ""
    limit: int = 1000
