"""The faults that a run may have, one by one: what shrinking takes away from until only those are left that matter."""

from __future__ import annotations

from msgspec import Struct


class Firing(Struct, frozen=True, order=True):
    """One fault that happened: the how-many-th decision of which stream."""

    stream: str
    index: int


class Schedule(Struct, frozen=True):
    """Only these happen, whatever else the dice say."""

    firings: frozenset[Firing]

    def allows(self, stream: str, index: int) -> bool:
        return Firing(stream, index) in self.firings
