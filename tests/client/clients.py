"""Both clients, each on a real server and told what to do in the same words."""

import asyncio
import inspect
import itertools

import pytest

from serving import servers, shared_server
from sqew import AsyncClient, Client

__all__ = ["servers", "shared_server"]

_numbers = itertools.count()


class Blocking:
    """An `AsyncClient`, or a part of one, that is used like a `Client`: each call runs the loop until it is done."""

    def __init__(self, runner, client):
        self._runner, self._client = runner, client

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if not callable(method):
            return Blocking(self._runner, method)

        def call(*given, **named):
            result = method(*given, **named)
            if inspect.isawaitable(result):
                return self._runner.run(result)
            return self._going_through(result) if inspect.isasyncgen(result) else result

        return call

    def _going_through(self, results):
        try:
            while True:
                try:
                    yield self._runner.run(anext(results))
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(results.aclose())


@pytest.fixture
def queue():
    """A name that no other test uses."""
    return f"client-{next(_numbers)}"


@pytest.fixture(params=["sync", "async"])
def connect(request):
    """Make the client that is under test, of each kind in turn; it is closed at the end."""
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
