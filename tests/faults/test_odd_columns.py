"""Columns that turned into something else: only Sqew's own errors come out, and the rows beside them are delivered."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import apsw
import pytest

from sqew.errors import StoreDamaged
from sqew.model import NewMessage, NewMessages, Policy
from sqew.operations import (
    CreateQueue,
    GetQueue,
    GrowClaim,
    ListArchive,
    OpenConsumer,
    Peek,
    Promote,
    Receive,
    Send,
    Stage,
)
from sqew.rules.values import LARGEST_ID
from sqew.stores.sqlite import SQLiteStore, row_capture
from tests.faults.oddities import (
    LATER,
    NOW,
    QUEUES,
    VALUES,
    Column,
    Inquiry,
    Outcome,
    Typeless,
    build,
    columns_of,
    is_rowid_table,
)

UNKNOWN = frozenset({"sqew_queue.name"})
"""Columns by which other rows are found: their queue goes by another name then."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "queue.db"
    build(path)
    return path


@pytest.fixture(scope="module")
def expected(sample: Path) -> Outcome:
    copy = sample.with_name("whole.db")
    copy.write_bytes(sample.read_bytes())
    outcome = Inquiry(copy).outcome
    assert outcome.foreign == outcome.damage == []
    assert sum(outcome.delivered.values()) > 20
    return outcome


def ask_everything(typeless: Typeless, folder: Path, column: Column, value: str) -> Outcome | None:
    path = folder / "odd.db"
    for file in folder.glob("odd.db*"):
        file.unlink()
    return Inquiry(path).outcome if typeless.alter(path, column, VALUES[value], 0) else None


def judge(outcome: Outcome, expected: Outcome, column: Column, said: str) -> None:
    assert outcome.foreign == [], said
    if str(column) in UNKNOWN:
        return
    missing = {queue: expected.delivered[queue] - outcome.delivered[queue] for queue in QUEUES}
    # The altered row is one message, or the subscription by which events come to a queue, or what a writer staged.
    lost = {queue: count for queue, count in missing.items() if count > 0}
    if column.table in ("sqew_message", "sqew_body"):
        assert sum(lost.values()) <= 1, said
    # Dead letters that nobody moves back.
    own = {"jobs", "events", "staged", "claimed"} | ({"kept"} if column.table == "sqew_move_task" else set())
    assert not lost.keys() - own, said
    assert lost.get("jobs", 0) <= 1, said
    assert outcome.posted >= expected.posted - 2, said
    assert outcome.fired >= expected.fired - 1, said


@pytest.mark.parametrize("indexes", [False, True], ids=["row", "row and indexes"])
def test_a_column_of_an_odd_type_stops_nobody(sample: Path, expected: Outcome, scratch: Path, indexes: bool) -> None:
    typeless = Typeless(sample, scratch / "typeless", indexes=indexes)
    random = Random(f"{indexes}")
    for column in columns_of(sample):
        value = random.choice(list(VALUES))
        outcome = ask_everything(typeless, scratch, column, value)
        if outcome is not None:
            judge(outcome, expected, column, f"{column} turned into {value}")


@pytest.mark.soak
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("indexes", [False, True], ids=["row", "row and indexes"])
def test_every_column_of_every_odd_type(
    sample: Path, expected: Outcome, scratch: Path, value: str, indexes: bool
) -> None:
    typeless = Typeless(sample, scratch / "typeless", indexes=indexes)
    for column in columns_of(sample):
        outcome = ask_everything(typeless, scratch, column, value)
        if outcome is not None:
            judge(outcome, expected, column, f"{column} turned into {value}")


def test_one_message_whose_format_was_no_number_blocked_its_queue(
    sample: Path, scratch: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = scratch / "odd.db"
    Typeless(sample, scratch, indexes=False).alter(path, Column("sqew_message", "is_text"), "'odd'", 0)
    with closing(SQLiteStore(path, now=NOW)) as store:
        assert [problem for problem in store.check().problems if "sqew_message" in problem]

        with caplog.at_level(logging.WARNING):
            first = store.run([Receive("jobs", 10)], LATER).results[0]
            second = store.run([Receive("jobs", 10)], LATER).results[0]

        assert len(first.messages) == 7
        assert second.messages == []
        [said] = [record for record in caplog.records if record.name == "sqew.store"]
        assert said.fields["found"] == ["rows of sqew_message that held what was never written there: 1 mended"]
        assert store.check().problems == []


@pytest.mark.parametrize(("column", "value"), [("body", "NULL"), ("outcome", "'odd'"), ("is_text", "'odd'")])
def test_one_row_blocked_its_archive(sample: Path, scratch: Path, column: str, value: str) -> None:
    path = scratch / "odd.db"
    assert Typeless(sample, scratch, indexes=False).alter(path, Column("sqew_archive", column), value, 0)
    with closing(SQLiteStore(path, now=NOW)) as store:
        # Where only its outcome is odd, nothing in it stops anybody.
        if column == "outcome":
            store.connection.execute("UPDATE sqew_archive SET attempts = 'odd' WHERE outcome = 'odd'")

        found = store.read([ListArchive("jobs"), ListArchive("kept")], NOW)

        archived = [one.message.damaged for archive in found for one in archive.messages]
        assert len(archived) == 2
        assert sum(archived) == (column == "body")


def test_a_bucket_that_is_another_hid_its_messages_from_check(sample: Path, scratch: Path) -> None:
    path = scratch / "odd.db"
    path.write_bytes(sample.read_bytes())
    with closing(SQLiteStore(path, now=NOW)) as store:
        assert store.check().ok
        where = "queue_id = (SELECT id FROM sqew_queue WHERE name = 'lanes')"
        store.connection.execute(f"UPDATE sqew_bucket SET priority = 7 WHERE {where} AND lane_id = 0")

        [problem] = store.check().problems

        assert "never received: 2" in problem


@pytest.mark.parametrize(
    "table", ["sqew_lane", "sqew_bucket", "sqew_key", "sqew_activity", "sqew_claim", "sqew_claim_chunk", "sqew_meta"]
)
def test_a_row_that_sqlite_can_not_read_stopped_upkeep_or_the_whole_file(
    sample: Path, expected: Outcome, scratch: Path, table: str
) -> None:
    path = scratch / "unreadable.db"
    damaged = 0
    for altered in unreadable(sample, table):
        path.write_bytes(altered)
        outcome = Inquiry(path).outcome
        damaged += 1

        assert outcome.foreign == outcome.damage == []
        assert sum(outcome.delivered.values()) >= sum(expected.delivered.values())
        for file in scratch.glob("unreadable.db*"):
            file.unlink()

    assert damaged


def unreadable(sample: Path, table: str) -> Iterator[bytes]:
    """Yield the file with one bit flipped in the header length of each of a table's rows, which are in one page."""
    content = sample.read_bytes()
    with closing(apsw.Connection(str(sample))) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
        has_rowid = is_rowid_table(connection, table)
    first = (root - 1) * 4096
    for n in range(int.from_bytes(content[first + 3 : first + 5])):
        place = first + 8 + 2 * n
        # Behind the length of the row, and its id: of one byte each.
        at = first + int.from_bytes(content[place : place + 2]) + 1 + has_rowid
        yield content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :]


def test_what_is_looked_at_beside_a_row_that_could_not_be_mended_was_an_error_of_python(
    sample: Path, scratch: Path
) -> None:
    path = scratch / "odd.db"
    Typeless(sample, scratch, indexes=False).alter(path, Column("sqew_message", "attempts"), "'odd'", 0)
    with closing(SQLiteStore(path, now=NOW)) as store, closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreDamaged):
            store.read([Peek("jobs", 10)], LATER)


def test_a_message_whose_content_is_intact_is_delivered_though_its_times_are_lost(sample: Path, scratch: Path) -> None:
    path = scratch / "odd.db"
    Typeless(sample, scratch, indexes=False).alter(path, Column("sqew_message", "created_at"), "x'00'", 0)
    with closing(SQLiteStore(path, now=NOW)) as store:
        messages = store.run([Receive("jobs", 10)], LATER).results[0].messages

    assert len(messages) == 7
    assert [message.created_at for message in messages if message.created_at != NOW] == [LATER]


def test_an_export_beside_it_made_a_queue_in_memory_forget_what_it_claims() -> None:
    with closing(SQLiteStore(":memory:", now=NOW)) as store:
        store.run([CreateQueue("jobs", Policy())], NOW)
        store.run([Send("jobs", [NewMessage(b"1"), NewMessage(b"2")])], NOW)
        store.run([Receive("jobs")], NOW)

        assert len(list(store.export("jobs", NOW))) == 2

        assert store.run([Receive("jobs")], NOW).results[0].messages[0].body == b"2"
        assert store.read([Peek("jobs")], NOW)


def test_large_numbers_of_claims_and_epochs_were_taken_for_damage(scratch: Path) -> None:
    path = scratch / "queue.db"
    with closing(SQLiteStore(path, now=NOW)) as store:
        store.run([CreateQueue("jobs", Policy())], NOW)
        store.run([Send("jobs", [NewMessage(b"1")])], NOW)
        opened = store.run([OpenConsumer("jobs", "reader", "me")], NOW).results[0]
        store.run([GrowClaim("jobs", "reader", opened.epoch, LARGEST_ID, limit=1, lease_ms=60_000)], NOW)
        store.run([Stage("jobs", "load", LARGEST_ID, "p", NewMessages([b"2"]))], NOW)
        store.run([Stage("jobs", "stream", LARGEST_ID, "p", NewMessages([b"3"]))], NOW)
        store.run([Promote("jobs", "stream", LARGEST_ID, {"p": 1})], NOW)

        assert store.check().problems == []


@pytest.mark.parametrize(
    "flip",
    [
        "sqew_lane SET name = 'c' WHERE name = 'a'",
        "sqew_queue SET policy = replace(policy, 'visibility_ms', 'visibilitx_ms') WHERE name = 'lanes'",
        """sqew_queue SET policy = replace(policy, '"delete"', '"deletd"') WHERE name = 'lanes'""",
    ],
)
@pytest.mark.parametrize("opened", [True, False], ids=["in use", "at rest"])
def test_a_letter_of_a_lane_or_of_a_policy_blocked_its_queue(
    sample: Path, scratch: Path, flip: str, opened: bool
) -> None:
    path = scratch / "odd.db"
    path.write_bytes(sample.read_bytes())
    with ExitStack() as stack:
        store = stack.enter_context(closing(SQLiteStore(path, now=NOW))) if opened else None
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute(f"UPDATE {flip}")
            connection.execute("UPDATE sqew_meta SET catalog = catalog + 1")
        store = store or stack.enter_context(closing(SQLiteStore(path, now=NOW)))

        assert len(store.run([Receive("lanes", 10)], LATER).results[0].messages) == 4
        assert store.run([GetQueue("lanes")], LATER).results[0].policy.lanes.keys() == {"a", "b"}
        assert store.check().problems == []


@pytest.mark.parametrize("flip", ["'visibility_ms', 'visibilitx_ms'", "'exponential', 'exponentiam'"])
def test_a_policy_of_which_a_letter_was_altered_was_lost_with_all_its_fields(scratch: Path, flip: str) -> None:
    path = scratch / "queue.db"
    given = Policy(
        max_attempts=3, dead_letter="ended", keep="archive", archive_retention_ms=None, lanes={"a": 2, "b": 1}
    )
    with closing(SQLiteStore(path, now=NOW)) as store:
        store.run([CreateQueue("jobs", given)], NOW)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"UPDATE sqew_queue SET policy = replace(policy, {flip})")

    with closing(SQLiteStore(path, now=NOW)) as store:
        assert store.run([GetQueue("jobs")], NOW).results[0].policy == given
        assert store.check().problems == []


def test_the_policy_of_a_queue_was_read_for_each_of_its_lanes_when_a_file_was_opened(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scratch / "queue.db"
    policies = [Policy(lanes={f"{queue}-{lane}": 1 for lane in range(200)}) for queue in range(3)]
    with closing(SQLiteStore(path, now=NOW)) as store:
        store.run([CreateQueue(f"jobs-{queue}", policy) for queue, policy in enumerate(policies)], NOW)
    read: list[object] = []
    decode = row_capture._decode_policy
    monkeypatch.setattr(row_capture, "_decode_policy", lambda stored: (read.append(stored), decode(stored))[1])

    SQLiteStore(path, now=NOW).close()

    assert 0 < len(read) <= 2 * len(policies)


def test_a_file_that_a_newer_sqew_has_opened_meanwhile_is_not_mended(sample: Path, scratch: Path) -> None:
    path = scratch / "odd.db"
    path.write_bytes(sample.read_bytes())
    with closing(SQLiteStore(path, now=NOW)) as store:
        policies = "SELECT policy FROM sqew_queue"
        store.connection.execute("UPDATE sqew_queue SET policy = json_set(policy, '$.new', 1)")
        store.connection.execute("UPDATE sqew_meta SET catalog = catalog + 1")
        store.connection.execute("INSERT INTO sqew_migration VALUES (1000, 'new', 0)")
        stored = store.connection.execute(policies).fetchall()

        with pytest.raises(StoreDamaged):
            store.run([Receive("lanes", 10)], LATER)

        assert store.connection.execute(policies).fetchall() == stored


@pytest.mark.parametrize("flip", ["UPDATE sqew_meta SET next_id = 'odd'", "unreadable"])
def test_ids_of_messages_that_are_gone_were_given_to_others(scratch: Path, flip: str) -> None:
    path = scratch / "odd.db"
    with closing(SQLiteStore(path, now=NOW, durability="fast")) as store:
        store.run([CreateQueue("jobs", Policy())], NOW)
        for _ in range(20):
            last = store.run([Send("jobs", [NewMessage(b"1")] * 100)], NOW).results[0][-1]
            store.run([Receive("jobs", 100, finish=True)], NOW)
        if flip != "unreadable":
            store.connection.execute(flip)
    if flip == "unreadable":
        [altered] = unreadable(path, "sqew_meta")
        path.write_bytes(altered)

    with closing(SQLiteStore(path, now=NOW, durability="fast")) as store:
        [sent] = store.run([Send("jobs", [NewMessage(b"2")])], NOW).results[0]

    assert sent.id > last.id
