"""Clients of a Sqew server: `Client` for threads, `AsyncClient` for an event loop.

`EnvelopeVerifier` is for the receivers of a server's webhooks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqew.client.asynchronous import AsyncClient
    from sqew.client.synchronous import Client
    from sqew.client.webhooks.verifier import EnvelopeVerifier, VerifiedNotice

__all__ = ["AsyncClient", "Client", "EnvelopeVerifier", "VerifiedNotice"]

# Names are looked up when first used: a command or a task that has a `Client` need not wait for asyncio to load.
_HOME_OF = {
    "AsyncClient": "sqew.client.asynchronous",
    "Client": "sqew.client.synchronous",
    "EnvelopeVerifier": "sqew.client.webhooks.verifier",
    "VerifiedNotice": "sqew.client.webhooks.verifier",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sqew.client' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
