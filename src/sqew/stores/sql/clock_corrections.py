"""Correction of dates that lie in the future, because the clock was ahead when they were stored.

An event has the date at which it happened, so one that lies in the future proves that the clock was wrong then; or
that it is slow now: when a store is opened, it can't be known which. So what is done must be right in the one case
and do no harm in the other: messages that were sent without a delay can be received at once, leases last as long as
they were taken for, and nothing expires earlier than was said, unless this very process has seen the clock jump and
come back. A clock that shows a time before the store was made is slow for sure: then delays and keys keep their
dates.
"""

from __future__ import annotations

from sqew.clock import SMALLEST_CORRECTION_MS
from sqew.model import Corrected
from sqew.operations import ClockIsSlow, CorrectDates, LookAhead
from sqew.stores.sql.fifo import refresh_head
from sqew.stores.sql.receive_attempts import REMEMBERED_MS
from sqew.stores.sql.staging import LEFT_UNDONE_MS
from sqew.stores.sql.transaction import Work

_MINUTE_MS = 60_000


def look_ahead(work: Work, _op: LookAhead) -> int:
    """Return how many milliseconds the newest date of the store lies in the future; 0 if by little, or not at all."""
    limit = work.now + SMALLEST_CORRECTION_MS
    newest = list(work.execute(work.sql.newest_waiting, (limit,)).fetchall()[0])
    newest.append(work.execute(work.sql.newest_message).get)
    minute = work.execute(work.sql.newest_figures).get
    if minute is not None:
        newest.append(minute * _MINUTE_MS)
    ahead_ms = max((at for at in newest if at is not None), default=0) - work.now
    return ahead_ms if ahead_ms > SMALLEST_CORRECTION_MS else 0


def is_slow(work: Work, _op: ClockIsSlow) -> bool:
    """Return True if the clock shows a time before the store, or the oldest of its queues, was made."""
    born_at = work.execute(work.sql.born_at).get
    return born_at is not None and work.now < born_at


def correct(work: Work, op: CorrectDates) -> Corrected:
    now, limit = work.now, work.now + SMALLEST_CORRECTION_MS
    newest = work.execute(work.sql.newest_events, (limit,)).fetchall()[0]
    ahead_ms = max(op.ahead_ms, max((at for at in newest if at is not None), default=now) - now)
    slow = not op.is_certain and is_slow(work, ClockIsSlow())
    messages = _correct_messages(work, op, ahead_ms, slow)
    others = _correct_others(work, ahead_ms, op.since or 0)
    for (id,) in work.execute(work.sql.living_queues).fetchall():
        state = work.catalog.queue_by_id(id)
        if state is None:
            continue
        if not slow:
            others += _change(work, "correct_keys", id, limit + state.policy.key_retention_ms)
        if messages:
            work.woken.add(state.name)
            if state.policy.fifo:
                for (group,) in work.execute(work.sql.groups_of, (id,)).fetchall():
                    refresh_head(work, state, group)
    return Corrected(ahead_ms, messages, others)


def _change(work: Work, statement: str, *parameters: int) -> int:
    work.execute(work.sql[statement], parameters)
    return work.changes()


def _correct_messages(work: Work, op: CorrectDates, ahead_ms: int, slow: bool) -> int:
    now, limit = work.now, work.now + SMALLEST_CORRECTION_MS
    if op.is_certain:
        _change(work, "correct_expiry", now, limit)
    count = _change(work, "correct_leases", now, limit)
    count += _change(work, "correct_letters", now, limit)
    count += _change(work, "correct_retries", now, limit, ahead_ms, op.since or 0)
    count += _change(work, "correct_undelayed" if slow else "correct_sent", now, limit)
    if op.since is not None:
        count += _change(work, "correct_requeued", now, limit, op.since, now + ahead_ms)
    if not slow:
        for statement in ("correct_deaths", "correct_created", "correct_first_received"):
            _change(work, statement, now, limit)
    return count


def _correct_others(work: Work, ahead_ms: int, since: int) -> int:
    now, limit = work.now, work.now + SMALLEST_CORRECTION_MS
    count = _change(work, "correct_attempts", limit + REMEMBERED_MS)
    count += _change(work, "correct_consumers", now, limit)
    count += _change(work, "correct_claims", now, limit, ahead_ms, since)
    count += _change(work, "correct_deliveries", now, limit)
    count += _change(work, "correct_claimed_deliveries", now, limit, ahead_ms, since)
    count += _change(work, "correct_tried_deliveries", now, limit)
    _change(work, "correct_delivered", now, limit)
    count += _change(work, "correct_promotions", limit + LEFT_UNDONE_MS)
    count += _change(work, "correct_moves", now, limit)
    minute = now // _MINUTE_MS + 1
    if _change(work, "correct_figures", minute):
        _change(work, "forget_figures", minute)
    return count
