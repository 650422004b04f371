"""Contenders, all behind one small interface: raw SQL as the ceiling, Sqew, and its peers.

All take Python values and return Python values, with the same JSON codec. All are set to the durability that is asked
for, and `Contender.synchronous` returns what its connection really has. None checkpoints its WAL while it is timed: a
checkpoint waits for the disk twice, so a short round would show only which contender met one. It is done between
rounds.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import apsw

from bench.bodies import decode, encode
from sqew import Queue
from sqew.operations import Receive

Durability = Literal["durable", "fast"]
Job = Literal["enqueue", "claim + ack", "take", "enqueue x100", "claim x100", "ack x100"]
Value = dict[str, Any]

JOBS: tuple[Job, ...] = ("enqueue", "claim + ack", "take", "enqueue x100", "claim x100", "ack x100")
SYNCHRONOUS = {"durable": "FULL", "fast": "NORMAL"}
LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")
QUEUE = "bench"
NEVER_PAGES = 100_000
"""More pages than any round writes."""


class Contender(ABC):
    """A queue that is measured. Jobs that it can't do are not in ``jobs``."""

    name: str
    file: Path
    connection: Any
    """The connection to its file, by the library that it uses itself: locks don't keep two of them apart within a
    process."""
    jobs: frozenset[Job] = frozenset(JOBS)

    def checkpoint(self) -> None:
        """Copy the WAL into the file: between rounds, untimed, for all alike. The next round writes over it."""
        _, pages, copied = self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert copied == pages >= 0, f"{self.name} has copied {copied} of {pages} pages into its file"

    @abstractmethod
    def synchronous(self) -> str:
        """Return SQLite's durability level of the connection that writes."""

    @abstractmethod
    def enqueue(self, value: Value) -> None: ...

    @abstractmethod
    def waiting(self) -> int:
        """Count the messages that are not finished."""

    @abstractmethod
    def close(self) -> None: ...

    def claim(self) -> tuple[Any, Value]:
        """Claim a message; return the handle to ack it by, and its value."""
        raise NotImplementedError

    def ack(self, handle: Any) -> None:
        raise NotImplementedError

    def take(self) -> Value:
        """Receive a message for good, in one transaction: at most once."""
        raise NotImplementedError

    def enqueue_many(self, values: Sequence[Value]) -> None:
        raise NotImplementedError

    def claim_many(self, count: int) -> tuple[list[Any], list[Value]]:
        raise NotImplementedError

    def ack_many(self, handles: Sequence[Any]) -> None:
        raise NotImplementedError

    def remove_finished(self) -> None:  # noqa: B027 (most remove a message when it is acked)
        """Remove acked messages, as a part of claim + ack, if an ack only marks them: here in one go."""

    def tidy(self) -> None:  # noqa: B027 (most have nothing to tidy)
        """Remove, between rounds, untimed, the messages that it has no fast way to take."""


class RawSQL(Contender):
    """The ceiling: the least SQL with a lease, an order and a fenced ack, by hand. A lone statement commits itself."""

    name = "raw apsw"

    def __init__(self, folder: Path, durability: Durability) -> None:
        self.file = folder / "raw.db"
        self.connection = connection = apsw.Connection(str(self.file))
        # As Sqew. Otherwise SQLite compiles a statement anew when a parameter is bound that its plan may depend on.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for pragma in (
            "auto_vacuum = INCREMENTAL", "journal_mode = WAL", f"synchronous = {SYNCHRONOUS[durability]}",
            "wal_autocheckpoint = 0", f"journal_size_limit = {NEVER_PAGES * 4096}", "cache_size = -16384",
            "temp_store = MEMORY",
        ):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute(
            """
            CREATE TABLE message (
              id INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, lane_id INTEGER NOT NULL, priority INTEGER NOT NULL,
              due_at INTEGER, attempts INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL, token TEXT,
              body BLOB NOT NULL);
            CREATE INDEX message_due ON message (queue_id, lane_id, priority, due_at) WHERE due_at IS NOT NULL;
            """
        )
        self._execute: Any = connection.execute
        self._executemany: Any = connection.executemany

    _INSERT = "INSERT INTO message (queue_id, lane_id, priority, due_at, created_at, body) VALUES (1, 1, 0, ?1, ?1, ?2)"
    _HEAD = (
        "SELECT id FROM message WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at <= ?4 "
        "ORDER BY due_at, id LIMIT 1"
    )
    _CLAIM = (
        "UPDATE message SET due_at = ?5, attempts = attempts + 1, token = ?6 "
        f"WHERE id = ({_HEAD}) RETURNING id, attempts, body"
    )
    _TAKE = f"DELETE FROM message WHERE id = ({_HEAD}) RETURNING body"
    _READY = (
        "SELECT id, attempts, body FROM message WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 "
        "AND due_at <= ?4 ORDER BY due_at, id LIMIT ?5"
    )
    _LEASE = "UPDATE message SET due_at = ?2, attempts = attempts + 1, token = ?3 WHERE id = ?1"
    _ACK = "DELETE FROM message WHERE id = ?1 AND token = ?2"

    def synchronous(self) -> str:
        return LEVELS[self.connection.pragma("synchronous")]

    def enqueue(self, value: Value) -> None:
        self._execute(self._INSERT, (_now(), encode(value)))

    def claim(self) -> tuple[Any, Value]:
        now, token = _now(), os.urandom(16).hex()
        row = self._execute(self._CLAIM, (1, 1, 0, now, now + 30_000, token)).fetchone()
        assert row is not None
        return (row[0], token), decode(row[2])

    def ack(self, handle: Any) -> None:
        self._execute(self._ACK, handle)
        assert self.connection.changes() == 1

    def take(self) -> Value:
        row = self._execute(self._TAKE, (1, 1, 0, _now())).fetchone()
        assert row is not None
        return decode(row[0])

    def enqueue_many(self, values: Sequence[Value]) -> None:
        now = _now()
        self._execute("BEGIN IMMEDIATE")
        self._executemany(self._INSERT, [(now, encode(value)) for value in values])
        self._execute("COMMIT")

    def claim_many(self, count: int) -> tuple[list[Any], list[Value]]:
        now, token = _now(), os.urandom(16).hex()
        until = now + 30_000
        self._execute("BEGIN IMMEDIATE")
        rows = self._execute(self._READY, (1, 1, 0, now, count)).fetchall()
        self._executemany(self._LEASE, [(row[0], until, token) for row in rows])
        self._execute("COMMIT")
        return [(row[0], token) for row in rows], [decode(row[2]) for row in rows]

    def ack_many(self, handles: Sequence[Any]) -> None:
        before = self.connection.total_changes()
        self._execute("BEGIN IMMEDIATE")
        self._executemany(self._ACK, handles)
        self._execute("COMMIT")
        assert self.connection.total_changes() - before == len(handles)

    def waiting(self) -> int:
        return int(self._execute("SELECT count(*) FROM message").get)

    def close(self) -> None:
        self.connection.close()


class RawTransactions(RawSQL):
    """The same with BEGIN IMMEDIATE and COMMIT around each statement, as Sqew needs it to commit several together."""

    name = "raw, BEGIN…COMMIT"
    jobs = frozenset[Job]({"enqueue", "claim + ack", "take"})

    def enqueue(self, value: Value) -> None:
        self._execute("BEGIN IMMEDIATE")
        super().enqueue(value)
        self._execute("COMMIT")

    def claim(self) -> tuple[Any, Value]:
        self._execute("BEGIN IMMEDIATE")
        claimed = super().claim()
        self._execute("COMMIT")
        return claimed

    def ack(self, handle: Any) -> None:
        self._execute("BEGIN IMMEDIATE")
        super().ack(handle)
        self._execute("COMMIT")

    def take(self) -> Value:
        self._execute("BEGIN IMMEDIATE")
        value = super().take()
        self._execute("COMMIT")
        return value


class Sqew(Contender):
    name = "sqew"

    def __init__(self, folder: Path, durability: Durability) -> None:
        self.file = folder / "sqew.db"
        self._queue = queue = Queue.open(self.file, durability=durability, wal_autocheckpoint_pages=NEVER_PAGES)
        queue.create(QUEUE)
        self.connection = apsw.Connection(str(self.file))
        self._take = Receive(QUEUE, finish=True)

    def synchronous(self) -> str:
        with self._queue.transaction() as transaction:
            return LEVELS[transaction.execute("PRAGMA synchronous").get]

    def enqueue(self, value: Value) -> None:
        self._queue.enqueue(QUEUE, value)

    def claim(self) -> tuple[Any, Value]:
        message = self._queue.claim(QUEUE)
        assert message is not None
        return message, message.value

    def ack(self, handle: Any) -> None:
        self._queue.ack(handle)

    def take(self) -> Value:
        value: Value = self._queue.receive(self._take).messages[0].value
        return value

    def enqueue_many(self, values: Sequence[Value]) -> None:
        self._queue.enqueue_many(QUEUE, values)

    def claim_many(self, count: int) -> tuple[list[Any], list[Value]]:
        messages = self._queue.claim_many(QUEUE, count)
        return messages, [message.value for message in messages]

    def ack_many(self, handles: Sequence[Any]) -> None:
        assert not any(self._queue.ack_many(handles))

    def waiting(self) -> int:
        return self._queue.stats(QUEUE).depths.total()

    def close(self) -> None:
        self.connection.close()
        self._queue.close()


class LiteQueue(Contender):
    """A queue that marks a message as locked, then as done; a lock never ends by itself. Its pop can't be part of a
    batch."""

    name = "litequeue"
    jobs = frozenset[Job]({"enqueue", "claim + ack", "enqueue x100"})

    def __init__(self, folder: Path, durability: Durability) -> None:
        import litequeue

        self.file = folder / "lite.db"
        self._queue = litequeue.LiteQueue(self.file)
        # It sets NORMAL itself.
        self.connection = self._queue.conn
        _set(self.connection, durability)

    def synchronous(self) -> str:
        return _level(self.connection)

    def enqueue(self, value: Value) -> None:
        self._queue.put(encode(value).decode())

    def claim(self) -> tuple[Any, Value]:
        message = self._queue.pop()
        return message.message_id, decode(message.data)

    def ack(self, handle: Any) -> None:
        self._queue.done(handle)

    def enqueue_many(self, values: Sequence[Value]) -> None:
        with self._queue.transaction():
            for value in values:
                self._queue.put(encode(value).decode())

    def remove_finished(self) -> None:
        self._queue.prune()

    def waiting(self) -> int:
        return int(self._queue.qsize())

    def tidy(self) -> None:
        with self._queue.transaction():
            self.connection.execute(f"DELETE FROM {self._queue.table}")

    def close(self) -> None:
        self._queue.close()


class PersistQueue(Contender):
    """A queue that marks a message as taken, then as acked; taken messages come back when the file is opened again."""

    name = "persist-queue"
    jobs = frozenset[Job]({"enqueue", "claim + ack"})

    def __init__(self, folder: Path, durability: Durability) -> None:
        from persistqueue import SQLiteAckQueue

        self.file = folder / "persist" / "data.db"
        self._queue = SQLiteAckQueue(str(self.file.parent), serializer=_Codec)
        # It leaves SQLite's default and offers no setting; this is the one connection that it has.
        self.connection = self._queue._putter
        _set(self.connection, durability)

    def synchronous(self) -> str:
        return _level(self.connection)

    def enqueue(self, value: Value) -> None:
        self._queue.put(value)

    def claim(self) -> tuple[Any, Value]:
        taken = self._queue.get(block=False, raw=True)
        return taken, taken["data"]

    def ack(self, handle: Any) -> None:
        self._queue.ack(handle)

    def waiting(self) -> int:
        return int(self._queue.active_size())

    def remove_finished(self) -> None:
        self._queue.clear_acked_data(max_delete=1_000_000, keep_latest=0)

    def close(self) -> None:
        self._queue.close()


class Huey(Contender):
    """Huey's storage, without its tasks. It deletes the messages that it hands out: no lease, no ack, at most once."""

    name = "huey"
    jobs = frozenset[Job]({"enqueue", "take"})

    def __init__(self, folder: Path, durability: Durability) -> None:
        from huey.storage import SqliteStorage

        self.file = folder / "huey.db"
        self._storage = SqliteStorage(filename=str(self.file), fsync=durability == "durable")
        # Its setting knows FULL and OFF only.
        self.connection = self._storage.conn
        _set(self.connection, durability)

    def synchronous(self) -> str:
        return _level(self.connection)

    def enqueue(self, value: Value) -> None:
        self._storage.enqueue(encode(value))

    def take(self) -> Value:
        return decode(self._storage.dequeue())

    def waiting(self) -> int:
        return int(self._storage.queue_size())

    def tidy(self) -> None:
        self._storage.flush_queue()

    def close(self) -> None:
        self._storage.close()


CONTENDERS: tuple[type[Contender], ...] = (RawSQL, RawTransactions, Sqew, LiteQueue, PersistQueue, Huey)
PEERS = (LiteQueue.name, PersistQueue.name, Huey.name)


def open_all(folder: Path, durability: Durability) -> list[Contender]:
    """Open every contender on a file of its own, and check that it has the durability that is asked for."""
    contenders: list[Contender] = []
    for kind in CONTENDERS:
        own = folder / kind.__name__
        own.mkdir(parents=True)
        contender = kind(own, durability)  # type: ignore[call-arg]  # (folder, durability), as all of them
        contenders.append(contender)
        level = contender.synchronous()
        if level != SYNCHRONOUS[durability]:
            raise RuntimeError(f"{contender.name} is at synchronous={level}, not {SYNCHRONOUS[durability]}")
    return contenders


class _Codec:
    """The JSON codec of all contenders, in the form that persist-queue wants it."""

    dumps = staticmethod(encode)
    loads = staticmethod(decode)


def _set(connection: Any, durability: Durability) -> None:
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
    connection.execute("PRAGMA wal_autocheckpoint = 0")


def _level(connection: Any) -> str:
    return LEVELS[connection.execute("PRAGMA synchronous").fetchone()[0]]


def _now() -> int:
    return time.time_ns() // 1_000_000
