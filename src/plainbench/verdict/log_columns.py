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
"""Time of an event that has not happened."""

SENDING, SENT, UNSENT, UNSURE = range(4)
RECEIVED, ACKED, RETRIED, DIED, REFUSED, UNANSWERED = range(6)
"""Events of a delivery. UNANSWERED: it is unknown whether the queue did as it was asked."""
FOUND, LEFT = range(2)

_TOPIC_BITS = 48
_HALF = 1 << 47


def keys_of(topic: Numbers, number: Numbers) -> Numbers:
    """Return one number for each message, made of its topic and its number. They sort by topic, then by number."""
    return (topic << _TOPIC_BITS) + number + _HALF


def topics_of(keys: Numbers) -> Numbers:
    return keys >> _TOPIC_BITS


def numbers_of(keys: Numbers) -> Numbers:
    return (keys & ((1 << _TOPIC_BITS) - 1)) - _HALF


class Codes(dict[Any, int]):
    """Numbers for values: a value that has none gets the next."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code


class Death(Struct, frozen=True):
    """The death of a consumer or of a whole process. ``settling``: the ack or retry under way may have been done."""

    at: int
    who: str
    settling: bool = True


class Log:
    """The contents of a run's log. The columns of each table are in the order of the log, a file after another."""

    def __init__(self) -> None:
        self.topics, self.lanes, self.workers, self.groups, self.wheres = Codes(), Codes(), Codes(), Codes(), Codes()
        self.sends: dict[str, Numbers] = {}
        self.handled: dict[str, Numbers] = {}
        self.places: dict[str, Numbers] = {}
        self.checks: dict[str, Numbers] = {}
        """Checksums of sent messages, a row for each."""
        self.extends: dict[str, Numbers] = {}
        """Extensions of leases."""
        self.drops: dict[str, Numbers] = {}
        """Messages that were never sent, because the generator was too late for them."""
        self.deaths: list[Death] = []
        self.disturbed: list[int] = []
        """Times at which the clock jumped or a connection was cut: a lease may have ended early."""
        self.set_back_us = NEVER
        """Time at which a clock first jumped back: from then on processes disagree about the time of day."""
        self.faults: Counter[tuple[str, str]] = Counter()
        """Number of faults, by name and call."""
        self.fired: set[tuple[str, str]] = set()
        """Faults that happened, and their targets: the queue, the db, the network …"""
        self.dropped: Counter[str] = Counter()
        self.ready: dict[tuple[str, str], int] = {}
        """Number of ready messages at the last look, by topic and lane."""
        self.hindered_us = -1
        """Last time at which a fault kept a worker from receiving."""
        self.worker_reports: list[Event] = []
        self.wal_bytes = 0
        self.ended, self.reason = "", ""
        self.left_unknown = False
        """True if the messages left in the queue could not be read; the reason is in ``reason``."""
        self.shows_dead = self.leases_outlive = False
        """Abilities of the driver: see `plainbench.drivers.base.Driver`."""
        self.ended_us = 0
        self.events = 0
