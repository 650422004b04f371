"""The stores that the suite runs on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from conformance.driver import Driver, OpenStore
from sqew.stores.base import Store
from sqew.stores.sqlite import SQLiteStore


def sqlite(folder: Path) -> OpenStore:
    def open_store(now: int, random: Random) -> Store:
        # The suite asks what is stored, not whether it survives a power cut: the fault tests do.
        return SQLiteStore(folder / "queue.db", now=now, random=random, durability="fast")

    return open_store


# A store is tested by adding it here.
STORES: dict[str, Callable[[Path], OpenStore]] = {
    "sqlite": sqlite,
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
