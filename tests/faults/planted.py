"""Stores with one bug each. A check that passes them is no check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from sqew import operations as ops
from sqew.errors import SqewError
from sqew.model import Commit, Lease, Received, Ref, Sent, Settled
from sqew.stores.contract import Store
from sqew.stores.sqlite import SQLiteStore


class Sound:
    """A store without a bug, which passes everything on. The others change one thing."""

    def __init__(self, store: SQLiteStore) -> None:
        self.store = store

    def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        return self.store.run(operations, now)

    def close(self) -> None:
        self.store.close()


class _AnswersTooEarly(Sound):
    """A store that answers some operations at once and commits them when a few have come together."""

    together = 5
    early: type[ops.Operation[Any]]

    def __init__(self, store: SQLiteStore) -> None:
        super().__init__(store)
        self._owed: list[ops.Operation[Any]] = []

    def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        if not all(isinstance(operation, self.early) for operation in operations):
            return self.store.run(operations, now)
        self._owed += operations
        if len(self._owed) >= self.together:
            self.store.run(self._owed, now)
            self._owed = []
        return Commit([self.answer(operation) for operation in operations], [], set())

    def answer(self, operation: Any) -> list[Any]:
        raise NotImplementedError

    def close(self) -> None:
        if self._owed:
            self.store.run(self._owed, 0)
        super().close()


class AcksBeforeCommit(_AnswersTooEarly):
    early = ops.Ack

    def answer(self, operation: ops.Ack) -> list[Settled]:
        return [Settled(ref.id) for ref in operation.refs]


class AnswersSendsBeforeCommit(_AnswersTooEarly):
    early = ops.Send

    def answer(self, operation: ops.Send) -> list[Sent]:
        return [Sent(0) for _ in operation.messages]


class IgnoresTokens(Sound):
    """A store that settles by id alone, so that a caller that has lost its lease can still end the message."""

    def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        return self.store.run([self._without_token(operation) for operation in operations], now)

    @staticmethod
    def _without_token(operation: ops.Operation[Any]) -> ops.Operation[Any]:
        if isinstance(operation, ops.Ack):
            return structs.replace(operation, refs=[Ref(ref.id) for ref in operation.refs])
        return operation


class DoesNotLease(Sound):
    """A store that shows the next messages instead of taking them."""

    def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        commit = self.store.run([self._peek(operation) for operation in operations], now)
        results = [self._as_received(o, r, now) for o, r in zip(operations, commit.results, strict=True)]
        return structs.replace(commit, results=results)

    @staticmethod
    def _peek(operation: ops.Operation[Any]) -> ops.Operation[Any]:
        return ops.Peek(operation.queue, operation.limit) if isinstance(operation, ops.Receive) else operation

    @staticmethod
    def _as_received(operation: ops.Operation[Any], result: Any, now: int) -> Any:
        if not isinstance(operation, ops.Receive) or isinstance(result, SqewError):
            return result
        lease = Lease("none", now + (operation.lease_ms or 30_000), operation.by)
        return Received([structs.replace(message, lease=lease) for message in result])


class NeverSyncs(Sound):
    """A store that claims to be durable and leaves it to the operating system."""

    def __init__(self, store: SQLiteStore) -> None:
        super().__init__(store)
        store.connection.execute("PRAGMA synchronous = OFF")


class BreaksFifo(Sound):
    """A store that shows every message of a FIFO group to receivers, not only its head."""

    def run(self, operations: Sequence[ops.Operation[Any]], now: int) -> Commit:
        self.store.connection.execute("UPDATE sqew_message SET due_at = available_at WHERE due_at IS NULL")
        return self.store.run(operations, now)


STORES: dict[str, Callable[[SQLiteStore], Store]] = {
    kind.__name__: kind
    for kind in (
        Sound, AcksBeforeCommit, AnswersSendsBeforeCommit, IgnoresTokens, DoesNotLease, NeverSyncs, BreaksFifo
    )
}  # fmt: skip
