"""The reasons of redeliveries. At-least-once allows them for a reason: here the reason of each is looked for.

A delivery that nothing explains is a broken promise: after an ack that was confirmed, or while another worker held the
message by a lease. Calls that may have overlapped are judged in the queue's favour, so every problem that is counted
is certain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plainbench.verdict.log_columns import ACKED, DIED, NEVER, REFUSED, RETRIED, UNANSWERED, Flags, Log, Numbers
from plainbench.verdict.messages import Messages

RETRY, REFUSAL, CRASH, LEASE, DISTURBED, AFTER_ACK, AFTER_DEATH, EARLY = range(8)
CAUSES = {
    RETRY: "retried",
    REFUSAL: "ack failed",
    CRASH: "worker died",
    LEASE: "lease ran out",
    DISTURBED: "clock or connection",
}
"""The good reasons."""

_ROUNDING_US = 2_000
"""Queues keep time in milliseconds."""
_NOTICED_WITHIN_US = 1_000_000
"""A queue may notice that a worker's connection has gone before the lab notices that its process has. Where leases
outlive connections, and in virtual time, that is no excuse."""


class Redeliveries:
    """The deliveries that are not the first of their message, and the cause of each."""

    def __init__(self, log: Log, messages: Messages, *, is_virtual: bool = False) -> None:
        deliveries = messages.deliveries
        noticed = 0 if is_virtual or log.leases_outlive else _NOTICED_WITHIN_US
        self.rows: Numbers = np.flatnonzero(deliveries.key[1:] == deliveries.key[:-1]) + 1
        self.cause = _causes(self.rows, messages, np.sort(np.array(log.disturbed, np.int64)), log.set_back_us, noticed)


def _causes(rows: Numbers, messages: Messages, disturbed: Numbers, set_back_us: int, noticed_within: int) -> Numbers:
    deliveries, before = messages.deliveries, rows - 1
    at, began_at = deliveries.at[rows], deliveries.began_at[rows]
    end, ended_at = deliveries.end[before], deliveries.end_at[before]
    # The call that ended it had begun: then it may have been done, though the answer came later.
    ending = ended_at - deliveries.end_took[before] <= at
    acked_at, died_at = _of_message(messages, rows, messages.acked_at), _of_message(messages, rows, messages.died_at)
    lease_over = at >= deliveries.lease_from[before] + deliveries.lease_us[before] - _ROUNDING_US
    is_disturbed = np.searchsorted(disturbed, at, "right") > np.searchsorted(disturbed, deliveries.began_at[before])
    # Who started since then lives in the past: leases that it gives are over for the others at once.
    is_disturbed |= at >= set_back_us
    rules: Sequence[tuple[int, Flags]] = [
        (AFTER_ACK, acked_at < began_at),
        (AFTER_DEATH, died_at < began_at),
        (RETRY, (end == RETRIED) & ending),
        (REFUSAL, np.isin(end, (REFUSED, UNANSWERED)) & ending),
        (CRASH, deliveries.died_at[before] <= at + noticed_within),
        (LEASE, lease_over),
        (DISTURBED, is_disturbed),
        (AFTER_ACK, (end == ACKED) & ending),
        (AFTER_DEATH, (end == DIED) & ending),
    ]
    return np.select([met for _, met in rules], [cause for cause, _ in rules], EARLY)


def _of_message(messages: Messages, rows: Numbers, column: Numbers) -> Numbers:
    """Return a column of messages for deliveries; NEVER where the message was never sent."""
    of = messages.of_delivery[rows]
    values = np.full(len(rows), NEVER, np.int64)
    values[of >= 0] = column[of[of >= 0]]
    return values
