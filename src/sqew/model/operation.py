"""Operations: what a store can be asked to do, as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

R = TypeVar("R")


class Operation(Struct, Generic[R], frozen=True):
    """Something to do to the store, answered with an ``R``."""

    writes: ClassVar[bool] = True
    sync_commit: ClassVar[bool | None] = None
    """Whether its answer waits for the disk; None: as the store is set. Only sends may choose."""
    polls: ClassVar[bool] = False
    """Asked by the clock, mostly in vain: it is nobody's wish, and no sign that there is anything to do."""


def sync_commit_of_all(wishes: Iterable[bool | None]) -> bool | None:
    """Whether what is committed together waits for the disk: if one insists; not if all can do without.

    None: as the store is set.
    """
    said = set(wishes)
    return True if True in said else False if said == {False} else None


def sync_wish(operations: Sequence[Operation[Any]]) -> bool | None:
    """The same of operations."""
    return sync_commit_of_all(op.sync_commit for op in operations if op.writes)
