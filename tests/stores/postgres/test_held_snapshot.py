"""A forgotten transaction keeps every dead row: receiving must not get slower by that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from statistics import median
from typing import Any

import asyncpg
import pytest

from sqew.model import NewMessage, Policy, Ref
from sqew.operations import Ack, CreateQueue, Operation, Receive, Send
from sqew.stores.postgres import PostgresStore
from tests.support.postgres import Reused, reused_database

__all__ = ["reused_database"]

NOW = 1_700_000_000_000
PASSING = 60_000
TOGETHER = 1_000
EVERY_MS = 100
"""Milliseconds between turns of a thousand messages each: 10,000 a second for 6 seconds."""
BATCH = 100
SETTLED = 10
"""Turns until as many dead rows lie behind the watermark, which stays a little behind, as ever will."""
COUNTED = 3
"""The turn before which statistics are gathered: there are no live rows then."""
MOST = 1.5
PAGES = """
SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read FROM pg_statio_user_tables
 WHERE relname = 'sqew_message'
"""


class Counted:
    """A store that counts the pages of messages that it has read."""

    def __init__(self, runner: asyncio.Runner, url: str) -> None:
        self._runner, self._url, self.now = runner, url, NOW
        self._store = runner.run(PostgresStore.open(url, now=NOW, random=Random(1), connections=1))
        self._observer = runner.run(asyncpg.connect(url))

    def run(self, operation: Operation[Any]) -> Any:
        (result,) = self._runner.run(self._store.run([operation], self.now)).results
        assert not isinstance(result, Exception), result
        return result

    def pages(self) -> int:
        return self._runner.run(self._look())

    def analyze(self) -> None:
        """Gather statistics, as autovacuum does when it thinks fit."""
        self._runner.run(self._observer.execute("ANALYZE sqew_message"))

    async def _look(self) -> int:
        # PostgreSQL counts in each connection, and tells of it now and then.
        await self._store._again(lambda session: session.connection.execute("SELECT pg_stat_force_next_flush()"))
        return await self._observer.fetchval(PAGES)

    def close(self) -> None:
        self._runner.run(self._observer.close())
        self._runner.run(self._store.close())


@pytest.fixture
def store(reused_database: Reused) -> Iterator[Counted]:
    reused_database.empty()
    with asyncio.Runner() as runner:
        store = Counted(runner, reused_database.url)
        store.run(CreateQueue("jobs", Policy()))
        yield store
        store.close()


@contextmanager
def held_snapshot(url: str) -> Iterator[None]:
    """Hold an idle transaction that has read from the database once."""
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(url))
        runner.run(connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM sqew_meta"))
        yield
        runner.run(connection.close())


def test_a_claim_looks_at_no_more_when_60_000_messages_have_passed_under_a_held_snapshot(
    store: Counted, reused_database: Reused, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[int] = []
    received: list[int] = []
    looked_at: list[int] = []
    with held_snapshot(reused_database.url):
        for turn in range(PASSING // TOGETHER):
            if turn == COUNTED:
                store.analyze()
            store.now += EVERY_MS
            sent += [one.id for one in store.run(Send("jobs", [NewMessage(b"1")] * TOGETHER))]
            held: list[Ref] = []
            for _ in range(TOGETHER // BATCH):
                before = store.pages()
                messages = store.run(Receive("jobs", BATCH)).messages
                looked_at.append(store.pages() - before)
                held += [Ref(message.id, message.lease.token) for message in messages]
            received += [ref.id for ref in held]
            store.run(Ack("jobs", held))

    claims = TOGETHER // BATCH
    early, late = looked_at[SETTLED * claims : 2 * SETTLED * claims], looked_at[-SETTLED * claims :]
    with capsys.disabled():
        print(f"\npages for a claim of {BATCH}: {median(early)} early, {median(late)} late, {max(late)} at most")  # noqa: T201
    assert received == sent
    assert median(late) <= MOST * median(early)
    # Once a second one looks at everything, lest a message that came back is forgotten.
    seconds = SETTLED * EVERY_MS / 1000
    assert sum(pages > 2 * median(early) for pages in late) <= seconds + 1


def test_who_finds_little_or_nothing_looks_at_as_few_pages_as_if_nobody_held_a_snapshot(
    store: Counted, reused_database: Reused
) -> None:
    def pages_for(operation: Operation[Any]) -> int:
        before = store.pages()
        store.run(operation)
        return store.pages() - before

    with held_snapshot(reused_database.url):
        for _ in range(20):
            store.run(Send("jobs", [NewMessage(b"1")] * BATCH))
            messages = store.run(Receive("jobs", BATCH)).messages
            store.run(Ack("jobs", [Ref(message.id, message.lease.token) for message in messages]))
        store.now += 2_000
        looked_at_all = pages_for(Receive("jobs"))
        store.now += 500
        nothing = pages_for(Receive("jobs"))
        store.run(Send("jobs", [NewMessage(b"1")]))
        little = pages_for(Receive("jobs", 10))

    assert nothing * 10 < looked_at_all
    assert little * 10 < looked_at_all
