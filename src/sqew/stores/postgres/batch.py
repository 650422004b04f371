"""A batch of operations that are run together, and its progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec.structs import replace

from sqew import operations as ops
from sqew.clock import Clock
from sqew.errors import SqewError
from sqew.model import Commit, Fact, Ref, Settled
from sqew.stores.contract import MayWait, Unfinished

Join = Callable[[Any], Any]

_PENDING: Any = object()


class Batch:
    """A batch of operations. It is not one transaction: what is done is done, whatever becomes of the others."""

    def __init__(
        self,
        operations: Sequence[ops.Operation[Any]],
        now: int,
        clock: Clock | None = None,
        may_wait: MayWait | None = None,
    ) -> None:
        self.now = self._asked_at = now
        self._clock, self._may_wait = clock, may_wait
        self.sync_commit = ops.sync_wish(operations)
        """True if commits wait for the disk; None: as the connection is set."""
        self.facts: list[Fact] = []
        self.woken: set[str] = set()
        self.has_begun = False
        """True if something was done already, which must not be done again."""
        self._operations = list(operations)
        self._results: list[Any] = [_PENDING] * len(operations)
        # Of acks that are done in parts: what makes of the result of the last part that of all.
        self._joins: dict[int, Join] = {}

    def read_clock(self) -> int:
        """Return the time, now that a wait is over: a lease counted from before the wait may be over when given."""
        if self._clock is not None:
            self.now = max(self.now, self._clock.now())
        return self.now

    def took_ms(self) -> int:
        """Return how many milliseconds ago ``now`` was. ``now`` itself stays."""
        return 0 if self._clock is None else max(0, self._clock.now() - self.now)

    @property
    def pending(self) -> list[tuple[int, ops.Operation[Any]]]:
        """Operations that are still to be done, each with its place."""
        results = self._results
        return [(place, op) for place, op in enumerate(self._operations) if results[place] is _PENDING]

    def resolve(self, place: int, result: Any) -> None:
        """Record the result of an operation that is done."""
        self._results[place] = self._join(place)(result)
        self.has_begun = True

    def resolve_part(self, place: int, op: ops.Ack, done: Collection[int]) -> None:
        """Record the messages of an ack that are done; the others are still to be done."""
        self.has_begun = True
        before = self._join(place)
        self._joins[place] = lambda result: before(_joined(op.refs, done, result))
        self._operations[place] = replace(op, refs=[ref for ref in op.refs if ref.id not in done])

    def goes_on(self) -> bool:
        """Return True if more is to be done now: ``may_wait`` decides, and gets the results so far."""
        if not self.pending:
            return False
        if self._may_wait is None:
            return True
        ask, self._may_wait = self._may_wait, None
        so_far = self.commit
        self.facts, self.woken = [], set()
        return ask(so_far)

    def _join(self, place: int) -> Join:
        return self._joins.get(place, _whole)

    def fail(self, error: BaseException) -> None:
        """Answer all pending operations with an error: they are not going to be done."""
        for place, _ in self.pending:
            self.resolve(place, error)

    def join(self, commit: Commit, places: Sequence[int]) -> None:
        """Record the results of a transaction in which some of the operations were run."""
        self.facts += commit.facts
        self.woken |= commit.woken
        for place, result in zip(places, commit.results, strict=True):
            self.resolve(place, result)

    @property
    def commit(self) -> Commit:
        """The results and facts, without the facts that ``may_wait`` was given before."""
        results = self._results.copy()
        for place, op in self.pending:
            results[place] = Unfinished(op, self._join(place))
        ran_at = self.now if self.now > self._asked_at else None
        return Commit(results, self.facts, self.woken, ran_at)


def _whole(result: Any) -> Any:
    return result


def _joined(refs: Sequence[Ref], done: Collection[int], result: Any) -> list[Settled | SqewError]:
    """Return the result of an ack that was done in two parts: the second's may be an error that is about all of it."""
    others = iter(result) if isinstance(result, list) else None
    return [Settled(ref.id) if ref.id in done else result if others is None else next(others) for ref in refs]
