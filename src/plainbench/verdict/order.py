"""The order of FIFO topics: did each group keep it?

Messages are in order if the one was stored before the send of the other began, or if they went in one call. Then the
later one may not be delivered before the earlier one, nor while the earlier one is with a worker, unless both came in
one batch. Calls that may have overlapped are judged in the queue's favour.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from plainbench.verdict.log_columns import NEVER, Flags, Numbers, topics_of
from plainbench.verdict.messages import Messages

_AGO = -1


def overtakers(messages: Messages, fifo_topics: Collection[int]) -> Numbers:
    """Return the keys of the messages that came out before one of their group that was sent earlier."""
    deliveries = messages.deliveries
    chosen = np.flatnonzero(np.isin(topics_of(messages.key), list(fifo_topics)) & (messages.count > 0))
    chosen = chosen[messages.sent_at[chosen] < NEVER]
    if not len(chosen):
        return messages.key[:0]
    first = messages.first[chosen]
    # The group is what was sent. Of batches it is not on the log: there the queue's word is checked by the checksum.
    sent = messages.group[chosen]
    group = _ranks(topics_of(messages.key[chosen]), np.where(sent >= 0, sent, deliveries.group[first]))
    order = np.lexsort((messages.key[chosen], messages.sent_at[chosen], group))
    chosen, first, group = chosen[order], first[order], group[order]
    rows = _Rows(
        group, messages.sent_at[chosen], messages.began_at[chosen], messages.call[chosen], deliveries.at[first]
    )
    late = rows.follow(deliveries.began_at[first]) | rows.follow(
        _settled_from(messages)[chosen], _first_of_batch(messages, chosen, first)
    )
    return np.sort(messages.key[chosen[late]])


def _first_of_batch(messages: Messages, chosen: Numbers, first: Numbers) -> Numbers:
    """Return, for each message, the place of the first message, new or again, in the batch that brought it first."""
    deliveries = messages.deliveries
    places = np.full(len(messages.key) + 1, -1, np.int64)
    places[chosen] = np.arange(len(chosen))
    place = places[messages.of_delivery]  # -1, of what nobody sent, is the last one
    batch = _ranks(topics_of(deliveries.key), deliveries.group, deliveries.at, deliveries.worker)
    firsts = np.full(int(batch.max()) + 1, len(chosen), np.int64)
    known = place >= 0
    np.minimum.at(firsts, batch[known], place[known])
    return np.asarray(firsts[batch[first]])


def _settled_from(messages: Messages) -> Numbers:
    """Return when the call began that settled a message for good; long ago for messages not known to be settled."""
    deliveries = messages.deliveries
    from_ = np.full(len(messages.key), _AGO, np.int64)
    rows = np.flatnonzero((messages.of_delivery >= 0) & (deliveries.end_at < NEVER))
    of = messages.of_delivery[rows]
    final = deliveries.end_at[rows] == np.minimum(messages.acked_at, messages.died_at)[of]
    rows, of = rows[final], of[final]
    from_[of] = deliveries.end_at[rows] - deliveries.end_took[rows]
    return from_


class _Rows:
    """Messages in the order in which they were sent, by group. ``at``: the time at which they came out first."""

    def __init__(self, group: Numbers, sent_at: Numbers, began_at: Numbers, call: Numbers, at: Numbers) -> None:
        self._group, self._at = group, at
        self._calls = _starts(group, call)
        span = int(max(sent_at.max(), began_at.max())) + 1
        # How many were stored in the whole of the groups before and, of this one, before this send began.
        self._before = np.searchsorted(group * span + sent_at, group * span + began_at)
        self._place = np.arange(len(group))

    def follow(self, times: Numbers, upto: Numbers | None = None) -> Flags:
        """Mark rows that came out before the time of any row sent earlier. ``upto``: of the rows before that place."""
        before, in_call = self._before, self._place
        if upto is not None:
            before, in_call = np.minimum(before, upto), np.minimum(in_call, upto)
        return self._later(times, before, self._group) | self._later(times, in_call, self._calls)

    def _later(self, times: Numbers, before: Numbers, segment: Numbers) -> Flags:
        latest = _latest(times, segment)
        return np.asarray((before > 0) & (segment[before - 1] == segment) & (latest[before - 1] > self._at))


def _latest(times: Numbers, segment: Numbers) -> Numbers:
    """Return the running maximum within each segment; segments are numbered upwards."""
    low, span = int(times.min()), int(times.max() - times.min()) + 1
    return np.maximum.accumulate(times - low + segment * span) - segment * span + low


def _starts(*columns: Numbers) -> Numbers:
    """Return, for each row, the beginning of the run of rows that are equal in all columns."""
    size = len(columns[0])
    changes = np.zeros(size, bool)
    changes[0] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.maximum.accumulate(np.where(changes, np.arange(size), 0))


def _ranks(*columns: Numbers) -> Numbers:
    """Return the same number for the same values, upwards from 0, as the values sort."""
    order = np.lexsort(columns[::-1])
    starts = _starts(*(column[order] for column in columns))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(starts == np.arange(len(order))) - 1
    return ranks
