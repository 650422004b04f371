"""The cluster that all tests of a run share, databases in it, and stores on those."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest
import uvloop

from sqew.errors import SqewError
from sqew.model import Commit
from sqew.operations import Operation
from sqew.stores.postgres import PostgresStore
from tests.support.cluster import HOME, Cluster

TEMPLATE = "sqew_template"

_QUICK = {"fsync": "off", "full_page_writes": "off"}
_ALONE = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_numbers = itertools.count()


@functools.cache
def shared_cluster_url() -> str:
    """Return the URL of the cluster that all tests of a run share, with a template of an empty queue.

    The first call starts it. It loses data in a crash.
    """
    home = Path(os.environ[HOME])
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        address = home / "address"
        if not address.exists():
            cluster = Cluster("shared", **_QUICK)
            cluster.make()
            asyncio.run(_make_template(cluster.url()))
            address.write_text(cluster.url(""))
        return address.read_text()


async def _make_template(url: str) -> None:
    await _execute(url, f"CREATE DATABASE {TEMPLATE}")
    store = await PostgresStore.open(re.sub("/postgres$", f"/{TEMPLATE}", url))
    await store.close()


async def _execute(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


def new_database(template: str = TEMPLATE) -> str:
    """Make a database of the caller's own, with an empty queue or (of ``template0``) without, and return its URL."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    asyncio.run(_execute(f"{shared_cluster_url()}postgres", f"CREATE DATABASE {name} TEMPLATE {template}"))
    return f"{shared_cluster_url()}{name}"


def fetch_column(url: str, sql: str) -> list[Any]:
    """Return the first column of the rows that a statement gives."""

    async def fetch() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            return [row[0] for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    return asyncio.run(fetch())


class Reused:
    """A database that is emptied for one test after another: 2 ms, where a new one takes 150."""

    def __init__(self) -> None:
        self.url = new_database()
        self._loop = uvloop.new_event_loop()
        self._connection = self._wait_for(asyncpg.connect(self.url))
        self._sql = self._wait_for(self._emptying())

    def _wait_for(self, awaitable: Any) -> Any:
        return self._loop.run_until_complete(awaitable)

    async def _emptying(self) -> str:
        connection = self._connection
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        sequences = await connection.fetch("SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'")
        kept = ("sqew_meta", "sqew_migration")
        statements = [
            _ALONE,
            *(f"DELETE FROM {name}" for (name,) in tables if name not in kept),
            *(f"SELECT setval('{name}', 1, false)" for (name,) in sequences),
            "UPDATE sqew_meta SET (catalog, next_id) = (1, 1)",
        ]
        return ";".join(statements)

    def empty(self) -> None:
        self._wait_for(self._connection.execute(self._sql))

    def close(self) -> None:
        self._wait_for(self._connection.close())
        self._loop.close()


class Awaited:
    """A PostgreSQL store for tests that don't wait: each call returns when it is done."""

    def __init__(self, url: str, now: int, random: Random) -> None:
        self._loop = uvloop.new_event_loop()
        self._store = self._loop.run_until_complete(PostgresStore.open(url, now=now, random=random, connections=2))

    def run(self, operations: Sequence[Operation[Any]], now: int) -> Commit:
        return self._loop.run_until_complete(self._store.run(operations, now))

    def read(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        results = self.run(operations, now).results
        for result in results:
            if isinstance(result, SqewError):
                raise result
        return results

    def close(self) -> None:
        self._loop.run_until_complete(self._store.close())
        self._loop.close()


@pytest.fixture(scope="session")
def reused_database() -> Iterator[Reused]:
    """Yield a PostgreSQL database of this process, for one test after another."""
    database = Reused()
    yield database
    database.close()
