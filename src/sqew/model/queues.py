"""Queues, and the operations on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

from sqew.model.operation import Operation
from sqew.model.policies import Policy

UPDATED = "updated_at"
"""Under which name the extras of a queue hold when it was last changed."""


class QueueInfo(Struct, frozen=True):
    """A queue: its name and its policy."""

    name: str
    policy: Policy
    created_at: int
    extras: dict[str, Any] = {}  # msgspec copies it
    """What a dialect keeps with a queue and nobody else understands: SQS its tags and some attributes."""
    id: int = 0
    """Its number in the store, which no later queue gets. 0: an older server did not say."""

    @property
    def updated_at(self) -> int:
        """When its policy was last changed, or else when it was made."""
        return int(self.extras.get(UPDATED, self.created_at))


class CreateQueue(Operation[QueueInfo], frozen=True):
    """Make a queue. Where it exists with the same policy, or ``exist_ok``, answer what is there.

    ``new``: it must not exist, whatever its policy. ``apart_from``: it is not made where there is a queue of that
    name; a FIFO queue that exists is refused then as well. ``assumed``: fields of the policy that nobody asked for.
    They may differ from what is there: the settings that they come from may have changed since. ``any_name``: it need
    not be one that every dialect can write.

    ``dead_letters`` is the policy of its dead-letter queue, to be made with it where there is none of that name.
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
    """Change some fields of a queue's policy, and some of its extras: those that are None are taken away.

    ``known``: only if the queue is still as that says. Otherwise somebody else has changed it: `ChangedMeanwhile`.
    ``dead_letters``: as for `CreateQueue`.
    """

    name: str
    changes: Mapping[str, Any]
    extras: Mapping[str, Any] = {}  # msgspec copies it
    known: QueueInfo | None = None
    dead_letters: Policy | None = None


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


class ListDeadLetterSources(Operation[list[str]], frozen=True):
    """The names of the queues whose dead letters go to one, those after ``after``."""

    writes: ClassVar[bool] = False
    queue: str
    after: str = ""
    limit: int = 1000
