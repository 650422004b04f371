"""The contract that every store keeps, and that the conformance suite checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from sqew.model import Commit, DatabaseStats, Fact, Format
from sqew.operations import Operation


class Wakeable(Protocol):
    """Waiters of this process, woken through the store by commits of other processes."""

    def __bool__(self) -> bool:
        """Return True if anybody waits."""

    def wake(self, queues: Iterable[str], /) -> None: ...

    def wake_all(self) -> None: ...


class Store(Protocol):
    """A place that keeps queues and messages.

    ``run`` executes operations in order, in one transaction, at the time ``now``. When it returns, what they did is as
    safe as the store's durability says. An operation that fails has changed nothing and its `SqewError` stands in
    ``Commit.results`` in place of its result; its neighbours are not undone. When the transaction itself can't be
    committed, ``run`` raises a `StoreError` and nothing was changed; only after a failed fsync is the outcome unknown,
    and the store refuses everything until it is opened again.

    Time comes from the caller: a store has no clock of its own. It must not run backwards; if it was wrong and has to,
    `CorrectDates` comes first.
    """

    def run(self, operations: Sequence[Operation[Any]], now: int) -> Commit: ...

    def send_plain(self, queue: str, body: bytes, format: Format, now: int) -> Fact | None:
        """Send a message that has nothing but a body, in a transaction of its own; return the fact to report.

        Return None if nothing was done, for whatever reason: then `run` it.
        """

    reads_aside: bool
    """True if `read` may be called from another thread."""

    def read(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read, beside `run`. Return their results, or raise the first error."""

    def idle(self) -> None:
        """Use idle time for a small step of upkeep."""

    def file_bytes(self) -> int:
        """Return the bytes that the store takes on the disk."""

    def compact(self) -> bool:
        """Give a little of the free space back to the disk; return True if there is more of it."""

    def shrink_log(self) -> None:
        """Write logged changes into their place, as far as readers allow. May be called from another thread."""

    def close(self) -> None: ...


class Unfinished(Struct, frozen=True):
    """A placeholder for the result of an operation that is not done yet."""

    operation: Operation[Any]
    """The part of the operation that is still to be done."""
    joined: Callable[[Any], Any]
    """Function that makes the result of the whole from that of this part."""


MayWait = Callable[[Commit], bool]
"""Function that gets the results so far, `Unfinished` for each missing one. True: those are to be done now as well."""


class RemoteStore(Protocol):
    """A store in a database that any number of processes use: its operations take a while, and run concurrently.

    ``run`` keeps what `Store` promises, with two exceptions. Its operations are not one transaction: each is one, or
    part of one. And if it was given a clock, ``now`` is when they were asked for: an operation that then has to wait is
    done at the time that the clock shows when its turn has come.

    Some of its operations may have to wait for other servers. ``may_wait`` is called when all others are done: if it
    returns False, the results have an `Unfinished` for each that would have to wait.
    """

    connections: int
    """Number of transactions that run at a time."""

    async def run(self, operations: Sequence[Operation[Any]], now: int, may_wait: MayWait | None = None) -> Commit: ...

    async def read(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        """Execute operations that only read. Return their results, or raise the first error."""

    def database_stats(self) -> DatabaseStats: ...

    async def measure(self) -> None:
        """Update those figures that need a query to the database."""

    async def check(self) -> None:
        """Raise unless messages can be stored, as far as that can be known without storing one."""

    async def check_space(self) -> None:
        """Warn if the database has fewer connections left than this server may need."""

    async def close(self) -> None: ...
