"""Decisions on what goes wrong in the calls of one actor.

Each kind of call has its own dice and is counted by itself, and all of them are rolled at every call, also those that
don't matter this time. So a decision depends on the seed, the actor with its life, the kind of call and its number
among those, and on nothing else: not on which faults are switched on, nor on the calls of other kinds in between.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Literal, NoReturn

from msgspec import Struct

from plainbench.config.model import CallFaults
from plainbench.faults.latency import Latencies
from plainbench.record.events import Event
from sqew.errors import SqewError

if TYPE_CHECKING:
    from plainbench.run.context import RunContext

Point = Literal["before_commit", "after_commit", "before_reply"]
Call = Literal["send", "receive", "ack", "retry", "extend", "query"]


class Injected(SqewError):
    """An error that the lab made up; nothing was done. Try again."""


class Died(BaseException):
    """A crash in virtual time, where there is no process to kill. Only the lab may catch it."""


class Decision(Struct, frozen=True):
    """The faults of one call."""

    call: Call
    index: int
    delay_ms: float = 0.0
    error: Literal["timeout", "transient"] | None = None
    crash: Point | None = None


class _Calls:
    """The calls of one kind: their number so far, and the dice for the next."""

    def __init__(self, faults: CallFaults, context: RunContext, *name: str | int) -> None:
        streams = context.streams
        self.count = 0
        self._latencies = None
        if faults.latency is not None:
            self._latencies = Latencies(faults.latency, streams.generator("latency", *name), context.folder)
        self._dice = [streams.dice(die, *name) for die in ("error", "kind of error", "crash")]

    def next(self) -> tuple[float, float, float, float]:
        """Return the delay of the next call in milliseconds, and what was rolled for an error, its kind and a crash."""
        self.count += 1
        delay_ms = 0.0 if self._latencies is None else self._latencies.draw_ms()
        error, kind, crash = (dice.roll() for dice in self._dice)
        return delay_ms, error, kind, crash


class Injector:
    """The source of decisions for one actor, in its thread."""

    def __init__(self, faults: CallFaults, context: RunContext, place: str, owner: str, life: int) -> None:
        self._faults, self._context, self._owner = faults, context, owner
        self._name: tuple[str | int, ...] = (place, owner, life)
        self._stream = f"{place}/{owner}/{life}"
        # What is to die once must not die of it in every life.
        self._dies_at = frozenset(faults.crash.at) if faults.crash is not None and life == 0 else frozenset[int]()
        self._calls: dict[Call, _Calls] = {}

    def decide(self, call: Call) -> Decision:
        """Decide what goes wrong in the next call of this kind. It is logged when it happens."""
        if call not in self._calls:
            self._calls[call] = _Calls(self._faults, self._context, *self._name, call)
        calls, crash = self._calls[call], self._faults.crash
        delay_ms, fails, kind, dies = calls.next()
        index = calls.count
        has_error = fails < self._faults.error_rate and self._allowed(call, "error", index)
        point = None
        # An application's database knows no calls but queries.
        if crash is not None and (call in crash.calls or call == "query"):
            has_crash = (dies < crash.rate or index in self._dies_at) and self._allowed(call, "crash", index)
            point = crash.point if has_crash else None
        return Decision(
            call,
            index,
            delay_ms if delay_ms and self._allowed(call, "latency", index) else 0.0,
            self._kind(kind) if has_error else None,
            point,
        )

    def _kind(self, roll: float) -> Literal["timeout", "transient"]:
        timeout, transient = (self._faults.errors.get(kind, 0.0) for kind in ("timeout", "transient"))
        return "timeout" if roll * (timeout + transient) < timeout else "transient"

    def _allowed(self, call: Call, fault: str, index: int) -> bool:
        return self._context.allows(f"{self._stream}/{call}/{fault}", index)

    def delay(self, decision: Decision) -> None:
        """Sleep for as long as was decided."""
        if decision.delay_ms:
            self._note(decision, "latency", ms=round(decision.delay_ms, 3))
            self._context.time.sleep(decision.delay_ms / 1000)

    def fail(self, decision: Decision) -> NoReturn:
        """Raise the injected error, with nothing done; a timeout comes after the time that a call waits for a lock."""
        self.note_error(decision)
        if decision.error == "timeout":
            self._context.time.sleep(self._context.config.sqlite.pragmas.busy_timeout_ms / 1000)
        raise Injected(f"An injected {decision.error} error of {decision.call} (call {decision.index}).")

    def note_error(self, decision: Decision) -> None:
        """Log that the call fails as was decided."""
        self._note(decision, "error", what=decision.error or "")

    def reach(self, point: Point, decision: Decision) -> None:
        """Die, if it was decided that the process dies at this point."""
        if decision.crash != point:
            return
        self._note(decision, "crash", what=point)
        self._context.recorder.flush()
        if self._context.time.is_virtual:
            raise Died(point)
        os.kill(os.getpid(), signal.SIGKILL)

    def _note(self, decision: Decision, fault: str, *, what: str = "", ms: float | None = None) -> None:
        self._context.recorder.record(
            Event(
                self._context.time.now_us(), "fault", worker=self._owner, what=what or fault, where=decision.call,
                stream=f"{self._stream}/{decision.call}/{fault}", index=decision.index, ms=ms,
            )
        )  # fmt: skip
