"""Clients of a Sqew server: `Client` for threads, `AsyncClient` for an event loop."""

from sqew.client.asynchronous import AsyncClient
from sqew.client.synchronous import Client

__all__ = ["AsyncClient", "Client"]
