"""Inspection of writers that send in whole epochs, and of what they have staged."""

from __future__ import annotations

from sqew.errors import WriterNotFound
from sqew.model import Staging, WriterInfo
from sqew.operations import GetWriter, ListWriters
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.similar_names import names_near
from sqew.stores.sql.transaction import Row, Work


def get_writer(work: Work, op: GetWriter) -> WriterInfo:
    state = work.catalog.queue(op.queue)
    row = work.execute(work.sql.read_writer, (state.id, op.name)).fetchone()
    if row is None:
        raise WriterNotFound(op.queue, op.name, names_near(work.execute, work.sql.writers_near, op.name, state.id))
    return _info(work, state, row)


def list_writers(work: Work, op: ListWriters) -> list[WriterInfo]:
    state = work.catalog.queue(op.queue)
    rows = work.execute(work.sql.writers_of, (state.id, op.after, op.limit)).fetchall()
    return [_info(work, state, row) for row in rows]


def _info(work: Work, state: QueueState, writer: Row) -> WriterInfo:
    """Return what is known of a writer (a row of {writer}), and what it has staged."""
    name, epoch, promoted, duplicates = writer
    staged = []
    for id, staged_epoch, due_at in work.execute(work.sql.stagings_of, (state.id, name)).fetchall():
        parts, messages = work.execute(work.sql.count_staged, (id,)).fetchall()[0]
        staged.append(Staging(staged_epoch, parts, messages, due_at is not None))
    return WriterInfo(name, epoch, promoted, duplicates, staged)
