"""A wrapper of a store that makes its transactions go wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from plainbench.faults.injector import Decision, Injector
from sqew.clock import Clock
from sqew.model import Commit, Format
from sqew.operations import Operation
from sqew.stores.contract import Store
from sqew.stores.sqlite import SQLiteStore


class SharedStore:
    """A connection for all actors of a process. While one of them sleeps for a fault, others may go on.

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
    """The store as one actor sees it: slow, failing and deadly as was decided. See `sqew.stores.contract.Store`.

    A call may take several transactions, as a receive does that waits; the fault in ``upcoming`` befalls the next one.
    ``contended`` holds the file's write lock, so that the next transaction gets a real SQLITE_BUSY; ``wait_in_vain``
    takes the time that SQLite would wait for it, where that is virtual.
    """

    reads_aside = False

    def __init__(
        self,
        shared: SharedStore,
        injector: Injector | None,
        clock: Clock,
        contended: Callable[[], AbstractContextManager[None]] = nullcontext,
        wait_in_vain: Callable[[], None] = lambda: None,
    ) -> None:
        self._shared, self._injector, self._clock = shared, injector, clock
        self.store = shared.store
        """The wrapped store."""
        self.upcoming: Decision | None = None
        self._contended, self._wait_in_vain = contended, wait_in_vain

    def run(self, operations: Sequence[Operation[Any]], now: int) -> Commit:
        injector, shared = self._injector, self._shared
        decision, self.upcoming = self.upcoming, None
        if injector is None or decision is None:
            with shared.lock:
                return shared.store.run(operations, now)
        injector.delay(decision)
        if decision.error == "transient":
            injector.fail(decision)
        if decision.error == "timeout":
            self._wait_in_vain()
            with shared.lock, self._contended():
                injector.note_error(decision)
                return shared.store.run(operations, now)
        with shared.lock:
            # A lease must not have begun before the delay.
            now = self._clock.now()
            if decision.crash == "before_commit":
                self._write_and_die(operations, now, lambda: injector.reach("before_commit", decision))
            commit = shared.store.run(operations, now)
        injector.reach("after_commit", decision)
        return commit

    def _write_and_die(self, operations: Sequence[Operation[Any]], now: int, die: Callable[[], None]) -> None:
        """Write everything, and die before the commit."""
        store = self._shared.store
        try:
            store.begin(now)
            for operation in operations:
                store.attempt(operation)
            die()
        finally:
            # In virtual time nobody dies for good.
            store.rollback()

    def send_plain(self, _queue: str, _body: bytes, _format: Format, _now: int) -> None:
        """Leave the message to `run`, as faults befall only operations that are `run`."""

    def read(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        with self._shared.lock:
            return self._shared.store.read(operations, now)

    def idle(self) -> None:
        """Do nothing: other actors may be busy."""

    def file_bytes(self) -> int:
        with self._shared.lock:
            return self._shared.store.file_bytes()

    def compact(self) -> bool:
        return False

    def shrink_log(self) -> None:
        self._shared.store.shrink_log()

    def close(self) -> None:
        """Let go of the store: other actors may still use it."""
        self._shared.let_go()


def _keeps_the_contract(store: FaultyStore) -> Store:
    return store
