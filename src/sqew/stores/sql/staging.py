"""Messages that wait until their writer's epoch is promoted, and their way into the queue.

A promotion is decided in one transaction and carried out in many, each of which moves one chunk: its messages come into
the queue, and the chunk is gone. Whoever is stopped in between, it goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, cast

from sqew.errors import (
    AlreadyPromoted,
    BodyTooLarge,
    PartIncomplete,
    QuotaExceeded,
    RateLimited,
    StoreDamaged,
    UnknownLane,
    WriterNotFound,
)
from sqew.model import Fact, NewMessages, Promotion, Staged, Staging, WriterInfo
from sqew.operations import (
    AbortStaging,
    FinishPromotion,
    GetWriter,
    ListWriters,
    NextPromotion,
    Promote,
    Stage,
    StepPromotion,
)
from sqew.staged import Packed, checksums, packed, unpack
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.rows import DAMAGE, INLINE_BODY_BYTES, size_of
from sqew.stores.sql.sending import put, write_deferred
from sqew.stores.sql.work import Row, Work

_log = logging.getLogger("sqew.store")

LEFT_UNDONE_MS = 30_000
"""When a promotion has not gone on for so long, its client is taken to be gone, and a server finishes it."""
FORGOTTEN_MS = 86_400_000
"""What nobody adds to for so long, nor promotes, is swept away."""
_KEEP_EVERY_MS = 60_000
"""How often it is written down that somebody adds to it: those who do so at the same time need not wait."""
_CHUNKS_SWEPT = 20
"""How many chunks are swept away in a step."""
_SUGGESTED = 1_000


def stage(work: Work, op: Stage) -> Staged:
    state = work.catalog.queue(op.queue)
    work.room.check(work.now)
    _check_policy(state, op.messages)
    count = len(op.messages)
    writer = work.execute(work.sql.read_writer, (state.id, op.writer)).fetchone()
    if writer is not None and _is_decided(writer, op.epoch):
        return Staged(count, promoted=True)
    staging_id = _open_staging(work, state, op, is_new=writer is None)
    if staging_id is None:
        return Staged(count, promoted=True)
    if not count:
        return Staged(0)
    part_id, staged = work.execute(work.sql.open_part, (staging_id, op.part)).fetchall()[0]
    if op.offset is None or not _was_staged(op, op.offset, staged):
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
        for number, message in enumerate(messages.messages(), 1):
            if (size := size_of(message)) > most:
                too_large = BodyTooLarge(state.name, size, most)
                too_large.args = (f"Message {number}: {too_large}",)
                raise too_large


def _is_decided(writer: Row, epoch: int) -> bool:
    """Whether an epoch of a row of {writer} is in the queue, or will be."""
    last = writer[1]
    return last is not None and epoch <= last


def _open_staging(work: Work, state: QueueState, op: Stage, is_new: bool) -> int | None:
    """Where the messages are kept; None if it was decided meanwhile that nothing is added."""
    which = (state.id, op.writer, op.epoch)
    row = work.execute(work.sql.open_staging, which).fetchone()
    if row is None:
        if is_new:
            work.execute(work.sql.insert_writer, (state.id, op.writer))
        work.execute(work.sql.insert_staging, (*which, work.now + FORGOTTEN_MS))
        row = work.execute(work.sql.open_staging, which).fetchone()
        if row is None:
            return None
    id, ends_at = row
    if ends_at < work.now + FORGOTTEN_MS - _KEEP_EVERY_MS:
        work.execute(work.sql.keep_staging, (id, work.now + FORGOTTEN_MS))
    return cast("int", id)


def _was_staged(op: Stage, offset: int, staged: int) -> bool:
    """Whether these messages are in the part already: who got no answer asks again."""
    if staged >= offset + len(op.messages):
        return True
    if staged != offset:
        raise PartIncomplete(op.part, staged, offset)
    return False


def promote(work: Work, op: Promote) -> Promotion:
    state = work.catalog.queue(op.queue)
    # Two who decide on the same epoch must see each other.
    work.hold(state)
    writer = work.execute(work.sql.read_writer, (state.id, op.writer)).fetchone()
    found = work.execute(work.sql.find_staging, (state.id, op.writer, op.epoch)).fetchone()
    if writer is not None and _is_decided(writer, op.epoch):
        return _so_far(writer, op.epoch, done=found is None, repeated=found is None)
    staging_id = None if found is None else found[0]
    turns = _turns(work, staging_id, op)
    count = sum(op.parts.values())
    _check_room(work, state, count)
    work.execute(work.sql.decide, (state.id, op.writer, op.epoch))
    if not turns:
        work.execute(work.sql.end_stagings_until, (state.id, op.writer, op.epoch, work.now))
        return Promotion(0)
    work.executemany(work.sql.give_turn, turns)
    work.execute(work.sql.promote_staging, (staging_id, work.now + LEFT_UNDONE_MS))
    return Promotion(0, done=False)


def _turns(work: Work, staging_id: int | None, op: Promote) -> list[Row]:
    """The parts that are to be promoted (their ids), each with its turn. Raises where one is not as it should be."""
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
    """Raise unless the queue may take so many messages. When it is decided that it does, nothing can be refused."""
    policy = state.policy
    work.room.check(work.now)
    if policy.quota is not None and work.catalog.depth(state) + count > policy.quota:
        raise QuotaExceeded(state.name, policy.quota)
    if policy.rate_limit is not None and count:
        wait_ms = work.catalog.throttle(state).take(count, policy.rate_limit, work.now)
        if wait_ms:
            raise RateLimited(state.name, policy.rate_limit, wait_ms)


def step(work: Work, op: StepPromotion) -> Promotion:
    state = work.catalog.queue(op.queue)
    if state.takes_one_at_a_time:
        work.hold(state)
    row = work.execute(work.sql.decided_staging, (state.id, op.writer)).fetchone()
    if row is not None:
        staging_id, epoch = row
        if _move_chunk(work, state, staging_id, op.writer, epoch):
            work.execute(work.sql.promote_staging, (staging_id, work.now + LEFT_UNDONE_MS))
    writer = work.execute(work.sql.read_writer, (state.id, op.writer)).fetchone()
    if writer is None or not _is_decided(writer, op.epoch):
        # The queue was deleted meanwhile, and there is another of its name.
        raise WriterNotFound(op.queue, op.writer)
    left = work.execute(work.sql.find_staging, (state.id, op.writer, op.epoch)).fetchone()
    return _so_far(writer, op.epoch, done=left is None)


def _so_far(writer: Row, epoch: int, *, done: bool, repeated: bool = False) -> Promotion:
    """How far the promotion of an epoch is, by a row of {writer}."""
    _, last, promoted, duplicates = writer
    if last != epoch:
        return Promotion(None, None, repeated, done)
    return Promotion(promoted, duplicates, repeated, done)


def finish(work: Work, _op: FinishPromotion) -> None:
    row = work.execute(work.sql.due_promotion, (work.now,)).fetchone()
    if row is None:
        return
    staging_id, queue_id, writer, epoch = row
    state = work.catalog.queue_by_id(queue_id)
    if state is None:
        work.execute(work.sql.end_staging, (staging_id, work.now))
        return
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


def next_promotion(work: Work, _op: NextPromotion) -> int | None:
    return cast("int | None", work.execute(work.sql.next_promotion).get)


def _move_chunk(work: Work, state: QueueState, staging_id: int, writer: str, epoch: int) -> bool:
    """Move one chunk into the queue; whether there are more."""
    part = work.execute(work.sql.next_part, (staging_id,)).fetchone()
    chunk = None if part is None else work.execute(work.sql.next_chunk, (staging_id, part[0])).fetchone()
    if part is not None and chunk is None:
        raise StoreDamaged(
            f"The store is damaged: messages that writer '{writer}' has staged for queue '{state.name}' are missing. "
            "Restore it from a backup."
        )
    if part is not None and chunk is not None:
        (part_id, left), (chunk_id, count, content) = part, chunk
        added = _add(work, state, unpack(content))
        work.execute(work.sql.delete_chunk, (chunk_id,))
        work.execute(work.sql.count_promoted, (state.id, writer, epoch, count, count - added))
        if left > count:
            work.execute(work.sql.change_part, (part_id, -count))
            return True
        work.execute(work.sql.delete_part, (part_id,))
        if work.execute(work.sql.next_part, (staging_id,)).fetchone() is not None:
            return True
    work.execute(work.sql.end_stagings_until, (state.id, writer, epoch, work.now))
    return False


def _add(work: Work, state: QueueState, chunk: Packed) -> int:
    """Send the messages of a chunk; how many were not sent before."""
    messages, policy = chunk.messages, state.policy
    if messages.are_alike and not policy.fifo and policy.deduplicate == "key" and _are_small(messages):
        _add_alike(work, state, messages, chunk.checksums)
        return len(messages)
    if checksums(messages) != chunk.checksums:
        raise StoreDamaged(
            f"The store is damaged: messages that were staged for queue '{state.name}' are not what they were. "
            "Restore it from a backup."
        )
    # A lane that the queue has no more: the message goes on all the same.
    lanes = [state.lane_ids.get(message.lane or "", state.default_lane) for message in messages.messages()]
    sent = put(work, state, list(messages.messages()), lanes, work.deferred)
    write_deferred(work)
    return sum(not one.duplicate for one in sent)


def _are_small(messages: NewMessages) -> bool:
    return max(map(len, messages.bodies)) <= INLINE_BODY_BYTES


def _add_alike(work: Work, state: QueueState, messages: NewMessages, checks: list[int]) -> None:
    """The same as `sqew.stores.sql.sending.put` in a third of the time, where there is nothing to look at."""
    policy, now = state.policy, work.now
    said: Any = messages
    lane = state.lane_ids.get(said.lanes or "", state.default_lane)
    due_at = now + (policy.delay_ms if said.delays_ms is None else said.delays_ms)
    ttl_ms = policy.ttl_ms if said.ttls_ms is None else said.ttls_ms
    expires_at = None if ttl_ms is None else now + ttl_ms
    priority = said.priorities
    work.catalog.ensure_bucket(state, lane, priority)
    ids = work.catalog.take_ids(len(messages))
    work.insert_alike(
        (state.id, lane, priority, due_at, now, expires_at, int(said.formats == "text")), ids, checks, messages.bodies
    )
    name, lane_name = state.name, state.lane_names[lane]
    work.facts += [Fact("sent", name, lane_name, id, 0) for id in ids]
    work.stirred.add(name)
    if state.depth is not None:
        state.depth += len(messages)


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
    """Sweep away some of what was staged, and is over or forgotten; how much it was."""
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
    """What is staged and is not what it was, in a sentence each."""
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


def get_writer(work: Work, op: GetWriter) -> WriterInfo:
    state = work.catalog.queue(op.queue)
    row = work.execute(work.sql.read_writer, (state.id, op.name)).fetchone()
    if row is None:
        others = work.execute(work.sql.writers_of, (state.id, "", _SUGGESTED)).fetchall()
        raise WriterNotFound(op.queue, op.name, [other[0] for other in others])
    return _info(work, state, row)


def list_writers(work: Work, op: ListWriters) -> list[WriterInfo]:
    state = work.catalog.queue(op.queue)
    rows = work.execute(work.sql.writers_of, (state.id, op.after, op.limit)).fetchall()
    return [_info(work, state, row) for row in rows]


def _info(work: Work, state: QueueState, writer: Row) -> WriterInfo:
    """A row of {writer}."""
    name, epoch, promoted, duplicates = writer
    staged = []
    for id, staged_epoch, due_at in work.execute(work.sql.stagings_of, (state.id, name)).fetchall():
        parts, messages = work.execute(work.sql.count_staged, (id,)).fetchall()[0]
        staged.append(Staging(staged_epoch, parts, messages, due_at is not None))
    return WriterInfo(name, epoch, promoted, duplicates, staged)
