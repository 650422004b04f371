"""The stores that the suite runs on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from sqew.stores.contract import Store
from sqew.stores.sqlite import SQLiteStore
from tests.conformance.driver import Driver, OpenStore
from tests.support.postgres import Awaited, Reused, reused_database

__all__ = ["reused_database"]


def sqlite(request: pytest.FixtureRequest) -> OpenStore:
    folder: Path = request.getfixturevalue("tmp_path")

    def open_store(now: int, random: Random) -> Store:
        # The suite asks what is stored, not whether it survives a power cut: the fault tests do.
        return SQLiteStore(folder / "queue.db", now=now, random=random, durability="fast")

    return open_store


def postgres(request: pytest.FixtureRequest) -> OpenStore:
    database: Reused = request.getfixturevalue("reused_database")
    database.empty()

    def open_store(now: int, random: Random) -> Store:
        return Awaited(database.url, now, random)

    return open_store


# A store is tested by adding it here.
STORES: dict[str, Callable[[pytest.FixtureRequest], OpenStore]] = {"sqlite": sqlite, "postgres": postgres}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """Yield an empty store."""
    driver = Driver(STORES[request.param](request))
    yield driver
    driver.store.close()


@pytest.fixture
def neighbour(store: Driver) -> Iterator[Driver]:
    """Yield the same store as another process sees it."""
    driver = store.beside()
    yield driver
    driver.store.close()
