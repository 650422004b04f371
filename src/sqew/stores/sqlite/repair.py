"""Mending of rows that hold what was never written to them.

SQLite's columns take values of any type. The type stands in the header of each record, where one flipped bit turns a
number into text, bytes or nothing, and often all columns behind it as well. What can't be read must not stop what
can. So when an operation meets such a row, every column of a wrong type gets a harmless value, indexes that no
longer agree with their tables are made anew, and the operation is tried again. The content of a message has its
checksum: if that still holds it is delivered, otherwise it goes to the archive as damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import chain, count
from typing import Any

import apsw
import msgspec

from sqew.model import Policy
from sqew.rules.values import LARGEST_ID
from sqew.stores.sql.fifo import refresh_head
from sqew.stores.sql.rows import HIGHEST
from sqew.stores.sql.transaction import Execute, Row, Work
from sqew.stores.sqlite.connection import connect
from sqew.stores.sqlite.unreadable_rows import (
    broken_tables,
    check_pages,
    remake,
    still_unreadable,
    take_out,
    unreadable_rows,
)

_LANE = "SELECT 1 FROM sqew_lane l WHERE l.queue_id = sqew_message.queue_id AND l.id = lane_id"
_POLICY = "SELECT CAST(policy AS BLOB) FROM sqew_queue q WHERE q.id = queue_id"
_decode_policy = msgspec.json.Decoder(Policy).decode
_encode = msgspec.json.Encoder().encode
_FIFO = "(SELECT json_valid(policy) AND policy ->> '$.fifo' FROM sqew_queue q WHERE q.id = queue_id)"
_NOW = "max(?1, 0)"
_DELETED = ""
"""Mark of a column for which no value is harmless, in a row that can be done without: the row is deleted."""

_HARMLESS: dict[str, Mapping[str, str | None]] = {
    "sqew_message": {
        # No queue: nobody meets it, and its content stays where it is for whoever restores it.
        "queue_id": "-1",
        # The first lane: mostly there is no other.
        "lane_id": "coalesce((SELECT min(id) FROM sqew_lane l WHERE l.queue_id = sqew_message.queue_id), 0)",
        "priority": "0",
        "due_at": f"CASE WHEN NOT {_FIFO} THEN {_NOW} END",
        "attempts": "0",
        "available_at": _NOW,
        "created_at": _NOW,
        "group_id": f"CASE WHEN {_FIFO} THEN '' END",
        # No checksum is negative: it matches nothing.
        "is_text": "0",
        "checksum": "-1",
    },
    "sqew_archive": {
        "lane": "''", "priority": "0", "attempts": "0", "available_at": "0", "created_at": "0", "finished_at": "0",
        "outcome": "'dead'", "is_text": "0", "checksum": "-1",
    },
    "sqew_meta": {
        # Any other version has everybody read anew.
        "catalog": "abs(random() % 1000000000) + 1000000000",
        "keys": "abs(random() % 1000000000) + 1000000000",
        "subscriptions": "abs(random() % 1000000000) + 1000000000",
        # Messages that are there get other UUIDs.
        "salt": "random()",
        # Higher than any that was given out: nobody has sent more than a message per millisecond since 1970.
        # Of messages that are gone nothing else is known.
        "next_id": "(SELECT max(?1, coalesce((SELECT max(id) FROM sqew_message), 0) + 1000,"
        " coalesce((SELECT max(id) FROM sqew_archive), 0) + 1000,"
        " coalesce((SELECT max(message_id) FROM sqew_key WHERE typeof(message_id) = 'integer'), 0) + 1000))",
    },
    # What can be read of a policy is kept, and the rest made up afterwards.
    "sqew_queue": {
        "name": "'damaged-' || id", "policy": "coalesce(CAST(policy AS TEXT), '')", "created_at": "0", "extras": "'{}'",
    },
    "sqew_lane": {"turn": "0", **dict.fromkeys(("queue_id", "id", "name"), _DELETED)},
    "sqew_bucket": dict.fromkeys(("queue_id", "lane_id", "priority"), _DELETED),
    "sqew_key": dict.fromkeys(("queue_id", "key", "message_id", "expires_at"), _DELETED),
    "sqew_activity": dict.fromkeys(("queue_id", "lane", "name", "minute", "count"), _DELETED),
    "sqew_attempt": dict.fromkeys(("queue_id", "id", "token", "lease_until", "messages", "expires_at"), _DELETED),
    "sqew_redating": dict.fromkeys(("queue_id", "kind", "since", "former", "reached"), _DELETED),
    "sqew_unsubscription": dict.fromkeys(("id", "pattern", "protocol", "target", "form"), _DELETED),
    "sqew_subscription": {
        "created_at": "0", "filtered": "0",
        **dict.fromkeys(("pattern", "protocol", "target", "form", "uuid", "details", "state"), _DELETED),
    },
    "sqew_topic": {"attributes": "'{}'", "tags": "'{}'", "created_at": "0"},
    # What can't be read of a key opens nothing: nobody knows what these are digests of. A key is never deleted, for a
    # queue without keys may be open to all.
    "sqew_api_key": {
        "id": "'damaged-' || hex(randomblob(6))", "digest": "randomblob(32)", "scopes": "''", "label": "''",
        "secret": "hex(randomblob(32))", "created_at": "0",
    },
    "sqew_payload": {
        "routing_key": "''", "message_id": "''", "form": "0", "is_text": "0", "checksum": "-1", "pending": "1",
        "kind": "'Notification'",
    },
    "sqew_delivery": {
        "payload_id": "-1", "subscription_id": "-1", "endpoint": "''", "checksum": "-1", "created_at": "0",
        "due_at": _NOW, "claimed": "0", "attempts": "0",
    },
    "sqew_schedule": {
        "name": "'damaged-' || id", "version": "0", "status": "'paused'", "target_kind": "'queue'", "is_text": "0",
        "checksum": "-1", "due_at": f"CASE WHEN typeof(slot_at) = 'integer' THEN max(slot_at, {_NOW}) END",
    },
    "sqew_move_task": {
        "id": "'damaged-' || number", "queue_id": "-1", "status": "'failed'", "moved": "0", "to_move": "0",
        "reason": "''", "started_at": "0", "last_id": "0",
    },
    # No other consumer has these numbers, and who has it open is told to open it again.
    "sqew_consumer": {
        "queue_id": "-1", "name": "'damaged-' || id", "epoch": "abs(random() % 1000000000)",
        "last": "abs(random() % 1000000000) + 1000000000", "owner": "''", "hold_ms": "0",
        "held_until": "0", "is_closing": "0",
        # As if all of its claims had been answered: none of them is made again.
        "spent": "CASE WHEN typeof(last) = 'integer' THEN last ELSE 0 END",
    },
    # It has ended: what it holds is given back, and delivered again.
    "sqew_claim": {"lease_until": "1", "messages": "0", "is_sealed": "1"},
    "sqew_claim_chunk": dict.fromkeys(("consumer_id", "number", "chunk", "messages", "token", "ids"), _DELETED),
    # An epoch that is lost stays so: any other would have messages sent twice, or never.
    "sqew_writer": {"epoch": None, "promoted": "0", "duplicates": "0"},
    "sqew_staging": {"epoch": None, "due_at": _NOW, "ends_at": f"{_NOW} + 86400000"},
    "sqew_signing_key": {"id": "'damaged-' || number", "created_at": "0"},
    "sqew_part": {"messages": "0", "turn": "0"},
}  # fmt: skip
"""Values for columns whose own value has the wrong type. One that may be NULL, and is not named, gets NULL.
None: it stays as it is, and an operation that needs it says that the file is damaged.
"""

_JSON = {
    ("sqew_queue", "extras"), ("sqew_topic", "attributes"), ("sqew_topic", "tags"),
    ("sqew_subscription", "details"), ("sqew_attempt", "messages"),
}  # fmt: skip

_ONE_OF = {
    ("sqew_archive", "outcome"): "('done', 'dead')",
    ("sqew_subscription", "protocol"): "('queue', 'http', 'https')",
    ("sqew_subscription", "state"): "('confirmed', 'pending', 'deleted')",
    ("sqew_schedule", "status"): "('active', 'paused')",
    ("sqew_schedule", "target_kind"): "('queue', 'topic')",
    ("sqew_move_task", "status"): "('running', 'completed', 'cancelled', 'failed')",
}
"""Values that the CHECKs of these columns allow: in a row that holds anything else, nothing could be mended."""

_CHOSEN = {
    ("sqew_consumer", "last"), ("sqew_consumer", "spent"), ("sqew_claim", "number"), ("sqew_claim_chunk", "number"),
    ("sqew_writer", "epoch"), ("sqew_staging", "epoch"),
}  # fmt: skip
"""Columns of numbers that callers choose: a clock's nanoseconds, say."""

_CHECKED = {"sqew_message", "sqew_archive", "sqew_payload", "sqew_schedule"}

_LEFT = {"sqew_migration", "sqew_body"}
"""Tables in which nothing is mended: the one is read only when a file is opened, the other has its checksums."""


class _Column:
    """A column, the condition by which its odd values are found, and the value that replaces them."""

    def __init__(self, table: str, name: str, kind: str, not_null: bool) -> None:
        self.name = name
        wrong = f"typeof({name}) <> '{kind.lower()}'"
        if kind == "TEXT":
            wrong = f"({wrong} OR NOT sqew_is_text(CAST({name} AS BLOB)))"
        elif kind == "INTEGER" and name != "salt":
            highest = LARGEST_ID if (table, name) in _CHOSEN else HIGHEST
            wrong = f"({wrong} OR {name} NOT BETWEEN -{highest} AND {highest})"
        if not not_null:
            wrong = f"({name} IS NOT NULL AND {wrong})"
        if (table, name) == ("sqew_message", "due_at"):
            # Without a group there is nothing that it could stand behind.
            wrong = f"({wrong} OR (due_at IS NULL AND group_id IS NULL))"
        if (table, name) in _JSON:
            wrong = f"({wrong} OR NOT json_valid({name}))"
        if (allowed := _ONE_OF.get((table, name))) is not None:
            wrong = f"({wrong} OR {name} NOT IN {allowed})"
        if (table, name) == ("sqew_queue", "policy"):
            # A policy of a newer Sqew can't be read either: a field that is added to it needs a migration.
            wrong = f"({wrong} OR NOT sqew_is_policy(CAST(policy AS BLOB)))"
        if (table, name) == ("sqew_lane", "name"):
            wrong = f"({wrong} OR NOT sqew_may_be_lane(({_POLICY}), CAST(name AS BLOB)))"
        if (table, name) == ("sqew_message", "lane_id"):
            wrong = f"({wrong} OR NOT EXISTS ({_LANE}))"
        self.is_odd = wrong
        self.value = _HARMLESS.get(table, {}).get(name, None if not_null else "NULL")


class _Table:
    """A table, and the statements that find and mend its odd rows."""

    def __init__(self, execute: Execute, name: str) -> None:
        self.name = name
        described = execute(f"PRAGMA table_info({name})").fetchall()
        keys = sum(bool(key) for *_, key in described)
        columns = [
            _Column(name, column, kind, bool(not_null or key))
            for _, column, kind, not_null, _, key in described
            # Content is read as bytes, whatever it is, and has its checksum; the id of a row is no part of its record.
            if not (kind == "BLOB" and name in _CHECKED) and not (key and keys == 1 and kind == "INTEGER")
        ]
        self.is_odd = f"FROM {name} NOT INDEXED WHERE {_any(columns)}"
        self.changes = []
        if fatal := [column for column in columns if column.value == _DELETED]:
            self.changes.append(f"DELETE FROM {name} WHERE {_any(fatal)}")  # noqa: S608 (of names of our own)
        if mendable := [column for column in columns if column.value]:
            values = [f"{one.name} = CASE WHEN {one.is_odd} THEN {one.value} ELSE {one.name} END" for one in mendable]
            self.changes.append(f"UPDATE {name} SET {', '.join(values)} WHERE {_any(mendable)}")  # noqa: S608


def _any(columns: list[_Column]) -> str:
    return " OR ".join(column.is_odd for column in columns)


def odd_rows(execute: Execute) -> Iterator[str]:
    """Yield a sentence for each table with rows that hold what was never written there."""
    for table, rows in odd_tables(execute):
        yield f"rows of {table.name} that hold what was never written there: {rows}"


def has_odd_queues(execute: Execute) -> bool:
    """Return True if the rows that describe queues can't be read: without its bucket a message is never found."""
    return next(odd_tables(execute, ("sqew_queue", "sqew_lane", "sqew_bucket")), None) is not None


def odd_tables(execute: Execute, names: Iterable[str] | None = None) -> Iterator[tuple[_Table, int]]:
    """Yield tables with rows that hold what was never written there, and the number of these rows."""
    for name in _tables(execute) if names is None else names:
        table = _Table(execute, name)
        rows = execute(f"SELECT count(*) {table.is_odd}").get
        if rows:
            yield table, rows


def mend(work: Work, connection: apsw.Connection, *, indexes: bool) -> list[str]:
    """Mend what can be mended, in a transaction of its own; return what that was, in a sentence each.

    ``indexes``: they are damaged as well. Raise SQLite's error if there is more wrong with the file.
    """
    # To look at every row takes a second or two for a million. Nobody need wait for that part of it.
    odd: list[_Table] = []
    if not indexes:
        try:
            odd = [table for table, _ in odd_tables(work.execute)]
        except apsw.CorruptError:
            # What was met is odd, but there is a row as well of which SQLite reads nothing: often it is the same one.
            indexes = True
        else:
            if not odd:
                return []
    unreadable = unreadable_rows(work.execute) if indexes else {}
    broken = broken_tables(work.execute) if indexes else {}
    places = [] if indexes else _places(work.execute)
    work.execute("BEGIN IMMEDIATE")
    try:
        if unreadable or broken:
            # Others have written since, and intact rows may be among them. Now they wait.
            with closing(connect(connection.filename, create=False)) as other:
                unreadable = still_unreadable(other.execute, unreadable)
                broken = broken_tables(other.execute, broken)
        reported = take_out(work.execute, unreadable, max(work.now, 0))
        reported += remake(work.execute, broken)
        if "sqew_meta" in broken:
            fresh = _HARMLESS["sqew_meta"]
            columns, values = ", ".join(fresh), ", ".join(map(str, fresh.values()))
            work.execute(f"INSERT INTO sqew_meta (id, {columns}) SELECT 1, {values}", (work.now,))
        if indexes:
            odd = [table for table, _ in odd_tables(work.execute)]
            places = _places(work.execute)
            reported += _reindex(work.execute)
        try:
            work.execute("SAVEPOINT mending")
            reported += _mend_rows(work, odd, places, broken)
        except (apsw.CorruptError, apsw.ConstraintError):
            # An index still has what a row had before.
            work.execute("ROLLBACK TO mending")
            reported += _reindex(work.execute)
            reported += _mend_rows(work, odd, places, broken)
        work.execute(work.sql.bump_catalog).fetchall()
        if unreadable or broken:
            check_pages(work.execute)
        work.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            work.execute("ROLLBACK")
        raise
    return reported


def _reindex(execute: Execute) -> list[str]:
    for table in _tables(execute):
        execute(f"REINDEX {table}")
    return ["indexes did not agree with their tables, and were made anew"]


def _places(execute: Execute) -> list[Row]:
    """Look up in an index the queue, lane and priority of messages whose own columns are damaged."""
    lost = "SELECT id FROM sqew_message NOT INDEXED WHERE typeof(queue_id) <> 'integer'"
    if execute(f"{lost} LIMIT 1").get is None:
        return []
    indexed = (
        "SELECT queue_id, lane_id, priority, id FROM sqew_message INDEXED BY sqew_message_due WHERE due_at IS NOT NULL"
    )
    return execute(f"{indexed} AND typeof(queue_id) = 'integer' AND +id IN ({lost})").fetchall()


def _mend_rows(work: Work, odd: list[_Table], places: list[Row], broken: Iterable[str]) -> list[str]:
    # Others may have mended it, and moved it elsewhere.
    still = "WHERE id = ? AND typeof(queue_id) <> 'integer'"
    work.executemany(f"UPDATE sqew_message SET queue_id = ?, lane_id = ?, priority = ? {still}", places)  # noqa: S608
    # A message whose lane is lost is no odd one once the lane is there again.
    queues = [table for table in odd if table.name in {"sqew_queue", "sqew_lane"}]
    reported = _change(work, queues)
    _restore_queues(work)
    reported += _change(work, [table for table in odd if table not in queues])
    work.execute(_MISSING_BUCKETS)
    if not _CLAIMED_IN.isdisjoint([*broken, *(table.name for table in odd)]):
        work.execute(_FORGET_CHUNKS)
        work.execute(_RELEASE_UNCLAIMED, (work.now, _CLAIMED_MS))
    _expose_heads(work)
    return reported


def _change(work: Work, odd: list[_Table]) -> list[str]:
    reported = []
    for table in odd:
        for change in table.changes:
            work.execute(change, (work.now,) if "?1" in change else ())
            if changed := work.changes():
                what = "deleted" if change.startswith("DELETE") else "mended"
                reported.append(f"rows of {table.name} that held what was never written there: {changed} {what}")
    return reported


def _restore_queues(work: Work) -> None:
    """Give queues the default for what they have lost of their policy, and make lost lanes anew."""
    known = "SELECT id, name, CAST(policy AS BLOB) FROM sqew_queue WHERE name IS NOT NULL"
    for queue_id, name, stored in work.execute(known).fetchall():
        lanes: dict[int, str] = dict(
            work.execute("SELECT id, name FROM sqew_lane WHERE queue_id = ? ORDER BY id", (queue_id,))
        )
        try:
            policy = _decode_policy(stored)
        except (TypeError, ValueError):
            guessed = Policy(lanes=dict.fromkeys(lanes.values(), 1) or Policy().lanes, fifo=name.endswith(".fifo"))
            policy = msgspec.structs.replace(guessed, **_fields_left(stored))
            work.execute("UPDATE sqew_queue SET policy = ? WHERE id = ?", (_encode(policy).decode(), queue_id))
        lost = [lane for lane in policy.lanes if lane not in lanes.values()]
        if not lost:
            # What follows reads all messages, and there may be thousands of queues.
            continue
        used = "SELECT DISTINCT lane_id FROM sqew_message WHERE queue_id = ? AND typeof(lane_id) = 'integer'"
        # The numbers that messages still have, and then those that nobody has.
        numbers = [id for (id,) in work.execute(f"{used} ORDER BY lane_id", (queue_id,)) if id not in lanes]
        free = chain(numbers, (id for id in count() if id not in lanes and id not in numbers))
        for lane in lost:
            work.execute("INSERT INTO sqew_lane (queue_id, id, name) VALUES (?, ?, ?)", (queue_id, next(free), lane))


def _fields_left(stored: bytes) -> dict[str, Any]:
    """Return the fields of a policy that can be read, though not all of it can."""
    left: dict[str, Any] = {}
    with suppress(ValueError):
        fields = msgspec.json.decode(stored)
        for name, value in fields.items() if type(fields) is dict else ():
            with suppress(ValueError):
                left[name] = getattr(msgspec.convert({name: value}, Policy), name)
    return left


_MISSING_BUCKETS = """
INSERT OR IGNORE INTO sqew_bucket SELECT DISTINCT queue_id, lane_id, priority FROM sqew_message
 WHERE typeof(queue_id) = 'integer'
"""

_CLAIMED_IN = {"sqew_claim", "sqew_claim_chunk"}

# What is known of a claim is of no use without the claim.
_FORGET_CHUNKS = """
DELETE FROM sqew_claim_chunk WHERE NOT EXISTS (
  SELECT 1 FROM sqew_claim c
   WHERE c.consumer_id = sqew_claim_chunk.consumer_id AND c.number = sqew_claim_chunk.number)
"""

# The messages of a claim are leased for years: those that nobody remembers to have claimed would be lost.
_CLAIMED_MS = 5 * 366 * 86_400_000
_RELEASE_UNCLAIMED = """
UPDATE sqew_message SET lease_until = ?1, due_at = CASE WHEN due_at IS NOT NULL THEN ?1 END
 WHERE lease_until > ?1 + ?2 AND token NOT IN (SELECT token FROM sqew_claim_chunk)
"""

_GROUPS = "SELECT DISTINCT queue_id, group_id FROM sqew_message WHERE group_id IS NOT NULL"


def _expose_heads(work: Work) -> None:
    """Make the first message of each FIFO group due, and no other."""
    work.catalog.forget()
    for queue_id, group in work.execute(_GROUPS).fetchall():
        state = work.catalog.queue_by_id(queue_id)
        if state is not None and state.policy.fifo:
            refresh_head(work, state, group)


def _tables(execute: Execute) -> list[str]:
    names = execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'sqew_*'").fetchall()
    return [name for (name,) in names if name not in _LEFT]
