"""Latencies of messages, from raw samples. An event that never happened took for ever, and stays in the count.

All times count from when a message was *due*: if the generator or the queue was held up, a message that was due
meanwhile had to wait, and its wait shows.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from plainbench.verdict.log_columns import ACKED, NEVER, REFUSED, UNANSWERED, Flags, Numbers
from plainbench.verdict.messages import Messages
from plainbench.verdict.verdict import Evidence

_QUANTILES = (0.5, 0.95, 0.99, 0.999)


class Quantiles(Struct, frozen=True):
    """Quantiles in milliseconds. ``None`` is for ever: so many samples are missing that the quantile is of those."""

    count: int
    """All samples, the missing ones included."""
    missing: int
    """Samples that should have happened and did not, as far as the run goes."""
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None


def quantiles(took_us: Numbers) -> Quantiles:
    """Return exact quantiles of samples: each is a sample that at least that part of all does not exceed.

    >>> quantiles(np.array([1000, 2000, 3000, NEVER]))
    Quantiles(count=4, missing=1, p50=2.0, p95=None, p99=None, p999=None, max=None)
    """
    count = len(took_us)
    missing = int(np.count_nonzero(took_us == NEVER))
    if not count:
        return Quantiles(0, 0)
    ranks = [min(count, max(1, int(np.ceil(part * count)))) - 1 for part in _QUANTILES] + [count - 1]
    ordered = np.partition(took_us, sorted(set(ranks)))
    return Quantiles(count, missing, *(_ms(int(ordered[rank])) for rank in ranks))


def _ms(us: int) -> float | None:
    return None if us == NEVER else us / 1000


class Samples:
    """The samples, a row for each message that was to be sent in this run, whatever came of it; in microseconds.

    A message that the generator dropped was never tried: it has no row, and counts in `until_stored` alone.
    """

    def __init__(self, known: Evidence) -> None:
        messages = known.messages
        self.rows: Numbers = np.flatnonzero((messages.due < NEVER) & ~messages.is_found)
        self.due = messages.due[self.rows]
        self.lane = messages.lane[self.rows]
        self.key = messages.key[self.rows]
        self._drops = known.log.drops
        self.to_stored = self._since_due(messages.sent_at)
        self.to_claim = self._since_due(messages.received_at)
        self.done_at = _done_at(messages)[self.rows]
        self.to_ack = self._since_due(_done_at(messages))
        self.claimed_by, self.acked_by = _claimers(messages)[self.rows], _ackers(messages)[self.rows]

    def until_stored(self, chosen: Flags, topic: int | None, lane: int | None) -> Numbers:
        """Return the times from due to stored: of the chosen rows, and `NEVER` for each drop of the topic and lane."""
        drops = self._drops
        dropped = (drops["topic"] == topic) & ((drops["lane"] == lane) if lane is not None else True)
        return np.append(self.to_stored[chosen], np.full(int(np.count_nonzero(dropped)), NEVER, np.int64))

    def _since_due(self, at: Numbers) -> Numbers:
        at = at[self.rows]
        # In one log a message may be received before the answer to its send is noted, never before it was due.
        return np.where(at == NEVER, NEVER, np.maximum(at - self.due, 0))


def _done_at(messages: Messages) -> Numbers:
    """Return when messages were acked. For an ack without an answer: when its worker died, which is later."""
    unheard = np.where(messages.is_left, NEVER, messages.gone_by)
    return np.where(messages.acked_at < NEVER, messages.acked_at, unheard)


def _claimers(messages: Messages) -> Numbers:
    workers = np.full(len(messages.key), -1, np.int64)
    came = messages.count > 0
    workers[came] = messages.deliveries.worker[messages.first[came]]
    return workers


def _ackers(messages: Messages) -> Numbers:
    workers = np.full(len(messages.key), -1, np.int64)
    rows = np.flatnonzero((messages.deliveries.end == ACKED) & (messages.of_delivery >= 0))
    workers[messages.of_delivery[rows][::-1]] = messages.deliveries.worker[rows[::-1]]
    return workers


def held(known: Evidence, chosen: Flags) -> Numbers:
    """Return the times from claim to ack of deliveries that were to be acked: not of those given back on purpose."""
    deliveries = known.messages.deliveries
    acked = deliveries.end == ACKED
    failed = np.isin(deliveries.end, (REFUSED, UNANSWERED)) | (deliveries.end_at == NEVER)
    took = np.where(acked, deliveries.end_at - deliveries.at, NEVER)
    return np.asarray(took[(acked | failed) & chosen])
