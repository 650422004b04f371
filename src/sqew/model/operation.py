"""Operations: requests to a store, as values."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

R = TypeVar("R")


class Operation(Struct, Generic[R], frozen=True):
    """An operation on the store, whose result is an ``R``."""

    writes: ClassVar[bool] = True
    sync_commit: ClassVar[bool | None] = None
    """True if its result waits for the disk, None: as the store is set. Only sends may choose."""
    polls: ClassVar[bool] = False
    """True if a timer runs it, mostly in vain: it is no caller's request, and no sign that there is work."""

    def __await__(self) -> Generator[Operation[R], Any, R]:
        """Have a flow (`sqew.core.flows`) wait until this operation was executed, and resume with its result."""
        result: R = yield self
        return result


def sync_commit_of_all(wishes: Iterable[bool | None]) -> bool | None:
    """Decide whether a commit waits for the disk: it does if one operation demands it, not if all can do without.

    None: as the store is set.
    """
    said = set(wishes)
    return True if True in said else False if said == {False} else None


def sync_wish(operations: Sequence[Operation[Any]]) -> bool | None:
    """Decide the same for a batch of operations."""
    return sync_commit_of_all(op.sync_commit for op in operations if op.writes)
