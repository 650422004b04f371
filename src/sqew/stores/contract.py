"""The contract that every store keeps, and that the conformance suite checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from sqew.model import Commit, DatabaseStats, Fact, Format
from sqew.operations import Operation


class Wakes(Protocol):
    """Waiters of this process, which another process's commit wakes through the store."""

    def wake(self, queues: Iterable[str], /) -> None: ...

    def wake_all(self) -> None: ...


class Store(Protocol):
    """A place that keeps queues and messages.

    ``run`` executes operations in order, in one transaction, at the time ``now``. When it returns, what they did is as
    safe as the store's durability says. An operation that fails has changed nothing and its `SqewError` stands in
    ``Commit.results`` in place of its result; its neighbours are not undone. When the transaction itself can't be
    committed, ``run`` raises a `StoreError` and nothing was changed; only after a failed fsync nobody can know, and the
    store refuses everything until it is opened again.

    Time comes from the caller: a store has no clock of its own. It must not run backwards; where it was wrong and has
    to, `CorrectDates` comes first.
    """

    def run(self, operations: Sequence[Operation[Any]], now: int) -> Commit: ...

    def send_plain(self, queue: str, body: bytes, format: Format, now: int) -> Fact | None:
        """Send a message of which nothing is said but its body, in a transaction of its own: what there is to tell.

        None: nothing was done, and it is to be `run`, for whatever reason.
        """

    reads_aside: bool
    """Whether `look` may be called from another thread."""

    def read(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
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


class Rest(Struct, frozen=True):
    """Stands for a result where an operation is not done yet."""

    operation: Operation[Any]
    """What is left of it to be done."""
    joined: Callable[[Any], Any]
    """Makes of its result that of the whole."""


GoOn = Callable[[Commit], bool]
"""Gets what is done, with a `Rest` for all that is not; whether that is to be done now as well."""


class RemoteStore(Protocol):
    """A store in a database that any number of processes use: what it does takes a while, and goes on side by side.

    ``run`` keeps what `Store` promises, but for two things. Its operations are not one transaction: each is one, or
    part of one. And where it has been given a clock, ``now`` is when they were asked for: what then has to wait is done
    at the time that the clock shows when its turn has come.

    Some of its operations may have to wait for other servers, and the others not. ``go_on`` is called when those are
    done: if it says no, the results have a `Rest` for each of the former.
    """

    connections: int
    """How many things it does at a time."""

    async def run(self, operations: Sequence[Operation[Any]], now: int, go_on: GoOn | None = None) -> Commit: ...

    async def read(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read: their results, or the first error raised."""

    def database_stats(self) -> DatabaseStats: ...

    async def measure(self) -> None:
        """Bring those figures up to date that the database must be asked for."""

    async def check(self) -> None:
        """Raise unless messages can be stored, as far as that can be known without storing one."""

    async def look_for_room(self) -> None:
        """Warn where the database has not as many connections left as it may need."""

    async def close(self) -> None: ...
