"""Reader of a file that others use: nothing is written to it, and no writer is held up."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

import apsw

from sqew import operations as ops
from sqew.errors import StoreTooNew, StoreUnusable
from sqew.installing import UPGRADE
from sqew.stores.sql.catalog import Catalog
from sqew.stores.sql.handlers import HANDLERS
from sqew.stores.sql.migrations import migrations
from sqew.stores.sql.ready_rows import ReadyRows
from sqew.stores.sql.subscription_cache import Bindings
from sqew.stores.sql.transaction import Work
from sqew.stores.sqlite.connection import SQL, SQLiteConnection, translated
from sqew.stores.sqlite.disk_space import DiskSpace
from sqew.stores.sqlite.lost_transactions import WalWatch
from sqew.stores.sqlite.migrate import version_of


class SQLiteReader:
    """A reader of the queues in a file. It sees the moment when it was opened, until it is closed."""

    def __init__(self, path: str | Path, *, now: int, busy_timeout_ms: int = 5_000) -> None:
        self.path = str(path)
        if not Path(path).is_file():
            raise StoreUnusable(f"{path} is no file. Check the name: it must be there on every machine that reads it.")
        watch = WalWatch(self.path)
        with translated(self.path):
            self._connection = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READONLY)
            try:
                self._connection.set_busy_timeout(busy_timeout_ms)
                self._connection.execute("BEGIN")
                self._check_version()
                watch.report_loss()
            except BaseException:
                self._connection.close(True)
                raise
        catalog = Catalog(self._connection.execute, SQL)
        self._work = Work(
            SQLiteConnection(self._connection), SQL, catalog, Bindings(), ReadyRows(), DiskSpace(self.path, 0), Random()
        )
        self._work.now = now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, operation: ops.Operation[Any]) -> Any:
        """Return the result of an operation that only reads."""
        assert not operation.writes
        with translated(self.path):
            return HANDLERS[type(operation)](self._work, operation)

    def close(self) -> None:
        """Close the file."""
        self._connection.close(True)

    def _check_version(self) -> None:
        version, newest = version_of(self._connection), migrations(__package__)[-1].version
        if version == 0:
            raise StoreUnusable(f"{self.path} holds no queues. Check the name.")
        if version > newest:
            raise StoreTooNew(
                f"{self.path} was written by a newer Sqew (schema {version}; this one knows {newest}). {UPGRADE}"
            )
        if version < newest:
            raise StoreUnusable(
                f"{self.path} was written by an older Sqew (schema {version}; this one reads {newest}). "
                f"Open it once for writing, which brings it up to date: sqew --db {self.path} stats."
            )
