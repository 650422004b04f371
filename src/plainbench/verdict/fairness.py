"""Fairness between the lanes of a topic: the time that each had to wait while others were served."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from plainbench.verdict.log_columns import NEVER, Log, Numbers, topics_of
from plainbench.verdict.messages import Messages

_TURNS = 100
"""Number of turns that a lane must miss in a row to have starved."""


class LaneShare(Struct, frozen=True):
    """The share that a lane got."""

    topic: str
    lane: str
    weight_share: float
    """The share that its weight promises, of 1."""
    share: float | None
    """The share that it got while each lane alone could have filled the calls; None: that was never so."""
    contended: int
    """Number of deliveries over which that was counted."""
    starved_ms: float
    """The longest time in which it had messages waiting and got nothing, while another lane did."""
    passed_over: int
    """Number of deliveries from other lanes in that time."""
    has_starved: bool = False


def shares(
    log: Log, messages: Messages, weights: Mapping[str, Mapping[str, int]], batch: int, ended_us: int
) -> list[LaneShare]:
    """Return the share of each lane of topics that have several. ``batch``: the most that a worker takes in a turn."""
    return [
        share
        for topic, lanes in weights.items()
        if len(lanes) > 1 and topic in log.topics
        for share in _Topic(log, messages, topic, lanes, ended_us).shares(batch)
    ]


class _Topic:
    def __init__(self, log: Log, messages: Messages, topic: str, weights: Mapping[str, int], ended_us: int) -> None:
        self._topic, self._weights, self._ended_us = topic, weights, ended_us
        mine = topics_of(messages.key) == log.topics[topic]
        came = messages.deliveries
        of_topic = topics_of(came.key) == log.topics[topic]
        self._stored: dict[str, Numbers] = {}
        """Times at which messages of a lane began to wait …"""
        self._taken: dict[str, Numbers] = {}
        """… at which they ceased to …"""
        self._served: dict[str, Numbers] = {}
        """… and at which the lane was served at all, with redeliveries."""
        self._asked: dict[str, Numbers] = {}
        """Times at which the calls began that served it."""
        self._claimed: dict[str, Numbers] = {}
        """Times at which the calls began that brought its messages first: from then on they may be gone."""
        for lane in weights:
            code = log.lanes.get(lane, -1)
            rows = mine & (messages.lane == code) & ~messages.was_dead
            waiting = np.minimum(np.where(messages.is_found, 0, messages.sent_at), messages.received_at)[rows]
            self._stored[lane] = np.sort(waiting[waiting < NEVER])
            taken = messages.received_at[rows]
            self._taken[lane] = np.sort(taken[taken < NEVER])
            first = messages.first[rows & (messages.count > 0)]
            self._claimed[lane] = np.sort(came.began_at[first])
            rows = of_topic & (came.lane == code)
            in_time = np.argsort(came.at[rows], kind="stable")
            self._served[lane] = came.at[rows][in_time]
            self._asked[lane] = came.began_at[rows][in_time]

    def shares(self, batch: int) -> list[LaneShare]:
        total = sum(self._weights.values())
        asked, lane_of = self._deliveries()
        contended = np.ones(len(asked), bool)
        for lane in self._weights:
            # The queue had a choice: each lane alone could have filled the call, with what waited when it began and no
            # call under way might take. What came of the call must not matter: that would favour one of the lanes.
            waited = np.searchsorted(self._stored[lane], asked) - np.searchsorted(self._claimed[lane], asked)
            contended &= waited >= batch
        counted = int(contended.sum())
        shares = []
        for number, (lane, weight) in enumerate(self._weights.items()):
            starved_us, passed_over, most = self._longest_wait(lane)
            got = int((lane_of[contended] == number).sum())
            share = weight / total
            shares.append(
                LaneShare(
                    self._topic, lane, share, got / counted if counted else None, counted, starved_us / 1000,
                    passed_over, most * share / batch >= _TURNS,
                )
            )  # fmt: skip
        return shares

    def _deliveries(self) -> tuple[Numbers, Numbers]:
        asked = np.concatenate([self._asked[lane] for lane in self._weights])
        lane_of = np.repeat(np.arange(len(self._weights)), [len(self._served[lane]) for lane in self._weights])
        return asked, lane_of

    def _longest_wait(self, lane: str) -> tuple[int, int, int]:
        """Return the longest time in which messages waited and none came while others did.

        Also return how many others came in that time, and how many at most in any such time.
        """
        stored, taken, served = self._stored[lane], self._taken[lane], np.unique(self._served[lane])
        if not len(stored):
            return 0, 0, 0
        from_, until = np.append(0, served), np.append(served, max(self._ended_us, 0))
        # The first that waits after so many were taken; where all were, there is none.
        next_ = np.searchsorted(taken, from_, "right") if len(served) else np.zeros(1, np.int64)
        next_[0] = 0
        waits = next_ < len(stored)
        from_, until = np.maximum(from_[waits], stored[next_[waits]]), until[waits]
        others = np.sort(np.concatenate([self._served[other] for other in self._weights if other != lane]))
        passed = np.searchsorted(others, until) - np.searchsorted(others, from_, "right")
        length = np.where(passed > 0, until - from_, 0)
        if not len(length) or length.max() <= 0:
            return 0, 0, 0
        worst = int(length.argmax())
        return int(length[worst]), int(passed[worst]), int(passed.max())
