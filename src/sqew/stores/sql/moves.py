"""Tasks that move dead letters back, in steps: each step is one transaction, so a stopped server loses nothing."""

from __future__ import annotations

from typing import cast

from sqew.errors import BadValue, MoveNotFound, MoveRunning, NotADeadLetterQueue, QueueNotFound
from sqew.model import MOVES, NO_REASON, MoveStatus, MoveTask
from sqew.operations import CancelMove, ListMoves, NextMove, Redrive, StartMove, StepMove
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.dead_letters import LET_GO, left_behind, redrive
from sqew.stores.sql.transaction import Row, Work

MOST_LISTED = 10
"""Tasks of a dead-letter queue that are remembered."""
STEPS_PER_S = 10
"""Steps a second that a task with a rate takes, at most: it moves smoothly, and costs little."""


def start(work: Work, op: StartMove) -> MoveTask:
    state = work.catalog.queue(op.source)
    if op.destination is not None and work.catalog.queue(op.destination) is state:
        raise BadValue(f"Queue '{op.source}' can't be moved into itself. Name another destination, or none.")
    if not work.execute(work.sql.dead_letter_sources, (op.source, "", 1)).fetchall():
        raise NotADeadLetterQueue(op.source)
    if work.execute(work.sql.move_running, (state.id,)).get:
        raise MoveRunning(op.source)
    work.execute(work.sql.insert_move, (op.id, state.id, op.destination, op.per_second, op.to_move, work.now))
    work.execute(work.sql.forget_old_moves, (state.id, MOST_LISTED))
    work.woken.add(MOVES)
    return _found(work, op.id)[0]


def list_moves(work: Work, op: ListMoves) -> list[MoveTask]:
    state = work.catalog.queue(op.source)
    return [_task(state, row) for row in work.execute(work.sql.moves_of, (state.id, op.limit))]


def cancel(work: Work, op: CancelMove) -> MoveTask:
    task, _ = _found(work, op.id)
    if task.status != "running":
        raise MoveNotFound(op.id)
    _end(work, task, task.moved, "cancelled", NO_REASON)
    return _found(work, op.id)[0]


def next_move(work: Work, _op: NextMove) -> int | None:
    return cast("int | None", work.execute(work.sql.next_move).get)


def step(work: Work, op: StepMove) -> None:
    row = work.execute(work.sql.due_move, (work.now,)).fetchone()
    if row is None:
        return
    *fields, last_id, due_at = row
    state = work.catalog.queue_by_id(fields[1])
    if state is None:
        # Its queue is deleted, and its tasks should be: as long as one is due, somebody would try.
        work.execute(work.sql.delete_moves_of, (fields[1],))
        return
    task = _task(state, tuple(fields))
    count = op.limit if task.per_second is None else max(task.per_second // STEPS_PER_S, 1)
    try:
        progress = redrive(work, Redrive(task.source, task.destination, count, task.started_at, last_id))
    except QueueNotFound as error:
        _end(work, task, task.moved, "failed", error.code)
        return
    moved, last_id = task.moved + progress.count, progress.after
    if progress.done:
        reason = None if task.destination is not None else left_behind(work, state, task.started_at)
        if reason != LET_GO:
            _end(work, task, moved, "completed" if reason is None else "failed", reason or NO_REASON)
            return
        last_id = 0
    pause_ms = 0 if task.per_second is None else progress.count * 1000 // task.per_second
    work.execute(work.sql.move_on, (task.id, moved, last_id, max(due_at + pause_ms, work.now)))


def _end(work: Work, task: MoveTask, moved: int, status: MoveStatus, reason: str) -> None:
    work.execute(work.sql.end_move, (task.id, status, moved, reason))


def _found(work: Work, id: str) -> tuple[MoveTask, QueueState]:
    row = work.execute(work.sql.find_move, (id,)).fetchone()
    state = None if row is None else work.catalog.queue_by_id(row[1])
    if row is None or state is None:
        raise MoveNotFound(id)
    return _task(state, row), state


def _task(state: QueueState, row: Row) -> MoveTask:
    """Return the task of a row of {move_task}."""
    id, _queue_id, destination, per_second, status, moved, to_move, reason, started_at = row
    return MoveTask(id, state.name, destination, per_second, status, moved, to_move, reason, started_at)
