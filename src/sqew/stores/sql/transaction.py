"""State that the operations of one transaction share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from sqew.model import Fact

if TYPE_CHECKING:
    from sqew.stores.sql.catalog import Catalog, QueueState
    from sqew.stores.sql.fanout import FanoutTarget
    from sqew.stores.sql.ready_rows import ReadyRows
    from sqew.stores.sql.statements import Statements
    from sqew.stores.sql.subscription_cache import Bindings

Row = tuple[Any, ...]


class Rows(Protocol):
    """The part of a cursor that is used here. The schema knows the columns' types; the type checker doesn't."""

    @property
    def get(self) -> Any: ...
    def fetchone(self) -> Row | None: ...
    def fetchall(self) -> list[Row]: ...
    def __iter__(self) -> Iterator[Row]: ...


class Execute(Protocol):
    """A function that runs a statement."""

    def __call__(self, statement: str, parameters: Any = ..., /) -> Rows: ...


class Copies:
    """Small messages of which each is written once for every one of the same queues.

    ``alike``: lane, priority, when they are due, created and expire, whether they are text, and their headers.
    """

    __slots__ = ("alike", "bodies", "checksums", "ids", "targets")

    def __init__(self, targets: Sequence[FanoutTarget], alike: Row) -> None:
        self.targets = targets
        self.alike = alike
        # Each message by its ids, one for every queue.
        self.ids: list[Sequence[int]] = []
        self.checksums: list[int] = []
        self.bodies: list[bytes] = []


class NewRows:
    """Rows of messages that are to be written together: small ones, copies, and those that need more columns."""

    __slots__ = ("copies", "others", "small")

    def __init__(self) -> None:
        self.small: list[Row] = []
        self.copies: dict[Hashable, Copies] = {}
        self.others: list[Row] = []

    def __bool__(self) -> bool:
        return bool(self.small or self.copies or self.others)


class StoreConnection(Protocol):
    """A connection to a store's database. Every statement is one of `Statements`."""

    @property
    def execute(self) -> Execute:
        """Function that runs a statement. Its rows may be read while others run."""

    @property
    def execute_at_once(self) -> Execute:
        """The same for statements whose rows are fetched before anything else runs."""

    @property
    def read(self) -> Callable[[str, Row], Iterable[Row]]:
        """Function that runs a statement whose rows may be many and large: they are fetched as they are asked for."""

    @property
    def executemany(self) -> Callable[[str, Iterable[Row]], Rows]:
        """Function that runs a statement once for every row of parameters."""

    @property
    def delete(self) -> Callable[[str, Iterable[Row]], Sequence[Row]]:
        """The same for a statement that deletes; it returns the columns {of_deleted} of the rows that it deleted."""

    @property
    def changes(self) -> Callable[[], int]:
        """Function that returns the number of rows that the last statement changed."""

    def integers(self, values: list[int], /) -> object:
        """Return a list of integers as one parameter."""

    def insert_alike(self, alike: Row, ids: Sequence[int], checksums: list[int], bodies: list[bytes]) -> None:
        """Write messages by the thousand that differ only in id, checksum and body.

        ``alike``: queue, lane, priority, when they are due, created and expire, and is_text.
        """

    def insert_copies(self, copies: Copies, /) -> None:
        """Write messages that go to several queues each."""

    def hold(self, *states: QueueState) -> None:
        """Lock queues until the transaction ends: no other may change the order or the number of their messages."""


class FreeSpace(Protocol):
    """Room for more messages."""

    next_look_at: int

    def check(self, now: int) -> None:
        """Raise `sqew.errors.StoreFull` if there is none."""


class Work:
    """The connection to work on, the time, and what to report when the transaction is committed."""

    __slots__ = (
        "bindings", "catalog", "changes", "deferred", "defers", "delete", "delivery_keep_ms", "execute",
        "execute_at_once", "executemany", "facts", "hold", "insert_alike", "insert_copies", "integers", "now",
        "random", "read", "ready_rows", "space", "sql", "woken",
    )  # fmt: skip

    def __init__(
        self,
        connection: StoreConnection,
        sql: Statements,
        catalog: Catalog,
        bindings: Bindings,
        ready_rows: ReadyRows,
        space: FreeSpace,
        random: Random,
        delivery_keep_ms: int = 0,
    ) -> None:
        self.execute = connection.execute
        self.execute_at_once = connection.execute_at_once
        self.read = connection.read
        self.executemany = connection.executemany
        self.delete = connection.delete
        self.changes = connection.changes
        self.integers = connection.integers
        self.insert_alike = connection.insert_alike
        self.insert_copies = connection.insert_copies
        self.hold = connection.hold
        self.sql = sql
        self.catalog = catalog
        self.bindings = bindings
        self.ready_rows = ready_rows
        self.space = space
        self.random = random
        # How long an exhausted delivery is kept.
        self.delivery_keep_ms = delivery_keep_ms
        self.now = 0
        self.facts: list[Fact] = []
        self.woken: set[str] = set()
        # What was sent in this transaction and is not written yet. `defers`: more may come.
        self.defers = False
        self.deferred = NewRows()
