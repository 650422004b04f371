"""FIFO groups: whose turn it is."""

from __future__ import annotations

from sqew.stores.sqlite.catalog import QueueState
from sqew.stores.sqlite.statements import sql
from sqew.stores.sqlite.work import Work

_GROUP_HEAD = sql("group_head")
_GROUP_BUSY_UNTIL = sql("group_busy_until")
_SET_DUE = sql("set_due")
_DEMOTE_SECOND = sql("demote_second")


def refresh_head(work: Work, state: QueueState, group: str) -> None:
    """Expose the head of a group, from when it is available and none of the group is in flight."""
    head = work.execute(_GROUP_HEAD, (state.id, group)).fetchone()
    if head is None:
        return
    id, available_at, due_at = head
    busy_until = work.execute(_GROUP_BUSY_UNTIL, (state.id, group)).get or 0
    due = max(available_at, busy_until)
    if due != due_at:
        work.execute(_SET_DUE, (id, due))
    work.stirred.add(state.name)


def put_in_front(work: Work, state: QueueState, group: str) -> None:
    """A message came into the group with an id lower than some that are there."""
    head = work.execute(_GROUP_HEAD, (state.id, group)).fetchone()
    if head is not None:
        work.execute(_DEMOTE_SECOND, (state.id, group, head[0]))
        refresh_head(work, state, group)
