"""Whether FIFO topics kept the order within each group.

Messages are in order if the one was stored before the send of the other began, or if they went in one call. Then the
later one may not be delivered before the earlier one, nor while the earlier one is with a worker, unless both came in
one batch. What may have overlapped is judged in the queue's favour.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sqew.lab.verdict.log import NEVER, Flags, Numbers, topics_of
from sqew.lab.verdict.messages import Messages

_AGO = -1


def overtakers(messages: Messages, fifo_topics: Collection[int]) -> Numbers:
    """The keys of the messages that came out before one of their group that was sent earlier."""
    deliveries = messages.deliveries
    chosen = np.flatnonzero(np.isin(topics_of(messages.key), list(fifo_topics)) & (messages.count > 0))
    chosen = chosen[messages.sent_at[chosen] < NEVER]
    if not len(chosen):
        return messages.key[:0]
    first = messages.first[chosen]
    group = _ranks(topics_of(messages.key[chosen]), deliveries.group[first])
    order = np.lexsort((messages.key[chosen], messages.sent_at[chosen], group))
    chosen, first, group = chosen[order], first[order], group[order]
    rows = _Rows(
        group, messages.sent_at[chosen], messages.began_at[chosen], messages.call[chosen], deliveries.at[first],
        deliveries.worker[first],
    )  # fmt: skip
    began = deliveries.began_at[first]
    settled = _settled_from(messages)[chosen]
    late = rows.precede(began, within_batch=True) | rows.precede(settled, within_batch=False)
    return np.sort(messages.key[chosen[late]])


def _settled_from(messages: Messages) -> Numbers:
    """When the call began that settled a message for good; long ago for what nobody is known to have settled."""
    deliveries = messages.deliveries
    from_ = np.full(len(messages.key), _AGO, np.int64)
    rows = np.flatnonzero((messages.of_delivery >= 0) & (deliveries.end_at < NEVER))
    of = messages.of_delivery[rows]
    final = deliveries.end_at[rows] == np.minimum(messages.acked_at, messages.died_at)[of]
    rows, of = rows[final], of[final]
    from_[of] = deliveries.end_at[rows] - deliveries.end_took[rows]
    return from_


class _Rows:
    """Messages in the order in which they were sent, by group. ``at``: when they came out first."""

    def __init__(
        self, group: Numbers, sent_at: Numbers, began_at: Numbers, call: Numbers, at: Numbers, worker: Numbers
    ) -> None:
        self._group, self._call, self._at = group, call, at
        span = int(max(sent_at.max(), began_at.max(), at.max())) + 1
        # How many were stored in the whole of the groups before and, of this one, before this send began.
        self._before = np.searchsorted(group * span + sent_at, group * span + began_at)
        self._batch = _ranks(group, at, worker)
        self._place = np.arange(len(group))

    def precede(self, times: Numbers, within_batch: bool) -> Flags:
        """Whether any that was sent earlier has a later time than this one came out at."""
        before, calls = self._before, _starts(self._group, self._call)
        if not within_batch:
            firsts = np.full(int(self._batch.max()) + 1, len(self._place))
            np.minimum.at(firsts, self._batch, self._place)
            before = np.minimum(before, firsts[self._batch])
        earlier = _latest(times, self._group)
        found = (before > 0) & (self._group[before - 1] == self._group) & (earlier[before - 1] > self._at)
        in_call = (self._place > calls) & within_batch
        same_call = _latest(times, calls)
        found |= in_call & (same_call[self._place - 1] > self._at)
        return np.asarray(found)


def _latest(times: Numbers, segment: Numbers) -> Numbers:
    """The running maximum within each segment; segments are numbered upwards."""
    low, span = int(times.min()), int(times.max() - times.min()) + 1
    return np.maximum.accumulate(times - low + segment * span) - segment * span + low


def _starts(*columns: Numbers) -> Numbers:
    """For each row, where the run of rows that are equal in all columns begins."""
    size = len(columns[0])
    changes = np.zeros(size, bool)
    changes[0] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.maximum.accumulate(np.where(changes, np.arange(size), 0))


def _ranks(*columns: Numbers) -> Numbers:
    """The same number for the same values, upwards from 0, as the values sort."""
    order = np.lexsort(columns[::-1])
    starts = _starts(*(column[order] for column in columns))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(starts == np.arange(len(order))) - 1
    return ranks
