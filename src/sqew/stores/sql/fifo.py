"""FIFO groups: the turn of their messages."""

from __future__ import annotations

from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.transaction import Work


def refresh_head(work: Work, state: QueueState, group: str) -> None:
    """Expose the head of a group, from when it is available and no message of the group is in flight."""
    work.hold(state)
    head = work.execute(work.sql.group_head, (state.id, group)).fetchone()
    if head is None:
        return
    id, available_at, due_at = head
    busy_until = work.execute(work.sql.group_busy_until, (state.id, group)).get or 0
    due = max(available_at, busy_until)
    if due != due_at:
        work.execute(work.sql.set_due, (id, due))
    work.woken.add(state.name)


def put_in_front(work: Work, state: QueueState, group: str) -> None:
    """Put a message in front of its group, as its id is lower than some that are there."""
    work.hold(state)
    head = work.execute(work.sql.group_head, (state.id, group)).fetchone()
    if head is not None:
        work.execute(work.sql.demote_second, (state.id, group, head[0]))
        refresh_head(work, state, group)
