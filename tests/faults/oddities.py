"""A file that holds a bit of everything, the same with one column of one row altered, and an inquiry into both.

A flipped bit in the header of a record changes the type of a column, and often of all behind it. SQLite takes that as
it is: its columns have no types of their own.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import apsw
from msgspec import Struct, ValidationError, convert, field, to_builtins

from sqew.errors import SqewError, StoreError
from sqew.model import (
    Activity,
    Advance,
    DeliveryOutcome,
    Message,
    NewEvent,
    NewMessage,
    NewMessages,
    Policy,
    Ref,
    Release,
    Schedule,
    SigningKey,
    SubscriptionDetails,
)
from sqew.operations import (
    Ack,
    AddSigningKey,
    Ages,
    ClaimDeliveries,
    CountDeliveries,
    CreateKey,
    CreateQueue,
    CreateTopic,
    FindDueSchedules,
    FinishClaims,
    FinishPromotion,
    FireSchedule,
    GetQueue,
    GrowClaim,
    ListArchive,
    ListConsumers,
    ListDead,
    ListDeliveries,
    ListKeys,
    ListMoves,
    ListQueues,
    ListSchedules,
    ListSubscriptions,
    ListTopics,
    ListWriters,
    Measure,
    Nack,
    NextDelivery,
    NextDue,
    NextMove,
    NextPromotion,
    OpenConsumer,
    Operation,
    Peek,
    Promote,
    Publish,
    ReadActivity,
    ReadBounds,
    ReadClaim,
    ReadColumns,
    ReadKeys,
    ReadSalt,
    ReadSigningKeys,
    Receive,
    RecordActivity,
    RequeueDead,
    SaveSchedule,
    Scan,
    SealClaim,
    Send,
    SettleDeliveries,
    Stage,
    StartMove,
    StepMove,
    StepPromotion,
    Subscribe,
    Survey,
    Sweep,
    SweepDue,
)
from sqew.stores.sqlite import SQLiteStore

NOW = 1_700_000_000_000
VALUES = {
    "nothing": "NULL",
    "text": "'odd'",
    "bytes": "x'ff00'",
    "fraction": "1.5",
    "no UTF-8": "CAST(x'ff61' AS TEXT)",
    "huge": "4611686018427387904",
}
"""Values that a column may turn into."""


class Column(Struct, frozen=True):
    """A column of a table that can be altered: its place in the record is not its key's."""

    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


def build(path: Path) -> None:
    """Make some rows in every table, with something due in each that has due times."""
    store = SQLiteStore(path, now=NOW, durability="fast", random=Random(0))
    policies = {
        "jobs": Policy(max_attempts=3),
        "lanes": Policy(lanes={"a": 1, "b": 2}),
        "jobs.fifo": Policy(fifo=True, deduplicate="content"),
        "kept": Policy(keep="archive", dead_letter="letters"),
        "letters": Policy(),
        "events": Policy(),
        "staged": Policy(quota=10_000),
        "claimed": Policy(),
    }
    store.run([CreateQueue(name, policy) for name, policy in policies.items()], NOW)
    for name in ("jobs", "jobs.fifo", "kept", "claimed"):
        messages = [
            NewMessage(
                b'"%b"' % (b"x" * (5_000 if n == 3 else 5)),
                headers={"n": n} if n % 2 else None,
                key=f"{name}-{n}" if n % 3 == 0 and "fifo" not in name else None,
                group=f"g{n % 2}" if "fifo" in name else None,
                ttl_ms=60_000 + n if n == 4 else None,
                delay_ms=5_000 if n == 5 and "fifo" not in name else None,
            )
            for n in range(8)
        ]
        store.run([Send(name, messages)], NOW)
    store.run([Send("lanes", [NewMessage(b"1", lane=lane) for lane in "abab"])], NOW)
    taken = store.run([Receive("kept", 4)], NOW).results[0].messages
    refs = [Ref(message.id) for message in taken]
    store.run([Ack("kept", refs[:1]), Nack("kept", [Release(ref, dead=True, reason="no") for ref in refs[1:]])], NOW)
    taken = store.run([Receive("jobs", 3, by="worker")], NOW).results[0].messages
    store.run([Nack("jobs", [Release(Ref(taken[0].id), dead=True, reason="no")])], NOW)
    store.run([Receive("jobs.fifo", 1, attempt_id="again")], NOW)
    details = SubscriptionDetails(filter_policy='{"n": ["1"]}')
    store.run(
        [
            Subscribe("order.#", "queue", "events"),
            Subscribe("other.#", "queue", "events"),
            Subscribe("order.*", "http", "http://example.com/a"),
            Subscribe("order.#", "http", "http://example.com/b"),
            Subscribe("topic", "queue", "events", uuid="u1", details=details),
            Subscribe("topic", "http", "http://example.com/c", uuid="u2", confirmed=False),
            CreateTopic("topic", {"DisplayName": "t"}, {"a": "b"}),
            CreateTopic("second"),
        ],
        NOW,
    )
    store.run([Publish([NewEvent(f"order.{n}", NewMessage(b"{}"), f"id-{n}")]) for n in range(3)], NOW)
    [claimed] = store.run([ClaimDeliveries(1, 1, 1_000)], NOW).results
    due = claimed.deliveries[0]
    store.run([SettleDeliveries([DeliveryOutcome(due.id, due.claimed_until, False, 500, "no")])], NOW)
    for n in range(3):
        schedule = Schedule(
            f"s{n}", "queue", "events", "cron", "* * * * *", "* * * * *", "UTC", NewMessage(b"{}", headers={"n": n}),
            next_fire_at=NOW + 100 + n, due_at=NOW + 100 + n,
        )  # fmt: skip
        store.run([SaveSchedule(schedule)], NOW)
    for n in range(2):
        name = f"reader{n}"
        epoch = store.run([OpenConsumer("claimed", name, "me")], NOW).results[0].epoch
        store.run([GrowClaim("claimed", name, epoch, 1, limit=2, lease_ms=500)], NOW)
    for n in range(2):
        store.run([Stage("staged", f"w{n}", 1, "p", NewMessages([b"1", b"2"]))], NOW)
        store.run([Stage("staged", f"w{n}", 2, "p", NewMessages([b"1", b"2"]))], NOW)
        store.run([Promote("staged", f"w{n}", 1, {"p": 2})], NOW)
    store.run(
        [StartMove("m1", "letters", per_second=10), RecordActivity([Activity("jobs", "normal", 1, "sent", 3)])], NOW
    )
    store.run([AddSigningKey(SigningKey("k1", b"pem", b"cert", NOW))], NOW)
    for _ in range(2):
        store.run([CreateKey("jobs", f"key{_}", b"digest", ["send"], "label")], NOW)
    store.close()


def columns_of(path: Path) -> Iterator[Column]:
    """Yield every column that can be altered: ids of rows are no part of their records."""
    with closing(apsw.Connection(str(path))) as connection:
        tables = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE name LIKE 'sqew_%' AND type = 'table'"
            )
        ]
        for table in tables:
            if table == "sqew_migration":
                continue
            for _, name, kind, _, _, key in connection.execute(f"PRAGMA table_info({table})"):
                if not (
                    key and kind == "INTEGER" and is_rowid_table(connection, table) and single_key(connection, table)
                ):
                    yield Column(table, name)


def is_rowid_table(connection: apsw.Connection, table: str) -> bool:
    sql = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get
    return "WITHOUT ROWID" not in sql


def single_key(connection: apsw.Connection, table: str) -> bool:
    return sum(bool(row[5]) for row in connection.execute(f"PRAGMA table_info({table})")) == 1


class Typeless:
    """A file whose schema was taken away, so that its rows accept any value. It keeps its indexes or not."""

    def __init__(self, origin: Path, folder: Path, *, indexes: bool) -> None:
        self.path = folder / "typeless.db"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(origin, self.path)
        with closing(apsw.Connection(str(self.path))) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            self.schema = connection.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema").fetchall()
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
            connection.execute("PRAGMA writable_schema = ON")
            for kind, name, _, _, sql in self.schema:
                if kind == "table" and name.startswith("sqew_"):
                    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (_typeless(sql), name))
            if not indexes:
                connection.execute("DELETE FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")

    def alter(self, to: Path, column: Column, value: str, row: int) -> bool:
        """Make a copy in which a column of one row has another value; return False if that is impossible."""
        shutil.copy(self.path, to)
        with closing(apsw.Connection(str(to))) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA ignore_check_constraints = ON")
            where = f"{column.name} IS (SELECT {column.name} FROM {column.table} LIMIT 1 OFFSET {row})"
            if is_rowid_table(connection, column.table):
                where = f"rowid = (SELECT rowid FROM {column.table} NOT INDEXED LIMIT 1 OFFSET {row})"
            try:
                connection.execute(f"UPDATE {column.table} SET {column.name} = {value} WHERE {where}")
            except apsw.ConstraintError:
                return False
            changed = connection.changes() > 0
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("DELETE FROM sqlite_schema")
            connection.executemany("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", self.schema)
        return changed


def _typeless(sql: str) -> str:
    sql = re.sub(r"--[^\n]*", "", sql)
    kept = re.sub(r"INTEGER PRIMARY KEY", "@KEY@", sql)
    kept = re.sub(r"\b(INTEGER|TEXT|BLOB|NOT NULL)\b", "", kept)
    return kept.replace("@KEY@", "INTEGER PRIMARY KEY")


class Outcome(Struct):
    """The outcome of asking everything of one file."""

    foreign: list[str] = field(default_factory=list)
    """Errors that are not Sqew's, and messages that are none."""
    damage: list[str] = field(default_factory=list)
    """Operations that could not be done for damage."""
    delivered: dict[str, int] = field(default_factory=dict)
    """The number of messages that each queue has delivered."""
    fired: int = 0
    posted: int = 0


LATER = NOW + 30_500
QUEUES = ("jobs", "lanes", "jobs.fifo", "kept", "letters", "events", "staged", "claimed")


class Inquiry:
    """An inquiry that runs every operation on a store."""

    def __init__(self, path: Path) -> None:
        self.outcome = Outcome()
        with closing(SQLiteStore(path, now=NOW, durability="fast")) as self.store:
            self._look()
            self._do_background_work()
            self._read_as_consumers()
            for queue in QUEUES:
                self._drain(queue)
            self.ask(Sweep(), LATER + 10_000_000)

    def ask(self, operation: Operation[Any], now: int = LATER) -> Any:
        return self._told(operation, lambda: self.store.run([operation], now).results[0])

    def _told(self, asked: object, answer: Callable[[], Any]) -> Any:
        try:
            result = answer()
        except SqewError as error:
            result = error
        except Exception as error:  # noqa: BLE001  that there is none is the claim
            self.outcome.foreign.append(f"{asked}: {error!r}")
            return None
        if isinstance(result, StoreError):
            self.outcome.damage.append(f"{asked}: {result}")
        return None if isinstance(result, SqewError) else result

    def _look(self) -> None:
        looks: list[Operation[Any]] = [
            ListQueues(), Survey(), ReadSalt(), SweepDue(), ListKeys(), ReadKeys(), ListSubscriptions(), ListTopics(),
            CountDeliveries(), ListDeliveries(), ListDeliveries("exhausted"), ListSchedules(), ReadSigningKeys(),
            NextDelivery(), NextPromotion(), NextMove(), FindDueSchedules(), ListMoves("letters"),
        ]  # fmt: skip
        for queue in QUEUES:
            looks += [
                GetQueue(queue), Peek(queue, 100), Measure(queue), Ages(queue), NextDue(queue), ListDead(queue),
                ListArchive(queue), Scan(queue, 0, 1 << 40, 1_000), ReadBounds(queue), ListConsumers(queue),
                ReadColumns(queue, 0, 1 << 40, 1_000), ReadColumns(queue, 0, 1 << 40, 1_000, archive=True),
                ListWriters(queue), ReadActivity(queue),
            ]  # fmt: skip
        for look in looks:
            self._told(look, lambda look=look: self.store.read([look], LATER))
            self.ask(look)
        for queue in QUEUES:
            self._told("export", lambda queue=queue: list(self.store.export(queue, LATER)))
            self._told("export", lambda queue=queue: list(self.store.export_archive(queue, LATER)))
        self._told("check", self.store.check)

    def _do_background_work(self) -> None:
        if claimed := self.ask(ClaimDeliveries(10, 10, 1_000)):
            self.outcome.posted = len(claimed.deliveries)
            self.ask(SettleDeliveries([DeliveryOutcome(d.id, d.claimed_until, True) for d in claimed.deliveries]))
        for schedule in ((due := self.ask(FindDueSchedules())) and due.schedules) or ():
            event = NewEvent("s", schedule.message, "id")
            fired = self.ask(FireSchedule(schedule.name, schedule.version, [event], Advance(LATER + 1_000, LATER)))
            self.outcome.fired += fired is not None
        for key in ("order.1", "other.1", "topic"):
            self.ask(Publish([NewEvent(key, NewMessage(b"1"), f"id-{key}")]))
        for writer in ("w0", "w1"):
            for _ in range(2):
                self.ask(StepPromotion("staged", writer, 1))
        for _ in range(2):
            self.ask(FinishPromotion())
            self.ask(StepMove())
            self.ask(Sweep())

    def _read_as_consumers(self) -> None:
        for name in ("reader0", "reader1"):
            if opened := self.ask(OpenConsumer("claimed", name, "me")):
                for operation in (
                    GrowClaim("claimed", name, opened.epoch, 9, limit=3),
                    SealClaim("claimed", name, opened.epoch, 9),
                    ReadClaim("claimed", name, 9, 0),
                    FinishClaims("claimed", name, opened.epoch, 9),
                ):
                    self.ask(operation)

    def _drain(self, queue: str) -> None:
        count = 0
        for turn in range(60):
            attempt = "again" if queue.endswith("fifo") else None
            received = self.ask(Receive(queue, 7 if turn % 2 else 1, lease_ms=3_600_000, attempt_id=attempt))
            if received is None or not received.messages:
                break
            for message in received.messages:
                try:
                    convert(to_builtins(message), Message)
                except ValidationError as error:
                    self.outcome.foreign.append(f"{message}: {error}")
            count += len(received.messages)
            self.ask(Ack(queue, [Ref(m.id, m.lease and m.lease.token) for m in received.messages]))
        self.outcome.delivered[queue] = count
        self.ask(RequeueDead(queue))
        self.ask(Send(queue, [NewMessage(b"1", key="jobs-0", group="g0" if queue.endswith("fifo") else None)]))
