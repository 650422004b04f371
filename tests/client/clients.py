"""Clients of both kinds, each on a real server, driven by the same calls."""

import asyncio
import itertools

import pytest

from sqew import AsyncClient, Client
from tests.support.blocking import Blocking
from tests.support.serving import servers, shared_server

__all__ = ["servers", "shared_server"]

_numbers = itertools.count()


@pytest.fixture
def queue():
    """Return a name that no other test uses."""
    return f"client-{next(_numbers)}"


@pytest.fixture(params=["sync", "async"])
def connect(request):
    """Return a function that makes the client under test, of each kind in turn; close what it made at the end."""
    kind = request.param
    clients = []
    with asyncio.Runner() as runner:

        async def made(url, options):
            return AsyncClient(url, **options)

        def connect(url, **options):
            if kind == "sync":
                clients.append(Client(url, **options))
            else:
                clients.append(Blocking(runner, runner.run(made(url, options))))
            return clients[-1]

        yield connect
        for client in clients:
            client.close()


@pytest.fixture
def q(connect, shared_server):
    return connect(shared_server.url)
