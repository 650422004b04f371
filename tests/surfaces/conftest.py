"""The places that hold queues, a file and a database, each with a server; and the surfaces, all at the same place."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from sqew import AsyncClient, Client, Queue
from tests.support.blocking import Blocking
from tests.support.postgres import new_database
from tests.support.serving import STORES, Serving, serving
from tests.surfaces.in_python import InPython
from tests.surfaces.on_the_command_line import OnTheCommandLine
from tests.surfaces.over_http import OverHTTP
from tests.surfaces.surface import Program, Surface

_SETTINGS: dict[str, Any] = {"durability": "fast", "delivery_allow": "127.0.0.1"}
_FLAGS = ("--durability", "fast", "--delivery-allow", "127.0.0.1", "--delivery-retries", "")
_numbers = itertools.count()


class Place(NamedTuple):
    """A file or a database, and a server on it."""

    server: Serving
    option: str
    where: str


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Place]]:
    """Yield a function that starts a server on each store, when a test first wants it."""
    with contextlib.ExitStack() as stack:

        def start(store: str) -> Place:
            folder = tmp_path_factory.mktemp(f"surfaces-on-{store}")
            database = new_database() if store == "postgres" else None
            server = stack.enter_context(serving(folder, *_FLAGS, database=database))
            return (
                Place(server, "--db", str(server.db)) if database is None else Place(server, "--database-url", database)
            )

        yield functools.cache(start)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, places: Callable[[str], Place]) -> Place:
    return places(request.param)


def _embedded(place: Place, stack: contextlib.ExitStack) -> Surface:
    path, changes = (place.where, {}) if place.option == "--db" else (None, {"database_url": place.where})
    return InPython(stack.enter_context(Queue.open(path, **changes, **_SETTINGS)))


def _client(place: Place, stack: contextlib.ExitStack) -> Surface:
    return InPython(stack.enter_context(Client(place.server.url)))


def _async_client(place: Place, stack: contextlib.ExitStack) -> Surface:
    runner = stack.enter_context(asyncio.Runner())

    async def connect() -> AsyncClient:
        return AsyncClient(place.server.url)

    client = Blocking(runner, runner.run(connect()))
    stack.callback(client.close)
    return InPython(client)


def _http(place: Place, _stack: contextlib.ExitStack) -> Surface:
    return OverHTTP(place.server)


def _commands(place: Place, _stack: contextlib.ExitStack) -> Surface:
    return OnTheCommandLine(place.option, place.where)


def _commands_on_a_server(place: Place, _stack: contextlib.ExitStack) -> Surface:
    return OnTheCommandLine("--url", place.server.url)


_PROGRAMS = {"Queue": _embedded, "Client": _client, "AsyncClient": _async_client, "HTTP": _http}
_ALL = _PROGRAMS | {"commands": _commands, "commands-url": _commands_on_a_server}


@pytest.fixture(params=_ALL)
def surface(request: pytest.FixtureRequest, place: Place) -> Iterator[Surface]:
    """Yield every surface in turn."""
    with contextlib.ExitStack() as stack:
        yield _ALL[request.param](place, stack)


@pytest.fixture(params=_PROGRAMS)
def program(request: pytest.FixtureRequest, place: Place) -> Iterator[Program]:
    """Yield every surface for programs in turn."""
    with contextlib.ExitStack() as stack:
        yield _PROGRAMS[request.param](place, stack)  # type: ignore[misc]


@pytest.fixture
def aside(place: Place) -> OverHTTP:
    """Return another user of the same place."""
    return OverHTTP(place.server)


@pytest.fixture
def queue() -> str:
    """Return a name that no other test uses."""
    return f"surface-{next(_numbers)}"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment set nothing but the addresses that commands may post to, and the durability."""
    monkeypatch.setenv("SQEW_DELIVERY_ALLOW", "127.0.0.1")
    monkeypatch.setenv("SQEW_DURABILITY", "fast")
    monkeypatch.delenv("SQEW_URL", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
