"""The fate of every message: from the log's columns to a row for each message and one for each delivery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from plainbench.verdict.log_columns import (
    ACKED,
    DIED,
    FOUND,
    LEFT,
    NEVER,
    RECEIVED,
    RETRIED,
    SENDING,
    SENT,
    UNANSWERED,
    UNSENT,
    UNSURE,
    Death,
    Flags,
    Log,
    Numbers,
    keys_of,
)

_OPEN = RECEIVED
"""The end of a delivery that has none."""


def process_of(slot: str) -> str:
    """Return the worker or generator that a slot belongs to: all its slots die together."""
    return slot.rpartition("/")[0] or slot


class Sends:
    """A row for each call that sent messages, with its outcome."""

    def __init__(self, log: Log) -> None:
        rows = log.sends
        first_keys = keys_of(rows["topic"], rows["first"])
        self.keys, first_rows, calls = np.unique(first_keys, return_index=True, return_inverse=True)
        self.counts = (rows["last"] - rows["first"] + 1)[first_rows]
        self.lane, self.sender = rows["lane"][first_rows], rows["worker"][first_rows]
        self.group = np.where(self.counts == 1, rows["group"][first_rows], -1)
        """Group of a single message; -1: unknown, as several went in one call."""
        self.outcome = np.full(len(self.keys), UNSURE, np.int64)
        """SENT; UNSENT: it was refused, and nothing was stored; UNSURE: no answer came."""
        self.began_at = self._times(calls, rows["kind"] == SENDING, rows["at"])
        said = rows["kind"] != SENDING
        for kind in (UNSENT, UNSURE, SENT):  # what came last counts, and nothing comes after SENT
            self.outcome[calls[said & (rows["kind"] == kind)]] = kind
        is_sent = rows["kind"] == SENT
        self.sent_at = self._times(calls, is_sent, rows["at"])
        self.due = self._times(calls, rows["due"] < NEVER, rows["due"])
        self.began_at = np.where(self.began_at == NEVER, self.sent_at, self.began_at)
        self._doubt_the_dead(log)

    def _times(self, calls: Numbers, rows: Flags, values: Numbers) -> Numbers:
        times = np.full(len(self.keys), NEVER, np.int64)
        times[calls[rows]] = values[rows]
        return times

    def _doubt_the_dead(self, log: Log) -> None:
        """Mark refusals of senders that died as UNSURE: the last of several tries may have been stored."""
        died = {death.who for death in log.deaths}
        doubtful = [code for name, code in log.workers.items() if name in died or process_of(name) in died]
        self.outcome[(self.outcome == UNSENT) & np.isin(self.sender, doubtful)] = UNSURE

    def spread(self, column: Numbers) -> Numbers:
        """Return a column of calls as a column of their messages."""
        return np.repeat(column, self.counts)

    def message_keys(self) -> Numbers:
        firsts = np.repeat(self.keys - np.cumsum(self.counts) + self.counts, self.counts)
        return firsts + np.arange(len(firsts))


class Deliveries:
    """A row for each delivery with its end, by message and time."""

    def __init__(self, log: Log, leases_us: Mapping[str, int]) -> None:
        rows = log.handled
        keys = keys_of(rows["topic"], rows["n"])
        # The log of a worker is in order, so this leaves each delivery's end right behind it.
        order = np.lexsort((rows["at"], rows["worker"], keys))
        kind = rows["kind"][order]
        received = np.flatnonzero(kind == RECEIVED)
        follows = np.minimum(received + 1, len(order) - 1)
        starts, ends = order[received], order[follows]
        is_end = (
            (kind[follows] != RECEIVED)
            & (keys[starts] == keys[ends])
            & (rows["worker"][starts] == rows["worker"][ends])
        )
        again = np.lexsort((rows["at"][starts], keys[starts]))
        starts, ends, is_end = starts[again], ends[again], is_end[again]

        self.key, self.at, self.took = keys[starts], rows["at"][starts], rows["took"][starts]
        self.worker, self.lane, self.group = rows["worker"][starts], rows["lane"][starts], rows["group"][starts]
        self.attempt, self.row, self.check = rows["attempt"][starts], starts, rows["check"][starts]
        self.end = np.where(is_end, rows["kind"][ends], _OPEN)
        self.end_at = np.where(is_end, rows["at"][ends], NEVER)
        self.end_took = np.where(is_end, rows["took"][ends], 0)
        self.lease_us = _by_worker(log, leases_us)[self.worker]
        self.died_at = np.full(len(self.key), NEVER, np.int64)
        """Time at which the worker of a delivery without an end died, if it did."""
        self.surely_open = np.zeros(len(self.key), bool)
        """True if it died where it can't have settled anything."""
        self._find_deaths(log.deaths, log)
        self.lease_from = self._lease_from(log)
        """Start of the call by which it is leased: the one that brought it, or the last that extended the lease."""

    @property
    def began_at(self) -> Numbers:
        """Start of the call that brought each delivery."""
        return self.at - self.took

    @property
    def maybe_acked(self) -> Flags:
        return np.asarray((self.end == UNANSWERED) | ((self.end == _OPEN) & ~self.surely_open))

    @property
    def may_settle_until(self) -> Numbers:
        """Latest time at which a delivery that may be acked can have been."""
        return np.where(self.end == UNANSWERED, self.end_at, self.died_at)

    def _lease_from(self, log: Log) -> Numbers:
        """Return the start of the call by which each delivery is leased.

        Extensions count while no other worker has the message, and each only if it was answered within the lease
        before: a later one may have come too late.
        """
        from_ = self.began_at.copy()
        rows, size = log.extends, len(self.key)
        if not len(rows["n"]) or not size:
            return from_
        keys = keys_of(rows["topic"], rows["n"])
        order = np.lexsort((np.append(self.at, rows["at"]), np.append(self.key, keys)))
        latest = np.empty(len(order), np.int64)
        # The delivery that came last before each: all are by message and time.
        latest[order] = np.maximum.accumulate(np.where(order < size, order, 0))
        of = latest[size:]
        known = (self.key[of] == keys) & (self.worker[of] == rows["worker"]) & (rows["at"] >= self.at[of])
        by_time = np.flatnonzero(known)[np.lexsort((rows["at"][known], of[known]))]
        of, at, began = of[by_time], rows["at"][by_time], (rows["at"] - rows["took"])[by_time]
        if not len(of):
            return from_
        is_first = np.append(True, of[1:] != of[:-1])
        before = np.where(is_first, from_[of], np.append(0, began[:-1]))
        too_late = np.cumsum(at > before + self.lease_us[of])
        starts = np.maximum.accumulate(np.where(is_first, np.arange(len(of)), 0))
        late_before = np.append(0, too_late)[starts]
        counts = too_late == late_before
        np.maximum.at(from_, of[counts], began[counts])
        return from_

    def _find_deaths(self, deaths: Sequence[Death], log: Log) -> None:
        open_ = self.end == _OPEN
        by_who: dict[str, list[Death]] = {}
        for death in sorted(deaths, key=lambda death: death.at):
            by_who.setdefault(death.who, []).append(death)
        for name, code in log.workers.items():
            own, process = by_who.get(name, []), by_who.get(process_of(name), [])
            known = sorted([*own, *(process if process_of(name) != name else [])], key=lambda death: death.at)
            if not known:
                continue
            rows = np.flatnonzero(open_ & (self.worker == code))
            times = np.array([death.at for death in known], np.int64)
            settling = np.array([death.settling for death in known], bool)
            first = np.searchsorted(times, self.at[rows])
            dead = first < len(times)
            self.died_at[rows[dead]] = times[first[dead]]
            self.surely_open[rows[dead]] = ~settling[first[dead]]


def _by_worker(log: Log, leases_us: Mapping[str, int]) -> Numbers:
    longest = max(leases_us.values(), default=0)
    leases = [leases_us.get(process_of(name), longest) for name in log.workers]
    return np.array(leases or [0], np.int64)


class Messages:
    """A row for each message that was sent, or was there before; by topic and number."""

    def __init__(self, log: Log, leases_us: Mapping[str, int]) -> None:
        self.sends = sends = Sends(log)
        self.deliveries = deliveries = Deliveries(log, leases_us)
        places = log.places
        place_keys = keys_of(places["topic"], places["n"])
        dead = log.wheres.get("dead", -1)
        found = places["kind"] == FOUND
        sent_keys, found_keys = sends.message_keys(), place_keys[found]
        self.key = np.union1d(sent_keys, found_keys)
        self.both = np.intersect1d(sent_keys, found_keys)
        """Messages of an earlier run that have numbers of this one: they can't be told apart."""
        size = len(self.key)

        at = np.searchsorted(self.key, sent_keys)
        self.outcome = np.full(size, SENT, np.int64)
        self.outcome[at] = sends.spread(sends.outcome)
        self.sent_at, self.due, self.began_at = (np.full(size, NEVER, np.int64) for _ in range(3))
        self.sent_at[at], self.due[at] = sends.spread(sends.sent_at), sends.spread(sends.due)
        self.began_at[at] = sends.spread(sends.began_at)
        self.call = np.full(size, -1, np.int64)
        self.call[at] = sends.spread(np.arange(len(sends.keys)))
        self._no_lane = log.lanes[""]
        self.lane = np.full(size, self._no_lane, np.int64)
        self.lane[at] = sends.spread(sends.lane)
        self.group = np.full(size, -1, np.int64)
        """Group as it was sent; -1: unknown."""
        self.group[at] = sends.spread(sends.group)
        self.check = np.full(size, -1, np.int64)
        """Checksum of what was sent; -1: unknown."""
        checked = _rows(self.key, keys_of(log.checks["topic"], log.checks["n"]))
        self.check[checked[checked >= 0]] = log.checks["check"][checked >= 0]
        self.is_found = _marked(self.key, found_keys)
        self.was_dead = _marked(self.key, place_keys[found & (places["where"] == dead)])
        """True if it was a dead letter before: it is not expected to come out."""

        is_left = places["kind"] == LEFT
        self.is_left = _marked(self.key, place_keys[is_left])
        self.left_dead = _marked(self.key, place_keys[is_left & (places["where"] == dead)])

        self.of_delivery = _rows(self.key, deliveries.key)
        """Row of the message that a delivery is of; -1: the message was never sent."""
        self._follow_deliveries()

    def _follow_deliveries(self) -> None:
        deliveries, size = self.deliveries, len(self.key)
        known = self.of_delivery >= 0
        of, by = self.of_delivery[known], np.flatnonzero(known)
        self.count = np.bincount(of, minlength=size)
        self.first = np.full(size, -1, np.int64)
        # They are in the order of time: written backwards, the first one stays.
        self.first[of[::-1]] = by[::-1]
        self.received_at = np.full(size, NEVER, np.int64)
        self.received_at[self.count > 0] = deliveries.at[self.first[self.count > 0]]
        self.acked_at = self._earliest(of, by, ACKED)
        self.died_at = self._earliest(of, by, DIED)
        self.retried = np.bincount(of[deliveries.end[by] == RETRIED], minlength=size)
        last = np.full(size, -1, np.int64)
        last[of] = by
        # If it came again after that, it had not been acked by then.
        maybe = deliveries.maybe_acked[by] & (
            (by == last[of]) | (deliveries.may_settle_until[by] >= deliveries.began_at[last[of]])
        )
        self.maybe_acked = np.bincount(of[maybe], minlength=size) > 0
        self.attempts = np.zeros(size, np.int64)
        np.maximum.at(self.attempts, of, deliveries.attempt[by])
        lane_known = (self.count > 0) & (self.lane == self._no_lane)
        self.lane[lane_known] = deliveries.lane[self.first[lane_known]]
        # An ack that nobody heard of because the worker died: at the latest it was when it died.
        self.gone_by = np.full(size, NEVER, np.int64)
        open_ = maybe & (deliveries.died_at[by] < NEVER)
        np.minimum.at(self.gone_by, of[open_], deliveries.died_at[by][open_])

    @property
    def changed(self) -> Flags:
        """Deliveries whose body, lane or group is not what was sent."""
        of, check = self.of_delivery, self.deliveries.check
        sent = np.append(self.check, -1)[of]  # -1, of what nobody sent, is the last one
        return np.asarray((sent >= 0) & (check >= 0) & (sent != check))

    def _earliest(self, of: Numbers, by: Numbers, end: int) -> Numbers:
        times = np.full(len(self.key), NEVER, np.int64)
        ended = self.deliveries.end[by] == end
        np.minimum.at(times, of[ended], self.deliveries.end_at[by][ended])
        return times


def _marked(keys: Numbers, marks: Numbers) -> Flags:
    flags = np.zeros(len(keys), bool)
    rows = _rows(keys, marks)
    flags[rows[rows >= 0]] = True
    return flags


def _rows(keys: Numbers, wanted: Numbers) -> Numbers:
    """Return the position of each wanted key among the sorted keys; -1: it is not there."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    rows = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[rows] == wanted, rows, -1)
