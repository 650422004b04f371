"""Operations that are carried out together, and how far they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from sqew import operations as ops
from sqew.errors import BadValue, SqewError, StoreDamaged
from sqew.model import Commit, Fact, Ref, Settled

_PENDING: Any = object()


def is_about_all(error: BaseException) -> bool:
    """Whether it is not the fault of one of several operations."""
    return isinstance(error, SqewError) and not isinstance(error, BadValue | StoreDamaged)


class Flight:
    """Operations on their way. They are not one transaction: what is done is done, whatever becomes of the others."""

    def __init__(self, operations: Sequence[ops.Operation[Any]], now: int) -> None:
        self.now = now
        self.sync_commit = ops.sync_wish(operations)
        """Whether it waits for the disk; None: as the connection is set."""
        self.facts: list[Fact] = []
        self.stirred: set[str] = set()
        self.has_begun = False
        """Whether something was done already, which must not be done again."""
        self._operations = list(operations)
        self._results: list[Any] = [_PENDING] * len(operations)
        # Acks of which a part is done: all that they name, and what is done.
        self._parts: dict[int, tuple[Sequence[Ref], Collection[int]]] = {}

    @property
    def pending(self) -> list[tuple[int, ops.Operation[Any]]]:
        """What is to be done yet, each with its place."""
        results = self._results
        return [(place, op) for place, op in enumerate(self._operations) if results[place] is _PENDING]

    def land(self, place: int, result: Any) -> None:
        """An operation is done, and this is its result."""
        if place in self._parts:
            result = self._joined(*self._parts.pop(place), result)
        self._results[place] = result
        self.has_begun = True

    def land_part(self, place: int, op: ops.Ack, done: Collection[int]) -> None:
        """Of the messages that an ack names, these are done; the others are to be done yet."""
        self.has_begun = True
        self._parts[place] = op.refs, done
        self._operations[place] = replace(op, refs=[ref for ref in op.refs if ref.id not in done])

    def _joined(self, refs: Sequence[Ref], done: Collection[int], result: Any) -> list[Settled | SqewError]:
        """The result of an ack that was done in two parts: the second's may be an error that is about all of it."""
        others = iter(result) if isinstance(result, list) else None
        return [Settled(ref.id) if ref.id in done else result if others is None else next(others) for ref in refs]

    def fail(self, error: BaseException) -> None:
        """What is not done yet is not going to be."""
        for place, _ in self.pending:
            self.land(place, error)

    def join(self, commit: Commit, places: Sequence[int]) -> None:
        """A transaction is done that some of the operations were carried out in."""
        self.facts += commit.facts
        self.stirred |= commit.stirred
        for place, result in zip(places, commit.results, strict=True):
            self.land(place, result)

    @property
    def commit(self) -> Commit:
        """What all of them did."""
        return Commit(self._results, self.facts, self.stirred)
