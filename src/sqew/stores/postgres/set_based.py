"""Fast paths to send, receive and ack plain messages: a whole batch in one statement that commits itself.

Most messages have no key, no group and a small body, and most queues one lane, one priority and no archive. For these
the general way (begin, look whether other servers changed something, read, write, commit) takes five round trips and
more. Here the statement itself makes sure that the queues are still what this connection thinks they are; where it
finds anything else it changes nothing, and the operation goes the general way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby, repeat
from operator import itemgetter
from typing import Any, TypeVar
from zlib import crc32

from msgspec import Struct

from sqew.errors import OutcomeUnknown
from sqew.ids import new_token
from sqew.model import Fact, Lease, Message, NewMessage, Received, Sent, Settled
from sqew.operations import Ack, Operation, Receive, Send
from sqew.stores.postgres.batch import Batch
from sqew.stores.postgres.connection import SQL, SYNC_COMMIT, FetchedRows, PostgresConnection
from sqew.stores.postgres.watermarks import Bucket, Watermarks
from sqew.stores.sql.catalog import Catalog, QueueState
from sqew.stores.sql.receive import NEVER, delivered
from sqew.stores.sql.rows import INLINE_BODY_BYTES, checksum, encode_headers, size_of
from sqew.stores.sql.send import due_at_of
from sqew.stores.sql.transaction import Row

_MOST_ROWS = 2_000
"""Most messages that one statement writes or deletes, unless a single operation has more."""
_MOST_QUEUES = 1_000
"""Number of known queues beyond which acks by ids alone go the general way, which need not name them all."""
_MOST_CLAIMED = 1_000
"""Most messages that one statement claims: with small messages that is far from `sqew.rules.limits.MOST_BYTES`."""
_IDS = range(1 << 63)

T = TypeVar("T")


class _Rows(Struct, gc=False):
    """New messages by column. What neighbours have in common is given once: an array that is sent costs 0.2 µs and more
    for each of its elements."""

    kinds: list[Row]
    """queue_id, lane_id, priority, due_at, expires_at and is_text."""
    starts: list[int]
    """The place of the first message of each kind. The first of all has place 1, as in PostgreSQL."""
    checksums: list[int]
    headers: list[bytes | None]
    bodies: list[bytes]

    def __len__(self) -> int:
        return len(self.bodies)

    def add(self, other: _Rows) -> None:
        before = len(self)
        for kind, start in zip(other.kinds, other.starts, strict=True):
            if not self.kinds or self.kinds[-1] != kind:
                self.kinds.append(kind)
                self.starts.append(before + start)
        self.checksums += other.checksums
        self.headers += other.headers
        self.bodies += other.bodies

    @property
    def are_alike(self) -> bool:
        """True if they differ only in their bodies."""
        return len(self.kinds) == 1 and not any(self.headers)

    def each(self) -> Iterator[Row]:
        """Yield the kind of each row."""
        ends = [*self.starts[1:], len(self) + 1]
        for kind, start, end in zip(self.kinds, self.starts, ends, strict=True):
            yield from repeat(kind, end - start)


class _Send(Struct, frozen=True, gc=False):
    """A send that can take the fast path, and the rows that it makes."""

    place: int
    state: QueueState
    rows: _Rows


class _Ack(Struct, frozen=True, gc=False):
    place: int
    state: QueueState
    op: Ack


class _Finish(Struct, frozen=True, gc=False):
    """An ack by ids alone, while the leases last: the way in which hq completes jobs."""

    place: int
    op: Ack


class _Claim(Struct, frozen=True, gc=False):
    place: int
    state: QueueState
    op: Receive
    bucket: Bucket


TURNS = {Send: 0, Ack: 1, Receive: 2}
"""Operations that have a fast path, and the order in which they run."""


class _Sorted:
    """The operations of a batch that can take a fast path. None overtakes an earlier one on the same queue."""

    def __init__(self, catalog: Catalog, batch: Batch) -> None:
        self.sends: list[_Send] = []
        self.acks: list[_Ack] = []
        self.finishes: list[_Finish] = []
        self.claims: dict[tuple[int, Bucket], list[_Claim]] = {}
        self._named: set[int] = set()
        self._catalog, self._now = catalog, batch.now
        # By queue: whose turn has come.
        turns: dict[str, int] = {}
        for place, op in batch.pending:
            if type(op) is Ack and op.queue is None and self._are_leased(op):
                # It changes nothing but what is leased now, so it goes before or after whatever else there is.
                self.finishes.append(_Finish(place, op))
                continue
            turn = TURNS.get(type(op), -1)
            queue: str = getattr(op, "queue", None) or ""
            state = catalog.by_name.get(queue) if turn >= turns.get(queue, 0) else None
            if state is not None and self._takes(place, op, state):
                turns[queue] = turn
            elif op.writes and not queue:
                # Nobody knows which it changes.
                return
            elif op.writes:
                turns[queue] = len(TURNS)

    def _takes(self, place: int, op: Operation[Any], state: QueueState) -> bool:
        if type(op) is Send:
            rows = _rows(state, op, self._now)
            if rows is not None:
                self.sends.append(_Send(place, state, rows))
                return True
        elif type(op) is Receive:
            bucket = _only_bucket(state, op)
            if bucket is not None:
                self.claims.setdefault((state.id, bucket), []).append(_Claim(place, state, op, bucket))
                return True
        elif type(op) is Ack and self._are_deleted(op, state):
            self.acks.append(_Ack(place, state, op))
            return True
        return False

    def _are_deleted(self, op: Ack, state: QueueState) -> bool:
        """Return True if the ack only deletes, and no other operation of the batch names its messages."""
        if op.in_time or state.policy.keep != "delete" or state.policy.fifo:
            return False
        return self._names_alone(op)

    def _are_leased(self, op: Ack) -> bool:
        """Return True if the ack names leased messages by id alone, and no other operation of the batch names them."""
        return op.in_time and all(ref.token is ref.by is None for ref in op.refs) and self._names_alone(op)

    def _names_alone(self, op: Ack) -> bool:
        ids = {ref.id for ref in op.refs}
        if len(ids) < len(op.refs) or not ids.isdisjoint(self._named) or not all(id in _IDS for id in ids):
            return False
        self._named |= ids
        return True


async def run(connection: PostgresConnection, catalog: Catalog, marks: Watermarks, batch: Batch) -> None:
    """Run the operations that can take a fast path. The rest of the batch stays pending."""
    found = _Sorted(catalog, batch)
    for sends in _in_parts(found.sends, lambda send: len(send.rows), _MOST_ROWS):
        await _send(connection, catalog, marks, batch, sends)
    for acks in _in_parts(found.acks, lambda ack: len(ack.op.refs), _MOST_ROWS):
        await _ack(connection, catalog, batch, acks)
    for finishes in _in_parts(found.finishes, lambda finish: len(finish.op.refs), _MOST_ROWS):
        await _finish(connection, catalog, batch, finishes)
    for of_bucket in found.claims.values():
        for claims in _in_parts(of_bucket, lambda claim: claim.op.limit, _MOST_CLAIMED):
            await _receive(connection, catalog, marks, batch, claims)


def _in_parts(entries: Sequence[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield the entries in parts, each as large as ``most`` allows."""
    part: list[T] = []
    size = 0
    for entry in entries:
        if part and size + size_of(entry) > most:
            yield part
            part, size = [], 0
        part.append(entry)
        size += size_of(entry)
    if part:
        yield part


def _rows(state: QueueState, op: Send, now: int) -> _Rows | None:
    """Return the rows that `insert_plain` takes; None if a message is not plain, or its queue has more to check."""
    policy = state.policy
    if policy.fifo or policy.deduplicate != "key" or policy.quota is not None or policy.rate_limit is not None:
        return None
    most = policy.max_body_bytes
    rows = _Rows([], [], [], [], [])
    checksums, all_headers, bodies = rows.checksums, rows.headers, rows.bodies
    known: dict[Row, Row | None] = {}
    said_before: Row = ()
    is_text = 0
    for message in op.messages:
        body = message.body
        # Most messages of a send say the same of themselves.
        said = message.lane, message.priority, message.delay_ms, message.ttl_ms, message.format
        if said != said_before:
            kind = known[said] if said in known else known.setdefault(said, _kind(state, message, now))
            if kind is None:
                return None
            rows.kinds.append(kind)
            rows.starts.append(len(bodies) + 1)
            said_before, is_text = said, kind[5]
        if (
            message.key is not None
            or message.group is not None
            or len(body) > INLINE_BODY_BYTES
            or (most is not None and size_of(message) > most)
        ):
            return None
        headers = encode_headers(message.headers) if message.headers else None
        checksums.append(checksum(body, headers, is_text) if headers else crc32(body, is_text))
        all_headers.append(headers)
        bodies.append(body)
    return rows


def _kind(state: QueueState, message: NewMessage, now: int) -> Row | None:
    """Return a row of `_Rows.kinds`; None if the queue does not have that lane, or never had that priority there."""
    policy = state.policy
    lane = state.default_lane if message.lane is None else state.lane_ids.get(message.lane)
    if lane is None or message.priority not in state.priorities(lane):
        return None
    due_at = due_at_of(state, now, message.delay_ms)
    ttl_ms = policy.ttl_ms if message.ttl_ms is None else message.ttl_ms
    expires_at = None if ttl_ms is None else now + ttl_ms
    return state.id, lane, message.priority, due_at, expires_at, message.format == "text"


async def _send(
    connection: PostgresConnection, catalog: Catalog, marks: Watermarks, batch: Batch, sends: Sequence[_Send]
) -> None:
    rows = _Rows([], [], [], [], [])
    for send in sends:
        rows.add(send.rows)
    if not rows.bodies:
        return
    try:
        answer = await _inserted(connection, catalog, batch, rows)
    except OutcomeUnknown as unknown:
        # Receivers are to look: it may be there.
        batch.woken.update(send.state.name for send in sends)
        _doubt(batch, sends, unknown)
        return
    ids = [row[0] for row in answer]
    if not ids:
        # The queues are not what they were.
        catalog.forget()
        return
    facts, start = batch.facts, 0
    for send in sends:
        name, lane_names = send.state.name, send.state.lane_names
        theirs = ids[start : start + len(send.rows)]
        start += len(theirs)
        sent: list[Sent] = []
        for (_queue_id, lane, _priority, due_at, *_), id in zip(send.rows.each(), theirs, strict=True):
            facts.append(Fact("sent", name, lane_names[lane], id, 0))
            sent.append(Sent(id, False, due_at))
        batch.woken.add(name)
        batch.resolve(send.place, sent)
    marks.sent({send.state.name for send in sends}, batch.took_ms())


async def _inserted(connection: PostgresConnection, catalog: Catalog, batch: Batch, rows: _Rows) -> FetchedRows:
    sync_commit = None if batch.sync_commit is None else SYNC_COMMIT[batch.sync_commit]
    if rows.are_alike:
        return await connection.fetch_alone(
            SQL.insert_alike, catalog.version, batch.now, *rows.kinds[0], rows.checksums, rows.bodies, sync_commit
        )
    return await connection.fetch_alone(
        SQL.insert_plain,
        catalog.version,
        batch.now,
        rows.starts,
        *zip(*rows.kinds, strict=True),
        rows.checksums,
        rows.headers,
        rows.bodies,
        sync_commit,
    )


def _doubt(batch: Batch, entries: Sequence[_Send | _Ack | _Finish | _Claim], unknown: OutcomeUnknown) -> None:
    """Answer entries that may or may not have been done with ``unknown``: they must not be done again here."""
    for entry in entries:
        batch.resolve(entry.place, unknown)


def _only_bucket(state: QueueState, op: Receive) -> Bucket | None:
    """Return the only (lane, priority) that a receive looks into; None if it has more, or needs the general way."""
    if state.policy.fifo or op.finish or op.limit > _MOST_CLAIMED:
        return None
    lane = state.lane_ids.get(op.lane) if op.lane is not None else state.lanes[0] if len(state.lanes) == 1 else None
    priorities = [] if lane is None else state.priorities(lane)
    return (lane, priorities[0]) if lane is not None and len(priorities) == 1 else None


async def _receive(
    connection: PostgresConnection, catalog: Catalog, marks: Watermarks, batch: Batch, claims: Sequence[_Claim]
) -> None:
    """Claim for several receives at once. Those that get nothing go the general way: there may be more to it."""
    state, bucket, now = claims[0].state, claims[0].bucket, batch.read_clock()
    policy = state.policy
    leases = [
        Lease(new_token(), now + (policy.visibility_ms if op.lease_ms is None else op.lease_ms), op.by)
        for op in (claim.op for claim in claims)
    ]
    # The first place of each, and the one after all.
    *starts, end = accumulate((claim.op.limit for claim in claims), initial=1)
    last_attempt = policy.max_attempts or NEVER
    position = marks.position(state.name, bucket, now)
    try:
        answer = await connection.fetch_alone(
            SQL.claim_plain, state.id, *bucket, now, *position, end - 1, catalog.version, last_attempt, starts,
            [lease.expires_at for lease in leases], [lease.token for lease in leases], [lease.by for lease in leases],
        )  # fmt: skip
    except OutcomeUnknown as unknown:
        _doubt(batch, claims, unknown)
        return
    rows = answer.fetchall()
    if not rows:
        return
    # available_at (4) is where they stood until now; and RETURNING has an order of its own.
    rows.sort(key=lambda row: (row[4], row[0]))
    marks.reach(state.name, bucket, position, (rows[-1][4], rows[-1][0]), now)
    of_slot: dict[int, list[Row]] = {}
    for row in rows:
        of_slot.setdefault(row[18], []).append(row)
    for slot, theirs in of_slot.items():
        claim, lease = claims[slot - 1], leases[slot - 1]
        if not all(map(_is_intact, theirs)):
            marks.forget(state.name)
            await connection.fetch(SQL.unclaim, [row[0] for row in theirs], lease.token)
            continue
        messages = [_message(state, lease, row, now) for row in theirs]
        _record(batch, state, messages, last_attempt)
        batch.resolve(claim.place, Received(messages, lease_ms=lease.expires_at - now))


def _is_intact(row: Row) -> bool:
    # Positions in {delivered}: is_text 12, checksum 13, headers 14, body 15.
    is_text, check, headers, body = row[12:16]
    return bool((checksum(body, headers, is_text) if headers else crc32(body, is_text)) == check)


def _message(state: QueueState, lease: Lease, row: Row, now: int) -> Message:
    return delivered(state, lease, row[:18], row[15], row[3], row[4], now)


def _record(batch: Batch, state: QueueState, messages: Sequence[Message], last_attempt: int) -> None:
    facts, now = batch.facts, batch.now
    for m in messages:
        assert m.lease is not None
        facts.append(Fact("received", m.queue, m.lane, m.id, m.attempts, m.lease.by, now - m.available_at))
        if m.attempts >= last_attempt and state.policy.dead_letter is not None:
            # Who waits for dead letters must know when it may die.
            batch.woken.add(state.policy.dead_letter)


async def _ack(connection: PostgresConnection, catalog: Catalog, batch: Batch, acks: Sequence[_Ack]) -> None:
    # In the order of their ids, as all who lock several do.
    named = sorted((ref.id, ack.state.id, ref.token, ref.by) for ack in acks for ref in ack.op.refs)
    if not named:
        return
    # Those next to each other mostly are of one lease: what is to be said of it is said once.
    ids: list[int] = []
    starts: list[int] = []
    rights: list[Row] = []
    for right, theirs in groupby(named, itemgetter(1, 2, 3)):
        starts.append(len(ids) + 1)
        rights.append(right)
        ids += [entry[0] for entry in theirs]
    columns = zip(*rights, strict=True)
    counted = {ack.state.id for ack in acks if ack.state.policy.quota is not None}
    try:
        if counted:
            answer = await connection.fetch_alone(SQL.finish_counted, catalog.version, ids, starts, *columns, counted)
        elif len(rights) == 1 and rights[0][1] is not None and rights[0][2] is None:
            queue_id, token, _ = rights[0]
            answer = await connection.fetch_alone(SQL.finish_alike, catalog.version, ids, queue_id, token)
        else:
            answer = await connection.fetch_alone(SQL.finish_plain, catalog.version, ids, starts, *columns)
    except OutcomeUnknown as unknown:
        _doubt(batch, acks, unknown)
        return
    finished = {row[0]: row for row in answer}
    _resolve(batch, catalog, acks, finished)


async def _finish(connection: PostgresConnection, catalog: Catalog, batch: Batch, finishes: Sequence[_Finish]) -> None:
    known = catalog.by_name
    if len(known) > _MOST_QUEUES:
        return
    plain = [state.id for state in known.values() if not (state.policy.fifo or state.policy.quota is not None)
             and state.policy.keep == "delete"]  # fmt: skip
    ids = sorted({ref.id for finish in finishes for ref in finish.op.refs})
    if not plain or not ids:
        return
    try:
        answer = await connection.fetch_alone(SQL.finish_leased, catalog.version, ids, batch.now, plain)
    except OutcomeUnknown as unknown:
        _doubt(batch, finishes, unknown)
        return
    _resolve(batch, catalog, finishes, {row[0]: row for row in answer})


def _resolve(batch: Batch, catalog: Catalog, acks: Sequence[_Ack | _Finish], finished: dict[int, Row]) -> None:
    """Report what was deleted. What was not goes the general way, which finds out why."""
    facts, now = batch.facts, batch.now
    for ack in acks if finished else ():
        done = []
        for ref in ack.op.refs:
            if (row := finished.get(ref.id)) is not None:
                id, lane_id, attempts, by, received_at = row[:5]
                state = ack.state if isinstance(ack, _Ack) else catalog.known_by_id(row[5])
                assert state is not None
                lane = state.lane_names[lane_id]
                facts.append(Fact("acked", state.name, lane, id, attempts, by, now - (received_at or now)))
                done.append(Settled(id))
        if len(done) == len(ack.op.refs):
            batch.resolve(ack.place, done)
        elif done:
            batch.resolve_part(ack.place, ack.op, {settled.id for settled in done})
