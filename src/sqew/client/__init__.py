"""Clients of a Sqew server: `Client` for threads, `AsyncClient` for an event loop.

`EnvelopeVerifier` is for those whom a server posts to.
"""

from sqew.client.asynchronous import AsyncClient
from sqew.client.synchronous import Client
from sqew.client.verifying import EnvelopeVerifier, VerifiedNotice

__all__ = ["AsyncClient", "Client", "EnvelopeVerifier", "VerifiedNotice"]
