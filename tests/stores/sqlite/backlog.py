"""A file with a large backlog, made quickly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from sqew.model import NewMessage, Policy
from sqew.operations import CreateQueue, Operation, Receive, Send
from sqew.stores.sqlite import SQLiteStore

NOW = 1_700_000_000_000
STEP = 5_000


def open_store(path: Path) -> SQLiteStore:
    return SQLiteStore(path, now=NOW, durability="fast")


def run(store: SQLiteStore, operation: Operation[Any], now: int = NOW) -> Any:
    [result] = store.run([operation], now).results
    if isinstance(result, Exception):
        raise result
    return result


def create(store: SQLiteStore, queue: str, **policy: Any) -> None:
    run(store, CreateQueue(queue, Policy(**policy)))


def fill(store: SQLiteStore, queue: str, count: int, **fields: Any) -> None:
    for done in range(0, count, STEP):
        run(store, Send(queue, [NewMessage(b"{}", **fields)] * min(STEP, count - done)))


def lease(store: SQLiteStore, queue: str, count: int, **fields: Any) -> None:
    for done in range(0, count, STEP):
        run(store, Receive(queue, min(STEP, count - done), **fields))


class Effort:
    """The work that SQLite did for the statements of a block."""

    def __init__(self) -> None:
        self.steps = 0
        self.scanned = 0

    def __call__(self, event: dict[str, Any]) -> None:
        status = event["stmt_status"]
        self.steps += status["SQLITE_STMTSTATUS_VM_STEP"]
        self.scanned += status["SQLITE_STMTSTATUS_FULLSCAN_STEP"]


@contextmanager
def effort(connection: apsw.Connection) -> Iterator[Effort]:
    counted = Effort()
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, counted)
    try:
        yield counted
    finally:
        connection.trace_v2(0)
