"""API keys of queues, and the operations on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct

from sqew.model.operation import Operation

KeyScope = Literal["send", "receive", "admin"]
"""What a key allows. ``admin`` allows everything with its queue."""


class KeyInfo(Struct, frozen=True):
    """A queue's API key, without anything that would open the queue."""

    id: str
    queue: str
    scopes: tuple[KeyScope, ...]
    label: str
    signing: bool
    """Every request with it must be signed."""
    created_at: int


class Discreet(Struct, frozen=True):
    """Holds secrets, and shows itself without them: what is logged or printed is read by others."""

    hidden: ClassVar[tuple[str, ...]] = ()
    """The fields that are not shown."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in self.hidden]


class GuardKey(Discreet, frozen=True):
    """A key as whoever checks requests needs it."""

    hidden: ClassVar[tuple[str, ...]] = ("digest", "secret")
    info: KeyInfo
    digest: bytes
    """SHA-256 of the key."""
    secret: str | None
    """What its requests are signed with."""


class KeyRing(Struct, frozen=True):
    """All keys there are. ``version`` changes with every change to one of them."""

    version: int
    keys: list[GuardKey]


class CreateKey(Discreet, Operation[KeyInfo], frozen=True):
    """Give a queue an API key. What opens the queue is not in it, but its SHA-256.

    `sqew.envelopes.request_signature` makes both.

    ``secret``: every request with the key must be signed with it.
    """

    hidden: ClassVar[tuple[str, ...]] = ("digest", "secret")
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
    polls: ClassVar[bool] = True
    known_version: int = 0
