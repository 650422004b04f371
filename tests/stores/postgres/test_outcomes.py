"""Errors for a commit that was requested but not answered, or that no standby has confirmed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sqew.embedded import Queue
from sqew.errors import Conflict, OutcomeUnknown, StoreBusy, StoreUnavailable, StoreUnusable
from sqew.model import Message, NewMessage, Received, Ref
from sqew.operations import Ack, CreateQueue, LastId, Operation, Peek, Promote, Receive, Send, StepPromotion
from sqew.rules.policies import default_policy
from sqew.stores.postgres import PostgresStore
from sqew.stores.transfer.copy import move_in
from tests.stores.postgres.test_trouble import NOW, connected, in_a_loop, opened, until_locked
from tests.support.cluster import Cluster, crashing_cluster
from tests.support.cutting import COMMIT, Cutter, cutter
from tests.support.postgres import fetch_column, new_database
from tests.support.standby import impatience, standing_by, until_it_waits

CREATE = CreateQueue("orders", default_policy("orders", {}))
COUNT = "SELECT count(*) FROM sqew_message WHERE attempts = 0"


def send(body: bytes, key: str | None = None) -> Send:
    """Return a send. With a key it takes the general path: it begins, looks, writes and commits."""
    return Send("orders", [NewMessage(body, key=key)])


async def results_of(store: PostgresStore, *operations: Operation[Any]) -> Sequence[Any]:
    return (await store.run(operations, NOW)).results


async def claimed(store: PostgresStore) -> Message:
    [received] = await results_of(store, Receive("orders"))
    assert isinstance(received, Received)
    return received.messages[0]


@contextlib.asynccontextmanager
async def warm(url: str, **options: Any) -> Any:
    """Yield a store with a warm cache: it knows the queue, and has prepared its statements."""
    async with opened(url, connections=1, **options) as store:
        await store.run([CREATE], NOW)
        for _ in range(2):
            await store.run([send(b"0"), send(b"0", "0")], NOW)
            message = await claimed(store)
            assert message.lease is not None
            await store.run([Ack("orders", [Ref(message.id, message.lease.token)])], NOW)
        yield store


@pytest.fixture
def url() -> str:
    return new_database()


@pytest.fixture
def wired(url: str) -> Iterator[tuple[Cutter, str]]:
    with cutter(url) as wire:
        yield wire


KINDS = pytest.mark.parametrize(
    ("operation", "then"),
    [(send(b'"hot"'), b""), (send(b'"long"', "key"), COMMIT)],
    ids=["a statement alone", "a transaction"],
)


@KINDS
@in_a_loop
async def test_a_send_whose_commit_was_not_answered_was_said_not_to_be_done(
    url: str, wired: tuple[Cutter, str], operation: Send, then: bytes
) -> None:
    wire, through = wired
    async with warm(through) as store:
        before = len((await results_of(store, Peek("orders", 100)))[0])
        wire.cut_answer(operation.messages[0].body, then)

        [result] = await results_of(store, operation)

        assert await asyncio.to_thread(wire.has_cut)
        assert isinstance(result, OutcomeUnknown)
        assert "did not answer a commit" in str(result)
        assert len((await results_of(store, Peek("orders", 100)))[0]) == before + 1
        assert store.database_stats().unknown == 1


@in_a_loop
async def test_an_ack_whose_commit_was_not_answered_is_unknown(url: str, wired: tuple[Cutter, str]) -> None:
    wire, through = wired
    async with warm(through) as store:
        message = await claimed(store)
        assert message.lease is not None
        wire.cut_answer(message.lease.token.encode())

        [result] = await results_of(store, Ack("orders", [Ref(message.id, message.lease.token)]))

        assert await asyncio.to_thread(wire.has_cut)
        assert isinstance(result, OutcomeUnknown)
        assert [m.id for m in (await results_of(store, Peek("orders", 100)))[0]].count(message.id) == 0


@in_a_loop
async def test_what_broke_before_the_commit_was_sent_was_not_done_and_is_said_so(
    url: str, wired: tuple[Cutter, str]
) -> None:
    wire, through = wired
    async with warm(through) as store:
        wire.cut_question(b'"long"')

        with pytest.raises(StoreUnavailable):
            await store.run([send(b'"long"', "key")], NOW)

        assert await asyncio.to_thread(wire.has_cut)
        assert store.database_stats().unknown == 0
        assert await store.read([LastId()], NOW)


@in_a_loop
async def test_what_was_to_go_after_a_commit_that_was_not_answered_was_not_done(
    url: str, wired: tuple[Cutter, str]
) -> None:
    wire, through = wired
    async with warm(through) as store:
        wire.cut_answer(b'"hot"')

        first, second, look = await results_of(store, send(b'"hot"'), send(b'"long"', "key"), Peek("orders", 1))

        assert isinstance(first, OutcomeUnknown)
        assert isinstance(second, StoreUnavailable)
        assert isinstance(look, StoreUnavailable)
        bodies = await asyncio.to_thread(fetch_column, url, "SELECT body FROM sqew_message WHERE body LIKE '\"%'")
        assert bodies == [b'"hot"']


@in_a_loop
async def test_what_only_looked_beside_it_may_look_again(url: str, wired: tuple[Cutter, str]) -> None:
    wire, through = wired
    async with warm(through) as store:
        wire.cut_answer(b'"long"', COMMIT)

        look, sent = await results_of(store, Peek("orders", 1), send(b'"long"', "key"))

        assert isinstance(look, StoreUnavailable)
        assert isinstance(sent, OutcomeUnknown)


WAITING = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@in_a_loop
async def test_a_statement_that_is_cancelled_before_the_commit_is_not_done(url: str) -> None:
    async with warm(url) as store, connected(url) as other:
        await other.execute("BEGIN; SELECT pg_advisory_xact_lock(1399940471, 0)")
        sending = asyncio.ensure_future(store.run([send(b'"long"', "key")], NOW))
        await until_locked(other, 1)

        await other.execute(f"SELECT pg_cancel_backend(pid) {WAITING}")

        with pytest.raises(StoreBusy):
            await sending
        assert await other.fetch("SELECT 1 FROM sqew_message WHERE body = '\"long\"'") == []


# Synchronous standbys


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with crashing_cluster("outcomes") as cluster:
        yield cluster


ENDS = pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])


@ENDS
@KINDS
@in_a_loop
async def test_a_wait_for_a_standby_that_was_cut_short_was_answered_as_if_it_were_there(
    cluster: Cluster, operation: Send, then: bytes, end: str
) -> None:
    url = cluster.url()
    async with warm(url) as store, standing_by(url):
        before = (await results_of(store, Peek("orders", 1_000)))[0]
        key = f"{end} {then!r}" if then else None
        sending = asyncio.ensure_future(store.run([send(operation.messages[0].body, key)], NOW))
        pid = await asyncio.to_thread(until_it_waits, url)

        await asyncio.to_thread(fetch_column, url, f"SELECT {end}({pid})")

        [result] = (await sending).results
        assert isinstance(result, OutcomeUnknown)
        # It is there: a failover would lose it.
        assert len((await results_of(store, Peek("orders", 1_000)))[0]) == len(before) + 1


@ENDS
@in_a_loop
async def test_claims_and_acks_that_no_standby_has_are_unknown_too(cluster: Cluster, end: str) -> None:
    url = cluster.url()
    async with warm(url) as store:
        await store.run([send(b"1"), send(b"1")], NOW)
        message = await claimed(store)
        assert message.lease is not None
        async with standing_by(url):
            for operation in (Receive("orders"), Ack("orders", [Ref(message.id, message.lease.token)])):
                asked = asyncio.ensure_future(store.run([operation], NOW))
                pid = await asyncio.to_thread(until_it_waits, url)
                await asyncio.to_thread(fetch_column, url, f"SELECT {end}({pid})")

                [result] = (await asked).results
                assert isinstance(result, OutcomeUnknown)


@KINDS
@in_a_loop
async def test_our_own_timeout_does_not_make_a_wait_for_a_standby_a_success(
    cluster: Cluster, operation: Send, then: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqew.stores.postgres.store._NO_ANSWER_S", 0.2)
    url = cluster.url()
    async with warm(url, timeout_ms=300) as store, standing_by(url):
        key = "own timeout" if then else None

        [result] = await results_of(store, send(operation.messages[0].body, key))

        assert isinstance(result, OutcomeUnknown)


@in_a_loop
async def test_what_is_committed_after_a_wait_that_was_cut_short_is_as_certain_as_ever(cluster: Cluster) -> None:
    url = cluster.url()
    async with warm(url) as store:
        async with standing_by(url):
            sending = asyncio.ensure_future(store.run([send(b"1")], NOW))
            pid = await asyncio.to_thread(until_it_waits, url)
            await asyncio.to_thread(fetch_column, url, f"SELECT pg_cancel_backend({pid})")
            await sending

        [sent] = await results_of(store, send(b"1"))

        assert len(sent) == 1


def test_a_send_that_was_repeated_with_its_key_was_answered_although_no_standby_had_it(cluster: Cluster) -> None:
    url = cluster.url()
    with Queue.open(url) as q:
        q.create("repeated")
        with impatience(url):
            for _ in range(2):
                with pytest.raises(OutcomeUnknown, match="perhaps nowhere else"):
                    q.enqueue("repeated", 1, key="k")

        id = q.enqueue("repeated", 1, key="k")

        assert [message.id for message in q.peek("repeated")] == [id]


def test_an_epoch_that_was_promoted_again_was_answered_although_no_standby_had_it(cluster: Cluster) -> None:
    url = cluster.url()
    with Queue.open(url) as q:
        q.create("promoted")
        q.writers.stage("promoted", "nightly", 0, "part", [1])
        assert not q.run(Promote("promoted", "nightly", 0, {"part": 1})).done
        with impatience(url):
            with pytest.raises(OutcomeUnknown, match="perhaps nowhere else"):
                q.run(StepPromotion("promoted", "nightly", 0))
            for repeated in (Promote("promoted", "nightly", 0, {"part": 1}), StepPromotion("promoted", "nightly", 0)):
                with pytest.raises(OutcomeUnknown, match="perhaps nowhere else"):
                    q.run(repeated)

        assert q.writers.promote("promoted", "nightly", 0, {"part": 1}).repeated
        assert q.stats("promoted").depths.total() == 1


@in_a_loop
async def test_a_database_whose_warnings_nobody_hears_is_refused_where_they_count(url: str) -> None:
    name = url.rpartition("/")[2]
    await asyncio.to_thread(fetch_column, url, f"ALTER DATABASE {name} SET client_min_messages = error")

    with pytest.raises(StoreUnusable, match="client_min_messages = notice"):
        await PostgresStore.open(url, pooler=True)

    async with opened(url), opened(url, pooler=True, synchronous=False):
        pass


def test_a_move_that_no_standby_has_was_said_to_be_whole(cluster: Cluster, tmp_path: Path) -> None:
    """Check that such a move is not reported as complete: a caller that believes so may delete the file."""
    path, url = str(tmp_path / "queue.db"), cluster.url("moved_to")
    with Queue.open(path) as q:
        q.create("orders")
        q.enqueue("orders", 1)
    fetch_column(cluster.url(), "CREATE DATABASE moved_to TEMPLATE template0")

    with impatience(cluster.url()), pytest.raises(OutcomeUnknown, match="perhaps nowhere else"):
        asyncio.run(move_in(path, url))

    with pytest.raises(Conflict, match="was moved into"):
        asyncio.run(move_in(path, url))
