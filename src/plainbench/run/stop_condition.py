"""The conditions under which a run ends."""

from __future__ import annotations

from collections.abc import Mapping

from plainbench.config.model import Until

OPEN = frozenset({"ready", "leased", "delayed", "blocked"})
"""The states of a message that is yet to be settled."""
_LOOKS = 2
"""Looks in a row at which everything must be settled: between two counts a message may move from one to the other."""


class StopCondition:
    """The end of a run, decided by the depths of all topics."""

    def __init__(self, until: Until) -> None:
        self._until = until
        self._settled = 0
        self._last: object = None
        self._moved_us = 0

    def why(self, now_us: int, sending: bool, depths: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str | None:
        """Return why the run is over: ``settled``, ``idle`` or ``time``; None if it is not."""
        if now_us >= self._until.most_s * 1e6:
            return "time"
        open_ = sum(
            count for lanes in depths.values() for lane in lanes.values() for state, count in lane.items()
            if state in OPEN
        )  # fmt: skip
        if sending or depths != self._last:
            self._last, self._moved_us = depths, now_us
        self._settled = 0 if sending or open_ else self._settled + 1
        if self._settled >= _LOOKS:
            return "settled"
        return "idle" if now_us - self._moved_us >= self._until.idle_s * 1e6 else None
