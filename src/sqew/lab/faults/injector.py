"""Decides what goes wrong in the calls of one actor.

All dice are rolled at every call, also those that don't matter this time. So a decision depends on the seed, the actor
and the number of its call, and on nothing else: not on which faults are switched on, nor on what happened before.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Literal, NoReturn

from msgspec import Struct

from sqew.errors import SqewError
from sqew.lab.config.model import CallFaults
from sqew.lab.events import Event
from sqew.lab.latency import Latencies

if TYPE_CHECKING:
    from sqew.lab.scene import Scene

Point = Literal["before_commit", "after_commit", "before_reply"]
Call = Literal["send", "receive", "ack", "retry", "extend", "query"]


class Injected(SqewError):
    """An error that the lab made up; nothing was done. Try again."""


class Died(BaseException):
    """What a crash is in virtual time, where there is no process to kill. Nobody but the lab may catch it."""


class Decision(Struct, frozen=True):
    """What goes wrong in one call."""

    call: Call
    index: int
    delay_ms: float = 0.0
    error: Literal["timeout", "transient"] | None = None
    crash: Point | None = None


class Injector:
    """Makes the decisions for one actor, in its thread."""

    def __init__(self, faults: CallFaults, scene: Scene, place: str, owner: str, life: int) -> None:
        self._faults, self._scene, self._owner = faults, scene, owner
        self._stream = f"{place}/{owner}/{life}"
        streams = scene.streams
        self._latencies = None
        if faults.latency is not None:
            generator = streams.generator(place, "latency", owner, life)
            self._latencies = Latencies(faults.latency, generator, scene.folder)
        self._errors = streams.dice(place, "error", owner, life)
        self._kinds = streams.dice(place, "kind of error", owner, life)
        self._crashes = streams.dice(place, "crash", owner, life)
        # What is to die once must not die of it in every life.
        self._dies_at = frozenset(faults.crash.at) if faults.crash is not None and life == 0 else frozenset[int]()
        self._calls = self._deadly_calls = 0
        self._last: Decision | None = None

    def decide(self, call: Call) -> Decision:
        """What goes wrong in the next call. It is on the log when it happens."""
        self._calls += 1
        index = self._calls
        delay_ms = 0.0 if self._latencies is None else self._latencies.draw_ms()
        error = self._kind(self._kinds.roll()) if self._errors.roll() < self._faults.error_rate else None
        crash, dies = self._faults.crash, self._crashes.roll()
        crashes = False
        # An application's database knows no calls but queries.
        if crash is not None and (call in crash.calls or call == "query"):
            self._deadly_calls += 1
            crashes = dies < crash.rate or self._deadly_calls in self._dies_at
        self._last = Decision(
            call,
            index,
            delay_ms if delay_ms and self._allowed("latency", index) else 0.0,
            error if error and self._allowed("error", index) else None,
            crash.point if crash is not None and crashes and self._allowed("crash", index) else None,
        )
        return self._last

    def _kind(self, roll: float) -> Literal["timeout", "transient"]:
        timeout, transient = (self._faults.errors.get(kind, 0.0) for kind in ("timeout", "transient"))
        return "timeout" if roll * (timeout + transient) < timeout else "transient"

    def _allowed(self, fault: str, index: int) -> bool:
        return self._scene.allows(f"{self._stream}/{fault}", index)

    def delay(self, decision: Decision) -> None:
        """Take as long as was decided."""
        if decision.delay_ms:
            self._note(decision, "latency", ms=round(decision.delay_ms, 3))
            self._scene.time.sleep(decision.delay_ms / 1000)

    def fail(self, decision: Decision) -> NoReturn:
        """Fail, with nothing done; of a timeout, after the time that a call waits for a lock."""
        self.note_error(decision)
        if decision.error == "timeout":
            self._scene.time.sleep(self._scene.config.sqlite.pragmas.busy_timeout_ms / 1000)
        raise Injected(f"An injected {decision.error} error of {decision.call} (call {decision.index}).")

    def note_error(self, decision: Decision) -> None:
        """Have it on the log that the call fails as was decided."""
        self._note(decision, "error", what=decision.error or "")

    def reach(self, point: Point, decision: Decision) -> None:
        """Die, if it was decided that the process dies here."""
        if decision.crash != point:
            return
        self._note(decision, "crash", what=point)
        self._scene.recorder.flush()
        if self._scene.time.is_virtual:
            raise Died(point)
        os.kill(os.getpid(), signal.SIGKILL)

    def replying(self) -> None:
        """The last call is done and everybody was told but the caller: die, if it was decided that it dies here."""
        if self._last is not None:
            self.reach("before_reply", self._last)

    def _note(self, decision: Decision, fault: str, *, what: str = "", ms: float | None = None) -> None:
        self._scene.recorder.record(
            Event(
                self._scene.time.now_us(), "fault", worker=self._owner, what=what or fault, where=decision.call,
                stream=f"{self._stream}/{fault}", index=decision.index, ms=ms,
            )
        )  # fmt: skip
