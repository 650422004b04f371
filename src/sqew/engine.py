"""What a broker does around every transaction, with and without an event loop.

It gives the store the time, tells the observers what happened, wakes who waits, and adds a small step of upkeep to the
transactions of others when one is due. So an embedded queue needs no thread of its own, and an idle one does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqew.clock import Clock
from sqew.errors import SqewError
from sqew.model import Commit, Swept
from sqew.observe.eventlog import EventLog
from sqew.observe.meter import Meter
from sqew.operations import Operation, RecordActivity, Sweep
from sqew.stores.base import Store
from sqew.waiting import Doorbell, Waiters

UPKEEP_EVERY_MS = 1_000
"""How often, at most, a transaction also sweeps and stores figures, unless there is a backlog to sweep."""


class Engine:
    """A store with its clock, its observers and its waiters. One thread at a time."""

    def __init__(self, store: Store, clock: Clock, doorbell: Doorbell, event_log: EventLog | None = None) -> None:
        self.store = store
        self.clock = clock
        self.waiters = Waiters()
        self.doorbell = doorbell
        self._event_log = event_log
        self._meter = Meter()
        self._next_sweep_at = 0

    def run(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Execute operations in one transaction: a result or an error for each."""
        now = self.clock.now()
        if now >= self._next_sweep_at and any(operation.writes for operation in operations):
            return self._run_with_upkeep(operations, now)
        commit = self.store.run(operations, now)
        self.publish(commit, now)
        return commit.results

    def _run_with_upkeep(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        counts = self._meter.drain(now)
        try:
            commit = self.store.run([*operations, Sweep(), RecordActivity(counts)], now)
        except SqewError:
            # The figures are not lost with the transaction.
            self._meter.restore(counts)
            raise
        self.publish(commit, now)
        *results, swept, _ = commit.results
        backlog = isinstance(swept, Swept) and swept.next_at is not None and swept.next_at <= now
        self._next_sweep_at = now if backlog else now + UPKEEP_EVERY_MS
        return results

    def publish(self, commit: Commit, now: int) -> None:
        """Tell everybody what a transaction did, now that it is done."""
        if commit.facts:
            self._meter.record(commit.facts, now)
            if self._event_log is not None:
                self._event_log.record(commit.facts, self.clock.now_us())
        if commit.stirred:
            self.waiters.wake(commit.stirred)
            self.doorbell.ring(commit.stirred)

    def flush(self) -> None:
        """Store the figures that are still in memory."""
        now = self.clock.now()
        counts = self._meter.drain(now)
        if counts:
            self.store.run([RecordActivity(counts)], now)

    def close(self) -> None:
        """Store the figures, close the store and stop listening."""
        try:
            self.flush()
        finally:
            self.waiters.wake_all()
            self.doorbell.close()
            self.store.close()
            if self._event_log is not None:
                self._event_log.close()
