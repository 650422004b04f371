"""Settlement of messages by their holders, or by id: ack, nack, extend and remove."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from sqew.errors import LeaseTooLong, MessageNotFound, SqewError, StaleLease
from sqew.model import Extension, Fact, Ref, Release, Settled
from sqew.operations import Ack, Extend, Nack, Remove
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.fifo import refresh_head
from sqew.stores.sql.removal import EXHAUSTED, Held, archive, discard, forget, move_to_dead_letters
from sqew.stores.sql.transaction import Work

REFUSED = "refused"
"""Reason for the death of a message that its receiver gave up without a reason."""

UNDELIVERED = "undelivered"
"""Reason for the return of a message whose receiver was gone before it could be answered."""

T = TypeVar("T")


def ack(work: Work, op: Ack) -> list[Settled | SqewError]:
    state = _named(work, op.queue)
    return _ack_anywhere(work, op) if state is None else _ack_in(work, state, op.refs, op.in_time)


def _ack_in(work: Work, state: QueueState, refs: Sequence[Ref], in_time: bool) -> list[Settled | SqewError]:
    if state.policy.keep == "delete":
        return delete_acked(work, state, refs, in_time)

    def finish(state: QueueState, held: Held, _ref: Ref) -> Settled:
        archive(work, state, held, "done")
        age_ms = work.now - (held.received_at or work.now)
        lane = state.lane_names[held.lane_id]
        work.facts.append(Fact("acked", state.name, lane, held.id, held.attempts, held.leased_by, age_ms))
        return Settled(held.id)

    return _each(work, state, ((ref, ref) for ref in refs), finish, in_time)


def _ack_anywhere(work: Work, op: Ack) -> list[Settled | SqewError]:
    """Finish messages whose queues are not named: find the queues, and then finish those of each together."""
    if not op.refs:
        return []
    ids = [ref.id for ref in op.refs]
    homes: dict[int, int] = dict(work.execute(work.sql.homes, (work.integers(ids),)).fetchall())
    states = {id: work.catalog.queue_by_id(id) for id in sorted(set(homes.values()))}
    work.hold(*(state for state in states.values() if state is not None and state.policy.fifo))
    results: list[Settled | SqewError | None] = [None] * len(ids)
    places: dict[int, list[int]] = {}
    # In one order: two that finish the same ones would wait for each other.
    for place in sorted(range(len(ids)), key=ids.__getitem__):
        places.setdefault(homes.get(ids[place], 0), []).append(place)
    for queue_id, state in states.items():
        if state is not None:
            theirs = places[queue_id]
            settled = _ack_in(work, state, [op.refs[place] for place in theirs], op.in_time)
            for place, result in zip(theirs, settled, strict=True):
                results[place] = result
    return [MessageNotFound(id) if result is None else result for id, result in zip(ids, results, strict=True)]


def delete_acked(
    work: Work, state: QueueState, refs: Sequence[Ref], in_time: bool = False
) -> list[Settled | SqewError]:
    """Delete messages that are acked, on the hot path: one statement finds, checks and deletes."""
    ids = [ref.id for ref in refs]
    if len(set(ids)) < len(ids):
        # A message is named twice, perhaps by two who both think they hold it: each gets its own answer.
        return [result for ref in refs for result in delete_acked(work, state, (ref,), in_time)]
    rights = {(ref.token, ref.by) for ref in refs}
    token, holder = next(iter(rights), (None, None))
    if len(rights) == 1 and token is not None and holder is None and not in_time:
        rows = work.delete(work.sql.finish_many, [(work.integers(ids), state.id, token)])
    else:
        lasts = work.now if in_time else None
        rows = work.delete(work.sql.finish, [(ref.id, state.id, ref.token, ref.by, lasts) for ref in refs])
    now, facts, name, lane_names, counted = work.now, work.facts, state.name, state.lane_names, state.depth is not None
    for id, lane_id, attempts, by, received_at, key, group, large in rows:
        if key is not None or group is not None or large or counted:
            forget(work, state, id, key, group, large)
        facts.append(Fact("acked", name, lane_names[lane_id], id, attempts, by, now - (received_at or now)))
    if len(rows) == len(ids):
        return [Settled(id) for id in ids]
    finished = {row[0] for row in rows}
    return [Settled(ref.id) if ref.id in finished else _refusal(work, state, ref) for ref in refs]


def nack(work: Work, op: Nack) -> list[Settled | SqewError]:
    def release(state: QueueState, held: Held, release: Release) -> Settled:
        if release.undelivered:
            return _undo_receive(work, state, held)
        limit = state.policy.max_attempts
        exhausted = limit is not None and held.attempts >= limit
        lane = state.lane_names[held.lane_id]
        work.facts.append(
            Fact("nacked", state.name, lane, held.id, held.attempts, held.leased_by, reason=release.reason)
        )
        if release.dead or exhausted:
            move_to_dead_letters(work, state, held, release.reason or (EXHAUSTED if exhausted else REFUSED))
            return Settled(held.id, dead=True)
        delay_ms = release.delay_ms
        if delay_ms is None:
            delay_ms = state.policy.backoff.delay_ms(held.attempts, work.random.random())
        due_at = work.now + delay_ms
        work.execute(work.sql.release, (held.id, None if state.policy.fifo else due_at, due_at))
        _wake(work, state, held)
        return Settled(held.id, due_at)

    return _each(work, _named(work, op.queue), ((r.ref, r) for r in op.releases), release, op.in_time)


def _undo_receive(work: Work, state: QueueState, held: Held) -> Settled:
    """Put a message back to where it stood, as if it had never been received."""
    lane = state.lane_names[held.lane_id]
    work.facts.append(Fact("nacked", state.name, lane, held.id, held.attempts, held.leased_by, reason=UNDELIVERED))
    work.execute(work.sql.undeliver, (held.id, state.policy.fifo))
    _wake(work, state, held)
    return Settled(held.id, work.now)


def extend(work: Work, op: Extend) -> list[Settled | SqewError]:
    def extend(state: QueueState, held: Held, extension: Extension) -> Settled | SqewError:
        due_at = work.now + extension.lease_ms
        if op.most_ms is not None and due_at - (held.received_at or work.now) > op.most_ms:
            return LeaseTooLong(held.id, op.most_ms)
        statement = work.sql.postpone if held.lease_until is None else work.sql.extend_lease
        work.execute(statement, (held.id, None if state.policy.fifo else due_at, due_at))
        _wake(work, state, held)
        lane = state.lane_names[held.lane_id]
        work.facts.append(Fact("extended", state.name, lane, held.id, held.attempts, held.leased_by))
        return Settled(held.id, due_at)

    return _each(work, _named(work, op.queue), ((e.ref, e) for e in op.extensions), extend, op.in_time)


def remove(work: Work, op: Remove) -> list[bool]:
    state = _named(work, op.queue)
    assert state is not None
    removed = []
    for id in op.ids:
        row = work.execute(work.sql.find_held, (id, state.id, None, None)).fetchone()
        if row is not None:
            held = Held._make(row)
            doomed = (held.id, held.queue_id, held.lane_id, held.attempts, held.key, held.group, held.large)
            discard(work, state, doomed, "removed")
        removed.append(row is not None)
    return removed


def _named(work: Work, queue: str | None) -> QueueState | None:
    if queue is None:
        return None
    return _held(work, work.catalog.queue(queue))


def _home(work: Work, ref: Ref) -> QueueState | None:
    """Find the queue of a message that was named without it. None: there is no such message."""
    queue_id = work.execute(work.sql.whereabouts, (ref.id,)).get
    state = None if queue_id is None else work.catalog.queue_by_id(queue_id)
    return None if state is None else _held(work, state)


def _held(work: Work, state: QueueState) -> QueueState:
    if state.policy.fifo:
        # Before any row is locked: who receives from the queue holds it first, and then locks rows.
        work.hold(state)
    return state


def _each(
    work: Work,
    named: QueueState | None,
    entries: Iterable[tuple[Ref, T]],
    settle: Callable[[QueueState, Held, T], Settled | SqewError],
    in_time: bool = False,
) -> list[Settled | SqewError]:
    """Settle every entry that the caller may settle; return for each other one why not."""
    results: list[Settled | SqewError] = []
    for ref, entry in entries:
        state = named or _home(work, ref)
        row = None
        if state is not None:
            row = work.execute(work.sql.find_held, (ref.id, state.id, ref.token, ref.by)).fetchone()
        if row is None or state is None:
            results.append(_refusal(work, named, ref))
            continue
        held = Held._make(row)
        if in_time and (held.lease_until is None or held.lease_until <= work.now):
            results.append(StaleLease(ref.id))
        else:
            results.append(settle(state, held, entry))
    return results


def _refusal(work: Work, state: QueueState | None, ref: Ref) -> SqewError:
    """Return why nothing was changed: the lease is lost, or there is no such message (any more)."""
    queue_id = work.execute(work.sql.whereabouts, (ref.id,)).get
    here = queue_id is not None and (
        work.catalog.queue_by_id(queue_id) is not None if state is None else queue_id == state.id
    )
    return StaleLease(ref.id) if here else MessageNotFound(ref.id, None if state is None else state.name)


def _wake(work: Work, state: QueueState, held: Held) -> None:
    if state.policy.fifo and held.group is not None:
        refresh_head(work, state, held.group)
    work.woken.add(state.name)
