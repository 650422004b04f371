"""A run's event log as columns of numbers, so that millions of events fit into memory and are counted in seconds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from msgspec import Struct

from plainbench.record.events import Event

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

NEVER = np.iinfo(np.int64).max
"""The time of what has not happened."""

SENDING, SENT, UNSENT, UNSURE = range(4)
RECEIVED, ACKED, RETRIED, DIED, REFUSED, UNANSWERED = range(6)
"""What happened to a delivery. UNANSWERED: nobody knows whether what was asked was done."""
FOUND, LEFT = range(2)

_TOPIC_BITS = 48
_HALF = 1 << 47


def keys_of(topic: Numbers, number: Numbers) -> Numbers:
    """One number for a message: of which topic, and the how-many-th. They sort by topic, then by number."""
    return (topic << _TOPIC_BITS) + number + _HALF


def topics_of(keys: Numbers) -> Numbers:
    return keys >> _TOPIC_BITS


def numbers_of(keys: Numbers) -> Numbers:
    return (keys & ((1 << _TOPIC_BITS) - 1)) - _HALF


class Codes(dict[Any, int]):
    """Numbers for values: one that has none gets the next."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code


class Death(Struct, frozen=True):
    """A slot or the process of a worker or generator died. ``settling``: what it had asked for may have been done."""

    at: int
    who: str
    settling: bool = True


class Log:
    """What a run's log holds. The columns of each table are in the order of the log, a file after another."""

    def __init__(self) -> None:
        self.topics, self.lanes, self.workers, self.groups, self.wheres = Codes(), Codes(), Codes(), Codes(), Codes()
        self.sends: dict[str, Numbers] = {}
        self.handled: dict[str, Numbers] = {}
        self.places: dict[str, Numbers] = {}
        self.checks: dict[str, Numbers] = {}
        """The checksums of what was sent, a row for each message."""
        self.extends: dict[str, Numbers] = {}
        """Leases that were made longer."""
        self.drops: dict[str, Numbers] = {}
        """What was never sent, because the generator was too late for it."""
        self.deaths: list[Death] = []
        self.disturbed: list[int] = []
        """When the clock jumped or a connection was cut: a lease may have ended early."""
        self.set_back_us = NEVER
        """When a clock jumped back for the first time: from then on processes disagree about the time of day."""
        self.faults: Counter[tuple[str, str]] = Counter()
        """By what happened and in which call."""
        self.fired: set[tuple[str, str]] = set()
        """What happened, and to what: the queue, the db, the network …"""
        self.dropped: Counter[str] = Counter()
        self.ready: dict[tuple[str, str], int] = {}
        """By topic and lane: how many were ready when somebody looked last."""
        self.hindered_us = -1
        """When a fault kept a worker from receiving, the last time."""
        self.worker_reports: list[Event] = []
        self.wal_bytes = 0
        self.ended, self.reason = "", ""
        self.left_unknown = False
        """Nobody could look what was left in the queue; why is in ``reason``."""
        self.shows_dead = self.leases_outlive = False
        """Of the driver: see `plainbench.drivers.base.Driver`."""
        self.ended_us = 0
        self.events = 0
