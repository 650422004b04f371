"""Consumers: they read a queue in claims that outlast the reader, so that it can go on where it was.

A claim is a set of messages received together, under a lease of its own. Each of its messages, which may be many, is
leased for years, and given back when the claim's lease ends: to renew it is to change one row.
"""

from __future__ import annotations

import sys
from array import array
from typing import NamedTuple

from sqew.errors import ClaimNotFound, ClaimSpent, ConsumerInUse, ConsumerNotFound, Fenced
from sqew.model import (
    CHUNKS_IN_PART,
    Claim,
    ClaimPart,
    Columns,
    ConsumerInfo,
    Extension,
    Message,
    OpenClaim,
    OpenedConsumer,
    Progress,
    Ref,
)
from sqew.operations import (
    Ack,
    CloseConsumer,
    Extend,
    FinishClaims,
    GiveBackClaims,
    GrowClaim,
    ListConsumers,
    OpenConsumer,
    ReadClaim,
    ReadClaimColumns,
    Receive,
    RenewConsumer,
    SealClaim,
)
from sqew.rules.values import LONGEST_MS
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.export import columns_of
from sqew.stores.sql.receive import receive
from sqew.stores.sql.rows import stored_message
from sqew.stores.sql.settle import ack, delete_acked, extend
from sqew.stores.sql.similar_names import names_near
from sqew.stores.sql.transaction import Row, Work

_ARCHIVED_AT_ONCE = 200
"""Most messages finished in one transaction if they are kept: to move one takes five times as long."""

_LOOKED_AT = 10
"""Claims whose lease has ended that are looked at, to find one whose owner is not at work."""


class _Consumer(NamedTuple):
    """A row of {consumer}."""

    id: int
    queue_id: int
    name: str
    owner: str
    epoch: int
    hold_ms: int
    held_until: int
    last: int
    is_closing: int
    spent: int


class _ClaimRow(NamedTuple):
    """A row of {claim}."""

    number: int
    lease_until: int
    messages: int
    is_sealed: int


def _packed(ids: list[int]) -> bytes:
    numbers = array("q", ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _unpacked(packed: bytes) -> list[int]:
    numbers = array("q", packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def open_consumer(work: Work, op: OpenConsumer) -> OpenedConsumer:
    state = work.catalog.queue(op.queue)
    which = (state.id, op.consumer)
    if work.execute(work.sql.find_consumer, which).fetchone() is None:
        work.execute(work.sql.insert_consumer, which)
    found = _find(work, state, op.consumer)
    if found.is_closing or (found.held_until > work.now and found.owner != op.owner):
        raise _in_use(work, state, found)
    epoch = work.execute(work.sql.open_consumer, (found.id, op.owner, op.hold_ms, work.now + op.hold_ms)).get
    return OpenedConsumer(epoch, [claim.number for claim in _open_claims(work, found)], found.last)


def _find(work: Work, state: QueueState, name: str) -> _Consumer:
    row = work.execute(work.sql.find_consumer, (state.id, name)).fetchone()
    if row is None:
        raise _unknown(work, state, name)
    return _Consumer(*row)


def _unknown(work: Work, state: QueueState, name: str) -> ConsumerNotFound:
    return ConsumerNotFound(state.name, name, names_near(work.execute, work.sql.consumers_near, name, state.id))


def _in_use(work: Work, state: QueueState, found: _Consumer) -> ConsumerInUse:
    return ConsumerInUse(state.name, found.name, found.owner, max(found.held_until - work.now, 0))


def _own(work: Work, state: QueueState, name: str, epoch: int) -> _Consumer:
    """Return the consumer if the caller opened it last, or raise `Fenced`. No other may open it for the agreed time."""
    found = _find(work, state, name)
    if found.is_closing or found.epoch != epoch:
        raise Fenced(state.name, name, epoch, found.epoch)
    return found


def _spend(work: Work, own: _Consumer, number: int) -> None:
    """Remember that claims up to a number were answered or finished under this epoch."""
    if number > own.spent:
        work.execute(work.sql.spend_claims, (own.id, number))


def _open_claims(work: Work, consumer: _Consumer) -> list[_ClaimRow]:
    return [_ClaimRow(*row) for row in work.execute(work.sql.claims_of, (consumer.id,))]


def renew(work: Work, op: RenewConsumer) -> None:
    own = _own(work, work.catalog.queue(op.queue), op.consumer, op.epoch)
    hold_ms = own.hold_ms if op.hold_ms is None else op.hold_ms
    work.execute(work.sql.keep_consumer, (own.id, hold_ms, work.now + hold_ms))
    work.execute(work.sql.renew_claims, (own.id, work.now + op.lease_ms))


def finish_claims(work: Work, op: FinishClaims) -> Progress:
    """Ack some messages of the first claim, of those up to a number. Messages that others took from it are no error."""
    state = work.catalog.queue(op.queue)
    own = _own(work, state, op.consumer, op.epoch)
    # With the first step: a late request must not make the claim anew as soon as the last step has removed it.
    _spend(work, own, op.up_to)
    number: int | None = work.execute(work.sql.first_claim, (own.id, op.up_to)).get
    if number is None:
        return Progress(0, True)
    if not _ClaimRow(*work.execute(work.sql.find_claim, (own.id, number)).fetchall()[0]).lease_until:
        # It is on its way back to the queue: who reads it has not seen all of it, and may have seen nothing.
        return Progress(_give_back(work, state, own, number, op.limit), False)
    limit = op.limit if state.policy.keep == "delete" else min(op.limit, _ARCHIVED_AT_ONCE)
    token, ids = _take_ids(work, own, number, limit)
    if ids:
        _finish(work, state, [Ref(id, token) for id in ids], token)
    return Progress(len(ids), False)


def _finish(work: Work, state: QueueState, refs: list[Ref], token: str) -> None:
    """Ack messages of one token. Those that are kept move in one statement, unless groups have to be looked at."""
    policy = state.policy
    if policy.fifo or policy.keep == "delete":
        ack(work, Ack(state.name, refs))
        return
    retention = policy.archive_retention_ms
    purge_at = None if retention is None else work.now + retention
    ids = work.integers([ref.id for ref in refs])
    work.execute(work.sql.archive_claimed, (ids, token, state.id, work.now, purge_at))
    delete_acked(work, state, refs)


def _take_ids(work: Work, consumer: _Consumer, number: int, limit: int) -> tuple[str, list[int]]:
    """Take some messages out of a claim, to be settled; return their token and ids. With the last, delete the claim."""
    row = work.execute(work.sql.first_claim_chunk, (consumer.id, number)).fetchone()
    if row is None:
        work.execute(work.sql.delete_claim, (consumer.id, number))
        return "", []
    chunk, token, packed = row
    ids = _unpacked(packed)
    if len(ids) > limit:
        work.execute(work.sql.shorten_claim_chunk, (consumer.id, number, chunk, _packed(ids[limit:])))
    else:
        work.execute(work.sql.delete_claim_chunk, (consumer.id, number, chunk))
    return token, ids[:limit]


def grow_claim(work: Work, op: GrowClaim) -> Progress:
    """Receive more messages into a claim, unless that was done already or the claim was sealed meanwhile.

    A number that was answered or finished under this epoch is not made again. The request may have lain in a server
    that stood still: what it would claim now is not what its client has read, and would be acked with the number.
    """
    state = work.catalog.queue(op.queue)
    own = _own(work, state, op.consumer, op.epoch)
    row = work.execute(work.sql.find_claim, (own.id, op.number)).fetchone()
    claim = None if row is None else _ClaimRow(*row)
    if claim is not None and not claim.lease_until:
        # It was on its way back to the queue, and goes there before there is another of its number.
        return Progress(_give_back(work, state, own, op.number, op.limit), False)
    if claim is not None and (claim.is_sealed or not op.chunk):
        return Progress(0, True)
    if claim is None and op.chunk:
        # What was begun is finished or given back already.
        return Progress(0, True)
    if op.number <= own.spent:
        raise ClaimSpent(state.name, own.name, op.number)
    received = receive(work, Receive(state.name, op.limit, lease_ms=LONGEST_MS, by=own.name)).messages
    if not received:
        return Progress(0, True)
    lease, ids = received[0].lease, [message.id for message in received]
    assert lease is not None
    work.execute(work.sql.add_to_claim, (own.id, op.number, work.now + op.lease_ms, len(ids)))
    work.execute(work.sql.insert_claim_chunk, (own.id, op.number, op.chunk, len(ids), lease.token, _packed(ids)))
    work.execute(work.sql.set_last_claim, (own.id, op.number))
    return Progress(len(ids), False, op.chunk + 1)


def seal_claim(work: Work, op: SealClaim) -> Claim:
    """Seal a claim, so that nothing more is added, and renew its lease: it is about to be read."""
    own = _own(work, work.catalog.queue(op.queue), op.consumer, op.epoch)
    work.execute(work.sql.keep_consumer, (own.id, own.hold_ms, max(own.held_until, work.now + own.hold_ms)))
    row = work.execute(work.sql.find_claim, (own.id, op.number)).fetchone()
    if row is None or not _ClaimRow(*row).lease_until:
        return Claim(op.number, 0, [])
    work.execute(work.sql.seal_claim, (own.id, op.number, work.now + op.lease_ms))
    _spend(work, own, op.number)
    counts: dict[int, int] = {}
    for chunk, messages in work.execute(work.sql.claim_chunks, (own.id, op.number)):
        counts[chunk // CHUNKS_IN_PART] = counts.get(chunk // CHUNKS_IN_PART, 0) + messages
    return Claim(op.number, sum(counts.values()), [ClaimPart(part, count) for part, count in counts.items()])


def _chunk(work: Work, state: QueueState, op: ReadClaim | ReadClaimColumns) -> tuple[str, list[int]] | None:
    """Return the token and the ids of a chunk; None if the claim has no more of them."""
    row = work.execute(work.sql.look_at_consumer, (state.id, op.consumer)).fetchone()
    if row is None:
        raise _unknown(work, state, op.consumer)
    consumer = _Consumer(*row)
    claim = work.execute(work.sql.find_claim, (consumer.id, op.number)).fetchone()
    if claim is None or not _ClaimRow(*claim).lease_until:
        # Not what is left of it, either, while it is given back: who reads it would take that for the whole.
        raise ClaimNotFound(state.name, op.consumer, op.number)
    found = work.execute(work.sql.find_claim_chunk, (consumer.id, op.number, op.chunk)).fetchone()
    if found is None:
        first = work.execute(work.sql.first_claim_chunk, (consumer.id, op.number)).fetchone()
        if first is not None and first[0] < op.chunk:
            return None
    else:
        count, token, packed = found
        ids = _unpacked(packed)
        if len(ids) == count:
            return token, ids
    # Nor while it is finished, which takes the first messages away first.
    raise ClaimNotFound(state.name, op.consumer, op.number)


def read_claim_columns(work: Work, op: ReadClaimColumns) -> Columns:
    state = work.catalog.queue(op.queue)
    found = _chunk(work, state, op)
    if found is None:
        return Columns(0, {}, None)
    token, ids = found
    parameters = (work.integers(ids), token, state.id, work.now)
    rows = _in_order(ids, work.execute(work.sql.export_claimed, parameters).fetchall())
    return Columns(len(rows), columns_of(work, state, rows), op.chunk + 1)


def read_claim(work: Work, op: ReadClaim) -> list[Message] | None:
    state = work.catalog.queue(op.queue)
    found = _chunk(work, state, op)
    if found is None:
        return None
    token, ids = found
    rows = work.execute(work.sql.claimed_messages, (work.integers(ids), token)).fetchall()
    return [stored_message(work, row) for row in _in_order(ids, rows)]


def _in_order(ids: list[int], rows: list[Row]) -> list[Row]:
    """Return message rows, which begin with their ids, in the order in which they were received."""
    by_id = {row[0]: row for row in rows}
    return [by_id[id] for id in ids if id in by_id]


def list_consumers(work: Work, op: ListConsumers) -> list[ConsumerInfo]:
    state = work.catalog.queue(op.queue)
    rows = work.execute(work.sql.consumers_of, (state.id, op.after, op.limit)).fetchall()
    return [_info(work, state, _Consumer(*row)) for row in rows]


def _info(work: Work, state: QueueState, consumer: _Consumer) -> ConsumerInfo:
    claims = [OpenClaim(claim.number, claim.messages, claim.lease_until) for claim in _open_claims(work, consumer)]
    held_until = consumer.held_until if consumer.held_until > work.now else None
    return ConsumerInfo(consumer.name, state.name, consumer.owner, consumer.epoch, held_until, consumer.last, claims)


def close_consumer(work: Work, op: CloseConsumer) -> None:
    """Let all claims be given back, and the consumer be forgotten after that."""
    state = work.catalog.queue(op.queue)
    found = _find(work, state, op.consumer)
    if found.held_until > work.now and not op.force:
        raise _in_use(work, state, found)
    work.execute(work.sql.give_claims_back, (found.id,))
    work.execute(work.sql.close_consumer, (found.id,))
    _forget_if_done(work, found.id)


def give_back_claims(work: Work, op: GiveBackClaims) -> Progress:
    """Do a step of what closing a consumer has begun: give back some messages."""
    state = work.catalog.queue(op.queue)
    row = work.execute(work.sql.find_consumer, (state.id, op.consumer)).fetchone()
    if row is None or not _Consumer(*row).is_closing:
        return Progress(0, True)
    consumer = _Consumer(*row)
    number: int | None = work.execute(work.sql.first_claim, (consumer.id, (1 << 62))).get
    if number is None:
        return Progress(0, True)
    return Progress(_give_back(work, state, consumer, number, op.limit), False)


def _give_back(work: Work, state: QueueState, consumer: _Consumer, number: int, limit: int) -> int:
    """Give some messages of a claim back, as if their leases had run out; return how many."""
    token, ids = _take_ids(work, consumer, number, limit)
    if not ids:
        _forget_if_done(work, consumer.id, consumer.is_closing)
    elif state.policy.fifo:
        facts = len(work.facts)
        extend(work, Extend(state.name, [Extension(Ref(id, token), 0) for id in ids]))
        # A lease that runs out is no news either.
        del work.facts[facts:]
    else:
        # The same in one statement, where no group has to be looked at.
        work.execute(work.sql.end_leases, (work.integers(ids), token, work.now))
        work.woken.add(state.name)
    return len(ids)


def _forget_if_done(work: Work, consumer_id: int, is_closing: int = 1) -> None:
    if is_closing and work.execute(work.sql.first_claim, (consumer_id, (1 << 62))).fetchone() is None:
        work.execute(work.sql.delete_consumer, (consumer_id,))


def sweep_claims(work: Work, limit: int) -> int:
    """Give back some messages of a claim whose lease has ended; return the number of rows."""
    for consumer_id, number in work.execute(work.sql.expired_claims, (work.now, _LOOKED_AT)).fetchall():
        row = work.execute(work.sql.consumer_by_id, (consumer_id,)).fetchone()
        state = None if row is None else work.catalog.queue_by_id(row[1])
        if row is None or state is None:
            continue
        claim = work.execute(work.sql.find_claim, (consumer_id, number)).fetchone()
        if claim is None or _ClaimRow(*claim).lease_until > work.now:
            # Its owner has come back for it before we had the consumer.
            continue
        work.execute(work.sql.give_claim_back, (consumer_id, number))
        return _give_back(work, state, _Consumer(*row), number, limit) or 1
    return 0


def delete_consumers_of(work: Work, queue_id: int, limit: int) -> int:
    """Remove consumers of a queue that was deleted; return how many."""
    rows = work.execute(work.sql.consumers_of, (queue_id, "", limit)).fetchall()
    for row in rows:
        for statement in ("delete_claim_chunks_of", "delete_claims_of", "delete_consumer"):
            work.execute(work.sql[statement], (row[0],))
    return len(rows)
