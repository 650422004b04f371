"""The contract that every store keeps, and that the conformance suite checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqew.model import Commit, DatabaseFigures
from sqew.operations import Operation


class Store(Protocol):
    """A place that keeps queues and messages.

    ``run`` executes operations in order, in one transaction, at the time ``now``. When it returns, what they did is as
    safe as the store's durability says. An operation that fails has changed nothing and its `SqewError` stands in
    ``Commit.results`` in place of its result; its neighbours are not undone. When the transaction itself can't be
    committed, ``run`` raises a `StoreError` and nothing was changed; only after a failed fsync nobody can know, and the
    store refuses everything until it is opened again.

    Time comes from the caller: a store has no clock of its own. It must not run backwards.
    """

    def run(self, operations: Sequence[Operation[Any]], now: int) -> Commit: ...

    looks_aside: bool
    """Whether `look` may be called from another thread."""

    def look(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read, beside whatever `run` does: their results, or the first error raised."""

    def idle(self) -> None:
        """There is nothing else to do: a small step of whatever keeps the store in order."""

    def file_bytes(self) -> int:
        """How much room it takes on the disk."""

    def compact(self) -> bool:
        """Give a little of the free space back to the disk; whether there is more of it."""

    def shrink_log(self) -> None:
        """Put what is only logged into its place, as far as readers allow. May be called from another thread."""

    def close(self) -> None: ...


class RemoteStore(Protocol):
    """A store in a database that any number of processes use: what it does takes a while, and goes on side by side.

    ``run`` keeps what `Store` promises, but for one thing: its operations are not one transaction. Each is one, or part
    of one.
    """

    connections: int
    """How many things it does at a time."""

    async def run(self, operations: Sequence[Operation[Any]], now: int) -> Commit: ...

    async def look(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read: their results, or the first error raised."""

    def figures(self) -> DatabaseFigures: ...

    async def measure(self) -> None:
        """Bring those figures up to date that the database must be asked for."""

    async def close(self) -> None: ...
