"""What the operations of one transaction share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import apsw

from sqew.model import Fact

if TYPE_CHECKING:
    from sqew.stores.sqlite.catalog import Catalog

Execute = Callable[..., apsw.Cursor]
Row = tuple[Any, ...]


class Work:
    """The connection to work on, the time, and what is to be told when the transaction is committed."""

    __slots__ = ("catalog", "execute", "executemany", "facts", "now", "random", "stirred")

    def __init__(self, connection: apsw.Connection, catalog: Catalog, random: Random) -> None:
        self.execute: Execute = connection.execute
        self.executemany: Execute = connection.executemany
        self.catalog = catalog
        self.random = random
        self.now = 0
        self.facts: list[Fact] = []
        self.stirred: set[str] = set()
