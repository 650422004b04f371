"""The stores that the suite runs on."""

import asyncio
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from conformance.driver import Driver, OpenStore
from sqew.errors import SqewError
from sqew.stores.base import Store
from sqew.stores.postgres import PostgresStore
from sqew.stores.sqlite import SQLiteStore


def sqlite(folder: Path) -> OpenStore:
    def open_store(now: int, random: Random) -> Store:
        # The suite asks what is stored, not whether it survives a power cut: the fault tests do.
        return SQLiteStore(folder / "queue.db", now=now, random=random, durability="fast")

    return open_store


class Waiting:
    """A store that answers later, for tests that wait."""

    def __init__(self, url: str, now: int, random: Random) -> None:
        self._loop = asyncio.new_event_loop()
        self._store = self._loop.run_until_complete(PostgresStore.open(url, now=now, random=random, connections=2))

    def run(self, operations, now):
        return self._loop.run_until_complete(self._store.run(operations, now))

    def look(self, operations, now):
        results = self.run(operations, now).results
        for result in results:
            if isinstance(result, SqewError):
                raise result
        return results

    def close(self):
        self._loop.run_until_complete(self._store.close())
        self._loop.close()


_numbers = itertools.count()


def postgres(folder: Path) -> OpenStore:
    name = f"t{os.getpid()}_{next(_numbers)}"
    subprocess.run(["psql", "-q", "-h", "127.0.0.1", "-p", "54329", "-U", "sqew", "postgres", "-c", f"CREATE DATABASE {name} TEMPLATE sqew_template"], check=True)

    def open_store(now: int, random: Random) -> Store:
        return Waiting(f"postgresql://sqew@127.0.0.1:54329/{name}", now, random)

    return open_store


# A store is tested by adding it here.
STORES: dict[str, Callable[[Path], OpenStore]] = {
    "sqlite": sqlite,
    "postgres": postgres,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    """An empty store."""
    driver = Driver(STORES[request.param](tmp_path))
    yield driver
    driver.store.close()


@pytest.fixture
def neighbour(store: Driver) -> Iterator[Driver]:
    """The same store, as another process sees it."""
    driver = store.beside()
    yield driver
    driver.store.close()
