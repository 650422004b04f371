"""Bits that flipped on the disk: no altered message is delivered, and only Sqew's own errors come out."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sqew.errors import MessageNotFound
from sqew.model import ArchivedMessage, Message, NewMessage, Policy, Ref, Release
from sqew.operations import (
    CreateQueue,
    Get,
    ListArchive,
    ListDead,
    Measure,
    Nack,
    Operation,
    Peek,
    ReadColumns,
    Receive,
    Redrive,
    RequeueDead,
    Send,
)
from sqew.stores.sqlite import SQLiteStore
from tests.faults.damage import NOW, Outcome, Sample, build, flip, open_and_drain

FLIPS = 150  # for each kind of place


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return build(tmp_path_factory.mktemp("sample") / "sample")


class Flips:
    """The outcomes of many damaged files, together."""

    def __init__(self, sample: Sample, folder: Path, place: str, seeds: range) -> None:
        self.outcomes: list[Outcome] = []
        self.errors: Counter[str] = Counter()
        for seed in seeds:
            path = sample.copy(folder / str(seed), with_wal=place == "wal")
            file = path.with_name("queue.db-wal") if place == "wal" else path
            flip(file, Random(f"{place} {seed}"), at_body=place == "body")
            outcome = open_and_drain(path, sample.sent)
            self.outcomes.append(outcome)
            self.errors += outcome.errors
            for error in outcome.foreign:
                error.add_note(f"flip {seed} of the {place}")
            shutil.rmtree(path.parent)

    @property
    def altered(self) -> list[Message]:
        return [message for outcome in self.outcomes for message in outcome.altered]

    @property
    def foreign(self) -> list[str]:
        return [f"{e!r} {e.__notes__}" for outcome in self.outcomes for e in outcome.foreign]

    @property
    def noticed(self) -> int:
        return sum(outcome.withheld > 0 for outcome in self.outcomes)

    def __str__(self) -> str:
        delivered = sum(outcome.delivered for outcome in self.outcomes)
        return (
            f"{len(self.outcomes)} flips: {delivered} messages delivered, {len(self.altered)} of them altered; "
            f"{self.noticed} files with bodies withheld; errors: {dict(self.errors)}; foreign: {len(self.foreign)}"
        )


def test_an_undamaged_file_passes_the_same_drain(sample: Sample, scratch: Path) -> None:
    for with_wal in (False, True):
        outcome = open_and_drain(sample.copy(scratch / str(with_wal), with_wal=with_wal), sample.sent)

        assert outcome.delivered > 100
        assert not outcome.altered
        assert not outcome.foreign
        assert set(outcome.errors) <= {MessageNotFound.__name__}


@pytest.mark.parametrize("place", ["file", "body", "wal"])
def test_flipped_bits_never_deliver_an_altered_message_nor_raise_a_foreign_error(
    sample: Sample, scratch: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flips = Flips(sample, scratch, place, range(FLIPS))

    with capsys.disabled():
        print(f"\n{place}: {flips}")  # noqa: T201
    assert flips.altered == []
    assert flips.foreign == []
    if place == "body":
        assert flips.noticed > FLIPS // 2, "the flips miss the bodies"


@pytest.mark.soak
@pytest.mark.parametrize("place", ["file", "body", "wal"])
def test_thousands_of_flipped_bits(sample: Sample, scratch: Path, place: str) -> None:
    flips = Flips(sample, scratch, place, range(1_000, 2_000))

    assert flips.altered == []
    assert flips.foreign == []


SMALL, LARGE = b'"small"', b'"' + b"large " * 1_000 + b'"'
ALTERATIONS = {
    "a small body": (SMALL, "UPDATE sqew_message SET body = CAST(x'2261' || substr(body, 3) AS BLOB) WHERE id = ?"),
    "a body cut short": (SMALL, "UPDATE sqew_message SET body = substr(body, 1, 4) WHERE id = ?"),
    "an emptied body": (SMALL, "UPDATE sqew_message SET body = x'' WHERE id = ?"),
    "a body that became text": (SMALL, "UPDATE sqew_message SET body = 'other' WHERE id = ?"),
    "a body that became a number": (SMALL, "UPDATE sqew_message SET body = 7 WHERE id = ?"),
    "a body that became NULL": (SMALL, "UPDATE sqew_message SET body = NULL WHERE id = ?"),
    "a large body": (LARGE, "UPDATE sqew_body SET body = zeroblob(6002) WHERE id = ?"),
    "a large body that is gone": (LARGE, "DELETE FROM sqew_body WHERE id = ?"),
    "headers": (SMALL, """UPDATE sqew_message SET headers = '{"n":2}' WHERE id = ?"""),
    "headers that are no JSON": (SMALL, "UPDATE sqew_message SET headers = '{' WHERE id = ?"),
    "headers that are no UTF-8": (SMALL, "UPDATE sqew_message SET headers = CAST(x'7bff7d' AS TEXT) WHERE id = ?"),
    "headers that became a blob": (SMALL, "UPDATE sqew_message SET headers = x'7b7d' WHERE id = ?"),
    "headers that are gone": (SMALL, "UPDATE sqew_message SET headers = NULL WHERE id = ?"),
    "the checksum": (SMALL, "UPDATE sqew_message SET checksum = checksum + 1 WHERE id = ?"),
    "the format": (SMALL, "UPDATE sqew_message SET is_text = 1 - is_text WHERE id = ?"),
}
# One receiver of one message, of several, and one of a FIFO group: three ways through the code.
RECEIVERS = {"one": ("jobs", 1), "several": ("jobs", 3), "lanes": ("lanes", 3), "group": ("jobs.fifo", 3)}


@pytest.fixture
def store(scratch: Path) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(scratch / "queue.db", now=NOW, durability="fast")) as store:
        policies = {"jobs": Policy(), "lanes": Policy(lanes={"a": 1, "b": 2}), "jobs.fifo": Policy(fifo=True)}
        store.run([CreateQueue(name, policy) for name, policy in policies.items()], NOW)
        yield store


def ask(store: SQLiteStore, operation: Operation[Any], now: int = NOW + 1) -> Any:
    return store.run([operation], now).results[0]


def send_one_to_alter_and_one_to_leave(store: SQLiteStore, queue: str, body: bytes) -> tuple[int, int]:
    altered, left = ask(store, Send(queue, [NewMessage(body, headers={"n": 1}), NewMessage(b'"next"')]))
    return altered.id, left.id


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize("altered", ALTERATIONS)
def test_an_altered_message_is_withheld_and_archived_as_dead_and_the_next_is_delivered(
    store: SQLiteStore, altered: str, receiver: str
) -> None:
    queue, limit = RECEIVERS[receiver]
    body, alteration = ALTERATIONS[altered]
    bad, good = send_one_to_alter_and_one_to_leave(store, queue, body)
    store.connection.execute(alteration, (bad,))

    received = ask(store, Receive(queue, limit))

    assert [(message.id, message.body) for message in received.messages] == [(good, b'"next"')]
    [archived] = ask(store, ListArchive(queue)).messages
    assert isinstance(archived, ArchivedMessage)
    assert (archived.message.id, archived.outcome, archived.reason) == (bad, "dead", "damaged")
    assert (archived.message.damaged, archived.message.body, archived.message.headers) == (True, b"", {})
    depths = ask(store, Measure(queue))
    assert (depths.total(), depths.dead) == (1, 1)
    assert store.connection.execute("SELECT count(*) FROM sqew_body").get == 0


# What one flipped bit makes of the record of a message without headers: the checksum is that of both together.
BODY_AS_HEADERS = "UPDATE sqew_message SET headers = body, body = NULL WHERE id = ?"


@pytest.mark.parametrize("receiver", RECEIVERS)
def test_a_body_that_became_headers_was_delivered_empty(store: SQLiteStore, receiver: str) -> None:
    queue, limit = RECEIVERS[receiver]
    bad, _ = (one.id for one in ask(store, Send(queue, [NewMessage(b'{"n":1}'), NewMessage(b'"next"')])))
    store.connection.execute(BODY_AS_HEADERS, (bad,))
    assert store.check().damaged == [bad]
    shown = ask(store, Get(queue, bad))
    assert (shown.damaged, shown.headers) == (True, {})
    assert ask(store, ReadColumns(queue, 0, 1 << 40, 10, ("id", "body"))).values["body"] == [None, b'"next"']

    received = ask(store, Receive(queue, limit))

    assert [message.body for message in received.messages] == [b'"next"']
    [archived] = ask(store, ListArchive(queue)).messages
    assert (archived.message.id, archived.reason, archived.message.damaged) == (bad, "damaged", True)
    assert ask(store, RequeueDead(queue)).count == 0
    assert store.check().damaged == [bad]


def test_a_damaged_message_is_told_in_the_log(store: SQLiteStore, caplog: pytest.LogCaptureFixture) -> None:
    bad, _ = send_one_to_alter_and_one_to_leave(store, "jobs", SMALL)
    store.connection.execute(ALTERATIONS["a small body"][1], (bad,))

    ask(store, Receive("jobs"))

    [said] = caplog.records
    assert (said.levelname, said.name, getattr(said, "fields", None)) == (
        "WARNING",
        "sqew.store",
        {"queue": "jobs", "id": bad},
    )


@pytest.mark.parametrize("altered", ALTERATIONS)
def test_an_altered_message_is_shown_without_its_body(store: SQLiteStore, altered: str) -> None:
    body, alteration = ALTERATIONS[altered]
    bad, _ = send_one_to_alter_and_one_to_leave(store, "jobs", body)
    store.connection.execute(alteration, (bad,))

    for message in (ask(store, Get("jobs", bad)), ask(store, Peek("jobs"))[0]):
        assert (message.id, message.damaged, message.body, message.headers) == (bad, True, b"", {})


@pytest.mark.parametrize("altered", ALTERATIONS)
def test_requeue_leaves_an_altered_message_in_the_archive(store: SQLiteStore, altered: str) -> None:
    body, alteration = ALTERATIONS[altered]
    bad, _ = send_one_to_alter_and_one_to_leave(store, "jobs", body)
    store.connection.execute(alteration, (bad,))
    ask(store, Receive("jobs"))

    for ids in (None, [bad]):
        progress = ask(store, RequeueDead("jobs", ids))
        assert (progress.count, progress.done) == (0, True)

    assert [message.id for message in ask(store, ListDead("jobs")).messages] == [bad]
    assert ask(store, Receive("jobs")).messages == []


def test_a_dead_letter_that_is_altered_in_the_archive_is_not_brought_back(store: SQLiteStore) -> None:
    bad, _ = send_one_to_alter_and_one_to_leave(store, "jobs", SMALL)
    ask(store, Receive("jobs"))
    ask(store, Nack("jobs", [Release(Ref(bad), dead=True)]))
    store.connection.execute("UPDATE sqew_archive SET body = CAST(x'22' || body AS BLOB) WHERE id = ?", (bad,))

    assert ask(store, RequeueDead("jobs")).count == 0

    [message] = ask(store, ListDead("jobs")).messages
    assert (message.damaged, message.body) == (True, b"")


def test_a_letter_that_is_altered_in_a_dead_letter_queue_is_not_delivered_wherever_it_is_moved(
    store: SQLiteStore,
) -> None:
    ask(store, CreateQueue("letters", Policy()))
    ask(store, CreateQueue("dying", Policy(dead_letter="letters")))
    bad, good = send_one_to_alter_and_one_to_leave(store, "dying", SMALL)
    ask(store, Receive("dying", 2))
    ask(store, Nack("dying", [Release(Ref(id), dead=True) for id in (bad, good)]))
    store.connection.execute(ALTERATIONS["a small body"][1], (bad,))

    ask(store, Redrive("letters"))

    assert [message.id for message in ask(store, Receive("dying", 5)).messages] == [good]


def test_a_damaged_message_that_is_taken_for_good_is_withheld_as_well(store: SQLiteStore) -> None:
    bad, good = send_one_to_alter_and_one_to_leave(store, "jobs", SMALL)
    store.connection.execute("UPDATE sqew_message SET body = x'00' WHERE id = ?", (bad,))

    assert [message.id for message in ask(store, Receive("jobs", 5, finish=True)).messages] == [good]
    assert [message.id for message in ask(store, ListDead("jobs")).messages] == [bad]
