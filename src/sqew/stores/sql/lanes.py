"""Lanes: smooth weighted round-robin.

Every turn each lane that has work gains its weight; the lane that stands highest is served and pays the sum of those
weights. So a lane of weight 3 beside one of weight 1 gets 3 of 4 turns, evenly spread, and none ever starves. The
standing is stored, and so fair across processes and restarts.
"""

from __future__ import annotations

from collections.abc import Collection

from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.transaction import Work


def next_turn(turns: dict[int, int], ready: Collection[int], state: QueueState) -> int:
    """Return the lane whose turn it is, among those that have work, and update their standing."""
    weights = {lane: state.policy.lanes[state.lane_names[lane]] for lane in ready}
    for lane, weight in weights.items():
        turns[lane] += weight
    # Of those that stand equally high, the heavier one; of those, the one that was named first.
    served = max(ready, key=lambda lane: (turns[lane], weights[lane], -lane))
    turns[served] -= sum(weights.values())
    return served


def turns_of(work: Work, state: QueueState) -> dict[int, int]:
    """Return the standing of the lanes."""
    if state.turns is None:
        state.turns = dict(work.execute(work.sql.read_turns, (state.id,)).fetchall())
    return state.turns


def save_turns(work: Work, state: QueueState) -> None:
    turns = turns_of(work, state)
    work.executemany(work.sql.save_turns, [(state.id, lane, turn) for lane, turn in turns.items()])
