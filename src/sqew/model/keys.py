"""API keys of queues, and the operations on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct

from sqew.model.operation import Operation

KeyScope = Literal["send", "receive", "admin"]
"""The operations that a key allows. ``admin`` allows all operations on its queue."""


class KeyInfo(Struct, frozen=True):
    """A queue's API key, without its secrets."""

    id: str
    queue: str
    scopes: tuple[KeyScope, ...]
    label: str
    signing: bool
    """True if every request with it must be signed."""
    created_at: int


class Discreet(Struct, frozen=True):
    """A struct with secrets, whose repr leaves them out: logs and printed values are read by others."""

    hidden: ClassVar[tuple[str, ...]] = ()
    """The fields that the repr leaves out."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in self.hidden]


class GuardKey(Discreet, frozen=True):
    """A key with its secrets, to check requests with."""

    hidden: ClassVar[tuple[str, ...]] = ("digest", "secret")
    info: KeyInfo
    digest: bytes
    """SHA-256 of the key."""
    secret: str | None
    """The secret that its requests are signed with."""


class KeyRing(Struct, frozen=True):
    """All keys. ``version`` changes with every change to one of them."""

    version: int
    keys: list[GuardKey]


class CreateKey(Discreet, Operation[KeyInfo], frozen=True):
    """Create an API key for a queue. The operation holds only the key's SHA-256, not the key itself.

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
    """List the keys of a queue, or of all queues."""

    writes: ClassVar[bool] = False
    queue: str | None = None


class DeleteKey(Operation[None], frozen=True):
    queue: str
    id: str


class ReadKeys(Operation[KeyRing | None], frozen=True):
    """Return all keys, to check requests with. None: nothing has changed since ``known_version``."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True
    known_version: int = 0
