"""A store that wraps a store, and has its transactions go wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sqew import operations as ops
from sqew.lab.faults.injector import Call, Injector
from sqew.model import Commit
from sqew.operations import Operation
from sqew.stores.base import Store
from sqew.stores.sqlite import SQLiteStore

_CALLS: dict[type, Call] = {
    ops.Send: "send",
    ops.Receive: "receive",
    ops.Ack: "ack",
    ops.Nack: "retry",
    ops.Extend: "extend",
}
"""What may go wrong: the calls of a message's life. Setting up and looking on never does."""


class SharedStore:
    """One connection for all actors of a process. While one sleeps for a fault, others may go on.

    It is closed when the last of them lets go of it.
    """

    def __init__(self, store: SQLiteStore, closed: Callable[[], object] = lambda: None) -> None:
        self.store = store
        self.lock = threading.Lock()
        self._closed, self._users = closed, 0

    def take(self) -> SharedStore:
        self._users += 1
        return self

    def let_go(self) -> None:
        self._users -= 1
        if not self._users:
            self._closed()
            with self.lock:
                self.store.close()


class FaultyStore:
    """The store as one actor sees it: slow, failing and deadly as its injector decides. See `sqew.stores.base.Store`.

    ``contended`` holds the file's write lock, so that the next transaction gets a real SQLITE_BUSY; ``wait_in_vain``
    takes the time that SQLite would wait for it, where that is virtual.
    """

    looks_aside = False

    def __init__(
        self,
        shared: SharedStore,
        injector: Injector | None,
        contended: Callable[[], AbstractContextManager[None]] = nullcontext,
        wait_in_vain: Callable[[], None] = lambda: None,
    ) -> None:
        self._shared, self._injector = shared, injector
        self._contended, self._wait_in_vain = contended, wait_in_vain

    def run(self, operations: Sequence[Operation[Any]], now: int) -> Commit:
        call = next((_CALLS[type(operation)] for operation in operations if type(operation) in _CALLS), None)
        injector, shared = self._injector, self._shared
        if injector is None or call is None:
            with shared.lock:
                return shared.store.run(operations, now)
        decision = injector.decide(call)
        injector.delay(decision)
        if decision.error == "transient":
            injector.fail(decision)
        if decision.error == "timeout":
            injector.note_error(decision)
            self._wait_in_vain()
            with shared.lock, self._contended():
                return shared.store.run(operations, now)
        with shared.lock:
            if decision.crash == "before_commit":
                self._write_and_die(operations, now, lambda: injector.reach("before_commit", decision))
            commit = shared.store.run(operations, now)
        injector.reach("after_commit", decision)
        return commit

    def _write_and_die(self, operations: Sequence[Operation[Any]], now: int, die: Callable[[], None]) -> None:
        """Everything is written, and nothing committed."""
        store = self._shared.store
        store.begin(now)
        try:
            for operation in operations:
                store.attempt(operation)
            die()
        finally:
            # In virtual time nobody dies for good.
            store.rollback()

    def look(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        with self._shared.lock:
            return self._shared.store.look(operations, now)

    def idle(self) -> None:
        """Others may be busy."""

    def file_bytes(self) -> int:
        with self._shared.lock:
            return self._shared.store.file_bytes()

    def compact(self) -> bool:
        return False

    def shrink_log(self) -> None:
        self._shared.store.shrink_log()

    def close(self) -> None:
        """The others may still use it."""
        self._shared.let_go()


def _keeps_the_contract(store: FaultyStore) -> Store:
    return store
