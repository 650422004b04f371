"""Staging: messages that wait until their writer's epoch is promoted, and their way into the queue.

A promotion is decided in one transaction and carried out in many, each of which moves one chunk: its messages come
into the queue, and the chunk is gone. A promotion that was interrupted goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import cast

from sqew.errors import (
    AlreadyPromoted,
    BodyTooLarge,
    PartIncomplete,
    QuotaExceeded,
    RateLimited,
    SqewError,
    StoreDamaged,
    TooMuchStaged,
    UnknownLane,
    WriterNotFound,
)
from sqew.formats.columns import Packed, checksums, packed, unpack
from sqew.model import NewMessages, Promotion, Staged
from sqew.operations import (
    AbortStaging,
    FinishPromotion,
    NextPromotion,
    Promote,
    Stage,
    StepPromotion,
)
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.rows import DAMAGE, size_of
from sqew.stores.sql.send import are_small, put, put_alike, write_deferred
from sqew.stores.sql.transaction import Row, Work

_log = logging.getLogger("sqew.store")

LEFT_UNDONE_MS = 30_000
"""Milliseconds without progress after which a promotion's client is taken to be gone, and a server finishes it."""
FORGOTTEN_MS = 86_400_000
"""Milliseconds after which what was staged is swept away, if it is neither added to nor promoted."""
REMEMBERED_MS = 400 * 86_400_000
"""Milliseconds for which a writer's last epoch is known, once it is in the queue: repeated later, it is added again."""
_KEEP_EVERY_MS = 60_000
"""Milliseconds between updates of a staging's end: callers that add to it at the same time need not wait."""
_CHUNKS_SWEPT = 20
"""Chunks that are swept away in a step."""
_STAGED_TO_QUOTA = 4
"""Messages that can be staged for a queue, as a multiple of its quota: a task may be tried as often."""


def stage(work: Work, op: Stage) -> Staged:
    state = work.catalog.queue(op.queue)
    work.space.check(work.now)
    _check_policy(state, op.messages)
    count = len(op.messages)
    writer = work.execute(work.sql.read_writer, (state.id, op.writer)).fetchone()
    if writer is not None and _is_decided(writer, op.epoch):
        return Staged(count, promoted=True)
    if not count:
        return Staged(0)
    staging_id = _open_staging(work, state, op)
    if staging_id is None:
        return Staged(count, promoted=True)
    part_id, staged = work.execute(work.sql.open_part, (staging_id, op.part)).fetchall()[0]
    if op.offset is not None and staged >= op.offset + count:
        # They are in the part already: who got no answer asks again.
        return Staged(count)
    try:
        _check_part(work, state, op, staged)
    except SqewError:
        if not staged:
            work.execute(work.sql.delete_part, (part_id,))
        raise
    work.execute(work.sql.change_part, (part_id, count))
    for messages, chunk in packed(op.messages, in_order=state.policy.fifo):
        work.execute(work.sql.insert_chunk, (staging_id, part_id, messages, chunk))
    return Staged(count)


def _check_policy(state: QueueState, messages: NewMessages) -> None:
    lanes = messages.lanes if isinstance(messages.lanes, list) else [messages.lanes]
    unknown = set(lanes) - state.lane_ids.keys() - {None}
    if unknown:
        number, lane = next((n, cast("str", lane)) for n, lane in enumerate(lanes, 1) if lane in unknown)
        error = UnknownLane(state.name, lane, state.lane_ids)
        error.args = (f"Message {number}: {error}",)
        raise error
    most = state.policy.max_body_bytes
    if most is not None:
        for number, message in enumerate(messages, 1):
            if (size := size_of(message)) > most:
                too_large = BodyTooLarge(state.name, size, most)
                too_large.args = (f"Message {number}: {too_large}",)
                raise too_large


def _is_decided(writer: Row, epoch: int) -> bool:
    """Return True if an epoch of a row of {writer} is in the queue, or will be."""
    last = writer[1]
    return last is not None and epoch <= last


def _open_staging(work: Work, state: QueueState, op: Stage) -> int | None:
    """Return the id of what the messages are added to; None if it was decided meanwhile that nothing is added."""
    which = (state.id, op.writer, op.epoch)
    row = work.execute(work.sql.open_staging, which).fetchone()
    if row is None:
        # As who decides does: there would be something staged of an epoch that is over.
        work.hold(state)
        writer = work.execute(work.sql.read_writer, (state.id, op.writer)).fetchone()
        if writer is not None and _is_decided(writer, op.epoch):
            return None
        _check_part(work, state, op, 0)
        work.execute(work.sql.insert_writer, (state.id, op.writer))
        work.execute(work.sql.insert_staging, (*which, work.now + FORGOTTEN_MS))
        row = work.execute(work.sql.open_staging, which).fetchone()
        if row is None:
            return None
    id, ends_at = row
    if ends_at < work.now + FORGOTTEN_MS - _KEEP_EVERY_MS:
        work.execute(work.sql.keep_staging, (id, work.now + FORGOTTEN_MS))
    return cast("int", id)


def _check_part(work: Work, state: QueueState, op: Stage, staged: int) -> None:
    """Raise unless these messages may be added to a part that has ``staged`` already."""
    if op.offset is not None and staged != op.offset:
        raise PartIncomplete(op.part, staged, op.offset)
    quota = state.policy.quota
    if quota is not None:
        stagings = work.execute(work.sql.stagings_in, (state.id,)).fetchall()
        all_staged = sum(work.execute(work.sql.count_staged, staging).fetchall()[0][1] for staging in stagings)
        if all_staged + len(op.messages) > _STAGED_TO_QUOTA * quota:
            raise TooMuchStaged(state.name, all_staged, quota)


def promote(work: Work, op: Promote) -> Promotion:
    state = work.catalog.queue(op.queue)
    # Two who decide on the same epoch must see each other.
    work.hold(state)
    writer = work.execute(work.sql.writer_to_promote, (state.id, op.writer)).fetchone()
    found = work.execute(work.sql.find_staging, (state.id, op.writer, op.epoch)).fetchone()
    if writer is not None and _is_decided(writer, op.epoch):
        is_done = not _is_moving(found)
        return _so_far(writer, op.epoch, done=is_done, repeated=is_done)
    staging_id = None if found is None else found[0]
    turns = _turns(work, staging_id, op)
    count = sum(op.parts.values())
    _check_room(work, state, count)
    work.execute(work.sql.decide, (state.id, op.writer, op.epoch))
    if not turns:
        _end(work, state, op.writer, op.epoch)
        return Promotion(0)
    work.executemany(work.sql.give_turn, turns)
    work.execute(work.sql.promote_staging, (staging_id, work.now + LEFT_UNDONE_MS))
    return Promotion(0, done=False)


def _is_moving(staging: Row | None) -> bool:
    """Return True if what is staged (a row of `find_staging`) is decided to be in the queue, and is not there yet."""
    return staging is not None and staging[1] is not None


def _turns(work: Work, staging_id: int | None, op: Promote) -> list[Row]:
    """Return the ids of the parts to be promoted, each with its turn. Raise if one is not complete."""
    parts: dict[str, tuple[int, int]] = {}
    if staging_id is not None:
        parts = {name: (id, count) for name, id, count in work.execute(work.sql.parts_of, (staging_id,))}
    turns = []
    for turn, (name, expected) in enumerate(op.parts.items()):
        id, count = parts.get(name, (0, 0))
        if count != expected:
            raise PartIncomplete(name, count, expected)
        if count:
            turns.append((id, turn))
    return turns


def _check_room(work: Work, state: QueueState, count: int) -> None:
    """Raise unless the queue may take so many messages. Once that is decided, nothing can be refused."""
    policy = state.policy
    work.space.check(work.now)
    if policy.quota is not None and work.catalog.depth(state) + _on_their_way(work, state) + count > policy.quota:
        raise QuotaExceeded(state.name, policy.quota)
    if policy.rate_limit is not None and count:
        wait_ms = work.catalog.throttle(state).take(count, policy.rate_limit, work.now)
        if wait_ms:
            raise RateLimited(state.name, policy.rate_limit, wait_ms)


def _on_their_way(work: Work, state: QueueState) -> int:
    """Return the number of messages that are decided to be in the queue, and are not there yet."""
    stagings = work.execute(work.sql.decided_stagings, (state.id,)).fetchall()
    return sum(work.execute(work.sql.count_turns, staging).get for staging in stagings)


def step(work: Work, op: StepPromotion) -> Promotion:
    state = work.catalog.queue(op.queue)
    if state.takes_one_at_a_time:
        work.hold(state)
    row = work.execute(work.sql.decided_staging, (state.id, op.writer)).fetchone()
    if row is not None:
        staging_id, epoch = row
        if _move_chunk(work, state, staging_id, op.writer, epoch):
            work.execute(work.sql.promote_staging, (staging_id, work.now + LEFT_UNDONE_MS))
    writer = work.execute(work.sql.writer_to_promote, (state.id, op.writer)).fetchone()
    if writer is None or not _is_decided(writer, op.epoch):
        # The queue was deleted meanwhile, and there is another of its name.
        raise WriterNotFound(op.queue, op.writer)
    left = work.execute(work.sql.find_staging, (state.id, op.writer, op.epoch)).fetchone()
    return _so_far(writer, op.epoch, done=not _is_moving(left))


def _so_far(writer: Row, epoch: int, *, done: bool, repeated: bool = False) -> Promotion:
    """Return the progress of an epoch's promotion, by a row of {writer}."""
    _, last, promoted, duplicates = writer
    if last != epoch:
        return Promotion(None, None, repeated, done)
    return Promotion(promoted, duplicates, repeated, done)


def finish(work: Work, _op: FinishPromotion) -> bool:
    row = work.execute(work.sql.due_promotion, (work.now,)).fetchone()
    if row is None:
        return False
    staging_id, queue_id, writer, epoch = row
    state = work.catalog.queue_by_id(queue_id)
    if state is None:
        work.execute(work.sql.end_staging, (staging_id, work.now))
        return True
    if state.takes_one_at_a_time:
        work.hold(state)
    try:
        if _move_chunk(work, state, staging_id, writer, epoch):
            work.execute(work.sql.promote_staging, (staging_id, work.now))
    except StoreDamaged as error:
        # Nothing was moved. Others must not wait behind it.
        work.execute(work.sql.promote_staging, (staging_id, work.now + LEFT_UNDONE_MS))
        fields = {"queue": state.name, "writer": writer, "epoch": epoch, "error": str(error)}
        _log.warning("a promotion can't go on", extra={"fields": fields})
    return True


def next_promotion(work: Work, _op: NextPromotion) -> int | None:
    return cast("int | None", work.execute(work.sql.next_promotion).get)


def _move_chunk(work: Work, state: QueueState, staging_id: int, writer: str, epoch: int) -> bool:
    """Move one chunk into the queue; return True if there are more."""
    part = work.execute(work.sql.next_part, (staging_id,)).fetchone()
    if part is not None:
        part_id, left = part
        chunk_id, count, chunk = _next_chunk(work, state, staging_id, part_id, writer)
        added = _add(work, state, chunk)
        work.execute(work.sql.delete_chunk, (chunk_id,))
        work.execute(work.sql.count_promoted, (state.id, writer, epoch, count, count - added))
        if left > count:
            work.execute(work.sql.change_part, (part_id, -count))
            return True
        work.execute(work.sql.delete_part, (part_id,))
        if work.execute(work.sql.next_part, (staging_id,)).fetchone() is not None:
            return True
    _end(work, state, writer, epoch)
    return False


def _end(work: Work, state: QueueState, writer: str, epoch: int) -> None:
    """End the staging of an epoch that is in the queue, and remember the epoch."""
    work.execute(work.sql.end_stagings_until, (state.id, writer, epoch, work.now))
    work.execute(work.sql.remember_writer, (state.id, writer, epoch, work.now + REMEMBERED_MS))


def _next_chunk(work: Work, state: QueueState, staging_id: int, part_id: int, writer: str) -> tuple[int, int, Packed]:
    row = work.execute(work.sql.next_chunk, (staging_id, part_id)).fetchone()
    if row is not None:
        id, count, content = row
        chunk = unpack(content)
        if len(chunk.messages) == count:
            return id, count, chunk
    raise StoreDamaged(
        f"The store is damaged: messages that writer '{writer}' has staged for queue '{state.name}' are missing. "
        "Restore it from a backup."
    )


def _add(work: Work, state: QueueState, chunk: Packed) -> int:
    """Send the messages of a chunk; return how many were not sent before."""
    messages, policy = chunk.messages, state.policy
    if messages.are_alike and not policy.fifo and policy.deduplicate == "key" and are_small(messages):
        lane = state.lane_ids.get(cast("str", messages.lanes or ""), state.default_lane)
        return len(put_alike(work, state, messages, lane, chunk.checksums))
    if checksums(messages) != chunk.checksums:
        raise StoreDamaged(
            f"The store is damaged: messages that were staged for queue '{state.name}' are not what they were. "
            "Restore it from a backup."
        )
    # A lane that the queue has no more: the message goes on all the same.
    lanes = [state.lane_ids.get(message.lane or "", state.default_lane) for message in messages]
    sent = put(work, state, list(messages), lanes, work.deferred)
    write_deferred(work)
    return sum(not one.duplicate for one in sent)


def abort(work: Work, op: AbortStaging) -> None:
    state = work.catalog.queue(op.queue)
    work.hold(state)
    writer = work.execute(work.sql.read_writer, (state.id, op.writer)).fetchone()
    if writer is not None and _is_decided(writer, op.epoch):
        raise AlreadyPromoted(op.writer, op.epoch)
    row = work.execute(work.sql.find_staging, (state.id, op.writer, op.epoch)).fetchone()
    if row is not None:
        work.execute(work.sql.end_staging, (row[0], work.now))
        work.execute(work.sql.forget_writer, (state.id, op.writer))


def sweep_staged(work: Work) -> int:
    """Delete some of what was staged, and is over or forgotten; return how much it was."""
    row = work.execute(work.sql.ended_staging, (work.now,)).fetchone()
    if row is None:
        return 0
    staging_id, queue_id, writer = row
    work.execute(work.sql.end_staging, (staging_id, work.now))
    work.execute(work.sql.delete_chunks_of, (staging_id, _CHUNKS_SWEPT))
    swept = work.changes()
    if swept == _CHUNKS_SWEPT:
        return swept
    work.execute(work.sql.delete_parts_of, (staging_id,))
    work.execute(work.sql.delete_staging, (staging_id,))
    work.execute(work.sql.forget_writer, (queue_id, writer))
    return swept + 1


def damaged_chunks(work: Work) -> Iterator[str]:
    """Yield a sentence for each staged chunk that is damaged."""
    for queue_id, writer, epoch, count, content in work.execute(work.sql.check_chunks):
        try:
            chunk = unpack(content)
            intact = len(chunk.messages) == count and checksums(chunk.messages) == chunk.checksums
        except (*DAMAGE, StoreDamaged):
            intact = False
        if not intact:
            state = work.catalog.queue_by_id(queue_id)
            queue = "" if state is None else f" for queue '{state.name}'"
            yield f"messages that writer '{writer}' has staged{queue} (epoch {epoch}) are damaged"
